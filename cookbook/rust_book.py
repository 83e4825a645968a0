"""COOKBOOK_DATA or the network -> Documents: The Rust Programming Language, cleaned, at a pinned commit."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable
from importlib import resources
from pathlib import Path

from .errors import CorpusError, MissingDataError
from .types import Document

COMMIT = "917544888a55e4da7109bdba8c88c893c0da70f4"
BASE_URL = f"https://raw.githubusercontent.com/rust-lang/book/{COMMIT}/src/"
CLEANER_VERSION = 1  # raise it with every change of `clean`: gold spans count in the cleaned text

_COMMENT = re.compile(r"<!--.*?-->", re.S)
_OPEN = re.compile(r"<Listing([^>\n]*)>")
_CLOSE = re.compile(r"</Listing>")
_ANCHOR = re.compile(r'<a id="[^"]*"></a>')
_SPAN = re.compile(r"</?span[^>]*>")
_INCLUDE = re.compile(r"\{\{#\w+[^}\n]*\}\}")
_ATTRIBUTE = re.compile(r'([\w-]+)="([^"]*)"')
_QUOTE = re.compile(r"[>\s]*")


def load_rust_book() -> list[Document]:
    """The book's pages in the order of its summary, cleaned by `clean`; pages left blank are dropped.

    Files come from ``COOKBOOK_DATA/rust-book``, or where the variable is not set from pooch's cache; one
    that is missing there is downloaded into the same folder. Each is checked against its SHA-256.

    Raises:
        MissingDataError: a file is neither there nor can it be downloaded.
        CorpusError: a file is not the one of the pinned commit.
    """
    hashes = _hashes()
    folder = _folder()
    raw = {name: (folder / name).read_bytes() for name in _present(hashes, folder)}
    for name, content in raw.items():
        if hashlib.sha256(content).hexdigest() != hashes[name]:
            raise CorpusError(
                f"{folder / name} is not the file of rust-lang/book at commit {COMMIT[:12]} "
                "(SHA-256 differs): delete it, and it is downloaded again"
            )
    summary = raw["SUMMARY.md"].decode("utf-8")
    documents = []
    for name in re.findall(r"\]\(([\w-]+\.md)\)", summary):
        text = clean(raw[name].decode("utf-8"))
        if text:
            stem = name.removesuffix(".md")
            heading = re.search(r"^#+ (.+)$", text, re.M)
            documents.append(
                Document(
                    doc_id=stem,
                    title=heading[1].strip() if heading else stem,
                    text=text,
                    corpus="rust-book",
                    source=BASE_URL + name,
                )
            )
    return documents


def clean(text: str) -> str:
    """The page without what only the book's build tool reads.

    Comments, anchors of old headings, ``<span>`` tags, ``{{#include}}``-like lines and the code blocks
    that they leave empty go; a ``<Listing>`` tag leaves its number, file name and caption, which readers
    of the built book see.

    >>> print(clean("<!-- x -->\\n# A\\n\\n```rust\\n{{#include a.rs}}\\n```\\n\\n[x][y]<!-- ignore -->.\\n"))
    # A
    <BLANKLINE>
    [x][y].
    <BLANKLINE>
    """
    text = _COMMENT.sub("", text)
    text = _OPEN.sub(_caption, text)
    text = _CLOSE.sub("", text)
    text = _ANCHOR.sub("", text)
    text = _SPAN.sub("", text)
    text = _INCLUDE.sub("", text)
    lines = [line.rstrip() for line in text.split("\n")]
    return _squeeze(_without_empty_fences(lines))


def _caption(match: re.Match[str]) -> str:
    """``Listing 4-1 (src/main.rs): Caption``, with the parts that the tag has."""
    given = dict(_ATTRIBUTE.findall(match[1]))
    number, file_name = given.get("number"), given.get("file-name")
    label = f"Listing {number}" if number else ""
    if file_name:
        label = f"{label} ({file_name})" if label else f"File {file_name}"
    caption = given.get("caption", "")
    return f"{label}: {caption}" if label and caption else label or caption


def _without_empty_fences(lines: list[str]) -> list[str]:
    """The lines without code blocks that hold nothing (any more)."""
    kept: list[str] = []
    opened: int | None = None  # where in `kept` the open fence stands
    for line in lines:
        bare = line[_QUOTE.match(line).end() :]  # type: ignore[union-attr]
        if not bare.startswith("```"):
            kept.append(line)
        elif opened is None:
            opened = len(kept)
            kept.append(line)
        else:
            if any(_QUOTE.sub("", inner, count=1) for inner in kept[opened + 1 :]):
                kept.append(line)
            else:
                del kept[opened:]
            opened = None
    return kept


def _squeeze(lines: Iterable[str]) -> str:
    """The lines with at most one blank line between two others, and none at the ends."""
    text = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip("\n")
    return f"{text}\n" if text else ""


def _hashes() -> dict[str, str]:
    """File name -> SHA-256 at the pinned commit."""
    listed = resources.files(__package__).joinpath("rust_book.sha256").read_text(encoding="utf-8")
    return {name: digest for digest, name in (line.split() for line in listed.splitlines())}


def _folder() -> Path:
    if root := os.environ.get("COOKBOOK_DATA"):
        return Path(root) / "rust-book"
    import pooch

    return Path(pooch.os_cache("cookbook")) / "rust-book"


def _present(hashes: dict[str, str], folder: Path) -> list[str]:
    """The names, after downloading those that are not in the folder."""
    missing = [name for name in hashes if not (folder / name).is_file()]
    if missing:
        import pooch
        from tqdm import tqdm

        logger = pooch.get_logger()
        level = logger.level
        logger.setLevel("WARNING")  # else a line a file
        try:
            for name in tqdm(missing, desc="The Rust book", unit="file", disable=None):
                pooch.retrieve(
                    BASE_URL + name,
                    known_hash=f"sha256:{hashes[name]}",
                    fname=name,
                    path=folder,
                    downloader=pooch.HTTPDownloader(timeout=10),
                )
        except (OSError, ValueError) as error:  # no network, no space; another file than expected
            raise MissingDataError(
                f"{name} of the Rust book is not in {folder} and cannot be downloaded from {BASE_URL}{name} "
                f"({type(error).__name__}). Put the files of src/ at commit {COMMIT} into that folder, "
                "or set COOKBOOK_DATA to a folder that has them in rust-book/"
            ) from None
        finally:
            logger.setLevel(level)
    return list(hashes)
