"""A dict, a key and a value in -> the value kept, and the oldest of what is kept dropped above a limit."""

from __future__ import annotations

import threading
from typing import TypeVar

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")
_LOCK = threading.Lock()  # to look for the oldest fails where another thread keeps something meanwhile


def keep(memory: dict[_Key, _Value], key: _Key, value: _Value, *, limit: int) -> _Value:
    """The value, kept for the next time; any thread may keep something.

    >>> memory = {"a": 1, "b": 2}
    >>> keep(memory, "c", 3, limit=2), memory
    (3, {'b': 2, 'c': 3})
    """
    with _LOCK:
        while len(memory) >= limit:
            memory.pop(next(iter(memory)))
        memory[key] = value
    return value
