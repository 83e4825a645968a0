"""The runner executes notebooks of a folder, tells what failed and why, and refreshes them to the byte."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from cookbook import runner

FIGURE = "import matplotlib.pyplot as plt\nplt.subplots(figsize=(2, 1))[1].plot([1, 2])\nplt.show()"
ALT = "A line that rises from 1 to 2 & stays"


def save(folder, name, *sources, needs=()):
    cells = [new_markdown_cell(f"# {name}")]
    cells += [new_code_cell(source, metadata={"alt": ALT} if "plt" in source else {}) for source in sources]
    notebook = new_notebook(cells=cells)
    notebook.metadata["kernelspec"] = {"name": "rag-env-37", "display_name": "mine", "language": "python"}
    if needs:
        notebook.metadata["cookbook"] = {"needs": list(needs)}
    path = folder / f"{name}.ipynb"
    path.write_text(nbformat.writes(notebook), encoding="utf-8")
    return path


def build_folder(parent):
    """A build folder with the font cache that the session has already built."""
    shutil.copytree(Path(os.environ["COOKBOOK_TEST_FOLDER"]) / "matplotlib", parent / "build" / "matplotlib")
    return parent / "build"


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """One run over a good, a failing and a skipped notebook: (exit code, lines, build folder, sources)."""
    folder, build = tmp_path_factory.mktemp("notebooks"), build_folder(tmp_path_factory.mktemp("run"))
    paths = [
        save(folder, "00_good", "import os\nprint(os.environ['PROVIDER'])", FIGURE),
        save(folder, "01_broken", "print(1)", "nowhere", "print(2)"),
        save(folder, "02_absent", "print(3)", needs=["package:no_such_package"]),
    ]
    before = [path.read_bytes() for path in paths]
    lines = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PROVIDER", "elsewhere")
        patch.setenv("MPLBACKEND", "nonsense")
        status = runner.run(notebooks=folder, build=build, write=lines.append)
    assert [path.read_bytes() for path in paths] == before, "a run leaves the sources alone"
    return status, lines, build


def test_a_failure_makes_the_exit_code(ran):
    assert ran[0] == 1


def test_a_progress_line_a_notebook_then_the_table(ran):
    _, lines, build = ran
    shown = [re.sub(r"\d+\.\d", "S", line) for line in lines]
    assert shown[:3] == [
        "[1/3] 00_good: S s, ok",
        "[2/3] 01_broken: S s, failed: cell 2: NameError: name 'nowhere' is not defined",
        "[3/3] 02_absent: S s, skipped: needs the package no_such_package",
    ]
    rows = shown[3].strip().splitlines()
    assert rows[0].split() == ["notebook", "seconds", "result"]
    assert [row.split()[:3] for row in rows[2:]] == [
        ["00_good", "S", "ok"],
        ["01_broken", "S", "failed:"],
        ["02_absent", "S", "skipped:"],
    ]
    assert str(build / "index.html") in lines[4]


def test_copies_hold_what_was_printed_with_the_embedded_provider(ran):
    good = nbformat.read(ran[2] / "notebooks" / "00_good.ipynb", as_version=4)
    assert good.cells[1].outputs[0].text == "local\n"
    assert [cell.execution_count for cell in good.cells[1:]] == [1, 2]
    assert good.cells[2].outputs[0].data["image/png"]
    assert all(output.output_type != "stream" or output.name == "stdout" for output in good.cells[2].outputs)


def test_pages_describe_figures_and_need_no_network(ran):
    page = (ran[2] / "00_good.html").read_text(encoding="utf-8")
    assert 'alt="A line that rises from 1 to 2 &amp; stays"' in page
    assert not re.search(r"""(?:src|href)=["']?(?:https?:)?//|<script|@import""", page)
    assert "<title>00_good</title>" in page


def test_the_index_links_every_page(ran):
    index = (ran[2] / "index.html").read_text(encoding="utf-8")
    for name in ("00_good", "01_broken", "02_absent"):
        assert f'href="{name}.html"' in index
        assert (ran[2] / f"{name}.html").exists()
    assert "&#x27;nowhere&#x27; is not defined" in index


def test_refreshing_twice_changes_no_byte(tmp_path):
    path = save(tmp_path, "00_good", "for i in range(50):\n    print(i, flush=True)", FIGURE)
    build = build_folder(tmp_path)
    assert runner.run(notebooks=tmp_path, build=build, in_place=True, write=lambda _: None) == 0
    once = path.read_bytes()
    assert runner.run(notebooks=tmp_path, build=build, in_place=True, write=lambda _: None) == 0
    assert path.read_bytes() == once
    notebook = nbformat.reads(once.decode(), as_version=4)
    nbformat.validate(notebook)
    assert notebook.metadata["kernelspec"]["name"] == "python3"
    assert "version" not in notebook.metadata["language_info"]
    assert not any("execution" in cell.metadata for cell in notebook.cells)
    assert [cell.get("execution_count") for cell in notebook.cells] == [None, 1, 2]
    assert once.endswith(b"}\n")
    assert not (build / "index.html").exists()


def test_a_failing_notebook_is_not_refreshed(tmp_path):
    path = save(tmp_path, "00_broken", "1 / 0")
    before = path.read_bytes()
    lines = []
    status = runner.run(notebooks=tmp_path, build=build_folder(tmp_path), in_place=True, write=lines.append)
    assert status == 1
    assert path.read_bytes() == before
    assert "ZeroDivisionError" in lines[0]


def test_a_cell_that_runs_too_long_fails(tmp_path):
    save(tmp_path, "00_slow", "import time\ntime.sleep(60)")
    lines = []
    assert runner.run(notebooks=tmp_path, build=build_folder(tmp_path), timeout_s=1, write=lines.append) == 1
    assert "failed: a cell ran for more than 1 s" in lines[0]


def test_kernels_of_the_tests_reach_no_network(tmp_path):
    source = "import urllib.request\nurllib.request.urlopen('http://192.0.2.1')"
    save(tmp_path, "00_online", source)
    lines = []
    with pytest.MonkeyPatch.context() as patch:
        for name in ("http_proxy", "HTTP_PROXY"):
            patch.delenv(name, raising=False)
        folder = Path(os.environ["COOKBOOK_TEST_FOLDER"])
        assert runner.run(notebooks=tmp_path, build=folder, write=lines.append) == 1
    assert "tests reach no network" in lines[0]


def test_nothing_to_run(tmp_path):
    with pytest.raises(ValueError, match="there must be notebooks in"):
        runner.run(notebooks=tmp_path, build=tmp_path)
    save(tmp_path, "00_good")
    with pytest.raises(ValueError, match=r"only=\['07'\] must start names of notebooks in"):
        runner.run(only=["07"], notebooks=tmp_path, build=tmp_path)


@pytest.mark.parametrize(
    ("need", "reason"),
    [
        ("package:json", None),
        ("package:no_such_package", "needs the package no_such_package"),
        ("variable:COOKBOOK_UNSET", "needs the variable COOKBOOK_UNSET"),
    ],
)
def test_missing_need(need, reason, monkeypatch):
    monkeypatch.delenv("COOKBOOK_UNSET", raising=False)
    assert runner.missing_need({"metadata": {"cookbook": {"needs": [need]}}}) == reason
    monkeypatch.setenv("COOKBOOK_UNSET", "x")
    assert runner.missing_need({"metadata": {"cookbook": {"needs": ["variable:COOKBOOK_UNSET"]}}}) is None


def test_a_need_of_an_unknown_kind():
    with pytest.raises(ValueError, match="needs='rust-book' must start with"):
        runner.missing_need({"metadata": {"cookbook": {"needs": ["rust-book"]}}})


@pytest.mark.parametrize("told", ["1", None])
def test_kernels_share_compiled_code_even_where_none_is_written_beside_sources(tmp_path, monkeypatch, told):
    monkeypatch.delenv("PYTHONPYCACHEPREFIX", raising=False)
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    if told:
        monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", told)
    environment = runner.kernel_environment(tmp_path)
    assert "PYTHONDONTWRITEBYTECODE" not in environment
    assert ("PYTHONPYCACHEPREFIX" in environment) == bool(told)
    if told:
        command = [sys.executable, "-c", "import cookbook.types, sys; print(cookbook.types.__cached__)"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert Path(done.stdout.strip()).is_relative_to(tmp_path.resolve())
        assert Path(done.stdout.strip()).exists()
