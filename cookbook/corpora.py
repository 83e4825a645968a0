"""A name or a folder -> Documents, and gold Questions with the places of their evidence."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from .blocks import blocks
from .docstrings import load_docstrings
from .errors import CorpusError, MissingDataError
from .rust_book import load_rust_book
from .types import Document, Question, Quote

__all__ = [
    "KINDS",
    "LOADERS",
    "corpus_names",
    "find_quote",
    "load_corpus",
    "load_docstrings",
    "load_eval_questions",
    "load_folder",
    "load_rust_book",
    "place",
]

SUFFIXES = (".md", ".markdown", ".txt")
KINDS = (
    "one sentence",
    "neighbouring sentences",
    "same section",
    "far apart",
    "table",
    "number with qualifier",
    "unanswerable",
)
PARTS = ("dev", "test")

# Corpora that are made or fetched; every folder corpora/NAME/pages is one as well.
LOADERS: dict[str, Callable[[], list[Document]]] = {
    "pandas": load_docstrings,
    "rust-book": load_rust_book,
}


def corpora_folder() -> Path:
    """The repository's ``corpora/``: beside the package in a clone, else ``COOKBOOK_DATA/corpora``.

    Raises:
        MissingDataError: neither is there (an installed package does not carry the corpora).
    """
    places = [Path(__file__).resolve().parent.parent / "corpora"]
    if root := os.environ.get("COOKBOOK_DATA"):
        places.append(Path(root) / "corpora")
    for place in places:
        if place.is_dir():
            return place
    raise MissingDataError(
        f"no folder corpora/ beside the package ({places[0]}) nor under COOKBOOK_DATA: run from a clone "
        "(pip install -e .), or set COOKBOOK_DATA to a folder that holds corpora/"
    )


def corpus_names() -> list[str]:
    """Every name that `load_corpus` takes."""
    try:
        own = [path.parent.name for path in corpora_folder().glob("*/pages")]
    except MissingDataError:
        own = []
    return sorted({*LOADERS, *own})


def load_corpus(name: str) -> list[Document]:
    """The pages of a corpus by name: ``pandas``, ``rust-book``, or one of the project's own.

    Raises:
        ValueError: no corpus has that name; the message lists those there are.
    """
    names = corpus_names()
    if name not in names:
        raise ValueError(f"corpus={name!r} must be one of {', '.join(names)} (load_folder reads any folder)")
    if name in LOADERS:
        return LOADERS[name]()
    return load_folder(corpora_folder() / name / "pages", corpus=name)


def load_folder(path: str | os.PathLike[str], *, corpus: str | None = None) -> list[Document]:
    """The Markdown and text files under a folder, ordered by name; hidden ones are passed over.

    ``doc_id`` is the path below the folder without its suffix, ``title`` the first heading or else the
    file's name, ``corpus`` the folder's name unless given. Texts keep their line ends; a byte order mark
    is dropped.

    Raises:
        MissingDataError: the folder is not there, or holds no such file.
        CorpusError: a file is not UTF-8, or two files have one ``doc_id``.
    """
    if not os.fspath(path):
        raise ValueError("path='' must name a folder ('.' is the current one)")
    folder = Path(path)
    if not folder.is_dir():
        what = "is a file, not a folder" if folder.exists() else "does not exist"
        raise MissingDataError(f"folder {os.fspath(path)!r} {what}")
    found = [
        file.relative_to(folder)
        for file in folder.rglob("*")
        if file.suffix.lower() in SUFFIXES and file.is_file()
    ]
    found = [relative for relative in found if not any(part[0] == "." for part in relative.parts)]
    if not found:
        raise MissingDataError(f"folder {os.fspath(path)!r} holds no file that ends in {', '.join(SUFFIXES)}")
    corpus = folder.resolve().name if corpus is None else corpus
    documents: dict[str, Document] = {}
    for relative in sorted(found, key=Path.as_posix):
        doc_id, source = relative.with_suffix("").as_posix(), relative.as_posix()
        if doc_id in documents:
            raise CorpusError(
                f"files {documents[doc_id].source!r} and {source!r} in {os.fspath(path)!r} would both be "
                f"document {doc_id!r}: rename one"
            )
        text = _read(folder / relative)
        title = next((b.title for b in blocks(text) if b.kind == "heading" and b.title), relative.stem)
        documents[doc_id] = Document(doc_id=doc_id, title=title, text=text, corpus=corpus, source=source)
    return list(documents.values())


def _read(file: Path) -> str:
    """The file's text, its line ends untouched."""
    try:
        return file.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise CorpusError(
            f"file {str(file)!r} is not UTF-8: byte {error.object[error.start]:#04x} at offset "
            f"{error.start}; save it as UTF-8"
        ) from None


def load_eval_questions(corpus: str | None = None) -> list[Question]:
    """The gold questions of every corpus, or of one; their corpora need not be there.

    Raises:
        ValueError: that corpus has no questions.
        CorpusError: a line of a file is not a question; the message names file and line.
    """
    files = {path.parent.name: path for path in corpora_folder().glob("*/questions.jsonl")}
    if corpus is not None and corpus not in files:
        raise ValueError(f"corpus={corpus!r} has no questions; these have: {', '.join(sorted(files))}")
    questions: dict[str, Question] = {}
    for name in sorted(files) if corpus is None else [corpus]:
        for number, question in enumerate(read_questions(files[name]), start=1):
            if question.corpus != name or question.question_id in questions:
                raise CorpusError(
                    f"{files[name].as_posix()} line {number}: {question.question_id!r} of "
                    f"{question.corpus!r} stands twice or elsewhere"
                )
            questions[question.question_id] = question
    return list(questions.values())


def read_questions(path: str | os.PathLike[str]) -> list[Question]:
    """The questions of a file, one JSON object a line, such as ``labels`` writes.

    Raises:
        CorpusError: a line is not a question; the message names file and line.
    """
    found = []
    # Not splitlines: it also ends a line at U+2028, which may stand inside a JSON string.
    lines = Path(path).read_text(encoding="utf-8").rstrip("\n").split("\n")
    for number, line in enumerate(lines, start=1):
        try:
            found.append(_question(json.loads(line)))
        except (ValueError, KeyError, TypeError) as error:
            raise CorpusError(
                f"{Path(path).as_posix()} line {number} is not a question: {error!r}"
            ) from error
    return found


def _question(row: Mapping[str, Any]) -> Question:
    spans = {
        name: tuple(Quote(**quote) for quote in row.get(name, ()))
        for name in ("evidence", "qualifiers", "forbidden")
    }
    question = Question(**{**row, **spans})
    if question.kind not in KINDS:
        raise ValueError(f"kind={question.kind!r} must be one of {', '.join(KINDS)}")
    if question.part not in PARTS:
        raise ValueError(f"part={question.part!r} must be one of {', '.join(PARTS)}")
    if (question.kind == "unanswerable") == bool(question.evidence):
        raise ValueError(f"a question of kind {question.kind!r} has {len(question.evidence)} evidence spans")
    return question


def find_quote(document: Document, quote: str) -> Quote:
    """The quote with its place in the document, for gold spans written down as pasted text.

    Raises:
        CorpusError: it does not stand there, or more than once, so that the place is unclear.

    >>> page = Document(doc_id="fees", title="Fees", text="Free. Unless it rains.")
    >>> find_quote(page, "Unless it rains.").start
    6
    """
    start = document.text.find(quote) if quote.strip() else -1
    if start < 0:
        raise CorpusError(f"document {document.doc_id!r} does not hold the quote {quote!r}")
    again = document.text.find(quote, start + 1)
    if again >= 0:
        raise CorpusError(
            f"document {document.doc_id!r} holds the quote {quote!r} at {start} and at {again}: quote more"
        )
    return Quote(doc_id=document.doc_id, start=start, end=start + len(quote), quote=quote)


def place(question: Question, documents: Iterable[Document]) -> Question:
    """The question with every span found anew from its quote, after pages were written or changed.

    Raises:
        CorpusError: a page is absent, or does not hold a quote exactly once.
    """
    pages = {document.doc_id: document for document in documents}

    def find(quotes: tuple[Quote, ...]) -> tuple[Quote, ...]:
        for quote in quotes:
            if quote.doc_id not in pages:
                raise CorpusError(f"question {question.question_id!r}: no document {quote.doc_id!r}")
        return tuple(find_quote(pages[quote.doc_id], quote.quote) for quote in quotes)

    return replace(
        question,
        evidence=find(question.evidence),
        qualifiers=find(question.qualifiers),
        forbidden=find(question.forbidden),
    )
