"""The vector cache: keyed by content, shared by processes, whole after a kill."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from cookbook.cache import VectorCache


def row(*numbers: float) -> np.ndarray:
    return np.asarray([numbers], dtype=np.float32)


def test_a_vector_comes_back_as_it_was(tmp_path: Path) -> None:
    vectors = np.random.default_rng(0).normal(size=(3, 5)).astype(np.float32)
    with VectorCache(tmp_path / "new folder" / "v.sqlite") as cache:
        cache.put("local", "m", ["a", "b", "é\n"], vectors)
        found = cache.get("local", "m", ["é\n", "a", "c"])
    assert found[0] is not None
    assert found[1] is not None
    assert np.array_equal(found[0], vectors[2])
    assert np.array_equal(found[1], vectors[0])
    assert found[2] is None


def test_another_provider_model_or_text_finds_nothing(tmp_path: Path) -> None:
    with VectorCache(tmp_path / "v.sqlite") as cache:
        cache.put("local", "m", ["a"], row(1, 2))
        assert cache.get("openai", "m", ["a"]) == [None]
        assert cache.get("local", "m2", ["a"]) == [None]
        assert cache.get("local", "m", ["a "]) == [None]


def test_the_same_key_again_replaces(tmp_path: Path) -> None:
    with VectorCache(tmp_path / "v.sqlite") as cache:
        cache.put("local", "m", ["a", "a"], np.vstack([row(1, 2), row(3, 4)]))
        (found,) = cache.get("local", "m", ["a"])
    assert found is not None
    assert found.tolist() == [3.0, 4.0]


def test_it_outlives_its_client(tmp_path: Path) -> None:
    with VectorCache(tmp_path / "v.sqlite") as cache:
        cache.put("local", "m", ["a"], row(1, 2))
    with VectorCache(tmp_path / "v.sqlite") as cache:
        (found,) = cache.get("local", "m", ["a"])
    assert found is not None
    assert found.tolist() == [1.0, 2.0]


WRITER = """
import sys, numpy as np
from cookbook.cache import VectorCache
cache = VectorCache(sys.argv[1])
name = sys.argv[2]
for n in range(40):
    cache.put("local", "m", [f"{name}{n}"], np.full((1, 4), n, dtype=np.float32))
print("stored", flush=True)
if sys.argv[3] == "wait":
    cache._db.execute("BEGIN IMMEDIATE")
    cache._db.execute("DELETE FROM vectors")
    print("half", flush=True)
    sys.stdin.read()
cache.close()
"""


def writer(path: Path, name: str, how: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), name, how],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[1],
        text=True,
        encoding="utf-8",
    )


def test_two_processes_write_one_file(tmp_path: Path) -> None:
    path = tmp_path / "v.sqlite"
    writers = [writer(path, name, "go") for name in "ab"]
    assert [process.communicate(timeout=60)[0] for process in writers] == ["stored\n", "stored\n"]
    with VectorCache(path) as cache:
        for name in "ab":
            found = cache.get("local", "m", [f"{name}{n}" for n in range(40)])
            assert [None if vector is None else vector[0] for vector in found] == list(range(40))


def test_a_kill_loses_nothing_that_was_stored(tmp_path: Path) -> None:
    path = tmp_path / "v.sqlite"
    process = writer(path, "a", "wait")
    assert process.stdout is not None
    assert process.stdout.readline() == "stored\n"
    assert process.stdout.readline() == "half\n"  # a deletion is under way when the process dies
    process.kill()
    process.communicate(timeout=60)
    with VectorCache(path) as cache:
        found = cache.get("local", "m", [f"a{n}" for n in range(40)])
    assert all(vector is not None for vector in found)


def test_a_file_that_is_no_cache_is_refused_and_kept(tmp_path: Path) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("my notes " * 100, encoding="utf-8")
    with pytest.raises(ValueError, match=r"notes\.txt' must be a vector cache"):
        VectorCache(notes)
    assert notes.read_text(encoding="utf-8") == "my notes " * 100
    with pytest.raises(ValueError, match="must be a file"):
        VectorCache(tmp_path)


def test_a_database_of_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.sqlite"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE vectors (kiln TEXT)")
    other.close()
    with pytest.raises(ValueError, match="must be a vector cache"):
        VectorCache(path)
