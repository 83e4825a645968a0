"""Points -> tables, a query -> scored payloads: what a store asks of an engine, and Qdrant's client as one.

``chunks`` holds what is searched; ``pages`` holds documents, parents and the collection's settings,
which have no vectors. A filter is a mapping of payload field to the list of values it may have.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from .lexical import Postings, Terms
from .points import MAX_BATCH_POINTS, Point, matches

Where = Mapping[str, Collection[Any]]
Row = tuple[float, dict[str, Any]]


class Engine(Protocol):
    """What a store needs from an engine."""

    def has_chunks(self) -> bool:
        """Whether the table of chunks exists."""

    def create_chunks(self, dim: int) -> None:
        """Make the table of chunks."""

    def upsert(self, table: str, points: Sequence[Point]) -> None:
        """Write points; those with a known id are replaced."""

    def delete(self, table: str, ids: Sequence[str]) -> None:
        """Remove points; unknown ids are ignored."""

    def retrieve(self, table: str, ids: Sequence[str]) -> list[dict[str, Any]]:
        """Payloads of the ids that exist."""

    def scroll(self, table: str, where: Where, fields: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
        """Ids and the named payload fields of every point that matches."""

    def count(self, table: str, where: Where) -> int:
        """Number of points that match."""

    def dense(self, vector: np.ndarray, limit: int, where: Where) -> list[Row]:
        """Best chunks by cosine; the payloads are only read."""

    def lexical(self, terms: Terms, limit: int, where: Where) -> list[Row]:
        """Best chunks by BM25; the payloads are only read."""

    def flush(self) -> None:
        """Make what was written durable."""

    def close(self) -> None:
        """Let go of files and connections."""


class QdrantEngine:
    """A Qdrant server or cluster, over qdrant-client."""

    def __init__(self, client: Any, collection: str, *, exact: bool | None) -> None:
        from qdrant_client import models

        self._client = client
        self._models = models
        self._names = {"chunks": collection, "pages": f"{collection}-pages"}
        self._params = None if exact is None else models.SearchParams(exact=exact)
        if not client.collection_exists(self._names["pages"]):
            client.create_collection(self._names["pages"], vectors_config={})
            self._index("pages", ("doc_id",))

    def _index(self, table: str, fields: Sequence[str]) -> None:
        for field in fields:
            self._client.create_payload_index(
                self._names[table], field, field_schema=self._models.PayloadSchemaType.KEYWORD
            )

    def has_chunks(self) -> bool:
        return bool(self._client.collection_exists(self._names["chunks"]))

    def create_chunks(self, dim: int) -> None:
        models = self._models
        self._client.create_collection(
            self._names["chunks"],
            vectors_config={"dense": models.VectorParams(size=dim, distance=models.Distance.DOT)},
            sparse_vectors_config={"bm25": models.SparseVectorParams(modifier=models.Modifier.IDF)},
        )
        self._index("chunks", ("doc_id", "corpus"))

    def _sent(self, vector: np.ndarray) -> Any:
        """A vector as the client takes it."""
        return vector.tolist()

    def _vectors(self, point: Point) -> dict[str, Any]:
        vectors: dict[str, Any] = {}
        if point.vector is not None:
            vectors["dense"] = self._sent(point.vector)
        if point.terms is not None and point.terms.indices:
            vectors["bm25"] = self._models.SparseVector(
                indices=point.terms.indices, values=point.terms.values
            )
        return vectors

    def upsert(self, table: str, points: Sequence[Point]) -> None:
        # (Without a second validation: to check each number of a vector takes a fifth of the time.)
        records = [
            self._models.PointStruct.model_construct(
                id=point.id, payload=point.payload, vector=self._vectors(point)
            )
            for point in points
        ]
        self._client.upsert(self._names[table], records, wait=True)

    def delete(self, table: str, ids: Sequence[str]) -> None:
        self._client.delete(self._names[table], list(ids), wait=True)

    def retrieve(self, table: str, ids: Sequence[str]) -> list[dict[str, Any]]:
        return [record.payload for record in self._client.retrieve(self._names[table], list(ids))]

    def _filter(self, where: Where) -> Any:
        models = self._models
        must = [
            models.FieldCondition(key=field, match=models.MatchAny(any=list(values)))
            for field, values in where.items()
        ]
        return models.Filter(must=must) if must else None

    def scroll(self, table: str, where: Where, fields: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
        offset = None
        while True:
            records, offset = self._client.scroll(
                self._names[table],
                scroll_filter=self._filter(where),
                limit=MAX_BATCH_POINTS,
                offset=offset,
                with_payload=list(fields),
            )
            for record in records:
                yield str(record.id), record.payload
            if offset is None:
                return

    def count(self, table: str, where: Where) -> int:
        return int(self._client.count(self._names[table], count_filter=self._filter(where)).count)

    def _query(self, query: Any, using: str, limit: int, where: Where) -> list[Row]:
        reply = self._client.query_points(
            self._names["chunks"],
            query=query,
            using=using,
            limit=limit,
            query_filter=self._filter(where),
            search_params=self._params,
        )
        return [(point.score, point.payload) for point in reply.points]

    def dense(self, vector: np.ndarray, limit: int, where: Where) -> list[Row]:
        return self._query(vector.tolist(), "dense", limit, where)

    def lexical(self, terms: Terms, limit: int, where: Where) -> list[Row]:
        query = self._models.SparseVector(indices=terms.indices, values=terms.values)
        return self._query(query, "bm25", limit, where)

    def flush(self) -> None:
        """Nothing to do: every write waits for the server."""

    def close(self) -> None:
        self._client.close()


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


class MemoryEngine(QdrantEngine):
    """qdrant-client's in-memory mode, with indexes of its own for searching and for listing.

    The client converts all vectors at each search, scores sparse vectors and filters in plain Python, and
    copies payloads deeply: a matrix, an inverted index and a dict beside it do that faster. It also warns
    above 20,000 points that a server is faster; that warning is left out here, since the store's
    documentation says it.
    """

    def __init__(self, collection: str) -> None:
        from qdrant_client import QdrantClient

        self._vectors_by_id = Vectors()
        self._postings = Postings()
        self._payloads: dict[str, dict[str, dict[str, Any]]] = {"chunks": {}, "pages": {}}
        super().__init__(QdrantClient(":memory:"), collection, exact=None)  # it knows no other search

    def _index(self, table: str, fields: Sequence[str]) -> None:
        """Nothing to do: the client has no payload indexes in memory."""

    def _sent(self, vector: np.ndarray) -> Any:
        """The vector itself: the client would make an array of a list twice."""
        return vector

    def upsert(self, table: str, points: Sequence[Point]) -> None:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Local mode is not recommended")
            super().upsert(table, [point._replace(terms=None) for point in points])
        for point in points:
            self._payloads[table][point.id] = point.payload
            if point.vector is not None and point.terms is not None:
                self._vectors_by_id.put(point.id, point.vector)
                self._postings.put(point.id, point.terms)

    def delete(self, table: str, ids: Sequence[str]) -> None:
        super().delete(table, ids)
        for key in ids:
            self._payloads[table].pop(key, None)
            if table == "chunks":
                self._vectors_by_id.remove(key)
                self._postings.remove(key)

    def retrieve(self, table: str, ids: Sequence[str]) -> list[dict[str, Any]]:
        payloads = self._payloads[table]
        return [payloads[key] for key in ids if key in payloads]

    def scroll(self, table: str, where: Where, fields: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
        wanted = {field: frozenset(values) for field, values in where.items()}
        for key, payload in self._payloads[table].items():
            if matches(payload, wanted):
                yield key, payload

    def _allowed(self, where: Where) -> frozenset[str] | None:
        return frozenset(key for key, _ in self.scroll("chunks", where, ())) if where else None

    def dense(self, vector: np.ndarray, limit: int, where: Where) -> list[Row]:
        found = self._vectors_by_id.search(vector, limit=limit, allowed=self._allowed(where))
        return [(score, self._payloads["chunks"][key]) for key, score in found]

    def lexical(self, terms: Terms, limit: int, where: Where) -> list[Row]:
        found = self._postings.search(terms, limit=limit, allowed=self._allowed(where))
        return [(score, self._payloads["chunks"][key]) for key, score in found]
