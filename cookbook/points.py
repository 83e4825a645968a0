"""Records and vectors in -> the points that an engine stores, and back.

Qdrant takes only unsigned integers and UUIDs as ids. A point's id is therefore the UUID5 of the readable
id, the same in every process; the readable id stands in the payload and is what callers see.
"""

from __future__ import annotations

import ast
import json
import math
import re
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from .errors import DimensionError, StoreError
from .lexical import Terms, document_terms
from .types import Chunk, Document, Hit, Span, search_text

Id = str | int | float | bool

MAX_BATCH_POINTS = 1000
MAX_BATCH_BYTES = 16 * 2**20  # a Qdrant server refuses requests above 32 MiB by default

TEXT_FIELDS = ("chunk_id", "doc_id", "kind", "parent_id", "section_id", "heading_id", "corpus")
NUMBER_FIELDS = ("start", "end", "position", "para_index", "n_tokens")
_METADATA = (*TEXT_FIELDS[2:], *NUMBER_FIELDS, "heading")
_TAGGED = re.compile(r"(str|int|float|bool)\((.*)\)", re.DOTALL)
_NAMESPACE = uuid.UUID("6f0f2c0e-3d0b-5f5a-9a53-0d0c6b6f6b21")


class Point(NamedTuple):
    """One row of an engine. Pages (documents and parents) have neither vector nor terms."""

    id: str
    payload: dict[str, Any]
    n_bytes: int
    vector: np.ndarray | None = None
    terms: Terms | None = None


def encode_id(value: Id, name: str = "id") -> str:
    """The id as stored: a string as it is, anything else tagged with its type.

    So ``True``, ``1``, ``1.0`` and ``"1"`` stay four ids, and ``2**64`` stays exact.

    >>> encode_id("guide.md#3"), encode_id(-1), encode_id("int(-1)")
    ('guide.md#3', 'int(-1)', "str('int(-1)')")
    """
    if type(value) not in (str, int, float, bool) or (isinstance(value, float) and not math.isfinite(value)):
        raise ValueError(f"{name}={value!r} must be a string or a finite number")
    if isinstance(value, str):
        check_unicode(value, f"{name}={value!a}")
        if not _TAGGED.fullmatch(value):
            return value
    return f"{type(value).__name__}({value!r})"


def check_unicode(text: str, name: str) -> None:
    """Refuse a lone surrogate, which no engine takes."""
    if text.isascii():
        return
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError(f"{name} must not hold a lone surrogate") from None


def decode_id(stored: str) -> Any:
    """The id as given.

    >>> decode_id("guide.md#3"), decode_id("int(-1)"), decode_id("str('int(-1)')")
    ('guide.md#3', -1, 'int(-1)')
    """
    tagged = _TAGGED.fullmatch(stored)
    return ast.literal_eval(tagged[2]) if tagged else stored


def point_id(stored_id: str, record: str = "chunk") -> str:
    """The UUID under which an engine keeps a record; a chunk and a parent of one id differ.

    >>> point_id("é") == point_id("e" + chr(0x301))
    False
    """
    return str(uuid.uuid5(_NAMESPACE, f"{record}:{stored_id}"))


def corpus_of(chunk_id: str, doc_id: str) -> str | None:
    """The corpus that a chunk's id names (``corpus/doc_id#...``), None for ids of another form.

    >>> corpus_of("marketing/shipping#p0002#c001", "shipping"), corpus_of("shipping#c001", "shipping")
    ('marketing', '')
    """
    if chunk_id.startswith(f"{doc_id}#"):
        return ""
    corpus, found, _ = chunk_id.partition(f"/{doc_id}#")
    return corpus if found else None


def unit_rows(vectors: Any, *, dim: int, n_rows: int, collection: str, name: str = "vectors") -> np.ndarray:
    """The vectors as float32 rows of length 1, so that a dot product is a cosine.

    Raises:
        DimensionError: another size than the collection's.
        ValueError: another number of rows, or a row that is zero or not finite.
    """
    vectors = vectors if isinstance(vectors, np.ndarray) else list(vectors)
    if len(vectors) != n_rows:
        raise ValueError(
            f"{name} has {len(vectors)} rows for {n_rows} texts: one row for each text is needed"
        )
    if n_rows == 0:
        return np.empty((0, dim), dtype=np.float32)
    for row, vector in enumerate(vectors):
        if np.ndim(vector) != 1:
            raise ValueError(f"{name}[{row}] has {np.ndim(vector)} axes, but a vector has 1")
        if len(vector) != dim:
            raise dimension_error(collection, stored=dim, given=len(vector), name=f"{name}[{row}]")
    unit = np.empty((n_rows, dim), dtype=np.float32)
    for start in range(0, n_rows, MAX_BATCH_POINTS):  # arrays that stay in the processor's cache
        rows = np.array(vectors[start : start + MAX_BATCH_POINTS], dtype=np.float64)
        finite = np.isfinite(rows).all(axis=1)
        if not finite.all():
            row = start + int(finite.argmin())
            raise ValueError(f"{name}[{row}] holds NaN or infinity (was a blank text embedded?)")
        largest = np.abs(rows).max(axis=1, keepdims=True)
        if not largest.all():
            row = start + int(largest[:, 0].argmin())
            raise ValueError(
                f"{name}[{row}] is all zeros, so it has no direction (was a blank text embedded?)"
            )
        rows /= largest  # first, so that squaring neither overflows nor vanishes
        unit[start : start + MAX_BATCH_POINTS] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit


def dimension_error(collection: str, *, stored: int, given: int, name: str = "dim") -> DimensionError:
    """The error for vectors of another size, with the ways out."""
    return DimensionError(
        f"{collection} holds vectors of size {stored}, but {name} has size {given}: "
        f"use the embedder that it was built with, or index again under another collection name"
    )


def chunk_payload(chunk: Chunk) -> dict[str, Any]:
    """A chunk as a flat mapping."""
    return {
        "chunk_id": encode_id(chunk.chunk_id, "chunk_id"),
        "doc_id": encode_id(chunk.doc_id, "doc_id"),
        "text": chunk.text,
        "start": chunk.span.start,
        "end": chunk.span.end,
        "kind": chunk.kind,
        "position": chunk.position,
        "parent_id": chunk.parent_id,
        "section_id": chunk.section_id,
        "heading_id": chunk.heading_id,
        "para_index": chunk.para_index,
        "n_tokens": chunk.n_tokens,
        "heading": chunk.heading,
        "corpus": corpus_of(chunk.chunk_id, chunk.doc_id),
    }


def bare_payload(text: str, given_id: Id, name: str) -> dict[str, Any]:
    """A text that was stored under an id alone, which stands for chunk and document."""
    stored = encode_id(given_id, name)
    return {"chunk_id": stored, "doc_id": stored, "text": text}


def to_chunk(payload: Mapping[str, Any]) -> Chunk:
    """The chunk of a payload; a bare text becomes a chunk of kind ``bare`` that is its own document."""
    doc_id = decode_id(payload["doc_id"])
    if "start" not in payload:
        from .tokens import count

        text = payload["text"]
        return Chunk(
            chunk_id=decode_id(payload["chunk_id"]),
            doc_id=doc_id,
            span=Span(doc_id=doc_id, start=0, end=len(text)),
            text=text,
            kind="bare",
            position=0,
            n_tokens=count(text),
        )
    return Chunk(
        chunk_id=decode_id(payload["chunk_id"]),
        doc_id=doc_id,
        span=Span(doc_id=doc_id, start=payload["start"], end=payload["end"]),
        text=payload["text"],
        kind=payload["kind"],
        position=payload["position"],
        parent_id=payload["parent_id"],
        section_id=payload["section_id"],
        heading_id=payload["heading_id"],
        para_index=payload["para_index"],
        n_tokens=payload["n_tokens"],
        heading=payload["heading"],
    )


def to_hit(payload: Mapping[str, Any], *, score: float, rank: int, retriever: str) -> Hit:
    """The hit of a payload, its ids as they were given to the store."""
    return Hit(
        chunk_id=decode_id(payload["chunk_id"]),
        doc_id=decode_id(payload["doc_id"]),
        text=payload["text"],
        score=score,
        rank=rank,
        retriever=retriever,
        metadata={name: payload[name] for name in _METADATA if name in payload},
    )


def document_payload(document: Document) -> dict[str, Any]:
    """A document as a flat mapping."""
    return {
        "doc_id": encode_id(document.doc_id, "doc_id"),
        "title": document.title,
        "text": document.text,
        "corpus": document.corpus,
        "source": document.source,
    }


def to_document(payload: Mapping[str, Any]) -> Document:
    """The document of a payload."""
    return Document(
        doc_id=decode_id(payload["doc_id"]),
        title=payload["title"],
        text=payload["text"],
        corpus=payload["corpus"],
        source=payload["source"],
    )


def chunk_point(payload: dict[str, Any], vector: np.ndarray) -> Point:
    """A chunk's point, with its vector and its BM25 weights."""
    # Sizes in JSON, where a number takes up to 24 characters with its comma.
    n_bytes = _payload_bytes(payload) + 24 * len(vector)
    terms = document_terms(search_text(payload.get("heading", ""), payload["text"]))
    n_bytes += 36 * len(terms.indices)
    return Point(point_id(payload["chunk_id"]), payload, n_bytes, vector, terms)


def page_point(payload: dict[str, Any], record: str, stored_id: str) -> Point:
    """A document's or a parent's point."""
    payload = {**payload, "record": record}
    return Point(point_id(stored_id, record), payload, _payload_bytes(payload))


def _payload_bytes(payload: Mapping[str, Any]) -> int:
    """Size in a request, which is refused where no request could hold it."""
    name = payload.get("chunk_id", payload["doc_id"])
    for field, value in payload.items():
        if isinstance(value, str):
            check_unicode(value, f"the {field} of {name!r}")
    n_bytes = len(json.dumps(payload)) + 100
    if n_bytes > MAX_BATCH_BYTES:
        raise StoreError(
            f"{name!r} takes {n_bytes:,} bytes, above the limit of {MAX_BATCH_BYTES:,} bytes a request: "
            "cut it into smaller pieces"
        )
    return n_bytes


def batches(points: Iterable[Point]) -> Iterator[list[Point]]:
    """The points in their order, in requests of at most 1,000 points and 16 MiB."""
    batch: list[Point] = []
    n_bytes = 0
    for point in points:
        if batch and (len(batch) == MAX_BATCH_POINTS or n_bytes + point.n_bytes > MAX_BATCH_BYTES):
            yield batch
            batch, n_bytes = [], 0
        batch.append(point)
        n_bytes += point.n_bytes
    if batch:
        yield batch


def normal_where(where: Mapping[str, Any] | None) -> dict[str, list[Any]]:
    """The filter with a list of stored values for each field.

    >>> normal_where({"corpus": "wiki", "position": (0, 1)})
    {'corpus': ['wiki'], 'position': [0, 1]}
    """
    if where is not None and not isinstance(where, Mapping):
        raise ValueError(f"where={where!r} must be a mapping of a chunk's fields to values")
    normal: dict[str, list[Any]] = {}
    for field, value in (where or {}).items():
        if field not in TEXT_FIELDS + NUMBER_FIELDS:
            known = ", ".join(sorted(TEXT_FIELDS + NUMBER_FIELDS))
            raise ValueError(f"where={field!r} is no field of a chunk; the fields are {known}")
        values = (
            list(value)
            if isinstance(value, Sequence | set | frozenset) and not isinstance(value, str)
            else [value]
        )
        if field in ("chunk_id", "doc_id"):
            values = [encode_id(item, f"where[{field!r}]") for item in values]
        wanted = str if field in TEXT_FIELDS else int
        for item in values:
            if type(item) is not wanted:
                raise ValueError(f"where[{field!r}]={item!r} must be of type {wanted.__name__}")
            if isinstance(item, str):
                check_unicode(item, f"where[{field!r}]={item!a}")
            elif not -(2**63) <= item < 2**63:
                raise ValueError(f"where[{field!r}]={item} must be a number of 64 bits")
        normal[field] = values
    return normal


def matches(payload: Mapping[str, Any], where: Mapping[str, Collection[Any]]) -> bool:
    """Whether a payload has one of the wanted values in every field.

    >>> matches({"kind": "child"}, {"kind": ["child", "page"]})
    True
    """
    return all(payload.get(field) in values for field, values in where.items())
