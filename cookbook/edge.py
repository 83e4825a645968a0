"""Points -> a folder, a query -> scored payloads: qdrant-edge, Qdrant's own engine inside the process."""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .engines import Row, Where
from .errors import StoreError, StoreLockedError
from .lexical import Terms
from .points import MAX_BATCH_POINTS, Point

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl


def lock(path: Path) -> int:
    """Hold a file for one opener; the returned descriptor lets go when it is closed, or with the process.

    Raises:
        BlockingIOError: another opener holds it, in this process or in another.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        if sys.platform == "win32":
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise BlockingIOError(f"{path} is locked") from None
    return descriptor


class EdgeEngine:
    """One shard for the chunks and one for the pages, held by one opener at a time.

    The inverse document frequencies count deleted points until the shard is loaded again, so the first
    lexical search after a deletion loads it again (measured: 0.6 s for 20,000 chunks).
    """

    def __init__(self, folder: Path, *, name: str, exact: bool) -> None:
        import qdrant_edge

        self._edge = qdrant_edge
        self._folder = folder
        self._params = qdrant_edge.SearchParams(exact=exact)
        self._shards: dict[str, Any] = {}
        self._stale = False
        try:
            folder.mkdir(parents=True, exist_ok=True)
            # Edge has a lock of its own, but a second opener removes a journal before it meets that.
            self._unlock = weakref.finalize(self, os.close, lock(folder / "lock"))
        except BlockingIOError:
            raise StoreLockedError(
                f"{name} is open already, in this process or in another: call close() on the store that "
                "holds it, or open it with `with open_store(...) as store:`; deleting files does not help"
            ) from None
        except OSError as error:
            raise StoreError(f"{name} cannot be made: {error}") from error
        try:
            self._open("pages", dim=None)
            if self._exists("chunks"):
                self._open("chunks", dim=None)
        except BaseException:
            self.close()
            raise

    def _exists(self, table: str) -> bool:
        return (self._folder / table / "edge_config.json").exists()

    def _open(self, table: str, *, dim: int | None) -> None:
        edge, folder = self._edge, self._folder / table
        if self._exists(table):
            self._shards[table] = edge.EdgeShard.load(str(folder))
            return
        vectors = {"dense": edge.EdgeVectorParams(size=dim, distance=edge.Distance.Dot)} if dim else None
        # A shard must have some kind of vector; the points of the pages leave it out.
        sparse = {"bm25": edge.EdgeSparseVectorParams(modifier=edge.Modifier.Idf)}
        folder.mkdir(exist_ok=True)
        config = edge.EdgeConfig(vectors=vectors, sparse_vectors=sparse)
        self._shards[table] = edge.EdgeShard.create(str(folder), config)

    def has_chunks(self) -> bool:
        return "chunks" in self._shards

    def create_chunks(self, dim: int) -> None:
        self._open("chunks", dim=dim)
        keyword = self._edge.PayloadSchemaType.Keyword
        self._shards["chunks"].update(self._edge.UpdateOperation.create_field_index("doc_id", keyword))

    def _vectors(self, point: Point) -> dict[str, Any]:
        vectors: dict[str, Any] = {}
        if point.vector is not None:
            vectors["dense"] = point.vector.tolist()
        if point.terms is not None and point.terms.indices:
            vectors["bm25"] = point.terms
        return vectors

    def upsert(self, table: str, points: Sequence[Point]) -> None:
        records = [self._edge.Point(point.id, self._vectors(point), point.payload) for point in points]
        self._shards[table].update(self._edge.UpdateOperation.upsert_points(records))

    def delete(self, table: str, ids: Sequence[str]) -> None:
        self._shards[table].update(self._edge.UpdateOperation.delete_points(list(ids)))
        self._stale = self._stale or table == "chunks"

    def retrieve(self, table: str, ids: Sequence[str]) -> list[dict[str, Any]]:
        records = self._shards[table].retrieve(list(ids), with_payload=True, with_vector=False)
        return [record.payload for record in records]

    def _filter(self, where: Where) -> Any:
        edge = self._edge
        must = [
            edge.FieldCondition(key=field, match=edge.MatchAny(list(values)))
            for field, values in where.items()
        ]
        return edge.Filter(must=must) if must else None

    def scroll(self, table: str, where: Where, fields: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
        offset = None
        while True:
            request = self._edge.ScrollRequest(
                limit=MAX_BATCH_POINTS, offset=offset, filter=self._filter(where), with_payload=list(fields)
            )
            records, offset = self._shards[table].scroll(request)
            for record in records:
                yield str(record.id), record.payload
            if offset is None:
                return

    def count(self, table: str, where: Where) -> int:
        return int(self._shards[table].count(self._edge.CountRequest(filter=self._filter(where))))

    def _query(self, query: Any, limit: int, where: Where) -> list[Row]:
        request = self._edge.QueryRequest(
            query=query, limit=limit, filter=self._filter(where), with_payload=True, params=self._params
        )
        return [(point.score, point.payload) for point in self._shards["chunks"].query(request)]

    def dense(self, vector: np.ndarray, limit: int, where: Where) -> list[Row]:
        return self._query(self._edge.Query.Nearest(vector.tolist(), using="dense"), limit, where)

    def lexical(self, terms: Terms, limit: int, where: Where) -> list[Row]:
        if self._stale:
            self._shards["chunks"].close()
            self._open("chunks", dim=None)
            self._stale = False
        query: Any = terms
        return self._query(self._edge.Query.Nearest(query, using="bm25"), limit, where)

    def optimize(self) -> None:
        """Merge segments and build the graph that approximate search uses."""
        self._shards["chunks"].optimize()

    def flush(self) -> None:
        for shard in self._shards.values():
            shard.flush()

    def close(self) -> None:
        for shard in self._shards.values():
            shard.close()
        self._unlock()
