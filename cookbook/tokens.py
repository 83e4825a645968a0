"""Text -> exact token counts, and the places where a text can be cut under a limit in tokens.

Every limit of the package counts tokens of one named encoding. ``cl100k_base`` comes with an installed
package, so it needs no download. Text that spells a control token (``<|endoftext|>``) is ordinary text.
"""

from __future__ import annotations

import sys
import threading
import warnings
from array import array
from bisect import bisect_left, bisect_right
from functools import lru_cache
from itertools import accumulate, islice
from typing import TYPE_CHECKING, Any, Self, TypeVar

from .errors import MissingDataError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from tiktoken import Encoding

DEFAULT_ENCODING = "cl100k_base"
"""The encoding of every limit that names none."""

MIN_LIMIT = 4
"""The smallest limit that can always be kept: one code point takes up to 4 tokens."""

DOWNLOAD_TIMEOUT_S = 20.0
"""How long a vocabulary that is not on this machine may take to arrive."""

_Item = TypeVar("_Item")
_Side = tuple[int, int, int]  # tokens of the whole text, tokens encoded again, where the two meet
_SEGMENT = 1 << 17  # characters of one text encoded in one call: bounds the memory for a giant one
_GROUP = 1 << 18  # characters of several texts encoded in one call
_CONTROL = "<|endoftext|>"
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


def counts(texts: Iterable[str], *, encoding: str = DEFAULT_ENCODING) -> list[int]:
    """Number of tokens of each text: the same as ``count`` of each, in few calls of the tokenizer.

    >>> counts(["Heat slowly. ", "", "Then wait two days."])
    [4, 0, 5]
    """
    found: list[int] = []
    for group in _groups(texts, len):
        found += map(len, _encode_apart(group, encoding))
    return found


def _groups(items: Iterable[_Item], size: Callable[[_Item], int]) -> Iterator[list[_Item]]:
    """The items in lists of at most ``_GROUP`` characters, or of one item."""
    group: list[_Item] = []
    room = _GROUP
    for item in items:
        n_characters = size(item)
        if n_characters > room and group:
            yield group
            group, room = [], _GROUP
        group.append(item)
        room -= n_characters
    if group:
        yield group


def _encode_apart(texts: Sequence[str], encoding: str) -> list[array[int]]:
    """The tokens of each of the texts, as if encoded alone.

    The texts are joined by a control token, at which the tokenizer parts its input before anything else.
    So one call takes them all: it works without the interpreter's lock, and a thread that made a call a
    text would wait for that lock after each.
    """
    enc = get_encoding(encoding)
    parts: list[bytes] = []
    if _CONTROL in enc.special_tokens_set:
        try:
            # (``encode`` makes an object of each token, with the lock; ``encode_to_numpy`` loads numpy.)
            tokens = bytes(enc._core_bpe.encode_to_tiktoken_buffer(_CONTROL.join(texts), {_CONTROL}))
            parts = tokens.split(enc.eot_token.to_bytes(4, sys.byteorder))
        except UnicodeEncodeError:  # a lone surrogate, which encode_ordinary replaces
            pass
    # As many parts as texts, of whole tokens: so each split was at a control token that stands between two.
    if len(parts) == len(texts) and not any(len(part) % 4 for part in parts):
        return [array("I", part) for part in parts]
    return [array("I", enc.encode_ordinary(text)) for text in texts]


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
def _characters(encoding: str) -> array[int]:
    """For every token id, how many characters begin in it (none in the later parts of a cut one)."""
    enc = get_encoding(encoding)
    later_bytes = bytes(range(0x80, 0xC0))
    starts = array("H", bytes(2 * enc.n_vocab))
    for octets, token in enc._mergeable_ranks.items():
        starts[token] = len(octets if octets.isascii() else octets.translate(None, later_bytes))
    return starts


@lru_cache(maxsize=8)
def _word_counter(encoding: str) -> Callable[[str], int]:
    """A function that counts short texts and remembers the last ones: first words repeat."""
    encode = get_encoding(encoding).encode_ordinary
    return lru_cache(maxsize=2048)(lambda text: len(encode(text)))


@lru_cache(maxsize=8)
def parts_at_line_ends(encoding: str = DEFAULT_ENCODING) -> bool:
    """Whether a token ends at each line end before a visible character that is no ``/``: counts add up there.

    >>> parts_at_line_ends("cl100k_base")
    True
    """
    return r"\s*[\r\n]" in get_encoding(encoding)._pat_str


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

    __slots__ = (
        "_count_word",
        "_ends",
        "_last_before",
        "_last_behind",
        "_line_ends",
        "_rough",
        "encoding",
        "text",
    )

    def __init__(self, text: str, *, encoding: str = DEFAULT_ENCODING) -> None:
        self.text = text
        self.encoding = encoding
        self._count_word = _word_counter(encoding)
        # Older encodings have no rule of their own for line ends: only spaces are sure there.
        self._line_ends = parts_at_line_ends(encoding)
        self._ends = array("i")
        self._rough: list[tuple[int, int]] = []
        self._last_behind: tuple[int, _Side] = (-1, (0, 0, 0))
        self._last_before = self._last_behind

    def build(self) -> Self:
        """Encode the text, which is done at the first need otherwise."""
        if not self._ends:
            build([self])
        return self

    def _segments(self) -> Iterator[tuple[int, int, bool]]:
        """The places of what is encoded in one call, and whether tokens surely end at both its ends."""
        start, sure_start = 0, True
        while start < len(self.text):
            end, sure_end = self._segment_end(start)
            yield start, end, sure_start and sure_end
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
        return len(self.build()._ends)

    def index(self, offset: int) -> int:
        """How many tokens of the whole text end at or before the offset."""
        return bisect_right(self._ends or self.build()._ends, offset)

    def offset(self, index: int) -> int:
        """Where the first ``index`` tokens of the whole text end (0 or its length when out of range)."""
        if index <= 0:
            return 0
        self.build()
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
        size = len(self.text)
        if not 0 <= start <= end <= size:
            raise ValueError(f"start={start}, end={end} must be a slice of a text of {size} characters")
        if start == end:
            return 0
        if not self._ends:
            self.build()
        # Whoever cuts a text asks for slices with one end in common: that end is looked at once.
        behind, before = self._last_behind, self._last_before
        if behind[0] != start:
            behind = self._last_behind = start, self._behind(start)
        if before[0] != end:
            before = self._last_before = end, self._before(end)
        return self._between(start, end, behind[1], before[1])

    def _between(self, start: int, end: int, behind: _Side, before: _Side) -> int:
        """The count of a slice whose two ends were looked at."""
        first, n_head, head_end = behind
        last, n_tail, tail_start = before
        if head_end <= tail_start and not (self._rough and self._is_rough(start, end)):
            return n_head + last - first + n_tail
        return count(self.text[start:end], encoding=self.encoding)

    def _behind(self, start: int) -> _Side:
        """For a slice's start: tokens of the text before the next sure border, the slice's own, and it."""
        ends = self._ends
        first = bisect_right(ends, start)
        if start == 0 or self._sure(start):
            return first, 0, start
        size = len(self.text)
        for index in range(first, min(first + 32, len(ends))):
            place = ends[index]
            if place == size or self._sure(place):
                return bisect_right(ends, place, index), self._count_word(self.text[start:place]), place
        return first, 0, size + 1

    def _before(self, end: int) -> _Side:
        """For a slice's end: the tokens of the text up to the last sure border, the slice's own, and it."""
        ends, size = self._ends, len(self.text)
        last = bisect_right(ends, end)
        if end == size or self._sure(end):
            return last, 0, end
        for index in range(last, max(0, last - 32), -1):
            place = ends[index - 1]
            if place < end and self._sure(place):
                return index, self._count_word(self.text[place:end]), place
        return last, 0, -1

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
        ends = self.build()._ends
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
        return grapheme_border(self.text, start, place)


def build(token_maps: Iterable[TokenMap]) -> None:
    """Encode the texts of new maps, in few calls of the tokenizer; they have one encoding.

    >>> maps = [TokenMap("Heat slowly."), TokenMap("Then wait.")]
    >>> build(maps)
    >>> [len(tokens) for tokens in maps]
    [3, 3]
    """
    new = [token_map for token_map in dict.fromkeys(token_maps) if not token_map._ends]
    found: dict[TokenMap, tuple[array[int], list[tuple[int, int]]]]
    found = {token_map: (array("i"), []) for token_map in new}
    segments = ((token_map, *segment) for token_map in new for segment in token_map._segments())
    for group in _groups(segments, lambda segment: segment[2] - segment[1]):
        encoding = group[0][0].encoding
        characters = _characters(encoding).__getitem__
        texts = [token_map.text[start:end] for token_map, start, end, _ in group]
        for (token_map, start, end, sure), tokens in zip(group, _encode_apart(texts, encoding), strict=True):
            ends, rough = found[token_map]
            places = accumulate(map(characters, tokens), initial=start)
            ends.fromlist(list(islice(places, 1, None)))  # faster than to extend it
            if not sure:
                rough.append((start, end))
    for token_map, (ends, rough) in found.items():  # whole: a thread may ask, or this one be interrupted
        token_map._rough, token_map._ends = rough, ends
