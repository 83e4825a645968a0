"""Points -> tables, a query -> scored payloads: what a store asks of an engine, and qdrant-client as one.

``chunks`` holds what is searched; ``pages`` holds documents, parents and the collection's settings,
which have no vectors. A filter is a mapping of payload field to the list of values it may have.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from .lexical import Terms
from .points import MAX_BATCH_POINTS, Point

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
    """A Qdrant server or cluster, or what qdrant-client keeps in memory.

    Args:
        exact: whether a server compares every vector; None for the client's memory, where search is always
            exact and there are no indexes of payloads.
    """

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
        if self._params is None:
            return
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

    def _vectors(self, point: Point) -> dict[str, Any]:
        vectors: dict[str, Any] = {}
        if point.vector is not None:
            vectors["dense"] = point.vector.tolist()
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
