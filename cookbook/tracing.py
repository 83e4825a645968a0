"""Spans of a run -> nothing, or a line each on the console.

Tracing is off by default. ``COOKBOOK_TRACING=console`` prints every span when it ends.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

MODES = ("off", "console")
_mode = "off"


@dataclass(slots=True)
class StageSpan:
    """One timed stage; ``seconds`` is set when the stage ends."""

    name: str
    seconds: float = 0.0


def init_tracing(mode: str | None = None) -> str:
    """Switch tracing on or off and return a line to print.

    Args:
        mode: ``off`` or ``console``; by default the variable COOKBOOK_TRACING, else ``off``.

    Raises:
        ValueError: another mode was asked for.

    >>> init_tracing("off")
    'tracing: off'
    """
    global _mode
    asked = mode or os.environ.get("COOKBOOK_TRACING") or "off"
    if asked not in MODES:
        raise ValueError(
            f"tracing mode {asked!r} is unknown; COOKBOOK_TRACING takes one of {', '.join(MODES)}"
        )
    _mode = asked
    return f"tracing: {_mode}"


@contextmanager
def stage(name: str, **attributes: object) -> Iterator[StageSpan]:
    """Time the body of a ``with`` statement, and print it when tracing is on.

    >>> with stage("search", top_k=8) as span:
    ...     pass
    >>> span.seconds >= 0
    True
    """
    span = StageSpan(name)
    begun = time.perf_counter()
    try:
        yield span
    finally:
        span.seconds = time.perf_counter() - begun
        if _mode == "console":
            extra = "".join(f" {key}={value}" for key, value in attributes.items())
            print(f"{name:<8} {span.seconds * 1000:8.1f} ms{extra}", file=sys.stderr)
