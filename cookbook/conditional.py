"""Hits -> Passages, expanding only where a rule says so: a rule a hit, a parent, a section, or a page.

A rule looks at the hits of one unit (a parent, a section, the hit itself) and says whether they are to
be expanded. The others stay children. Text reaches the reader once, and no hit is lost on the way.

What says yes for every hit costs what expanding everything costs; what says no for every hit is a flat
pipeline. The rules here lie between.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from . import expanders
from .blocks import Block
from .expanders import Expander, Part, by_best_hit, heading_above, joined, located, trimmed, visible
from .passages import Page, merge_spans, page_of, subtract
from .rankers import check_at_least, dedup, group, key_of
from .tokens import DEFAULT_ENCODING, MIN_LIMIT
from .types import Chunk, Document, Hit, Passage, Span

#: What stands above the text of a section or a page.
_TITLES = ("heading", "front_matter")
_INDENTED = re.compile(r"[ \t]*(?=\S)")

#: The hits of one unit, best first, and their document -> whether to expand them.
Rule = Callable[[Sequence[Hit], Document], bool]


def expand_where(
    hits: Iterable[Hit],
    *,
    documents: Mapping[str, Document],
    rule: Rule,
    expander: Expander,
    unit: str = "chunk_id",
    heading: bool = False,
    encoding: str = DEFAULT_ENCODING,
) -> list[Passage]:
    """The expander's passages for the units where the rule holds, and the other hits as children.

    Children that overlap or touch become one passage. A child's text that an expanded passage holds is
    left out; when nothing else is left of the child, its hit joins that passage. Passages come in the
    order of their best hits. A rule that always holds gives the expander's own result, one that never
    holds that of :func:`cookbook.expanders.children` with ``merge=True``.

    Args:
        rule: sees the hits of a unit, best first, and their document.
        expander: takes hits and ``documents``; set other options with ``functools.partial``.
        unit: what the rule looks at, a key as in :mod:`cookbook.rankers`: ``parent_id``,
            ``section_id``, ``doc_id`` or the hit itself. A hit without one is a unit by itself.
        heading: put the path of headings above children too.

    >>> pump = Document(doc_id="pump", title="Pump", text="It leaks. Close it. Call us. Wait.")
    >>> def hit(quote, score):
    ...     start = pump.text.index(quote)
    ...     place = {"start": start, "end": start + len(quote)}
    ...     return Hit(chunk_id=quote, doc_id="pump", text=quote, score=score, rank=1, retriever="dense",
    ...                metadata=place)
    >>> passages = expand_where(
    ...     [hit("It leaks.", 0.9), hit("Wait.", 0.8)],
    ...     documents={"pump": pump},
    ...     rule=lambda members, document: members[0].score > 0.85,
    ...     expander=partial(expanders.window, before=1, after=1),
    ... )
    >>> [(passage.text, passage.expansion) for passage in passages]
    [('It leaks. Close it. ', 'window'), ('Wait.', 'child')]
    """
    found = list(located(hits, documents, encoding))
    ranked = [hit for hit, _ in found]
    chosen = {
        key_of(members[0], unit)
        for members in group(ranked, key=unit)
        if rule(members, documents[members[0].doc_id])
    }
    expand = [hit for hit in ranked if key_of(hit, unit) in chosen]
    passages = list(expander(expand, documents=documents))
    held = [span for passage in passages for span in passage.spans]
    left: list[Part] = []
    for hit, page in found:
        if key_of(hit, unit) in chosen:
            continue
        pieces = visible(subtract(hit.span, held), page)
        if pieces:
            above = heading_above(page, pieces[0].start) if heading else ""
            left.append(Part(page, pieces, [hit], above, "child"))
        else:
            _join(hit, passages)
    return by_best_hit([*passages, *joined(left)], ranked)


def _join(hit: Hit, passages: list[Passage]) -> None:
    """Give the hit to the passage that holds most of it."""
    span = trimmed(hit)
    place = max(
        range(len(passages)), key=lambda place: sum(span.overlap(held) for held in passages[place].spans)
    )
    home = passages[place]
    if home.expansion == "spill":  # there for the hit of another part; now it has one of its own
        members, expansion = [hit], "section"
    else:
        members, expansion = dedup([*home.hits, hit]), home.expansion
    passages[place] = replace(home, hits=tuple(members), score=members[0].score, expansion=expansion)


def auto_merge(
    hits: Iterable[Hit],
    *,
    documents: Mapping[str, Document],
    parents: Mapping[str, Chunk],
    min_share: float = 0.5,
    encoding: str = DEFAULT_ENCODING,
) -> list[Passage]:
    """The parent where its hit children make up ``min_share`` of it or more, the children elsewhere.

    ``min_share=0`` gives what :func:`cookbook.expanders.parents` does, a share above 1 only children.
    """
    return expand_where(
        hits,
        documents=documents,
        rule=mostly_hit(parents, min_share=min_share),
        expander=partial(expanders.parents, parents=parents, encoding=encoding),
        unit="parent_id",
        encoding=encoding,
    )


def mostly_hit(parents: Mapping[str, Chunk], *, min_share: float = 0.5) -> Rule:
    """A rule for parents: their hit children cover ``min_share`` of their text or more.

    The share counts characters that are not white space, where children overlap once. As children tile
    their parent, it is the share of its children that were hit, weighted by their length.

    The idea is that of LlamaIndex's ``AutoMergingRetriever``, which counts children unweighted, asks for
    strictly more than its ratio (0.5), and goes on up a hierarchy of any height. A parent that is
    missing is never expanded, with a warning.

    >>> text = "It leaks. Close the valve."
    >>> pump = Document(doc_id="pump", title="Pump", text=text)
    >>> whole = Chunk(chunk_id="p0", doc_id="pump", span=Span(doc_id="pump", start=0, end=26), text=text,
    ...               kind="parent", position=0, n_tokens=7)
    >>> def hit(start, end):
    ...     place = {"start": start, "end": end, "parent_id": "p0"}
    ...     return Hit(chunk_id=f"c{start}", doc_id="pump", text=text[start:end], score=1.0, rank=1,
    ...                retriever="dense", metadata=place)
    >>> rule = mostly_hit({"p0": whole})
    >>> rule([hit(0, 9)], pump), rule([hit(10, 26)], pump)
    (False, True)
    """
    if not min_share >= 0:
        raise ValueError(f"min_share={min_share} must be at least 0")

    def rule(members: Sequence[Hit], document: Document) -> bool:
        parent = expanders.parent_of(members[0], parents)
        if parent is None:
            return False
        left = subtract(parent.span, [hit.span for hit in members])
        n_parent = _n_visible(document, [parent.span])
        return n_parent - _n_visible(document, left) >= min_share * n_parent

    return rule


def _n_visible(document: Document, spans: Iterable[Span]) -> int:
    """Characters that are not white space; children may leave white space between them out."""
    return sum(len(word) for span in spans for word in document.text[span.start : span.end].split())


def split(*, min_hits: int = 2) -> Rule:
    """A rule for parents and sections: the evidence is split, ``min_hits`` of the hits fall into one.

    >>> def hit(name):
    ...     return Hit(chunk_id=name, doc_id="pump", text="", score=1.0, rank=1, retriever="dense")
    >>> pump = Document(doc_id="pump", title="Pump", text="It leaks.")
    >>> split()([hit("a"), hit("b")], pump), split()([hit("a"), hit("a")], pump)
    (True, False)
    """
    check_at_least(1, min_hits=min_hits)
    return lambda members, _: len({hit.chunk_id for hit in members}) >= min_hits


def self_contained(members: Sequence[Hit], document: Document) -> bool:
    """Whether hits are whole sections (with or without the heading), list entries, or the page.

    White space at their ends aside, they end where a section's own text or an entry does. A heading by
    itself is none. A list entry holds what is indented below it. Hits that touch are seen as one.

    >>> page = Document(doc_id="faq", title="FAQ", text="# Returns\\nIn 30 days. Unused.\\n# Post\\nFree.\\n")
    >>> def hit(quote):
    ...     start = page.text.index(quote)
    ...     place = {"start": start, "end": start + len(quote)}
    ...     return Hit(chunk_id=quote, doc_id="faq", text=quote, score=1.0, rank=1, retriever="dense",
    ...                metadata=place)
    >>> [self_contained([hit(quote)], page) for quote in ("# Post\\nFree.", "In 30 days. Unused.", "Unused.")]
    [True, True, False]
    """
    page = page_of(document, DEFAULT_ENCODING)  # only its blocks are read, nothing is counted
    return all(_is_whole(span, page) for span in merge_spans(hit.span for hit in members))


def not_self_contained(members: Sequence[Hit], document: Document) -> bool:
    """The rule that expands what is not :func:`self_contained`.

    >>> page = Document(doc_id="post", title="Post", text="# Post\\nFree. In two days.\\n")
    >>> place = {"start": 7, "end": 12}
    >>> part = Hit(chunk_id="a", doc_id="post", text="Free.", score=1.0, rank=1, retriever="dense",
    ...            metadata=place)
    >>> not_self_contained([part], page)
    True
    """
    return not self_contained(members, document)


def _is_whole(span: Span, page: Page) -> bool:
    text, layout = page.document.text, page.blocks

    def ends(start: int, end: int) -> tuple[int, int]:
        return _seen(text, start)[0], start + len(text[start:end].rstrip())

    def indent(block: Block) -> int:
        return _seen(text, block.start)[1]

    start, end = ends(span.start, span.end)
    first, last = page.block_at(start), page.block_at(end - 1)
    if (start, end) != ends(layout[first].start, layout[last].end):
        return False
    inside, behind = layout[first : last + 1], layout[last + 1 : last + 2]
    from_start = first == 0 or any(block.kind in _TITLES for block in layout[first - 1 : first + 1])
    to_end = not behind or behind[0].kind == "heading"
    if from_start and to_end:
        return any(block.kind not in _TITLES for block in inside)
    entry, *below = inside
    return (
        entry.kind == "item"
        and all(indent(block) >= indent(entry) + (block.kind != "item") for block in below)
        and all(indent(block) <= indent(entry) for block in behind)
    )


def _seen(text: str, start: int) -> tuple[int, int]:
    """The first visible character from an offset on, and how far it is indented."""
    match = _INDENTED.search(text, start)
    return (match.end(), len(match[0].expandtabs())) if match else (start, 0)


def by_page(
    hits: Iterable[Hit],
    *,
    documents: Mapping[str, Document],
    choose: Callable[[Document], Expander],
    encoding: str = DEFAULT_ENCODING,
) -> list[Passage]:
    """Each page's hits by the expander that was chosen for the page, in the order of their best hits.

    Args:
        choose: a page -> its expander, such as :func:`by_shape`; asked once a page.
    """
    ranked = [hit for hit, _ in located(hits, documents, encoding)]
    passages: list[Passage] = []
    for members in group(ranked, key="doc_id"):
        document = documents[members[0].doc_id]
        passages += choose(document)(members, documents=documents)
    return by_best_hit(passages, ranked)


def by_shape(document: Document, *, child_tokens: int = 180, encoding: str = DEFAULT_ENCODING) -> Expander:
    """Choose for a page: children where they are sections already, sections where there are headings.

    Short sections (an FAQ, product cards) need no expansion. A longer page without headings takes
    windows.

    Args:
        child_tokens: the size of the children that are searched; the page is left alone when no section
            of it is longer.

    >>> card = Document(doc_id="card", title="Card", text="# Kettle\\nOne litre.\\n# Jug\\nTwo litres.\\n")
    >>> [by_shape(card, child_tokens=n).func.__name__ for n in (20, 4)]
    ['children', 'sections']
    """
    check_at_least(MIN_LIMIT, child_tokens=child_tokens)
    found = page_of(document, encoding).sections
    if all(section.n_tokens <= child_tokens for section in found):
        return partial(expanders.children, merge=True, encoding=encoding)
    if any(section.level for section in found):
        return partial(expanders.sections, encoding=encoding)
    return partial(expanders.window, encoding=encoding)
