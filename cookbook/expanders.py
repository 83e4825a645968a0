"""Hits -> Passages: the child itself, a window, a centred parent, the parent, the section, the whole page.

Every expander takes hits and the documents they come from (a store offers both mappings as
``.documents`` and ``.parents``) and returns new passages, ordered by their best hit. Text reaches the
reader once: windows of one document that overlap or touch merge, also across hits. Parents, sections
and pages tile their document, so they cannot overlap; those that touch stay passages of their own, each
under its own limit. Only ``children``, which others are compared with, leaves the hits as they are.

Two rules about the text around a passage can be switched by themselves: ``heading`` puts the path of
headings above it, ``number_rule`` brings the paragraph above the heading when a hit holds a digit.

A filter given to the search holds here as well, since an expander adds text around the hits and never
another hit.
"""

from __future__ import annotations

import re
import warnings
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from .errors import CorpusError
from .passages import (
    GAP,
    Page,
    between,
    covering,
    fit,
    grow,
    make,
    merge_spans,
    page_of,
    render,
    subtract,
    table_head,
)
from .rankers import best_first, check_at_least, group
from .sections import section_at
from .tokens import DEFAULT_ENCODING, MIN_LIMIT, count
from .types import Chunk, Document, Hit, Passage, Section, Span

#: Sentences above this many tokens are cut, so that a window has a largest size.
MAX_SENTENCE_TOKENS = 128
#: The largest section passage, heading included, and the size below which a page is read whole.
MAX_SECTION_TOKENS = 800

_DIGIT = re.compile(r"\d")
_VISIBLE = re.compile(r"\S")


class Expander(Protocol):
    """What every expander is once its other options are set (``functools.partial``)."""

    def __call__(self, hits: Sequence[Hit], /, *, documents: Mapping[str, Document]) -> list[Passage]: ...


def located(
    hits: Iterable[Hit], documents: Mapping[str, Document], encoding: str
) -> Iterator[tuple[Hit, Page]]:
    """Each hit with its page, the best hit first; what cannot be expanded is refused by name."""
    pages: dict[str, Page] = {}  # hits share pages, and a store looks each one up
    for hit in best_first(hits):
        page = pages.get(hit.doc_id)
        if page is None:
            document = documents.get(hit.doc_id)
            if document is None:
                raise CorpusError(
                    f"document {hit.doc_id!r} of hit {hit.chunk_id!r} is not among the documents given; "
                    "pass the documents of the store that was searched, or add the document to it again"
                )
            page = pages[hit.doc_id] = page_of(document, encoding)
        _check_slice(page.document, hit.span, hit.text, hit.chunk_id)
        yield hit, page


def _check_slice(document: Document, span: Span, text: str, chunk_id: str) -> None:
    if not text.strip() or document.text[span.start : span.end] != text:
        raise CorpusError(
            f"document {document.doc_id!r} does not hold the text of {chunk_id!r} at "
            f"[{span.start}, {span.end}): it changed since it was indexed; index it again"
        )


def trimmed(hit: Hit) -> Span:
    """The hit's span without white space at its ends, which may belong to a neighbour's sentence."""
    span = hit.span
    start = span.start + len(hit.text) - len(hit.text.lstrip())
    return Span(doc_id=hit.doc_id, start=start, end=start + len(hit.text.strip()))


@dataclass(slots=True)
class Part:
    """A passage in the making: spans may still be added, and more hits may fall into it."""

    page: Page
    spans: list[Span]
    hits: list[Hit]
    heading: str
    expansion: str

    def done(self) -> Passage:
        """The passage."""
        return make(self.page, self.spans, self.hits, expansion=self.expansion, heading=self.heading)


def joined(parts: Sequence[Part]) -> list[Passage]:
    """Parts, the best first, as passages: those that overlap or touch are one, with all their hits.

    The heading is that of the part that begins first.
    """
    on_page: dict[str, list[Span]] = {}
    for block in merge_spans(span for part in parts for span in part.spans):
        on_page.setdefault(block.doc_id, []).append(block)
    home: dict[Span, int] = {}  # a block to the best part that reaches it, also through other parts
    first_block = []
    for place, part in enumerate(parts):
        blocks = on_page[part.page.document.doc_id]
        # Each span lies in the last block that starts at or before it.
        places = [bisect_right(blocks, span.start, key=lambda block: block.start) for span in part.spans]
        reached = [blocks[behind - 1] for behind in places]
        near = {home.setdefault(block, place) for block in reached}
        if len(near) > 1:
            home |= {block: min(near) for block, at in home.items() if at in near}
        first_block.append(reached[0])
    groups: dict[int, list[Part]] = {}
    for part, block in zip(parts, first_block, strict=True):
        groups.setdefault(home[block], []).append(part)
    return [
        Part(
            members[0].page,
            [block for block in on_page[members[0].page.document.doc_id] if home[block] == place],
            [hit for part in members for hit in part.hits],
            min(members, key=lambda part: part.spans[0].start).heading,
            members[0].expansion,
        ).done()
        for place, members in groups.items()
    ]


def _around(
    hits: Iterable[Hit],
    widen: Callable[[Hit, Page], tuple[Span, str]],
    *,
    documents: Mapping[str, Document],
    encoding: str,
    expansion: str,
    number_rule: bool,
    merge: bool,
) -> list[Passage]:
    """Passages of one wider span a hit, under the heading that comes with it."""
    parts = []
    for hit, page in located(hits, documents, encoding):
        span, heading = widen(hit, page)
        above = _above_number(hit, page) if number_rule else []
        parts.append(Part(page, merge_spans([*above, span]), [hit], heading, expansion))
    return joined(parts) if merge else [part.done() for part in parts]


def heading_above(page: Page, start: int) -> str:
    """What a passage that starts at an offset is read below: the path of headings, a table's header.

    A section's own title is left out where the text begins with it.
    """
    text = page.document.text
    first = _first_visible(text, start)
    if first == len(text):
        return ""
    section = section_at(page.sections, first)
    path = section.path[:-1] if first == _first_visible(text, section.body.start) else section.path
    head = table_head(text, page.blocks, first)
    return "\n\n".join(part for part in (" > ".join(path), head) if part)


def _first_visible(text: str, start: int) -> int:
    found = _VISIBLE.search(text, start)
    return found.start() if found else len(text)


def _no_heading(page: Page, start: int) -> str:
    return ""


def children(
    hits: Iterable[Hit],
    *,
    documents: Mapping[str, Document],
    heading: bool = False,
    number_rule: bool = False,
    merge: bool = False,
    encoding: str = DEFAULT_ENCODING,
) -> list[Passage]:
    """The hits as they are, one passage each: no expansion, what the others are compared with.

    Args:
        heading: put the path of headings above the text, as :func:`sections` does.
        number_rule: bring the paragraph above the heading of a hit that holds a digit.
        merge: make hits that overlap or touch one passage.
    """
    heading_of = heading_above if heading else _no_heading
    return _around(
        hits,
        lambda hit, page: (hit.span, heading_of(page, hit.span.start)),
        documents=documents,
        encoding=encoding,
        expansion="child",
        number_rule=number_rule,
        merge=merge,
    )


def window(
    hits: Iterable[Hit],
    *,
    documents: Mapping[str, Document],
    before: int = 2,
    after: int = 2,
    before_tokens: int | None = None,
    after_tokens: int | None = None,
    within_section: bool = False,
    heading: bool = False,
    number_rule: bool = False,
    max_sentence_tokens: int | None = MAX_SENTENCE_TOKENS,
    merge: bool = True,
    encoding: str = DEFAULT_ENCODING,
) -> list[Passage]:
    """The sentences that hold a hit with their neighbours, as one exact slice of the document.

    Windows end where the document ends (and at a stretch of white space above the cap, which belongs to
    no sentence), so those at an end are shorter. They are computed from the document, so that another
    radius needs no new embedding.

    Args:
        before: sentences in front of those that hold the hit.
        after: sentences behind them.
        before_tokens: takes the place of ``before``: as many whole sentences as hold at most this many
            tokens.
        after_tokens: takes the place of ``after`` in the same way.
        within_section: let no window leave the sections that its hit lies in.
        heading: put the path of headings above the text, as :func:`sections` does.
        number_rule: bring the paragraph above the heading of a hit that holds a digit, wherever the
            window ends; windows that bring the same paragraph become one passage.
        max_sentence_tokens: cut longer sentences, as ``sentence_window`` does; None for no limit.
        merge: make windows that overlap or touch one passage; otherwise one passage a hit.
    """
    check_at_least(0, before=before, after=after, before_tokens=before_tokens, after_tokens=after_tokens)
    check_at_least(MIN_LIMIT, max_sentence_tokens=max_sentence_tokens)

    heading_of = heading_above if heading else _no_heading

    def widen(hit: Hit, page: Page) -> tuple[Span, str]:
        core = page.sentences_of(trimmed(hit), max_sentence_tokens)
        first, last = core[0].start, core[-1].end
        of_hit = _sections_of(trimmed(hit), page) if within_section else []
        lowest = of_hit[0].body.start if of_hit else 0
        highest = of_hit[-1].body.end if of_hit else len(page.document.text)
        start, end = first, last
        for place, sentence in enumerate(page.sentences_before(first, max_sentence_tokens)):
            if sentence.end < start or sentence.start < lowest:
                break
            if (
                place >= before
                if before_tokens is None
                else page.tokens.count(sentence.start, first) > before_tokens
            ):
                break
            start = sentence.start
        for place, sentence in enumerate(page.sentences_behind(last, max_sentence_tokens)):
            if sentence.start > end or sentence.end > highest:
                break
            if (
                place >= after
                if after_tokens is None
                else page.tokens.count(last, sentence.end) > after_tokens
            ):
                break
            end = sentence.end
        return page.span(start, end), heading_of(page, start)

    return _around(
        hits,
        widen,
        documents=documents,
        encoding=encoding,
        expansion="window",
        number_rule=number_rule,
        merge=merge,
    )


def centred(
    hits: Iterable[Hit],
    *,
    documents: Mapping[str, Document],
    max_tokens: int,
    heading: bool = False,
    max_sentence_tokens: int | None = MAX_SENTENCE_TOKENS,
    merge: bool = True,
    encoding: str = DEFAULT_ENCODING,
) -> list[Passage]:
    """A parent of at most ``max_tokens`` centred on each hit: sentences behind and before it in turn.

    A hit whose own sentences exceed the limit stays as it is when it fits, else it is cut.

    Args:
        max_tokens: the largest parent, its heading included, before parents merge.
        heading: put the path of headings above the text, as :func:`sections` does; left out where the
            hit's sentences fit without it only.
    """
    check_at_least(MIN_LIMIT, max_tokens=max_tokens, max_sentence_tokens=max_sentence_tokens)

    def grown(
        core: Sequence[Span], page: Page, heading_of: Callable[[Page, int], str]
    ) -> tuple[Span, str] | None:
        first, last = core[0].start, core[-1].end

        def fits(start: int, end: int) -> bool:
            above = heading_of(page, start)
            if not above:
                return page.tokens.count(start, end) <= max_tokens
            return count(render(above, [page.document.text[start:end]]), encoding=encoding) <= max_tokens

        kept = grow(
            (first, last),
            (sentence.start for sentence in page.sentences_before(first, max_sentence_tokens)),
            (sentence.end for sentence in page.sentences_behind(last, max_sentence_tokens)),
            fits,
        )
        return kept and (page.span(*kept), heading_of(page, kept[0]))

    def widen(hit: Hit, page: Page) -> tuple[Span, str]:
        span = trimmed(hit)
        core = page.sentences_of(span, max_sentence_tokens)
        with_heading = grown(core, page, heading_above) if heading else None
        kept = with_heading or grown(core, page, _no_heading)
        return kept or (page.span(span.start, page.tokens.cut(span.start, span.end, max_tokens)), "")

    return _around(
        hits,
        widen,
        documents=documents,
        encoding=encoding,
        expansion="centred",
        number_rule=False,
        merge=merge,
    )


def parents(
    hits: Iterable[Hit],
    *,
    documents: Mapping[str, Document],
    parents: Mapping[str, Chunk],
    top_k: int | None = None,
    heading: bool = False,
    number_rule: bool = False,
    encoding: str = DEFAULT_ENCODING,
) -> list[Passage]:
    """Each hit's parent, once: it has its best child's score, and all its children as hits.

    A parent that is not to be found costs nothing but its text: the children stand for it, with a
    warning, and the passage says so (``expansion="child"``).

    Args:
        top_k: how many parents to return, counted after children of one parent became one;
            :func:`cookbook.rankers.widen` searches until there are as many.
        heading: put the path of headings above the text, as :func:`sections` does.
        number_rule: bring the paragraph above the heading of a hit that holds a digit, unless one of the
            parents holds it already.
    """
    check_at_least(1, top_k=top_k)
    found = list(located(hits, documents, encoding))
    page_of_hit = {hit.chunk_id: page for hit, page in found}
    parts: list[Part] = []
    for members in group((hit for hit, _ in found), key="parent_id")[:top_k]:
        page = page_of_hit[members[0].chunk_id]
        parent = parent_of(members[0], parents)
        if parent is None:
            spans, expansion = merge_spans(hit.span for hit in members), "child"
        else:
            _check_slice(page.document, parent.span, parent.text, parent.chunk_id)
            spans, expansion = [parent.span], "parent"
        above = heading_above(page, spans[0].start) if heading else ""
        parts.append(Part(page, spans, list(members), above, expansion))
    if number_rule:
        for part in parts:
            for hit in part.hits:
                taken = [span for other in parts for span in other.spans]
                free = [left for span in _above_number(hit, part.page) for left in subtract(span, taken)]
                part.spans = merge_spans([*part.spans, *visible(free, part.page)])
    return [part.done() for part in parts]


def parent_of(hit: Hit, parents: Mapping[str, Chunk]) -> Chunk | None:
    """The parent of a hit, or None with a warning when it is not there."""
    parent_id = hit.metadata.get("parent_id")
    parent = parents.get(parent_id or "")
    if parent is None:
        warnings.warn(
            f"parent {parent_id!r} of hit {hit.chunk_id!r} is missing: "
            "the child stands for it; index the document again to get its parents back",
            stacklevel=3,
        )
    return parent


def sections(
    hits: Iterable[Hit],
    *,
    documents: Mapping[str, Document],
    max_tokens: int | None = MAX_SECTION_TOKENS,
    spill: bool = True,
    heading: bool = True,
    number_rule: bool = True,
    encoding: str = DEFAULT_ENCODING,
) -> list[Passage]:
    """The section around each hit, in parts of at most ``max_tokens``; the part with the hit comes first.

    A section above the limit is cut around its hit at borders of blocks (paragraphs, list items, table
    rows); where the hit's own block exceeds the limit, at sentence borders; inside a sentence or a table
    row only when that alone exceeds it. The hit stays whole where it fits. The rest of the section
    follows behind all parts that hold hits (``expansion="spill"``), in document order.

    A hit that reaches over several sections brings them all, as one slice when the limit allows. Hits
    that fall into a part that is there already join it. No text comes twice: what an earlier part holds
    is left out of a later one.

    Args:
        max_tokens: the largest passage, its heading included; None for no limit.
        spill: return the rest of a cut section too.
        heading: put the path of headings above the text (``Guide > Shipping``), without the section's
            own title where the text begins with it, and the header above rows of a table that was cut.
            Left out where only the hit alone fits.
        number_rule: when a hit holds a digit, bring the paragraph above the heading of its section,
            since limits of a figure often stand there. It is a passage of its own where the limit leaves
            no room for it.
    """
    check_at_least(MIN_LIMIT, max_tokens=max_tokens)
    found = list(located(hits, documents, encoding))
    numbered = {
        section_at(page.sections, trimmed(hit).start).section_id
        for hit, page in found
        if number_rule and _DIGIT.search(hit.text)
    }
    parts: list[Part] = []
    units: dict[str, tuple[Section, Hit, Page]] = {}

    def taken(page: Page) -> list[Span]:
        return [span for part in parts if part.page is page for span in part.spans]

    def fill(region: Span, hit: Hit, page: Page, expansion: str) -> None:
        """Parts for all of a region, in document order."""
        for free in visible(subtract(region, taken(page)), page):
            start = free.start
            while start < free.end:
                rest = page.span(start, free.end)
                kept, head = _cut(page, rest, _first_block(page, rest), max_tokens, heading)
                parts.append(Part(page, [kept], [hit], head, expansion))
                start = kept.end

    for hit, page in found:
        span = trimmed(hit)
        of_hit = _sections_of(span, page)
        for section in of_hit:
            units.setdefault(section.section_id, (section, hit, page))
        body = page.span(of_hit[0].body.start, of_hit[-1].body.end)
        uncovered = visible(subtract(span, taken(page)), page)
        if not uncovered:
            home = max(
                (part for part in parts if part.page is page),
                key=lambda part: sum(span.overlap(held) for held in part.spans),
            )
            home.hits.append(hit)
        for core in uncovered:
            region = next(free for free in subtract(body, taken(page)) if free.contains(core))
            above: list[Span] = []
            if of_hit[0].section_id in numbered:
                above = visible(subtract(_paragraph_above(of_hit[0], page), taken(page)), page)
            kept, head = _cut(page, region, core, max_tokens, heading, above=above)
            part = Part(page, [kept], [hit], head, "section")
            parts.append(part)
            together = merge_spans([*above, kept])
            size = make(page, together, [hit], expansion="section", heading=head).n_tokens
            if max_tokens is None or size <= max_tokens:
                part.spans = together
            else:
                for span in above:
                    fill(span, hit, page, "section")
    if spill:
        for section, hit, page in units.values():
            fill(section.body, hit, page, "spill")
    return [part.done() for part in parts]


def _sections_of(span: Span, page: Page) -> list[Section]:
    """The sections in whose own text a span lies, in document order."""
    low = bisect_right(page.sections, span.start, key=lambda section: section.body.start) - 1
    high = bisect_left(page.sections, span.end, key=lambda section: section.body.start)
    return page.sections[low:high]


def visible(spans: Iterable[Span], page: Page) -> list[Span]:
    """The spans that hold more than white space."""
    return [span for span in spans if page.document.text[span.start : span.end].strip()]


def _first_block(page: Page, region: Span) -> Span:
    return page.span(region.start, min(page.blocks[page.block_at(region.start)].end, region.end))


def _paragraph_above(section: Section, page: Page) -> Span:
    """The paragraph or list item above a section's heading, up to it; other headings may stand between.

    Empty when something else stands there.
    """
    start = end = section.body.start
    for place in reversed(range(bisect_left(page.block_starts, end) if section.level else 0)):
        block = page.blocks[place]
        if block.kind not in ("heading", "rule"):
            start = block.start if block.kind in ("paragraph", "item") else end
            break
    return page.span(start, end)


def _above_number(hit: Hit, page: Page) -> list[Span]:
    """The paragraph that a hit with a digit brings, if one stands above the heading of its section."""
    if not _DIGIT.search(hit.text):
        return []
    return visible([_paragraph_above(section_at(page.sections, trimmed(hit).start), page)], page)


def _cut(
    page: Page,
    region: Span,
    core: Span,
    max_tokens: int | None,
    heading: bool,
    *,
    above: Sequence[Span] = (),
) -> tuple[Span, str]:
    """The part of a region around a core under the limit, and its heading; ``above`` is given room too."""
    heading_at = partial(heading_above if heading else _no_heading, page)
    if max_tokens is None:
        return region, heading_at(region.start)
    block_borders = between(page.block_starts, region.start, region.end)

    def whole(core: tuple[int, int]) -> list[Sequence[int]]:
        """Borders of blocks, and of sentences inside the blocks of a core."""
        low, high = covering(block_borders, *core)
        in_blocks = page.span(block_borders[low], block_borders[high])
        starts = [sentence.start for sentence in page.sentences_of(in_blocks, None)]
        return [block_borders, between(starts, in_blocks.start, in_blocks.end)]

    def first_sentence() -> tuple[int, int]:
        sentence = page.sentences_of(core, None)[0]
        return max(sentence.start, region.start), min(sentence.end, region.end)

    def attempts() -> Iterator[tuple[tuple[int, int], list[Sequence[int]]]]:
        hit, first = (core.start, core.end), first_sentence()
        yield hit, whole(hit)
        yield hit, [hit]  # a hit may be a part of a giant sentence
        yield first, whole(first)
        yield first, [first]

    if above:
        n_above = sum(page.tokens.count(span.start, span.end) for span in above)
        room = max_tokens - n_above - count(GAP, encoding=page.encoding)
        hit = core.start, core.end
        found = fit(page.tokens, [(hit, whole(hit))], heading_at, room, page.encoding)
        if found is not None:
            return page.span(*found[0]), found[1]
    found = fit(page.tokens, attempts(), heading_at, max_tokens, page.encoding)
    if found is not None:
        return page.span(*found[0]), found[1]
    end = page.tokens.cut(core.start, first_sentence()[1], max_tokens)
    return page.span(core.start, end), ""


def whole_page(
    hits: Iterable[Hit],
    *,
    documents: Mapping[str, Document],
    threshold: int = MAX_SECTION_TOKENS,
    max_tokens: int | None = MAX_SECTION_TOKENS,
    before: int = 2,
    after: int = 2,
    heading: bool = True,
    number_rule: bool = True,
    encoding: str = DEFAULT_ENCODING,
) -> list[Passage]:
    """The whole page when it is short, else the section, else (a page without headings) the window.

    Args:
        threshold: a page of strictly fewer tokens is read whole.
        max_tokens: as for :func:`sections`.
        before: as for :func:`window`.
        after: as for :func:`window`.
        heading: as for :func:`sections`; a whole page, or one without headings, has no path.
        number_rule: as for :func:`sections`.
    """
    check_at_least(0, threshold=threshold)
    found = list(located(hits, documents, encoding))
    small: dict[Page, list[Hit]] = {}
    with_headings: list[Hit] = []
    plain: list[Hit] = []
    for hit, page in found:
        if page.tokens.count(0, len(page.document.text)) < threshold:
            small.setdefault(page, []).append(hit)
        elif any(section.level for section in page.sections):
            with_headings.append(hit)
        else:
            plain.append(hit)
    passages = [
        make(page, [page.span(0, len(page.document.text))], members, expansion="page")
        for page, members in small.items()
    ]
    passages += sections(
        with_headings,
        documents=documents,
        max_tokens=max_tokens,
        heading=heading,
        number_rule=number_rule,
        encoding=encoding,
    )
    passages += window(plain, documents=documents, before=before, after=after, encoding=encoding)
    return by_best_hit(passages, [hit for hit, _ in found])


def by_best_hit(passages: Iterable[Passage], hits: Iterable[Hit]) -> list[Passage]:
    """Passages in the order of their best hits; what spills from a section comes last."""
    order = {hit.chunk_id: place for place, hit in reversed(list(enumerate(best_first(hits))))}
    return sorted(
        passages, key=lambda passage: (passage.expansion == "spill", order[passage.hits[0].chunk_id])
    )
