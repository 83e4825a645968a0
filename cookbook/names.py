"""A sentence or a heading path -> the names of functions, classes and fields that it spells as code."""

from __future__ import annotations

import re
from functools import lru_cache

# `x`, a.b, a::b, a_b and a(.
_CODE = re.compile(r"(?<=`)[\w.:]+(?=`)|\w+(?:(?:\.|::)\w+)+|\w*_\w+|\w+(?=\()")


def spelled(text: str) -> frozenset[str]:
    """The names that a text spells as code, in lower case; of a path such as ``a.b`` the last part.

    >>> sorted(spelled("Does `ffill` or df.DropNa(how='all') look at fill_value?"))
    ['dropna', 'ffill', 'fill_value']
    """
    return frozenset(_last_part(code) for code in _CODE.findall(text))


@lru_cache(maxsize=16_384)
def titled(heading: str) -> frozenset[str]:
    """The titles of a heading path that are one word, each by its last part: what may be a name.

    >>> sorted(titled("Series > Series.map > See also"))
    ['map', 'series']
    """
    return frozenset(_last_part(title) for title in heading.split(" > ") if title and " " not in title)


def _last_part(name: str) -> str:
    return re.split(r"\.|::", name.strip("`.:()").lower())[-1]
