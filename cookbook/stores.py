"""Chunks and their vectors in, a query vector -> Hits; documents and parents are kept beside them.

Three engines, one behaviour: this process's memory, qdrant-edge (Qdrant's engine inside the process) in a
folder, and a Qdrant server through qdrant-client. The same calls give the same ranking in each, to the sixth
decimal of a score, because search is exact unless asked otherwise, vectors are brought to length 1 before
they are stored, and ties are broken by id.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from .collection import Collection
from .edge import EdgeEngine
from .engines import Engine, QdrantEngine
from .memory import MemoryEngine
from .types import Chunk, Hit

_TIMEOUT_S = 60  # a request of 16 MiB takes a busy server longer than the client's 5 s


class Store(Protocol):
    """What the pipeline needs from a store."""

    def add(self, chunks: Sequence[Chunk], vectors: Any) -> None:
        """Store chunks; row i of ``vectors`` belongs to chunk i."""

    def search(
        self,
        vector: Any,
        *,
        top_k: int,
        text: str | None = None,
        where: Mapping[str, Any] | None = None,
    ) -> list[Hit]:
        """The best ``top_k`` chunks for a query vector."""


class MemoryBackend(Collection):
    """A collection in this process's memory, its own and gone when it is dropped.

    Search is exact and reads every vector: good for tens of thousands of chunks. Use a folder
    (``EdgeBackend``) or a server for more.

    Args:
        dim: Size of the vectors; None takes that of the first vectors added.
        settings: What the collection is built with (chunker, sizes, embedder), as JSON values; a collection
            with chunks that was built with others is refused.

    >>> store = MemoryBackend("toy")
    >>> store.add(["red", "blue"], [[1, 0], [0, 1]], ids=["r", "b"])
    >>> [(hit.chunk_id, hit.score) for hit in store.search([3, 4], top_k=2)]
    [('b', 0.8), ('r', 0.6)]
    """

    def __init__(
        self, collection: str, dim: int | None = None, *, settings: Mapping[str, Any] | None = None
    ) -> None:
        _check_name(collection)
        super().__init__(f"collection {collection!r} in memory", MemoryEngine, dim, settings)


class QdrantBackend(Collection):
    """A collection on a Qdrant server or cluster, or in the memory of qdrant-client.

    In memory the client runs a server's calls without one, each store its own. It is slower than
    ``MemoryBackend`` and warns above 20,000 chunks.

    Args:
        dim: Size of the vectors; None takes the collection's, or that of the first vectors added.
        location: ``:memory:`` or a URL; None takes ``QDRANT_URL``, or memory when that is not set.
        api_key: For a server; None takes ``QDRANT_API_KEY``.
        settings: As for ``MemoryBackend``.
        exact: Whether a server compares every vector; False takes its graph, faster and approximate.
    """

    def __init__(
        self,
        collection: str,
        dim: int | None = None,
        *,
        location: str | None = None,
        api_key: str | None = None,
        settings: Mapping[str, Any] | None = None,
        exact: bool = True,
    ) -> None:
        _check_name(collection)
        place = location or os.environ.get("QDRANT_URL") or ":memory:"

        def make() -> Engine:
            from qdrant_client import QdrantClient

            if place == ":memory:":
                return QdrantEngine(QdrantClient(place), collection, exact=None)
            key = api_key or os.environ.get("QDRANT_API_KEY") or None
            client = QdrantClient(url=place, api_key=key, timeout=_TIMEOUT_S, check_compatibility=False)
            return QdrantEngine(client, collection, exact=exact)

        where = "in qdrant-client's memory" if place == ":memory:" else f"at {place}"
        super().__init__(f"collection {collection!r} {where}", make, dim, settings)


class EdgeBackend(Collection):
    """A collection in a folder, kept by Qdrant's own engine in this process.

    One opener at a time; ``close()`` or a ``with`` block lets go.
    After deletions BM25 scores of an optimized shard keep counting deleted chunks until the next
    ``optimize()``.

    Args:
        path: The folder; each collection is a folder inside it.
        dim: As for ``QdrantBackend``, like ``settings`` and ``exact``.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        dim: int | None = None,
        *,
        collection: str = "cookbook",
        settings: Mapping[str, Any] | None = None,
        exact: bool = True,
    ) -> None:
        _check_name(collection)
        folder = Path(path).expanduser() / collection
        name = f"collection {collection!r} in {Path(path).expanduser()}"
        super().__init__(name, lambda: EdgeEngine(folder, name=name, exact=exact), dim, settings)

    def optimize(self) -> None:
        """Merge segments and build the graph that ``exact=False`` searches, for large stores."""
        with self._using("optimize"):
            if self._dim is not None and isinstance(self._engine, EdgeEngine):
                self._engine.optimize()


def _check_name(collection: str) -> None:
    # A folder is named after it: a path would lead out of the store's own.
    if not collection.strip() or collection in (".", "..") or set(collection) & set("/\\"):
        raise ValueError(f"collection={collection!r} must be a name, not empty and not a path")


def open_store(
    location: str | os.PathLike[str] = ":memory:",
    *,
    collection: str = "cookbook",
    dim: int | None = None,
    settings: Mapping[str, Any] | None = None,
    exact: bool = True,
) -> MemoryBackend | QdrantBackend | EdgeBackend:
    """The store of a place: ``:memory:``, the URL of a Qdrant server, or a folder.

    >>> with open_store() as store:
    ...     store.count()
    0
    """
    place = os.fspath(location)
    if not place:
        raise ValueError(f"location={location!r} must be ':memory:', a URL or a folder")
    if place == ":memory:":
        return MemoryBackend(collection, dim, settings=settings)
    if place.startswith(("http://", "https://")):
        return QdrantBackend(collection, dim, location=place, settings=settings, exact=exact)
    return EdgeBackend(place, dim, collection=collection, settings=settings, exact=exact)
