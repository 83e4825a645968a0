"""Chunks, vectors, pages -> what an engine keeps, and a query vector -> Hits: one collection, any engine.

What the stores have in common; ``stores`` adds the ways to open one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

import numpy as np

from . import points as pt
from .engines import Engine, Row
from .errors import CookbookError, SettingsError, StoreClosedError, StoreError
from .lexical import query_terms
from .pages import Pages
from .rankers import fuse_ids
from .types import Chunk, Document, Hit
from .writes import Pieces, groups, payloads_of, plan

_META_ID = pt.point_id("settings", "settings")
_READ_AT_ONCE = 500
# Both rankings are read this deep before they are fused, so that a larger top_k only adds hits.
_FUSED_DEPTH = 100


class Collection:
    """What all stores share; the engine is the only difference."""

    def __init__(
        self, name: str, make: Callable[[], Engine], dim: int | None, settings: Mapping[str, Any] | None
    ) -> None:
        if dim is not None and (isinstance(dim, bool) or not isinstance(dim, int) or dim < 1):
            raise ValueError(f"dim={dim!r} must be an integer of at least 1")
        try:
            wanted = None if settings is None else json.loads(json.dumps(settings))
        except TypeError as error:
            raise ValueError(f"settings={settings!r} must hold JSON values ({error})") from error
        self._name = name
        self._closed = False
        self._dim: int | None = None
        self._settings: dict[str, Any] | None = None
        self._complete = True
        try:
            self._engine = make()
        except CookbookError:
            raise
        except Exception as error:
            raise StoreError(f"{name} cannot be opened: {error}") from error
        try:
            self._open(dim, wanted)
        except BaseException:
            self.close()
            raise
        self._documents: Pages[Document] = Pages(self, "document", "doc_id", pt.to_document)
        self._parents: Pages[Chunk] = Pages(self, "parent", "chunk_id", pt.to_chunk)

    def _open(self, dim: int | None, wanted: dict[str, Any] | None) -> None:
        with self._using("open"):
            found = self._engine.retrieve("pages", [_META_ID])
            if not found and self._engine.has_chunks():
                raise StoreError(f"{self._name} was not made by this package: choose another name")
            meta = found[0] if found else {}
            self._dim = meta.get("dim")
            self._settings = meta.get("settings")
            self._complete = meta.get("complete", True)
            if dim is not None and self._dim not in (None, dim):
                raise pt.dimension_error(self._name, stored=self._dim or 0, given=dim)
            if wanted is not None and wanted != self._settings:
                if self._dim is not None and self._engine.has_chunks() and self._engine.count("chunks", {}):
                    raise SettingsError(_settings_message(self._name, self._settings, wanted))
                self._settings = wanted
            self._record(self._dim or dim, complete=self._complete)

    def _record(self, dim: int | None, *, complete: bool) -> None:
        """Keep what is known in the store itself, then make the table of chunks if it is missing."""
        payload = {"record": "settings", "dim": dim, "settings": self._settings, "complete": complete}
        if payload not in self._engine.retrieve("pages", [_META_ID]):
            self._engine.upsert("pages", [pt.Point(_META_ID, payload, 0)])
        if dim is not None and not self._engine.has_chunks():
            self._engine.create_chunks(dim)
        self._dim = dim
        self._complete = complete

    def _refuse_closed(self, action: str) -> None:
        if self._closed:
            raise StoreClosedError(f"{self._name} is closed: open it again before {action}")

    @contextmanager
    def _using(self, action: str) -> Iterator[None]:
        """Refuse a closed store, and turn an engine's errors into errors that name the store."""
        self._refuse_closed(action)
        try:
            yield
        except CookbookError:
            raise
        except Exception as error:
            raise StoreError(f"{self._name}: {action} failed: {error}") from error

    @property
    def documents(self) -> Mapping[str, Document]:
        """The pages, by ``doc_id``."""
        return self._documents

    @property
    def parents(self) -> Mapping[str, Chunk]:
        """The parents, by ``chunk_id``."""
        return self._parents

    @property
    def dim(self) -> int | None:
        """Size of the vectors; None before the first add where it was not given."""
        return self._dim

    @property
    def settings(self) -> Mapping[str, Any] | None:
        """The chunker and settings that the collection was built with, as given when it was made."""
        return self._settings

    @property
    def complete(self) -> bool:
        """Whether the last ``add`` came to its end; False after a fault or a kill in the middle of one."""
        return self._complete

    def add(
        self,
        chunks: Sequence[Chunk] | Sequence[str],
        vectors: Any,
        *,
        ids: Sequence[pt.Id] | None = None,
        documents: Sequence[Document] = (),
        parents: Sequence[Chunk] = (),
    ) -> None:
        """Store chunks with their vectors.

        What is stored under a known id is replaced, so adding again repeats nothing. A document in
        ``documents`` is replaced as a whole: what its earlier version had more is removed after the new
        version is written. Everything is checked before anything is written. Where an engine fails half
        way, documents come over one by one: each has its new or its old version (one of more than 1,000
        chunks may have both), and the same call again completes the work.

        The short form ``add(texts, vectors, ids=ids)`` stores bare texts; a hit then has the id as
        ``chunk_id`` and as ``doc_id``, and no metadata.

        Args:
            vectors: Array or lists, (n, dim); brought to length 1.

        Raises:
            ValueError: rows and chunks differ in number, a vector is zero or not finite, an id is
                repeated or of another type than text or number.
            DimensionError: the vectors have another size than the collection's.
            StoreError: one document id in two corpora, a chunk above 16 MiB, or the engine failed.
        """
        self._refuse_closed("add")
        payloads = payloads_of(chunks, ids)
        dim = self._dim
        if dim is None and payloads and len(vectors):
            dim = int(np.size(vectors[0]))
        rows = pt.unit_rows(vectors, dim=dim or 0, n_rows=len(payloads), collection=self._name)
        work = plan(payloads, rows, documents, parents)
        with self._using("add"):
            self._record(dim, complete=False)
            self._write(work, {pt.encode_id(document.doc_id, "doc_id") for document in documents})
            self._record(dim, complete=True)
            self._engine.flush()

    def _write(self, work: Mapping[str, Pieces], replaced: set[str]) -> None:
        stale = self._stored(work)
        for doc_id, pieces in work.items():
            for _, _, corpus in stale[doc_id]:
                pieces.join(corpus, doc_id)
        n_written, n_total = 0, sum(len(pieces.chunks) for pieces in work.values())
        try:
            for group in groups(work):
                # A chunk that is found without its page could not be expanded, so new pages go first; a
                # known one waits for its chunks, so that a fault leaves the old version whole.
                fresh = [doc_id for doc_id in group if not stale[doc_id]]
                known = [doc_id for doc_id in group if stale[doc_id]]
                for table, doc_ids in (("pages", fresh), ("chunks", group), ("pages", known)):
                    points = [point for doc_id in doc_ids for point in getattr(work[doc_id], table)]
                    for batch in pt.batches(points):
                        self._engine.upsert(table, batch)
                        n_written += len(batch) if table == "chunks" else 0
                for table in ("chunks", "pages"):
                    old = {
                        key
                        for doc_id in group
                        if doc_id in replaced
                        for where, key, _ in stale[doc_id]
                        if where == table
                    }
                    old -= {point.id for doc_id in group for point in getattr(work[doc_id], table)}
                    self._delete(table, sorted(old))
        except Exception as error:
            raise StoreError(
                f"{self._name}: writing failed after {n_written:,} of {n_total:,} chunks: {error}; "
                "the same call again completes it and repeats nothing"
            ) from error
        finally:
            self._pages_changed()

    def _stored(self, doc_ids: Iterable[str]) -> dict[str, list[tuple[str, str, str | None]]]:
        """Table, point id and corpus of all that is stored of some documents."""
        stored: dict[str, list[tuple[str, str, str | None]]] = {doc_id: [] for doc_id in doc_ids}
        where = {"doc_id": list(stored)}
        for table in ("chunks", "pages") if self._dim is not None else ("pages",):
            if stored and self._engine.count(table, {}):
                for key, payload in self._engine.scroll(table, where, ("doc_id", "corpus")):
                    stored[payload["doc_id"]].append((table, key, payload.get("corpus")))
        return stored

    def _delete(self, table: str, keys: Sequence[str]) -> None:
        for start in range(0, len(keys), pt.MAX_BATCH_POINTS):
            self._engine.delete(table, keys[start : start + pt.MAX_BATCH_POINTS])

    def _pages_changed(self) -> None:
        for pages in (self._documents, self._parents):
            pages.forget()

    def delete(self, doc_id: pt.Id) -> int:
        """Remove a document with its chunks and parents; return the number of chunks removed."""
        stored_id = pt.encode_id(doc_id, "doc_id")
        with self._using("delete"):
            stored = self._stored([stored_id])[stored_id]
            for table in ("chunks", "pages"):
                self._delete(table, [key for where, key, _ in stored if where == table])
            self._engine.flush()
            self._pages_changed()
        return sum(table == "chunks" for table, _, _ in stored)

    def search(
        self,
        vector: Any,
        *,
        top_k: int,
        text: str | None = None,
        where: Mapping[str, Any] | None = None,
    ) -> list[Hit]:
        """The best ``top_k`` chunks (fewer when there are fewer), best first, equal scores by id.

        Without ``text`` the score is the cosine. With it, the cosine ranking is fused with the BM25
        ranking of the text, and the score is the fused one.

        Args:
            where: Field of a chunk (``corpus``, ``doc_id``, ``kind``, ``section_id`` ...) to the value,
                or the list of values, that it must have.
        """
        if isinstance(top_k, bool) or not isinstance(top_k, int | np.integer) or top_k < 1:
            raise ValueError(f"top_k={top_k!r} must be an integer of at least 1")
        if text is not None and not isinstance(text, str):
            raise ValueError(f"text={text!r} must be a string")
        if text is not None:
            pt.check_unicode(text, "text")
        wanted = pt.normal_where(where)
        self._refuse_closed("search")
        if self._dim is None:
            return []
        query = pt.unit_rows([vector], dim=self._dim, n_rows=1, collection=self._name, name="query")[0]
        with self._using("search"):
            if not all(wanted.values()) or not (n_chunks := self._engine.count("chunks", {})):
                return []
            depth = min(int(top_k) if text is None else max(2 * int(top_k), _FUSED_DEPTH), n_chunks)
            dense = _ranked(lambda n: self._engine.dense(query, n, wanted), depth, n_chunks)
            rankings = {"dense": dense}
            best = [(chunk_id, score) for chunk_id, (score, _) in dense.items()]
            if text is not None and (terms := query_terms(text)).indices:
                rankings["lexical"] = _ranked(
                    lambda n: self._engine.lexical(terms, n, wanted), depth, n_chunks
                )
                best = fuse_ids(*rankings.values())
        hits = []
        for rank, (chunk_id, score) in enumerate(best[: int(top_k)], start=1):
            found = {name: ranking[chunk_id] for name, ranking in rankings.items() if chunk_id in ranking}
            _, payload = next(iter(found.values()))
            hits.append(pt.to_hit(payload, score=score, rank=rank, retriever="+".join(found)))
        return hits

    def get(self, chunk_id: pt.Id) -> Chunk | None:
        """The chunk of an id, None where there is none."""
        key = pt.point_id(pt.encode_id(chunk_id, "chunk_id"))
        with self._using("get"):
            found = self._engine.retrieve("chunks", [key]) if self._dim is not None else []
        return pt.to_chunk(found[0]) if found else None

    def count(self) -> int:
        """Number of chunks."""
        with self._using("count"):
            return self._engine.count("chunks", {}) if self._dim is not None else 0

    def __iter__(self) -> Iterator[Chunk]:
        """The chunks in the order of document ids, and inside a document in reading order."""
        with self._using("iteration"):
            order = []
            if self._dim is not None:
                fields = ("doc_id", "start", "chunk_id")
                order = [
                    (payload["doc_id"], payload.get("start", 0), payload["chunk_id"], key)
                    for key, payload in self._engine.scroll("chunks", {}, fields)
                ]
            order.sort()
        for start in range(0, len(order), _READ_AT_ONCE):
            with self._using("iteration"):
                part = order[start : start + _READ_AT_ONCE]
                found = self._engine.retrieve("chunks", [key for *_, key in part])
                payloads = {payload["chunk_id"]: payload for payload in found}
            for _, _, chunk_id, _ in part:
                if chunk_id in payloads:
                    yield pt.to_chunk(payloads[chunk_id])

    def close(self) -> None:
        """Let go of the files or the connection; closing again does nothing."""
        if not self._closed:
            self._closed = True
            self._engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"dim={self._dim}"
        return f"<{type(self).__name__} {self._name}, {state}>"


def _ranked(query: Callable[[int], list[Row]], top_k: int, n_chunks: int) -> dict[str, Row]:
    """Rows by chunk id, by falling rounded score, then by id; reads on while a tie crosses the cut."""
    limit = min(top_k + 16, n_chunks)
    rows = query(limit)
    while len(rows) == limit < n_chunks and round(rows[-1][0], 6) == round(rows[top_k - 1][0], 6):
        limit = min(4 * limit, n_chunks)
        rows = query(limit)
    # Adding 0.0 makes -0.0 a plain zero.
    best = sorted((-round(score, 6) + 0.0, payload["chunk_id"], payload) for score, payload in rows)[:top_k]
    return {chunk_id: (-score + 0.0, payload) for score, chunk_id, payload in best}


def _settings_message(name: str, stored: Mapping[str, Any] | None, wanted: Mapping[str, Any]) -> str:
    if stored is None:
        return f"{name} was built without settings, so it cannot be said to match {wanted}; index it again"
    differ = [
        f"{key}={stored.get(key)!r} stored, {wanted.get(key)!r} asked"
        for key in sorted({*stored, *wanted})
        if stored.get(key) != wanted.get(key)
    ]
    return (
        f"{name} was built with other settings ({'; '.join(differ)}): "
        "ask for the stored ones, or index again under another collection name"
    )
