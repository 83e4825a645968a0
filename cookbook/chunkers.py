"""Documents -> Chunks: what is embedded and searched, and the parents that are read in its place.

Every chunk is a slice of its document, and ``n_tokens`` counts that slice alone and keeps the limit.
Joined in order, overlap aside, the chunks of a document give its text back; only white space that fits
into no chunk may be left out, so a blank document has none.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, islice, pairwise, repeat
from typing import TYPE_CHECKING, Any, TypeVar

from .blocks import blocks
from .passages import held
from .sections import anchors, paths
from .sentences import capped, sentence_starts
from .tokens import DEFAULT_ENCODING, MIN_LIMIT, TokenMap, build, counts, grapheme_border
from .types import Chunk, Document, Span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_Batch = TypeVar("_Batch")
_Done = TypeVar("_Done")
_BATCH = 200_000  # characters
_SPACE = re.compile(r"[^\S\r]")
# Where a sentence may end and another begin: a terminator and a space, or a script without spaces.
_MAY_END = re.compile(r"[.!?\u2026]\S{0,4}\s+(?=\S)|[\u0530-\u1fff\u2e80-\uffff]")
# Blocks that announce the next one, which a chunk should not end with.
_LEADS = ("heading", "table_head")


def fixed_window(
    docs: Iterable[Document], *, chunk_tokens: int = 200, overlap: int = 40, encoding: str = DEFAULT_ENCODING
) -> list[Chunk]:
    """Windows of ``chunk_tokens`` tokens, one every ``chunk_tokens - overlap``, blind to what the text says.

    >>> page = Document(doc_id="kiln", title="", text="one two three four five six seven")
    >>> [chunk.text for chunk in fixed_window([page], chunk_tokens=4, overlap=1)]
    ['one two three four', ' four five six seven']
    """
    _check_limit("chunk_tokens", chunk_tokens, overlap)
    chunks: list[Chunk] = []
    for page in _pages(docs, encoding):
        position = 0
        for start, end in _windows(page.tokens, chunk_tokens, overlap):
            if not page.text[start:end].isspace():
                chunk_id = f"{page.key}#w{position:04d}"
                n_tokens = page.tokens.count(start, end)
                chunks.append(page.chunk(chunk_id, "fixed_window", position, start, end, n_tokens))
                position += 1
    return chunks


def sentence_window(
    docs: Iterable[Document],
    *,
    max_tokens: int = 128,
    heading: bool = False,
    encoding: str = DEFAULT_ENCODING,
) -> list[Chunk]:
    """One chunk a sentence; the window around it is added after the search, by an expander.

    A sentence above ``max_tokens`` is cut, since a window of 2r + 1 sentences is bounded only if
    sentences are.

    Args:
        heading: record the path of headings above each chunk, so that it is embedded and searched too.

    >>> page = Document(doc_id="kiln", title="", text="Heat slowly. Then wait two days.")
    >>> [(chunk.chunk_id, chunk.text) for chunk in sentence_window([page])]
    [('kiln#s0000', 'Heat slowly. '), ('kiln#s0001', 'Then wait two days.')]
    """
    _check_limit("max_tokens", max_tokens)
    chunks: list[Chunk] = []

    def parsed(batch: list[Document]) -> list[_Page]:
        pages = [_Page(document, _tokens_of(document, encoding), heading) for document in batch]
        for page in pages:
            page.find_sentences()
        return pages

    def sizes(pages: list[_Page]) -> list[int]:
        texts = (page.text[start:end] for page in pages for start, end in page.sentences)
        return counts(texts, encoding=encoding)

    for pages, n_tokens in _beside(map(parsed, _batches(docs)), sizes):
        rest = iter(n_tokens)
        for page in pages:
            own = islice(rest, len(page.sentences))
            pieces = capped(page.text, page.sentences, own, max_tokens=max_tokens, encoding=encoding)
            for position, (start, end, size) in enumerate(pieces):
                chunk_id = f"{page.key}#s{position:04d}"
                chunks.append(page.chunk(chunk_id, "sentence", position, start, end, size))
    return chunks


def parent_child(
    docs: Iterable[Document],
    *,
    parent_tokens: int = 900,
    child_tokens: int = 180,
    overlap: int = 24,
    heading: bool = False,
    encoding: str = DEFAULT_ENCODING,
) -> tuple[list[Chunk], list[Chunk], dict[str, str]]:
    """Small chunks to search, inside the large ones that are read.

    Both are cut at the strongest border that leaves a quarter of the limit: section, then block, then
    sentence, line, word. A rest below a quarter is balanced with the chunk before it. Children overlap
    by at most ``overlap`` tokens, from a border on, never across a section or a parent.

    Args:
        heading: record the path of headings above each chunk, so that it is embedded and searched too.

    Returns:
        Children and parents, each in document order, and the parent's id of each child's id.

    >>> page = Document(doc_id="kiln", title="", text="Heat slowly. Then wait two days.")
    >>> children, parents, mapping = parent_child([page], parent_tokens=9, child_tokens=6, overlap=0)
    >>> [child.text for child in children], mapping["kiln#p0000#c001"]
    (['Heat slowly. ', 'Then wait two days.'], 'kiln#p0000')
    """
    _check_limit("parent_tokens", parent_tokens)
    _check_limit("child_tokens", child_tokens, overlap)
    if child_tokens > parent_tokens:
        raise ValueError(f"child_tokens={child_tokens} must not be above parent_tokens={parent_tokens}")
    children: list[Chunk] = []
    parents: list[Chunk] = []
    mapping: dict[str, str] = {}
    for page in _pages(docs, encoding, heading):
        regions = page.cuts(0, len(page.text), parent_tokens)
        for number, (parent_start, parent_end, parent_size) in enumerate(regions):
            parent_id = f"{page.key}#p{number:04d}"
            parents.append(page.chunk(parent_id, "parent", number, parent_start, parent_end, parent_size))
            cuts = page.cuts(parent_start, parent_end, child_tokens, overlap)
            for position, (start, end, n_tokens) in enumerate(cuts):
                child_id = f"{parent_id}#c{position:03d}"
                mapping[child_id] = parent_id
                children.append(page.chunk(child_id, "child", position, start, end, n_tokens, parent_id))
    return children, parents, mapping


def section_child(
    docs: Iterable[Document],
    *,
    child_tokens: int = 180,
    overlap: int = 0,
    heading: bool = False,
    encoding: str = DEFAULT_ENCODING,
) -> list[Chunk]:
    """Chunks inside the sections of a page, cut as children are; ``parent_id`` is the section's id.

    Args:
        heading: record the path of headings above each chunk, so that it is embedded and searched too.

    >>> page = Document(doc_id="kiln", title="", text="# Heat\\n\\nSlowly.\\n\\n# Wait\\n\\nTwo days.\\n")
    >>> [(chunk.chunk_id, chunk.heading_id) for chunk in section_child([page])]
    [('kiln#h000#c000', 'heat'), ('kiln#h001#c000', 'wait')]
    """
    _check_limit("child_tokens", child_tokens, overlap)
    chunks: list[Chunk] = []
    for page in _pages(docs, encoding, heading):
        borders = [*page.section_starts, len(page.text)]
        for number, section_id in enumerate(page.section_ids):
            cuts = page.cuts(borders[number], borders[number + 1], child_tokens, overlap)
            for position, (start, end, n_tokens) in enumerate(cuts):
                chunk_id = f"{section_id}#c{position:03d}"
                chunks.append(
                    page.chunk(chunk_id, "section_child", position, start, end, n_tokens, section_id)
                )
    return chunks


def whole_page(docs: Iterable[Document], *, encoding: str = DEFAULT_ENCODING) -> list[Chunk]:
    """One chunk a page, however long.

    >>> whole_page([Document(doc_id="kiln", title="", text="Heat slowly.")])[0].n_tokens
    3
    """
    chunks: list[Chunk] = []
    for page in _pages(docs, encoding):
        end = len(page.text)
        chunks.append(page.chunk(f"{page.key}#page", "page", 0, 0, end, page.tokens.count(0, end)))
    return chunks


# A frozen record sets its fields through object.__setattr__, which takes half of the time of
# sentence_window. So a record is filled as an object of an open class with the same slots, and then closed.
class _OpenSpan:
    __slots__ = Span.__slots__


class _OpenChunk:
    __slots__ = Chunk.__slots__


def _check_limit(name: str, limit: int, overlap: int = 0) -> None:
    if limit < MIN_LIMIT:
        raise ValueError(
            f"{name}={limit} (with overlap={overlap}) must be at least {MIN_LIMIT}: "
            "one code point can take that many tokens"
        )
    if not 0 <= overlap < limit:
        raise ValueError(f"overlap={overlap} must be at least 0 and below {name}={limit}")


def _windows(tokens: TokenMap, size: int, overlap: int) -> Iterator[tuple[int, int]]:
    """Spans of ``size`` tokens of the whole text, moved to borders between grapheme clusters."""
    text, step = tokens.text, size - overlap
    first, start, end = 0, 0, 0
    while end < len(text):
        if first:
            border = grapheme_border(text, start, min(end, tokens.offset(first)))
            start = border if overlap and border > start else end
        goal = _snap(text, start, max(tokens.offset(first + size), start + 1))
        # A word cut in two can take a token more alone: start later then, if the overlap allows it.
        later = first
        while tokens.count(start, goal) > size and (moved := tokens.offset(later + 1)) <= end:
            later += 1
            start = max(start, grapheme_border(text, start, moved))
        stop = tokens.cut(start, goal, size)
        if stop <= end:  # the overlap leaves no room
            start = end
            stop = tokens.cut(start, max(goal, start + 1), size)
        end = stop
        yield start, end
        first += step
        while end < len(text) and tokens.offset(first) <= start:  # inside one character
            first += step


def _snap(text: str, start: int, place: int) -> int:
    """The last cluster border up to the place; the place itself where one cluster fills the stretch."""
    border = grapheme_border(text, start, place)
    return border if border > start else place


def _pages(docs: Iterable[Document], encoding: str, heading: bool = False) -> Iterator[_Page]:
    """The documents that are not blank, encoded."""

    def encoded(batch: list[Document]) -> list[TokenMap]:
        token_maps = [_tokens_of(document, encoding) for document in batch]
        build(token_maps)
        return token_maps

    for batch, token_maps in _beside(_batches(docs), encoded):
        # (Parsed together: one document after the other would drive parser and cutter out of the cache.)
        yield from list(map(_Page, batch, token_maps, repeat(heading)))


def _tokens_of(document: Document, encoding: str) -> TokenMap:
    page = held(document.text, encoding)
    return page.tokens if page else TokenMap(document.text, encoding=encoding)


def _beside(batches: Iterable[_Batch], work: Callable[[_Batch], _Done]) -> Iterator[tuple[_Batch, _Done]]:
    """Each batch with the work done on it, by a thread, while the next batch is made or the last one used.

    The tokenizer works without the interpreter's lock, so it has a processor of its own. Batches are
    large, since the thread waits for that lock after every call.
    """
    rest = iter(batches)
    first = list(islice(rest, 2))
    if len(first) < 2:  # nothing to do beside it: a thread would only cost time
        for batch in first:
            yield batch, work(batch)
        return
    with ThreadPoolExecutor(1, thread_name_prefix="tokens") as pool:
        waiting: list[tuple[_Batch, Future[_Done]]] = []
        for batch in chain(first, rest):
            waiting.append((batch, pool.submit(work, batch)))
            if len(waiting) > 1:
                earlier, future = waiting.pop(0)
                yield earlier, future.result()
        for earlier, future in waiting:
            yield earlier, future.result()


def _batches(docs: Iterable[Document]) -> Iterator[list[Document]]:
    """The documents that are not blank, in lists of some 200,000 characters."""
    batch: list[Document] = []
    room = _BATCH
    for document in docs:
        if document.text and not document.text.isspace():
            batch.append(document)
            room -= len(document.text)
            if room <= 0:
                yield batch
                batch, room = [], _BATCH
    if batch:
        yield batch


class _Page:
    """One document, its tokens, and the places where it may be cut, strongest first."""

    def __init__(self, document: Document, tokens: TokenMap, heading: bool) -> None:
        self.doc_id = document.doc_id
        self.text = document.text
        self.key = document.key
        self.tokens = tokens
        page = held(document.text, tokens.encoding)
        tiles = page.blocks if page else blocks(document.text)
        # (Lists of plain values: the blocks' records would take more room than the text.)
        self.starts = [tile[0] for tile in tiles]
        self.kinds = [tile[2] for tile in tiles]
        # The first block of every section, and its record.
        self.section_tiles = [n for n, kind in enumerate(self.kinds) if kind == "heading" or n == 0]
        heads = [tiles[number] for number in self.section_tiles]
        # What a block announces is not parted from it, and the start of the text is no border either.
        free = [n for n in range(1, len(tiles)) if self.kinds[n - 1] not in _LEADS]
        self.section_borders = [self.starts[n] for n in free if self.kinds[n] == "heading"]
        self.block_borders = [self.starts[n] for n in free if self.kinds[n] != "heading"]
        self.section_starts = [self.starts[number] for number in self.section_tiles]
        self.section_ids = [f"{self.key}#h{number:03d}" for number in range(len(self.section_tiles))]
        self.heading_ids = anchors(head.title for head in heads if head.kind == "heading")
        self.headings = [""] * len(self.section_tiles)
        if heading:
            for number, path in enumerate(paths(heads)):
                above = () if path[:1] == (document.title,) else (document.title,)
                self.headings[number] = " > ".join(title for title in (*above, *path) if title)
        if self.kinds[0] != "heading":
            self.heading_ids.insert(0, "")  # the preamble
        self.sentences: list[tuple[int, int]] = []
        self._sentence_borders: dict[int, list[int]] = {}
        self._look_at_tile(0)

    def chunk(
        self,
        chunk_id: str,
        kind: str,
        position: int,
        start: int,
        end: int,
        n_tokens: int,
        parent_id: str | None = None,
    ) -> Chunk:
        """The record of one slice."""
        if start not in self._tile:
            self._look_at_tile(start)
        section = self._section
        span: Any = _OpenSpan()
        span.doc_id = self.doc_id
        span.start = start
        span.end = end
        span.__class__ = Span
        chunk: Any = _OpenChunk()
        chunk.chunk_id = chunk_id
        chunk.doc_id = self.doc_id
        chunk.span = span
        chunk.text = self.text[start:end]
        chunk.kind = kind
        chunk.position = position
        chunk.parent_id = parent_id
        chunk.section_id = self.section_ids[section]
        chunk.heading_id = self.heading_ids[section]
        chunk.para_index = self._para_index
        chunk.n_tokens = n_tokens
        chunk.heading = self.headings[section]
        chunk.__class__ = Chunk
        closed: Chunk = chunk
        return closed

    def _look_at_tile(self, start: int) -> None:
        """Remember the block and section that hold the place: the next chunk often starts there too."""
        number = bisect_right(self.starts, start) - 1
        self._tile = range(self.starts[number], self._end(number))
        self._section = bisect_right(self.section_tiles, number) - 1
        self._para_index = number - self.section_tiles[self._section]

    def _end(self, number: int) -> int:
        """Where a block ends."""
        return self.starts[number + 1] if number + 1 < len(self.starts) else len(self.text)

    def find_sentences(self) -> None:
        """Cut the whole text into sentences, which tile it."""
        self.sentences = list(
            pairwise([*sentence_starts(self.text, self.starts, self.kinds), len(self.text)])
        )

    def cuts(self, start: int, end: int, limit: int, overlap: int = 0) -> Iterator[tuple[int, int, int]]:
        """Spans under the limit, with their tokens, that cover ``[start, end)``.

        All but the first start up to ``overlap`` tokens early.
        """
        tokens, text = self.tokens, self.text
        quarter = min(limit, 2 * (limit - overlap)) // 4
        content_end = end
        while content_end > start and text[content_end - 1].isspace():
            content_end -= 1
        done = start  # what the spans so far cover
        while done < content_end:
            reach = tokens.cut(start, end, limit)
            if reach <= done:  # the overlap leaves no room
                start = done
                reach = tokens.cut(start, end, limit)
            if reach >= content_end:
                yield start, reach, tokens.count(start, reach)
                return
            first, last = tokens.index(start), tokens.index(content_end)
            low = max(done + 1, tokens.offset(first + quarter + 1))
            stop = self._border(low, reach, reach) or reach
            if last - tokens.index(stop) <= quarter:
                # Too little would be left: cut near the middle, so that both parts keep the limit.
                low = max(low, tokens.offset(last - limit + overlap + 2))
                high = min(reach, tokens.offset(last - quarter - 1))
                middle = min(max(low, tokens.offset((first + last) // 2)), high)
                if low <= high:
                    stop = self._border(low, high, middle) or middle
            if not text[stop].isascii():
                stop = _snap(text, start, stop)
            n_tokens = tokens.count(start, stop)
            if stop <= done or n_tokens > limit:
                stop = reach
                n_tokens = tokens.count(start, stop)
            if not text[start:stop].isspace():
                yield start, stop, n_tokens
            start = self._overlap_start(max(start + 1, done), stop, overlap) if overlap else stop
            done = stop

    def _border(self, low: int, high: int, target: int) -> int:
        """The border in ``[low, high]`` nearest to the target, of the strongest kind there; 0 if none."""
        if low > high:
            return 0
        return (
            _nearest(self.section_borders, low, high, target)
            or _nearest(self.block_borders, low, high, target)
            or _nearest(self._sentences_in(low, high), low, high, target)
            or _nearest(self.starts, low, high, target)
            or self._gap("\n", low, high, target)
            or self._gap(" ", low, high, target)
            or max((gap.end() for gap in _SPACE.finditer(self.text, low - 1, target)), default=0)
        )

    def _sentences_in(self, low: int, high: int) -> list[int]:
        """Where sentences begin inside the blocks that touch ``[low, high]``."""
        first, last = bisect_right(self.starts, low) - 1, bisect_left(self.starts, high) - 1
        borders: list[int] = []
        for number in range(first, last + 1):
            inside = self._sentence_borders.get(number)
            if inside is None:
                start = self.starts[number]
                starts = sentence_starts(self.text[start : self._end(number)], (0,), (self.kinds[number],))
                inside = self._sentence_borders[number] = [start + border for border in starts[1:]]
            borders = borders + inside if borders else inside
        return borders

    def _gap(self, mark: str, low: int, high: int, target: int) -> int:
        """The place behind the mark that is nearest before the target, else after it; 0 if none."""
        return self.text.rfind(mark, low - 1, target) + 1 or self.text.find(mark, target, high) + 1

    def _overlap_places(self, low: int, stop: int) -> Iterator[list[int]]:
        """Where an overlap may begin: the blocks, then, if that is not enough, the sentences."""
        yield self.starts
        if _MAY_END.search(self.text, max(0, low - 6), stop):  # to cut a paragraph into sentences costs more
            yield self._sentences_in(low, stop)

    def _overlap_start(self, low: int, stop: int, overlap: int) -> int:
        """The earliest border, of the strongest kind, with at most ``overlap`` tokens up to ``stop``."""
        tokens, text = self.tokens, self.text
        section = self.section_starts[bisect_right(self.section_starts, stop) - 1]
        low = max(low, section, tokens.offset(tokens.index(stop) - overlap))
        if low >= stop:
            return stop
        for places in self._overlap_places(low, stop):
            for place in places[bisect_left(places, low) : bisect_left(places, stop)]:
                if tokens.count(place, stop) <= overlap:
                    return place
        for mark in "\n ":
            place = text.find(mark, max(0, low - 1), stop - 1) + 1
            while place:
                if (
                    text[place].isascii()
                    and not text[place].isspace()
                    and tokens.count(place, stop) <= overlap
                ):
                    return place
                place = text.find(mark, place, stop - 1) + 1
        return stop


def _nearest(places: list[int], low: int, high: int, target: int) -> int:
    """The place in ``[low, high]`` nearest to the target (the earlier of two); 0 if there is none."""
    index = bisect_right(places, target)
    before = places[index - 1] if index and places[index - 1] >= low else 0
    after = places[index] if index < len(places) and places[index] <= high else 0
    if before and after:
        return before if target - before <= after - target else after
    return before or after
