"""The command line: an answer with its places, errors as one line."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cookbook.__main__ import main
from cookbook.edge import EdgeEngine
from cookbook.stores import open_store

ROOT = Path(__file__).parent.parent


@pytest.fixture
def folder(tmp_path):
    pages = tmp_path / "pages"
    pages.mkdir()
    (pages / "kiln.md").write_text(
        "# Kiln\n\nElements are covered for 1,500 firing hours. Shelves are not covered.\n", encoding="utf-8"
    )
    return pages


def test_ask_answers_from_a_folder(folder, capsys):
    code = main(["ask", "For how many firing hours are the elements covered?", "--folder", str(folder)])
    out, err = capsys.readouterr()
    assert code == 0
    assert "1,500 firing hours" in out and "kiln, characters" in out
    assert "indexed 1 pages" in err


def test_places_carry_the_numbers_of_the_answer(folder, capsys):
    text = "# Shelves\n\nThe top shelf holds 4 kg. The bottom shelf holds 9 kg.\n"
    (folder / "shelves.md").write_text(text, encoding="utf-8")
    assert main(["ask", "How many kg does a shelf hold?", "--folder", str(folder)]) == 0
    answer, places = capsys.readouterr().out.split("\n\n")[:2]
    assert re.findall(r"holds \d kg\. \[(\d)\]$", answer, re.M) == ["1", "1"]
    assert re.findall(r"^  \[(\d)\] shelves, characters", places, re.M) == ["1", "1"]


@pytest.mark.parametrize("strategy", ["window", "parent", "page"])
def test_ask_takes_a_strategy(folder, capsys, strategy):
    question = "For how many firing hours are the elements covered?"
    assert main(["ask", question, "--folder", str(folder), "--strategy", strategy]) == 0
    assert "1,500 firing hours" in capsys.readouterr().out


def test_a_stored_index_is_used_again(folder, tmp_path, capsys):
    arguments = [
        "ask",
        "For how many firing hours are the elements covered?",
        "--folder",
        str(folder),
        "--store",
        str(tmp_path / "s"),
    ]
    assert main(arguments) == 0
    assert "indexed" in capsys.readouterr().err
    assert main(arguments) == 0
    again = capsys.readouterr()
    assert "indexed" not in again.err and "1,500 firing hours" in again.out


def test_an_index_that_was_broken_off_is_completed(folder, tmp_path, capsys, monkeypatch):
    arguments = ["ask", "For how many firing hours are the elements covered?", "--folder", str(folder)]
    arguments += ["--store", str(tmp_path / "s")]
    upsert = EdgeEngine.upsert

    def fail(self, table, points):
        upsert(self, table, points)
        if table == "chunks":
            raise OSError("gone")

    with monkeypatch.context() as patched:
        patched.setattr(EdgeEngine, "upsert", fail)
        assert main(arguments) == 2
    with open_store(tmp_path / "s") as store:
        assert store.count() and not store.complete
    capsys.readouterr()
    assert main(arguments) == 0
    assert "indexed" in capsys.readouterr().err
    with open_store(tmp_path / "s") as store:
        assert store.complete


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["ask", "x", "--corpus", "nowhere"], "nowhere"),
        (["ask", "x", "--folder", "no/such/folder"], "no/such/folder"),
        (["ask", "  ", "--corpus", "wiki"], "blank"),
        (["ask", "two words " * 3000, "--corpus", "wiki"], "raise the budget"),
        (["ask", "x", "--folder", ""], "path='' must name a folder"),
    ],
)
def test_errors_are_one_line(capsys, arguments, says):
    assert main(arguments) == 2
    err = capsys.readouterr().err
    assert "cutting" not in err  # refused before the work of indexing
    assert err.count("error:") == 1 and says in err and "Traceback" not in err


def test_an_unknown_provider_is_named(monkeypatch, capsys):
    monkeypatch.setenv("PROVIDER", "nobody")
    assert main(["ask", "x", "--corpus", "wiki"]) == 2
    assert "nobody" in capsys.readouterr().err


def test_a_reader_that_goes_away_is_no_traceback():
    """``python -m cookbook claims | head -1``: the reader's end of the pipe is closed at once."""
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "cookbook", "claims"]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    os.close(write)
    assert (done.returncode, done.stderr) == (1, "")
