"""Pages and hits for tests: a text -> a page, a place or a quote on it -> a hit."""

from __future__ import annotations

from typing import Any

from cookbook.types import Document, Hit


def page(text: str, doc_id: str = "page") -> Document:
    return Document(doc_id=doc_id, title=doc_id.title(), text=text)


def hit_at(document: Document, start: int, end: int, score: Any = 1.0, **metadata: Any) -> Hit:
    return Hit(
        chunk_id=f"{document.doc_id}@{start}-{end}",
        doc_id=document.doc_id,
        text=document.text[start:end],
        score=score,
        rank=1,
        retriever="dense",
        metadata={"start": start, "end": end, **metadata},
    )


def hit_on(document: Document, quote: str, score: float = 1.0, **metadata: Any) -> Hit:
    start = document.text.index(quote)
    return hit_at(document, start, start + len(quote), score, **metadata)
