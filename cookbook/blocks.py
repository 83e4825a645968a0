"""Markdown text in -> Blocks out: headings, paragraphs, list items, code, table rows, that tile the text.

The parser is pulldown-cmark (package ``pyromark``); plain text is read as Markdown too, where blank
lines part paragraphs. A block starts at the start of a line and runs to the next block's start, so
that joining the blocks gives the text back.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from operator import itemgetter
from string import ascii_letters
from typing import NamedTuple

_FRONT_MATTER = re.compile(
    r"---[ \t]*(?>\r\n?|\n)(?=\S)(?:[^\r\n]*+(?>\r\n?|\n))*?(?:---|\.\.\.)[ \t]*(?=[\r\n]|\Z)"
)
_LIST_MARKERS = re.compile(r"(?:[\s>]*(?:[-+*]|\d{1,9}[.)]))+[\s>]*")

# How the parser's leaf blocks are called here; a dict tag (heading, code) is told by its key.
_LEAVES = {
    "Paragraph": "paragraph",
    "Item": "item",
    "TableHead": "table_head",
    "TableRow": "table_row",
    "HtmlBlock": "html",
}


# How the first line of a paragraph may start, and how no other line of it may: with what could begin
# another block there.
_PLAIN_STARTS = frozenset(f"{ascii_letters}\"'(\u201c\u2018")
_OTHER_START = re.compile(r"\n(?:[^A-Za-z\"'(\u201c\u2018`\[]|```)")

_SEGMENT = 1 << 18  # characters parsed in one call
Leaf = tuple[int, str, int, str]  # start, kind, level, title
_start = itemgetter(0)


class Block(NamedTuple):
    """A stretch ``text[start:end]`` of one kind, white space after it included.

    ``kind`` is ``front_matter``, ``heading``, ``paragraph``, ``item`` (the first block of a list item),
    ``code``, ``table_head`` (with the delimiter row), ``table_row``, ``html`` or ``rule``. Only a heading
    outside quotes and lists has a ``level`` (1 to 6) and a ``title`` (without markup).
    """

    start: int
    end: int
    kind: str
    level: int = 0
    title: str = ""


def blocks(text: str) -> list[Block]:
    r"""The blocks of a text, in order and without gaps; white space before the first belongs to it.

    YAML front matter counts only at the very start; link definitions count as paragraphs.

    >>> text = "# Pump\n\nIt leaks.\n\n- seal\n- valve\n"
    >>> [(block.kind, text[block.start : block.end]) for block in blocks(text)]
    [('heading', '# Pump\n\n'), ('paragraph', 'It leaks.\n\n'), ('item', '- seal\n'), ('item', '- valve\n')]
    """
    if not text or text.isspace():
        return [Block(0, len(text), "paragraph")] if text else []
    body_start = 1 if text[0] == "\ufeff" else 0
    start, kind, level, title = 0, "", 0, ""
    if front_matter := _FRONT_MATTER.match(text, body_start):
        kind = "front_matter"
        body_start = front_matter.end()

    # Move each start to the start of its line; one line starts one block only. Whatever the parser
    # calls a block but Python calls blank (a lone form feed) stays with the block before it.
    tiles: list[Block] = []
    has_returns = "\r" in text
    for leaf_start, leaf_kind, leaf_level, leaf_title in _leaves(text, body_start):
        line = text.rfind("\n", start, leaf_start) + 1
        if has_returns:
            line = max(line, text.rfind("\r", start, leaf_start) + 1)
        if kind == "item" and leaf_kind != "item" and _LIST_MARKERS.fullmatch(text, start, leaf_start):
            if leaf_kind in ("code", "table_head"):
                kind = leaf_kind
            continue
        if kind:
            if line <= start:
                continue
            if not (text[start].isspace() and text[start:line].isspace()):
                tiles.append(Block(start, line, kind, level, title))
                start = line
        kind, level, title = leaf_kind, leaf_level, leaf_title
    if tiles and text[start:].isspace():
        start, _, kind, level, title = tiles.pop()
    tiles.append(Block(start, len(text), kind or "paragraph", level, title))
    return tiles


def _leaves(text: str, start: int) -> Iterator[Leaf]:
    """The leaf blocks from ``start`` on, in order.

    The parser's tree takes several times the text's size, so a long text is parsed in segments: each
    gives all its blocks but the last at the top level, where the next segment starts.
    """
    n_characters = _SEGMENT
    while start < len(text):
        end = text.find("\n", start + n_characters) + 1 or len(text)
        segment = text[start:end]
        leaves, last = _parse(segment)
        if end < len(text):
            unfinished = bisect_left(leaves, last, key=_start)
            if unfinished == 0:  # one giant block
                n_characters *= 2
                continue
            place = leaves[unfinished][0]
            end = start + max(segment.rfind("\n", 0, place), segment.rfind("\r", 0, place)) + 1
            del leaves[unfinished:]
        if start:
            leaves = [(leaf[0] + start, *leaf[1:]) for leaf in leaves]
        yield from leaves
        n_characters = _SEGMENT
        start = end


def _parse(text: str) -> tuple[list[Leaf], int]:
    """The leaf blocks of a text, and where its last block outside quotes and lists begins.

    The parser reports every line, emphasis and code word of a paragraph, which takes most of its time.
    So it is given rules (one report each) in the place of what is plainly one block; where it does not
    see all those rules, something around them was not plain, and it is given the text itself.
    """
    simple, kinds = _with_stand_ins(text)
    leaves, last = _read(simple)
    n_found = 0
    for number, leaf in enumerate(leaves):
        if leaf[0] in kinds and leaf[1] == "rule":
            leaves[number] = (leaf[0], kinds[leaf[0]], 0, "")
            n_found += 1
    return (leaves, last) if n_found == len(kinds) else _read(text)


def _with_stand_ins(text: str) -> tuple[str, dict[int, str]]:
    """The text with rules of the same length for plain paragraphs and fenced code, and what they stand for.

    >>> _with_stand_ins("# Pump\\n\\nIt `leaks`\\na lot.\\n\\n- seal")
    ('# Pump\\n\\n*****************\\n\\n- seal', {8: 'paragraph'})
    """
    kinds: dict[int, str] = {}
    if "\r" in text:
        return text, kinds
    stretches = text.split("\n\n")
    start, in_code = 0, False
    for number, stretch in enumerate(stretches):
        n_characters = len(stretch)
        kind = ""
        if not in_code and n_characters > 2 and stretch[0] in _PLAIN_STARTS:
            kind = "" if _OTHER_START.search(stretch) else "paragraph"
        elif "```" in stretch:
            if (
                not in_code
                and stretch.startswith("```")
                and stretch.endswith("\n```")
                and stretch.find("```", 3) == n_characters - 3
                and "`" not in stretch[3 : stretch.find("\n")]
            ):
                kind = "code"
            elif stretch.count("```") % 2:
                in_code = not in_code
        if kind:
            stretches[number] = "*" * n_characters
            kinds[start] = kind
        start += n_characters + 2
    return "\n\n".join(stretches), kinds


def _read(text: str) -> tuple[list[Leaf], int]:
    """The same from the parser alone."""
    from pyromark import Options, events_with_range, reference_definitions

    options = Options.ENABLE_TABLES
    leaves: list[Leaf] = []
    last = last_end = 0  # of the latest block outside quotes and lists
    in_heading = False
    title: list[str] = []
    for event, place in events_with_range(text, options=options):
        if isinstance(event, str):
            if event == "Rule":
                leaves.append((place["start"], "rule", 0, ""))
                if place["start"] >= last_end:
                    last = place["start"]
            elif in_heading:
                title.append(" ")
        elif "Start" in event:
            tag = event["Start"]
            # (A cell that the last row lacks is reported at the end of its table, or after it.)
            if outermost := place["start"] >= last_end and tag != "TableCell":
                last, last_end = place["start"], place["end"]
            if isinstance(tag, str):
                if tag in _LEAVES:
                    leaves.append((place["start"], _LEAVES[tag], 0, ""))
            elif "Heading" in tag:
                if outermost:
                    leaves.append((place["start"], "heading", int(tag["Heading"]["level"][1]), ""))
                    in_heading = True
                else:
                    leaves.append((place["start"], "paragraph", 0, ""))
            elif "CodeBlock" in tag:
                leaves.append((place["start"], "code", 0, ""))
        elif in_heading:
            if "Text" in event:
                title.append(event["Text"])
            elif "Code" in event:
                title.append(event["Code"])
            elif "End" in event and "Heading" in event["End"]:
                leaves[-1] = (*leaves[-1][:3], " ".join("".join(title).split()))
                title.clear()
                in_heading = False
    if "]:" in text:
        definitions = reference_definitions(text, options=options).values()
        leaves += [(definition["span"]["start"], "paragraph", 0, "") for definition in definitions]
        leaves.sort(key=_start)
    if text.isascii():
        return leaves, last

    # The parser counts bytes; decode the stretch between two starts to count its characters.
    data = text.encode()
    n_bytes = n_characters = 0
    for number, leaf in enumerate(leaves):
        n_characters += len(data[n_bytes : leaf[0]].decode())
        n_bytes = leaf[0]
        leaves[number] = (n_characters, *leaf[1:])
    return leaves, len(data[:last].decode())
