"""Ids in -> the documents and parents that a collection keeps, read from it when they are asked for."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from . import points as pt

if TYPE_CHECKING:
    from .collection import Collection

T = TypeVar("T")

CACHED_PAGES = 128


class Pages(Mapping[Any, T]):
    """A read-only mapping over the documents or the parents; the last 128 that were read are kept."""

    def __init__(self, store: Collection, record: str, id_field: str, build: Callable[[Any], T]) -> None:
        self._store = store
        self._record = record
        self._id_field = id_field
        self._build = build
        self._kept: OrderedDict[tuple[type, str], T] = OrderedDict()

    def forget(self) -> None:
        """Drop what is kept, since the collection has changed."""
        self._kept.clear()

    def __getitem__(self, name: Any) -> T:
        action = f"reading a {self._record}"
        self._store._refuse_closed(action)
        key = type(name), repr(name)  # True, 1, 1.0 and "1" are four ids
        if (page := self._kept.get(key)) is None:
            try:
                stored_id = pt.encode_id(name)
            except ValueError:
                raise KeyError(name) from None
            with self._store._using(action):
                found = self._store._engine.retrieve("pages", [pt.point_id(stored_id, self._record)])
            if not found:
                raise KeyError(name)
            page = self._kept[key] = self._build(found[0])
            if len(self._kept) > CACHED_PAGES:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return page

    def __iter__(self) -> Iterator[Any]:
        with self._store._using(f"listing each {self._record}"):
            where = {"record": [self._record]}
            found = self._store._engine.scroll("pages", where, (self._id_field,))
            names = sorted(payload[self._id_field] for _, payload in found)
        return iter([pt.decode_id(name) for name in names])

    def __len__(self) -> int:
        with self._store._using(f"counting each {self._record}"):
            return self._store._engine.count("pages", {"record": [self._record]})
