"""Markdown document in -> tree of Sections out, whose bodies tile the page.

A section is a heading with the text under it. The path is cut by level, not by depth, so that after
``# A`` and ``### B`` a second ``### C`` is A > C.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from unicodedata import category

from .blocks import Block, blocks
from .tokens import DEFAULT_ENCODING, TokenMap, count
from .types import Document, Section, Span


def sections(
    document: Document,
    *,
    encoding: str = DEFAULT_ENCODING,
    layout: Sequence[Block] | None = None,
    tokens: TokenMap | None = None,
) -> list[Section]:
    """The sections of a page in document order; text before the first heading is a preamble.

    Args:
        encoding: the tokenizer that counts ``n_tokens`` (of the section's own body).
        layout: the blocks of the page, when the caller has them already.
        tokens: the page's token map, when the caller has one already; it saves encoding again.

    >>> page = Document(doc_id="abc", title="Abc", text="Hi.\\n# A\\nalpha\\n### B\\nbeta\\n## C\\n")
    >>> for section in sections(page):
    ...     print(section.section_id, section.parent_id, section.path, section.n_tokens)
    abc#h000 None () 2
    abc#h001 None ('A',) 5
    abc#h002 abc#h001 ('A', 'B') 5
    abc#h003 abc#h001 ('A', 'C') 3
    """
    text = document.text
    if not text or text.isspace():
        return []
    layout = blocks(text) if layout is None else layout
    heads = [block for block in layout if block.kind == "heading"]
    if not heads or heads[0].start > 0:
        heads.insert(0, Block(0, 0, "preamble"))
    body_ends = [*(head.start for head in heads[1:]), len(text)]
    span_ends = _span_ends(heads, len(text))
    heading_ids = anchors(head.title for head in heads if head.level)
    if not heads[0].level:
        heading_ids.insert(0, "")
    heading_paths = paths(heads)
    found: list[Section] = []
    open_sections: list[Section] = []  # the chain of ancestors, by strictly growing level
    for number, head in enumerate(heads):
        body_end = body_ends[number]
        if tokens is None:
            n_tokens = count(text[head.start : body_end], encoding=encoding)
        else:
            n_tokens = tokens.count(head.start, body_end)
        while open_sections and open_sections[-1].level >= head.level:
            open_sections.pop()
        section = Section(
            section_id=f"{document.key}#h{number:03}",
            heading_id=heading_ids[number],
            title=head.title,
            path=heading_paths[number],
            level=head.level,
            span=Span(doc_id=document.doc_id, start=head.start, end=span_ends[number]),
            body=Span(doc_id=document.doc_id, start=head.start, end=body_end),
            n_tokens=n_tokens,
            parent_id=open_sections[-1].section_id if open_sections else None,
        )
        found.append(section)
        if head.level:
            open_sections.append(section)
    return found


def section_at(sections: Sequence[Section], offset: int) -> Section:
    """The innermost section that holds the character at ``offset``.

    Args:
        sections: the sections of one page, in document order.

    >>> page = Document(doc_id="abc", title="Abc", text="# A\\nalpha\\n## B\\nbeta\\n")
    >>> section_at(sections(page), 12).title
    'B'
    """
    if not sections or not sections[0].body.start <= offset < sections[-1].body.end:
        end = sections[-1].body.end if sections else 0
        raise ValueError(f"offset={offset} must be in 0 to {end}, the end of the page left out")
    return sections[bisect_right(sections, offset, key=lambda section: section.body.start) - 1]


def paths(heads: Iterable[Block]) -> list[tuple[str, ...]]:
    """The titles from the top heading down to each of these, cut by level; empty for what is no heading.

    >>> paths(block for block in blocks("# A\\n### B\\n### C\\n## D\\n"))
    [('A',), ('A', 'B'), ('A', 'C'), ('A', 'D')]
    """
    found: list[tuple[str, ...]] = []
    chain: list[Block] = []
    for head in heads:
        while head.level and chain and chain[-1].level >= head.level:
            chain.pop()
        if head.level:
            chain.append(head)
        found.append(tuple(above.title for above in chain) if head.level else ())
    return found


def anchors(titles: Iterable[str]) -> list[str]:
    """The anchors that a forge gives to the headings of one page, repeats numbered from 1.

    >>> anchors(["C# notes", "Set-up & use", "C notes", "C notes", "\u2026"])
    ['c-notes', 'set-up--use', 'c-notes-1', 'c-notes-2', 'section']
    """
    repeats: dict[str, int] = {}
    found = []
    for title in titles:
        kept = (c for c in title.strip().lower() if c.isalnum() or c in "-_ " or category(c)[0] == "M")
        base = "".join(kept).replace(" ", "-") or "section"
        anchor = base
        while anchor in repeats:
            repeats[base] += 1
            anchor = f"{base}-{repeats[base]}"
        repeats[anchor] = 0
        found.append(anchor)
    return found


def _span_ends(heads: Sequence[Block], end: int) -> list[int]:
    """Where each section ends with its subsections: at the next heading of its level or above.

    The preamble, of level 0, ends at the first heading.
    """
    ends = [end] * len(heads)
    waiting: list[int] = []  # headings that still want their end
    for number, head in enumerate(heads):
        while waiting and (heads[waiting[-1]].level >= head.level or heads[waiting[-1]].level == 0):
            ends[waiting.pop()] = head.start
        waiting.append(number)
    return ends
