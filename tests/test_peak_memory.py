"""Chunking adds at most six times the size of the documents' texts to a process, records included."""

from __future__ import annotations

import subprocess
import sys

import pytest

# A fresh process chunks (or only encodes a line) and prints its peak. The apostrophe is a
# typographic one, as in most prose, which CPython stores in two bytes a character.
SCRIPT = """
import resource, sys
from cookbook import chunkers, tokens
from cookbook.types import Document

paragraph = (
    "The kiln of shift {n} holds nine trays, and each tray holds two unglazed pots that came from bench {n}. "
    "Nobody opens its door before half past five; whoever does loses the load and writes a note. "
    "Temperatures above {n} degrees are read from the second gauge, since the first one\u2019s needle sticks."
)
parts = []
for n in range(9_000):
    if n % 12 == 0:
        parts.append(f"## Shift {n}")
    parts.append(paragraph.format(n=n))
text = chr(10) * 2
text = text.join(parts)
if sys.argv[2] == "one":
    docs = [Document(doc_id="giant", title="", text=text)]
else:
    docs = [
        Document(doc_id=f"page-{n}", title="", text=text[start : start + 20_000])
        for n, start in enumerate(range(0, len(text), 20_000))
    ]
size = sum(sys.getsizeof(document.text) for document in docs)
del text, parts
tokens.count("a line")
chunks = getattr(chunkers, sys.argv[1])(docs) if sys.argv[1] != "none" else None
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(peak * (1 if sys.platform == "darwin" else 1024), size)
"""


def peak(chunker: str, shape: str) -> tuple[int, int]:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, chunker, shape], capture_output=True, encoding="utf-8", check=True
    )
    n_bytes, size = map(int, done.stdout.split())
    return n_bytes, size


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not report a process's peak this way")
@pytest.mark.parametrize("shape", ["one", "many"])
def test_peak_of_chunking(shape: str) -> None:
    base, size = peak("none", shape)
    assert size > 5_000_000
    for chunker in ("sentence_window", "parent_child"):
        added = peak(chunker, shape)[0] - base
        assert added <= 6 * size, f"{chunker} added {added / size:.1f} times the texts"
