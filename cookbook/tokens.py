"""Text -> exact token counts, and the places where a text can be cut under a limit in tokens.

Every limit of the package counts tokens of one named encoding. ``cl100k_base`` comes with an installed
package, so it needs no download. Text that spells a control token (``<|endoftext|>``) is ordinary text.
"""

from __future__ import annotations

import threading
import warnings
from array import array
from bisect import bisect_left, bisect_right
from functools import lru_cache
from itertools import accumulate, islice
from typing import TYPE_CHECKING, Any

from .errors import MissingDataError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tiktoken import Encoding

DEFAULT_ENCODING = "cl100k_base"
"""The encoding of every limit that names none."""

MIN_LIMIT = 4
"""The smallest limit that can always be kept: one code point takes up to 4 tokens."""

DOWNLOAD_TIMEOUT_S = 20.0
"""How long a vocabulary that is not on this machine may take to arrive."""

_SEGMENT = 1 << 17  # characters encoded in one call: bounds the memory for one giant document
_ENCODINGS: dict[str, Encoding] = {}
_WARNED: set[str] = set()


def get_encoding(name: str = DEFAULT_ENCODING) -> Encoding:
    """The tiktoken encoding of that name, from an installed package before a download.

    Raises:
        ValueError: tiktoken knows no encoding of that name.
        MissingDataError: its vocabulary is not on this machine and cannot be fetched.

    >>> get_encoding("cl100k_base").encode_ordinary("tea kettle")
    [82694, 73418]
    """
    encoding = _ENCODINGS.get(name)
    if encoding is None:
        encoding = _ENCODINGS[name] = _load(name)
    return encoding


def _load(name: str) -> Encoding:
    import tiktoken
    import tiktoken.registry

    known = tiktoken.list_encoding_names()
    constructors = tiktoken.registry.ENCODING_CONSTRUCTORS or {}
    constructor = constructors.get(f"{name}_offline") or constructors.get(name)
    if constructor is None:
        raise ValueError(f"encoding={name!r} must be one of {', '.join(sorted(known))}")
    loaded: list[Any] = []

    def fetch() -> None:
        try:
            loaded.append(tiktoken.Encoding(**constructor()))
        except Exception as error:
            loaded.append(error)

    # tiktoken downloads without a deadline, so it works in a thread that can be left behind.
    thread = threading.Thread(target=fetch, daemon=True, name=f"load-{name}")
    thread.start()
    thread.join(DOWNLOAD_TIMEOUT_S)
    if loaded and isinstance(loaded[0], tiktoken.Encoding):
        return loaded[0]
    reason = f"{type(loaded[0]).__name__}: {loaded[0]}" if loaded else f"no reply in {DOWNLOAD_TIMEOUT_S:g} s"
    raise MissingDataError(
        f"the vocabulary of the encoding {name!r} is not on this machine and could not be fetched "
        f"({reason}); use encoding={DEFAULT_ENCODING!r}, which is installed with the package, or load "
        f"{name!r} once with a network and keep the folder named in TIKTOKEN_CACHE_DIR"
    )


def count(text: str, *, encoding: str = DEFAULT_ENCODING) -> int:
    """Number of tokens of the text.

    >>> count("Stop at <|endoftext|> then <|fim_prefix|> and <|im_start|>.")
    21
    """
    return len(get_encoding(encoding).encode_ordinary(text))


def encoding_for(model: str) -> str:
    """Name of the encoding that a model uses; the default, with one warning a name, for others.

    >>> encoding_for("text-embedding-3-small"), encoding_for("gpt-4o")
    ('cl100k_base', 'o200k_base')
    """
    from tiktoken.model import encoding_name_for_model

    try:
        return encoding_name_for_model(model)
    except KeyError:
        if model not in _WARNED:
            _WARNED.add(model)
            warnings.warn(
                f"the encoding of model {model!r} is not known: tokens are counted with "
                f"{DEFAULT_ENCODING}, so leave a margin",
                stacklevel=2,
            )
        return DEFAULT_ENCODING


@lru_cache(maxsize=8)
def _characters(encoding: str) -> list[int]:
    """For every token id, how many characters begin in it (none in the later parts of a cut one)."""
    enc = get_encoding(encoding)
    later_bytes = bytes(range(0x80, 0xC0))
    starts = [0] * enc.n_vocab
    for octets, token in enc._mergeable_ranks.items():
        starts[token] = len(octets if octets.isascii() else octets.translate(None, later_bytes))
    return starts


@lru_cache(maxsize=8)
def _word_counter(encoding: str) -> Callable[[str], int]:
    """A function that counts short texts and remembers the last ones: first words repeat."""
    encode = get_encoding(encoding).encode_ordinary
    return lru_cache(maxsize=2048)(lambda text: len(encode(text)))


def grapheme_border(text: str, start: int, end: int) -> int:
    """The last border between grapheme clusters in ``[start, end]``; ``start`` must be one.

    >>> grapheme_border("ab\\r\\n", 0, 3), grapheme_border("ne\\u0301e", 0, 2)
    (2, 1)
    """
    if end >= len(text) or end <= start:
        return end
    before, after = text[end - 1], text[end]
    if before.isascii() and after.isascii():
        return end - 1 if before == "\r" and after == "\n" else end
    import unicodedata

    import regex

    # Two characters tell whether there is a border between them, except after a mark, a joiner or a
    # flag's letter: then the clusters are read from the start.
    if (
        unicodedata.category(before)[0] in "LNPZ"
        and (pair := regex.match(r"\X", before + after)) is not None
        and pair.end() == 1
    ):
        return end
    border = start
    for cluster in regex.finditer(r"\X", text, pos=start):
        if cluster.end() > end:
            break
        border = cluster.end()
    return border


class TokenMap:
    """A text's tokens and where they end: counts any slice exactly, without encoding it again.

    The text is encoded once. Between a non-space and a space, and between a line end and a visible
    character, every encoding here starts a new token whatever stands around, so the count of a slice is
    a difference of two indexes plus its first and last word, which are encoded again.

    >>> tokens = TokenMap("The kiln holds nine trays. Each tray holds two pots.")
    >>> len(tokens), tokens.count(4, 26), tokens.text[: tokens.cut(0, 52, 6)]
    (13, 6, 'The kiln holds nine trays')
    """

    __slots__ = ("_ascii", "_count_word", "_encode", "_ends", "_line_ends", "_rough", "text")

    def __init__(self, text: str, *, encoding: str = DEFAULT_ENCODING) -> None:
        enc = get_encoding(encoding)
        self.text = text
        self._ascii = text.isascii()
        self._encode = enc.encode_ordinary
        self._count_word = _word_counter(encoding)
        # Older encodings have no rule of their own for line ends: only spaces are sure there.
        self._line_ends = r"\s*[\r\n]" in enc._pat_str
        self._ends = array("i")
        self._rough: list[tuple[int, int]] = []
        characters = _characters(encoding).__getitem__
        start, sure_start = 0, True
        while start < len(text):
            end, sure_end = self._segment_end(start)
            if not (sure_start and sure_end):
                self._rough.append((start, end))
            part = text[start:end] if end - start < len(text) else text
            ends = accumulate(map(characters, self._encode(part)), initial=start)
            self._ends.extend(islice(ends, 1, None))
            start, sure_start = end, sure_end

    def _segment_end(self, start: int) -> tuple[int, bool]:
        """Where to stop encoding, and whether a token surely ends there."""
        end = start + _SEGMENT
        if end >= len(self.text):
            return len(self.text), True
        for place in range(end, start + _SEGMENT // 2, -1):
            if self._sure(place):
                return place, True
        # A run without a border (one giant word): encoding it whole would take memory without bound,
        # so its token ends are only estimates, and slices of it are always encoded again.
        return end, False

    def __len__(self) -> int:
        """Number of tokens of the whole text (an estimate where it holds a word of 100,000 characters)."""
        return len(self._ends)

    def index(self, offset: int) -> int:
        """How many tokens of the whole text end at or before the offset."""
        return bisect_right(self._ends, offset)

    def offset(self, index: int) -> int:
        """Where the first ``index`` tokens of the whole text end (0 or its length when out of range)."""
        if index <= 0:
            return 0
        return self._ends[index - 1] if index <= len(self._ends) else len(self.text)

    def _sure(self, place: int) -> bool:
        """Whether a token ends at this place however the text around it is cut."""
        text = self.text
        after = text[place]
        if after == " ":
            return not text[place - 1].isspace()
        return self._line_ends and text[place - 1] in "\r\n" and not (after == "/" or after.isspace())

    def count(self, start: int, end: int) -> int:
        """Number of tokens of ``text[start:end]``, as if it were encoded alone.

        Raises:
            ValueError: the slice does not lie inside the text.
        """
        text, ends, size = self.text, self._ends, len(self.text)
        if not 0 <= start <= end <= size:
            raise ValueError(f"start={start}, end={end} must be a slice of a text of {size} characters")
        if end - start < 24 or self._is_rough(start, end):
            return len(self._encode(text[start:end])) if end > start else 0
        first, n_head = bisect_right(ends, start), 0
        if start and not self._sure(start):
            stop = min(first + 32, len(ends))
            place = start
            while first < stop:
                place = ends[first]
                first += 1
                if place >= end or self._sure(place):
                    break
            else:
                return len(self._encode(text[start:end]))
            if place >= end:
                return len(self._encode(text[start:end]))
            n_head = self._count_word(text[start:place])
            while first < len(ends) and ends[first] == place:  # tokens that end inside one character
                first += 1
        if end == size:
            return n_head + len(ends) - first
        last = bisect_right(ends, end, first)
        if self._sure(end):
            return n_head + last - first
        stop = max(first, last - 32)
        while last > stop:
            place = ends[last - 1]
            if place < end and self._sure(place):
                return n_head + last - first + self._count_word(text[place:end])
            last -= 1
        return len(self._encode(text[start:end]))

    def _is_rough(self, start: int, end: int) -> bool:
        return bool(self._rough) and any(a < end and start < b for a, b in self._rough)

    def cut(self, start: int, end: int, max_tokens: int) -> int:
        """The furthest token's end up to ``end`` so that the slice from ``start`` keeps the limit.

        It lies between grapheme clusters where one fits, else between code points, and always behind
        ``start``.

        Raises:
            ValueError: ``max_tokens`` is below 4, or the slice is empty or not inside the text.
        """
        if max_tokens < MIN_LIMIT:
            raise ValueError(
                f"max_tokens={max_tokens} must be at least {MIN_LIMIT}: one code point can take that many"
            )
        if not 0 <= start < end <= len(self.text):
            raise ValueError(f"start={start}, end={end} must be a slice with at least one character")
        ends = self._ends
        index = bisect_right(ends, start) + max_tokens
        # The last words of a slice can take a token less than inside the text: try the end itself first.
        place = end if index + 2 >= len(ends) or ends[index + 1] >= end else ends[index - 1]
        while place > start:
            n_tokens = self.count(start, place)
            if n_tokens <= max_tokens:
                border = place if place == end else self._border(start, place)
                if border <= start:
                    return place  # one cluster above the limit: between code points then
                if border == place or self.count(start, border) <= max_tokens:
                    return border
                n_tokens = max_tokens + 1
                place = border
            index = bisect_left(ends, place) - max(0, n_tokens - max_tokens - 1)
            while index > 0 and ends[index - 1] >= place:
                index -= 1
            place = ends[index - 1] if index > 0 else start
        place = start + 1
        while place < end and self.count(start, place + 1) <= max_tokens:
            place += 1
        return place

    def _border(self, start: int, place: int) -> int:
        if self._ascii:
            text = self.text
            return place - 1 if text[place - 1] == "\r" and text[place] == "\n" else place
        return grapheme_border(self.text, start, place)
