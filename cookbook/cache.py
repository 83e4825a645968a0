"""(provider, model, text) -> vector, kept on disk between runs."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


class VectorCache:
    """Vectors by content in one SQLite file: two processes may share it, and a kill loses no commit.

    The key is provider, model and the SHA-256 of the text, so an edited text or another model never
    finds an old vector.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, VectorCache(Path(folder) / "v.sqlite") as cache:
    ...     cache.put("local", "m", ["a"], np.ones((1, 2), dtype=np.float32))
    ...     [None if row is None else row.tolist() for row in cache.get("local", "m", ["a", "b"])]
    [[1.0, 1.0], None]
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            # The time-out is how long one process waits for the other's commit.
            self._db = sqlite3.connect(self.path, timeout=30.0)
        except sqlite3.OperationalError as error:
            raise ValueError(f"cache={str(path)!r} must be a file, not a folder ({error})") from error
        try:
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute(
                "CREATE TABLE IF NOT EXISTS vectors (provider TEXT, model TEXT, sha256 BLOB, vector BLOB, "
                "PRIMARY KEY (provider, model, sha256)) WITHOUT ROWID"
            )
            # A table of this name with other columns is somebody else's.
            self._db.execute("SELECT provider, model, sha256, vector FROM vectors LIMIT 0")
        except sqlite3.DatabaseError as error:
            self._db.close()
            raise ValueError(f"cache={str(path)!r} must be a vector cache or a new file ({error})") from error

    def get(self, provider: str, model: str, texts: Sequence[str]) -> list[NDArray[np.float32] | None]:
        """For each text its vector, or None where the cache holds none."""
        found: list[NDArray[np.float32] | None] = []
        for text in texts:
            row = self._db.execute(
                "SELECT vector FROM vectors WHERE provider = ? AND model = ? AND sha256 = ?",
                (provider, model, _digest(text)),
            ).fetchone()
            found.append(None if row is None else np.frombuffer(row[0], dtype="<f4"))
        return found

    def put(self, provider: str, model: str, texts: Sequence[str], vectors: NDArray[np.float32]) -> None:
        """Store one vector a text in one transaction; the same key again replaces it."""
        rows = [
            (provider, model, _digest(text), vector.astype("<f4").tobytes())
            for text, vector in zip(texts, vectors, strict=True)
        ]
        with self._db:
            self._db.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?, ?)", rows)

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8")).digest()
