"""Spans of a document, earned by hits -> a Passage: merge spans, grow one under a limit, shorten a Passage.

A passage's text is its heading, a line end, and its slices, which :data:`GAP` parts where they do not
follow each other in the document.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache, cached_property, lru_cache
from weakref import WeakValueDictionary

from . import sections, sentences, tokens
from .blocks import Block, blocks
from .rankers import dedup
from .recent import keep
from .tokens import DEFAULT_ENCODING
from .types import Document, Hit, Passage, Section, Span

#: Stands between two slices of one passage that are not neighbours in the document.
GAP = "\n[...]\n"
#: Pages that are kept parsed; they take three to seven times the room of their texts.
N_PAGES = 512

Interval = tuple[int, int]


def _start(span: Span) -> int:
    return span.start


def _n_until(spans: Sequence[Span], offset: int) -> int:
    """How many of the spans, which follow each other, end at or before an offset."""
    return bisect_right(spans, offset, key=lambda span: span.end)


class Page:
    """A document with what expansion asks of it, each computed when first needed and kept.

    Sentences are cut a block at a time: a question reads the neighbourhood of a hit, not the page.
    """

    def __init__(self, document: Document, encoding: str) -> None:
        self.document = document
        self.encoding = encoding
        self._sentences: dict[tuple[int, int | None], list[Span]] = {}

    def read_ahead(self) -> None:
        """Parse and count now, not at the first question."""
        _ = self.sections, self.block_starts
        self.tokens.build()

    @cached_property
    def tokens(self) -> tokens.TokenMap:
        """Exact counts of slices."""
        return tokens.TokenMap(self.document.text, encoding=self.encoding)

    @cached_property
    def blocks(self) -> list[Block]:
        """The blocks that tile the page."""
        return blocks(self.document.text)

    @cached_property
    def split(self) -> Callable[[Block], list[Interval]]:
        """A block to its sentences; it looks once through the page, not once a block."""
        return sentences.splitter(self.document.text)

    @cached_property
    def block_starts(self) -> list[int]:
        """Where the blocks start."""
        return [block.start for block in self.blocks]

    @cached_property
    def sections(self) -> list[Section]:
        """The sections whose bodies tile the page."""
        return sections.sections(
            self.document, encoding=self.encoding, layout=self.blocks, tokens=self.tokens
        )

    def block_at(self, offset: int) -> int:
        """Index of the block that holds an offset."""
        return bisect_right(self.block_starts, offset) - 1

    def sentences(self, block: int, max_tokens: int | None) -> list[Span]:
        """The sentences of a block; those above the cap are cut as the sentence chunker does."""
        key = block, max_tokens
        if key not in self._sentences:
            spans = self.split(self.blocks[block])
            if max_tokens is not None:
                text = self.document.text
                sizes = (
                    # A token holds a byte at least, so short spans need not be counted.
                    end - start
                    if end - start <= max_tokens and text[start:end].isascii()
                    else self.tokens.count(start, end)
                    for start, end in spans
                )
                pieces = sentences.capped(text, spans, sizes, max_tokens=max_tokens, encoding=self.encoding)
                spans = [(start, end) for start, end, _ in pieces]
            self._sentences[key] = [self.span(*span) for span in spans]
        return self._sentences[key]

    def sentences_of(self, span: Span, max_tokens: int | None) -> list[Span]:
        """The sentences that a span touches."""
        touched: list[Span] = []
        for block in range(self.block_at(span.start), self.block_at(span.end - 1) + 1):
            found = self.sentences(block, max_tokens)
            touched += found[_n_until(found, span.start) : bisect_left(found, span.end, key=_start)]
        return touched

    def sentences_before(self, offset: int, max_tokens: int | None) -> Iterator[Span]:
        """The sentences that end at or before an offset, the nearest first."""
        for block in range(self.block_at(max(offset - 1, 0)), -1, -1):
            found = self.sentences(block, max_tokens)
            yield from reversed(found[: _n_until(found, offset)])

    def sentences_behind(self, offset: int, max_tokens: int | None) -> Iterator[Span]:
        """The sentences that start at or behind an offset, the nearest first."""
        for block in range(self.block_at(offset), len(self.blocks)):
            found = self.sentences(block, max_tokens)
            yield from found[bisect_left(found, offset, key=_start) :]

    def span(self, start: int, end: int) -> Span:
        """A span of this page."""
        return Span(doc_id=self.document.doc_id, start=start, end=end)


_HELD: WeakValueDictionary[tuple[str, str], Page] = WeakValueDictionary()


@lru_cache(maxsize=N_PAGES)
def page_of(document: Document, encoding: str) -> Page:
    """The page of a document, kept for the next question."""
    page = _HELD[document.text, encoding] = Page(document, encoding)
    return page


def held(text: str, encoding: str) -> Page | None:
    """A page of this text while one is kept: whoever cuts it need not parse and encode it again."""
    return _HELD.get((text, encoding))


def merge_spans(spans: Iterable[Span], *, touching: bool = True) -> list[Span]:
    """Spans that overlap, lie in each other or (unless told otherwise) touch, made one; in document order.

    >>> def span(start, end):
    ...     return Span(doc_id="log", start=start, end=end)
    >>> [(s.start, s.end) for s in merge_spans([span(4, 6), span(0, 10), span(6, 14), span(20, 30)])]
    [(0, 14), (20, 30)]
    >>> [(s.start, s.end) for s in merge_spans([span(0, 4), span(4, 9)], touching=False)]
    [(0, 4), (4, 9)]
    """
    merged: list[Span] = []
    for span in sorted(spans, key=lambda span: (span.doc_id, span.start, span.end)):
        last = merged[-1] if merged else None
        if (
            last is not None
            and last.doc_id == span.doc_id
            and (span.start < last.end or (touching and span.start == last.end) or last == span)
        ):
            merged[-1] = Span(doc_id=last.doc_id, start=last.start, end=max(last.end, span.end))
        else:
            merged.append(span)
    return merged


def subtract(span: Span, taken: Iterable[Span]) -> list[Span]:
    """What is left of a span without the taken ones, in document order.

    >>> def span(start, end):
    ...     return Span(doc_id="log", start=start, end=end)
    >>> [(s.start, s.end) for s in subtract(span(0, 20), [span(5, 8), span(15, 30)])]
    [(0, 5), (8, 15)]
    """
    free: list[Span] = []
    start = span.start
    for other in merge_spans(other for other in taken if span.overlap(other)):
        if other.start > start:
            free.append(replace(span, start=start, end=other.start))
        start = other.end
    if start < span.end:
        free.append(replace(span, start=start))
    return free


#: Tokens of headings and passages, which are counted again while a passage grows and when it is packed.
_COUNTS: OrderedDict[tuple[str, str], int] = OrderedDict()
_MAX_COUNTS = 16_384


def count(text: str, encoding: str) -> int:
    """Tokens of a heading or a passage, kept for the next time."""
    known = _COUNTS.get((text, encoding))
    if known is None:
        known = keep(_COUNTS, (text, encoding), tokens.count(text, encoding=encoding), limit=_MAX_COUNTS)
    return known


def render(heading: str, slices: Sequence[str]) -> str:
    """The text of a passage as the model reads it.

    >>> print(render("Guide > Prices", ["Prices exclude VAT.", "Nine euros."]))
    Guide > Prices
    Prices exclude VAT.
    [...]
    Nine euros.
    """
    return (heading + "\n" if heading else "") + GAP.join(slices)


def slices(passage: Passage) -> list[str]:
    """The passage's exact slices of its document, one for each of its spans."""
    place = len(passage.heading) + 1 if passage.heading else 0
    texts: list[str] = []
    for span in passage.spans:
        texts.append(passage.text[place : place + len(span)])
        place += len(span) + len(GAP)
    return texts


def make(
    page: Page, spans: Sequence[Span], hits: Iterable[Hit], *, expansion: str, heading: str = ""
) -> Passage:
    """The passage that hits earned on a page; each counts once, the best hit gives the score."""
    document = page.document
    text = render(heading, [document.text[span.start : span.end] for span in spans])
    earned_by = tuple(dedup(hits))
    return Passage(
        doc_id=document.doc_id,
        spans=tuple(spans),
        heading=heading,
        text=text,
        hits=earned_by,
        score=earned_by[0].score,
        expansion=expansion,
        n_tokens=count(text, page.encoding)
        if len(spans) > 1
        else size(page.tokens, spans[0].start, spans[0].end, heading, page.encoding),
    )


def size(token_map: tokens.TokenMap, start: int, end: int, heading: str, encoding: str) -> int:
    """Tokens of one slice of a document below a heading, as the model reads them.

    A slice is a difference of sums that the page knows; it adds up with the heading's line where a token
    ends at the line end.
    """
    text = token_map.text[start:end]
    whole = render(heading, [text])
    if heading and (text[:1].isspace() or text[:1] == "/" or not tokens.parts_at_line_ends(encoding)):
        return count(whole, encoding)
    n_heading = count(heading + "\n", encoding) if heading else 0
    n_tokens = n_heading + token_map.count(start, end)
    return keep(_COUNTS, (whole, encoding), n_tokens, limit=_MAX_COUNTS)


def between(borders: Sequence[int], start: int, end: int) -> list[int]:
    """The borders inside an interval, with its two ends.

    >>> between([0, 4, 9, 12, 20], 4, 15)
    [4, 9, 12, 15]
    """
    return [start, *borders[bisect_right(borders, start) : bisect_left(borders, end)], end]


def covering(borders: Sequence[int], start: int, end: int) -> Interval:
    """The first and the last index of the narrowest stretch between borders that holds an interval.

    >>> covering([0, 4, 9, 12, 20], 5, 10)
    (1, 3)
    """
    return bisect_right(borders, start) - 1, bisect_left(borders, end)


def grow(
    core: Interval, before: Iterable[int], behind: Iterable[int], fits: Callable[[int, int], bool]
) -> Interval | None:
    """The widest stretch around a core that fits, or None when the core itself does not.

    It takes the next border behind and the next one before in turn, and goes on when one side is full.

    >>> grow((4, 9), [0], [12, 20], lambda start, end: end - start <= 10)
    (4, 12)
    """
    start, end = core
    if not fits(start, end):
        return None
    starts, ends = iter(before), iter(behind)
    next_start, next_end = next(starts, None), next(ends, None)
    while next_start is not None or next_end is not None:
        if next_end is not None:
            if fits(start, next_end):
                end, next_end = next_end, next(ends, None)
            else:
                next_end = None
        if next_start is not None:
            if fits(next_start, end):
                start, next_start = next_start, next(starts, None)
            else:
                next_start = None
    return start, end


def grow_in(borders: Sequence[int], core: Interval, fits: Callable[[int, int], bool]) -> Interval | None:
    """The widest stretch between borders that holds a core and fits, grown as in :func:`grow`.

    >>> grow_in([0, 4, 9, 12, 20], (5, 8), lambda start, end: end - start <= 10)
    (4, 12)
    """
    low, high = covering(borders, *core)
    return grow((borders[low], borders[high]), borders[:low][::-1], borders[high + 1 :], fits)


def table_head(text: str, of: Sequence[Block], start: int) -> str:
    """The head and delimiter rows of the table in whose body ``start`` lies, or ``""``.

    >>> text = "| plan | price |\\n|---|---|\\n| solo | 9 |\\n| team | 29 |\\n"
    >>> table_head(text, blocks(text), text.index("| team"))
    '| plan | price |\\n|---|---|'
    """
    index = bisect_right(of, start, key=lambda block: block.start) - 1
    if index < 0 or of[index].kind != "table_row":
        return ""
    while index > 0 and of[index].kind == "table_row":
        index -= 1
    return text[of[index].start : of[index].end].strip() if of[index].kind == "table_head" else ""


def fit(
    token_map: tokens.TokenMap,
    attempts: Iterable[tuple[Interval, Sequence[Sequence[int]]]],
    heading_at: Callable[[int], str],
    max_tokens: int,
    encoding: str,
) -> tuple[Interval, str] | None:
    """The stretch, with its heading, that holds the first core that fits, grown up to the limit.

    An attempt without its heading goes before the next one with it.

    Args:
        attempts: what should be held and the lists of borders to grow along, the most wanted first.
        heading_at: the heading of a stretch that starts at an offset.
    """
    for core, levels in attempts:
        for heading_of in (heading_at, _no_heading):
            for borders in levels:
                found = _fit_in(token_map, core, borders, heading_of, max_tokens, encoding)
                if found is not None:
                    return found
    return None


def _no_heading(_: int) -> str:
    return ""


def _fit_in(
    token_map: tokens.TokenMap,
    core: Interval,
    borders: Sequence[int],
    heading_of: Callable[[int], str],
    max_tokens: int,
    encoding: str,
) -> tuple[Interval, str] | None:
    limit = max_tokens

    @cache  # a stretch grows at one end at a time
    def n_above(start: int) -> int:
        return count(render(heading_of(start), [""]), encoding)

    def about(start: int, end: int) -> int:
        return n_above(start) + token_map.count(start, end)

    def fits(start: int, end: int) -> bool:
        return about(start, end) <= limit

    while (kept := grow_in(borders, core, fits)) is not None:
        heading = heading_of(kept[0])
        if size(token_map, *kept, heading, encoding) <= max_tokens:
            return kept, heading
        limit = about(*kept) - 1  # the counts of parts do not always add up to that of the whole
    return None


def shorten(passage: Passage, *, max_tokens: int, encoding: str = DEFAULT_ENCODING) -> Passage | None:
    """The passage cut at sentence borders around its best hit, at most ``max_tokens`` long.

    The hit stays whole where it fits, else its beginning stays; the heading stays where there is room
    for it. None when not even one sentence fits.
    """
    best = passage.hits[0].span
    places = [place for place, span in enumerate(passage.spans) if span.overlap(best)]
    span, text = passage.spans[places[0]], slices(passage)[places[0]]
    core = max(best.start - span.start, 0), min(best.end, span.end) - span.start
    borders = [*(start for start, _ in sentences.sentence_spans(text)), len(text)]
    first = covering(borders, *core)[0]
    in_blocks = blocks(text)

    def heading_at(start: int) -> str:
        return "\n\n".join(part for part in (passage.heading, table_head(text, in_blocks, start)) if part)

    found = fit(
        tokens.TokenMap(text, encoding=encoding),
        [(core, [borders]), ((borders[first], borders[first + 1]), [borders])],
        heading_at,
        max_tokens,
        encoding,
    )
    if found is None:
        return None
    (start, end), heading = found
    shorter = render(heading, [text[start:end]])
    return replace(
        passage,
        spans=(replace(span, start=span.start + start, end=span.start + end),),
        heading=heading,
        text=shorter,
        n_tokens=tokens.count(shorter, encoding=encoding),
    )
