"""Chunks, vectors, documents and parents of one call in -> the points to write, document by document."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from . import points as pt
from .errors import StoreError
from .types import Chunk, Document


class Pieces:
    """The points of one document that one call writes."""

    def __init__(self) -> None:
        self.chunks: list[pt.Point] = []
        self.pages: list[pt.Point] = []
        self.corpus: str | None = None

    def join(self, corpus: str | None, doc_id: str) -> None:
        """Refuse records of one document id that come from different corpora."""
        if corpus is not None and self.corpus not in (None, corpus):
            raise StoreError(
                f"document {doc_id!r} belongs to the corpora {self.corpus!r} and {corpus!r}; hits name "
                "documents by doc_id alone: rename one, or keep each corpus in a collection of its own"
            )
        self.corpus = self.corpus if corpus is None else corpus


def payloads_of(chunks: Sequence[Chunk] | Sequence[str], ids: Sequence[pt.Id] | None) -> list[dict[str, Any]]:
    if isinstance(chunks, str):
        raise ValueError("chunks is one text: give a list")
    if ids is None:
        for row, chunk in enumerate(chunks):
            if not isinstance(chunk, Chunk):
                raise ValueError(f"chunks[{row}] is of type {type(chunk).__name__}: texts need ids=[...]")
        return [pt.chunk_payload(chunk) for chunk in chunks if isinstance(chunk, Chunk)]
    if len(ids) != len(chunks):
        raise ValueError(f"ids has {len(ids)} entries for {len(chunks)} texts: give one for each")
    payloads = []
    for row, (text, given_id) in enumerate(zip(chunks, ids, strict=True)):
        if not isinstance(text, str):
            raise ValueError(f"chunks[{row}] is of type {type(text).__name__}: ids= goes with texts")
        payloads.append(pt.bare_payload(text, given_id, f"ids[{row}]"))
    return payloads


def plan(
    payloads: Sequence[dict[str, Any]],
    rows: np.ndarray,
    documents: Iterable[Document],
    parents: Iterable[Chunk],
) -> dict[str, Pieces]:
    """Points by document, in the order of the documents, then of the chunks."""
    work: dict[str, Pieces] = {}
    seen: set[str] = set()

    def place(point: pt.Point, table: str, name: str) -> None:
        doc_id = point.payload["doc_id"]
        pieces = work.setdefault(doc_id, Pieces())
        pieces.join(point.payload.get("corpus"), doc_id)
        if point.id in seen:
            raise ValueError(f"{name} is given twice: an id stands for one record")
        seen.add(point.id)
        if point.payload.get("corpus", "") is None:
            point.payload["corpus"] = pieces.corpus  # the id does not tell, but the document does
        (pieces.chunks if table == "chunks" else pieces.pages).append(point)

    for document in documents:
        payload = pt.document_payload(document)
        place(pt.page_point(payload, "document", payload["doc_id"]), "pages", f"document {document.key!r}")
    for payload, row in zip(payloads, rows, strict=True):
        place(pt.chunk_point(payload, row), "chunks", f"id {payload['chunk_id']!r}")
    for parent in parents:
        payload = pt.chunk_payload(parent)
        place(pt.page_point(payload, "parent", payload["chunk_id"]), "pages", f"parent {parent.chunk_id!r}")
    return work


def groups(work: Mapping[str, Pieces]) -> Iterator[list[str]]:
    """Documents that are written together: whole ones, as many as fit a request."""
    group: list[str] = []
    n_points = n_bytes = 0
    for doc_id, pieces in work.items():
        size = sum(point.n_bytes for point in pieces.chunks)
        if group and (
            n_points + len(pieces.chunks) > pt.MAX_BATCH_POINTS or n_bytes + size > pt.MAX_BATCH_BYTES
        ):
            yield group
            group, n_points, n_bytes = [], 0, 0
        group.append(doc_id)
        n_points += len(pieces.chunks)
        n_bytes += size
    if group:
        yield group
