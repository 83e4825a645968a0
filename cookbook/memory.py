"""Points -> dicts, a matrix and an inverted index in this process; a query -> scored payloads, exact.

The engine of stores in memory. qdrant-client has a memory of its own (``QdrantBackend`` takes it where no
server is named), which is for trying its calls: over 20,000 chunks it takes 210 ms to rank by BM25 and this
engine 2, and to load the client takes longer than to index a small corpus.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from threading import RLock
from typing import Any

import numpy as np

from .engines import Row, Where
from .lexical import Postings, Terms
from .points import Point, matches


class Vectors:
    """Unit vectors by key, stacked at the first search after a change; the search is exact.

    >>> vectors = Vectors()
    >>> vectors.put("a", np.array([1.0, 0.0], dtype=np.float32))
    >>> vectors.put("b", np.array([0.6, 0.8], dtype=np.float32))
    >>> [(key, round(score, 6)) for key, score in vectors.search(np.array([0, 1], np.float32), limit=1)]
    [('b', 0.8)]
    """

    # The cosines of two candidates in single precision are off by less than this together.
    _MARGIN = 1e-4

    def __init__(self) -> None:
        self._rows: dict[str, np.ndarray] = {}
        self._built: tuple[list[str], np.ndarray] | None = None

    def put(self, key: str, vector: np.ndarray) -> None:
        """Store or replace one vector."""
        self._rows[key] = vector
        self._built = None

    def remove(self, key: str) -> None:
        """Forget one vector; nothing happens when it is not there."""
        self._rows.pop(key, None)
        self._built = None

    def search(
        self, vector: np.ndarray, *, limit: int, allowed: Collection[str] | None = None
    ) -> list[tuple[str, float]]:
        """The best ``limit`` keys, each with its cosine in double precision."""
        if not self._rows:
            return []
        if self._built is None:
            self._built = list(self._rows), np.stack(list(self._rows.values()))
            self._rows = dict(zip(*self._built, strict=True))  # views: each vector is kept once
        keys, matrix = self._built
        found = np.arange(len(keys))
        if allowed is not None:
            found = np.array([row for row in found if keys[row] in allowed], dtype=np.intp)
        if len(found) > limit:
            rough = (matrix @ vector)[found]
            found = found[rough >= np.partition(rough, -limit)[-limit] - self._MARGIN]
        scores = matrix[found].astype(np.float64) @ vector.astype(np.float64)
        best = np.argsort(-scores, kind="stable")[:limit]
        return [(keys[found[place]], float(scores[place])) for place in best]


class MemoryEngine:
    """What is stored, in dicts; chunks also in the two indexes that are searched. Threads may share it."""

    def __init__(self) -> None:
        self._payloads: dict[str, dict[str, dict[str, Any]]] = {"pages": {}}
        self._vectors = Vectors()
        self._postings = Postings()
        # The indexes are built at the first search after a change, which another thread may make meanwhile.
        self._lock = RLock()

    def has_chunks(self) -> bool:
        return "chunks" in self._payloads

    def create_chunks(self, dim: int) -> None:
        self._payloads["chunks"] = {}

    def upsert(self, table: str, points: Sequence[Point]) -> None:
        with self._lock:
            for point in points:
                self._payloads[table][point.id] = point.payload
                if point.vector is not None and point.terms is not None:
                    self._vectors.put(point.id, point.vector)
                    self._postings.put(point.id, point.terms)

    def delete(self, table: str, ids: Sequence[str]) -> None:
        with self._lock:
            for key in ids:
                self._payloads[table].pop(key, None)
                if table == "chunks":
                    self._vectors.remove(key)
                    self._postings.remove(key)

    def retrieve(self, table: str, ids: Sequence[str]) -> list[dict[str, Any]]:
        payloads = self._payloads[table]
        return [payload for key in ids if (payload := payloads.get(key)) is not None]

    def _matching(self, table: str, where: Where) -> list[tuple[str, dict[str, Any]]]:
        wanted = {field: frozenset(values) for field, values in where.items()}
        with self._lock:
            return [
                (key, payload) for key, payload in self._payloads[table].items() if matches(payload, wanted)
            ]

    def scroll(self, table: str, where: Where, fields: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
        return iter(self._matching(table, where))

    def count(self, table: str, where: Where) -> int:
        return len(self._matching(table, where)) if where else len(self._payloads[table])

    def _allowed(self, where: Where) -> frozenset[str] | None:
        return frozenset(key for key, _ in self._matching("chunks", where)) if where else None

    def dense(self, vector: np.ndarray, limit: int, where: Where) -> list[Row]:
        with self._lock:
            found = self._vectors.search(vector, limit=limit, allowed=self._allowed(where))
            return [(score, self._payloads["chunks"][key]) for key, score in found]

    def lexical(self, terms: Terms, limit: int, where: Where) -> list[Row]:
        with self._lock:
            found = self._postings.search(terms, limit=limit, allowed=self._allowed(where))
            return [(score, self._payloads["chunks"][key]) for key, score in found]

    def flush(self) -> None:
        """Nothing to do: what is stored is gone with the store."""

    def close(self) -> None:
        """Let go of what is stored."""
        with self._lock:
            self._payloads = {}
            self._vectors, self._postings = Vectors(), Postings()
