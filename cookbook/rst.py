"""A numpydoc docstring (reStructuredText) -> the same text as Markdown.

Only what docstrings use is known: numpydoc sections, entries (``name : type`` over an indented text),
doctests, lists, literal blocks, directives, roles, links and tables. A paragraph becomes one line.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from itertools import pairwise

_ENTRY_SECTIONS = {
    "Parameters", "Other Parameters", "Attributes", "Methods", "Returns", "Yields", "Receives",
    "Raises", "Warns", "Warnings", "See Also",
}  # fmt: skip
_UNDERLINE = re.compile(r"\s*(-{3,}|={3,})\s*$")
_DIRECTIVE = re.compile(r"\.\. ([\w-]+)::\s*(.*)$")
_TARGET = re.compile(r"\.\. _([^:]+):\s*(.*)$")
_FOOTNOTE = re.compile(r"\.\. (\[[^\]]+\])\s*(.*)$")
_BULLET = re.compile(r"([-*+]|\d+\.|#\.)\s+(?=\S)")
_GRID = re.compile(r"\+[-=+]+\+\s*$")
_SIMPLE = re.compile(r"=+( +=+)+\s*$")
_ENTRY = re.compile(r"(\*{0,2}[\w.]+(?:\s*,\s*\*{0,2}[\w.]+)*)\s+:(?:\s+(.*))?$")
_INLINE = re.compile(
    r"(?<![\w`])``(?P<literal>.+?)``(?!`)"
    r"|:(?P<role>[\w:+-]+):`{1,2}(?P<content>[^`]+)`{1,2}"
    r"|(?<!\w)`(?P<text>[^`<]+?)\s*<(?P<url>[^>`]+)>`__?"
    r"|(?<!\w)`(?P<name>[^`]+)`__?(?!\w)"
    r"|(?<!\w)`(?P<default>[^`]+)`"
    r"|\[#?(?P<note>\w+)\]_(?!\w)"
    r"|\\(?P<space> )"
)
_CHANGES = {
    "versionadded": "Added in version",
    "versionchanged": "Changed in version",
    "deprecated": "Deprecated since version",
}
_ADMONITIONS = {"note", "warning", "tip", "hint", "important", "caution", "attention", "danger", "seealso"}
_CODE = {"code-block": "", "code": "", "sourcecode": "", "ipython": "python", "math": "latex"}

Block = tuple[str, str]  # ("item" or "other", Markdown)


def to_markdown(docstring: str, *, level: int = 2) -> str:
    r"""The docstring as Markdown, its numpydoc sections under headings of ``level``.

    >>> print(to_markdown("Add.\n\nParameters\n----------\nx : int\n    Left :class:`~m.Term`.\n"))
    Add.
    <BLANKLINE>
    ## Parameters
    <BLANKLINE>
    - `x` (int): Left `Term`.
    """
    lines = inspect.cleandoc(docstring).expandtabs().split("\n")
    targets = {
        match[1].strip("`").lower(): match[2].strip()
        for line in lines
        if (match := _TARGET.match(line.strip())) and match[2]
    }
    starts = [
        i for i in range(len(lines) - 1)
        if lines[i].strip() and not lines[i].lstrip().startswith(">>>") and _UNDERLINE.match(lines[i + 1])
        and (i == 0 or not lines[i - 1].strip())
    ]  # fmt: skip
    ends = [*starts, len(lines)]
    parts = [_render(_convert(lines[: ends[0]], "", targets))]
    for start, end in zip(starts, ends[1:], strict=True):
        title = lines[start].strip()
        body = _render(_convert(lines[start + 2 : end], title, targets))
        if body and body != "None":  # "None" is how a class says that the section is to be left out
            parts.append(f"{'#' * level} {title}\n\n{body}")
    return "\n\n".join(part for part in parts if part)


def _convert(lines: list[str], section: str, targets: dict[str, str]) -> list[Block]:
    """Blocks of one nesting level; ``section`` names the numpydoc section, if its entries are here."""
    lines = textwrap.dedent("\n".join(lines)).split("\n")
    out: list[Block] = []
    i = 0
    while i < len(lines):
        line = lines[i]
        if not line.strip():
            i += 1
        elif line[0] == " ":
            body, i = _indented(lines, i)
            out += _convert(body, "", targets)
        elif line.startswith(">>>"):
            end = _until_blank(lines, i)
            code = "\n".join(lines[i:end]).replace("<BLANKLINE>", "")
            out.append(("other", _fence(code, "python")))
            i = end
        elif match := _DIRECTIVE.match(line):
            body, i = _indented(lines, i + 1)
            out += _directive(match[1], match[2], body, targets)
        elif _TARGET.match(line):
            i += 1
        elif match := _FOOTNOTE.match(line):
            body, i = _indented(lines, i + 1)
            out.append(("other", f"{match[1]} " + _inline(_join([match[2], *body]), targets)))
        elif _GRID.match(line) or _SIMPLE.match(line):
            end = _until_blank(lines, i)
            out.append(("other", _table(lines[i:end], targets)))
            i = end
        elif match := _BULLET.match(line):
            body, i = _indented(lines, i + 1)
            marker = match[1] if match[1][0].isdigit() else "-"
            text = textwrap.dedent("\n".join(body)).split("\n")
            out.append(_item(marker, _convert([line[match.end() :], *text], "", targets)))
        elif _starts_entry(lines, i, section):
            body, i = _indented(lines, i + 1)
            out.append(_entry(line, body, section, targets))
        else:
            end = i + 1
            while end < len(lines) and not _ends_paragraph(lines, end, section):
                end += 1
            text_line = _join(lines[i:end])
            i = end
            if text_line.endswith("::"):
                body, i = _indented(lines, i)
                text_line = text_line[:-1].removesuffix(" :")  # "Text::" keeps one colon, "Text ::" none
                if text_line != ":":
                    out.append(("other", _inline(text_line, targets)))
                if any(body):
                    out.append(("other", _fence(textwrap.dedent("\n".join(body)).strip("\n"), "")))
            else:
                out.append(("other", _inline(text_line, targets)))
    return out


def _indented(lines: list[str], start: int) -> tuple[list[str], int]:
    """The blank and indented lines from ``start`` on, and the index of the first line after them."""
    end = start
    while end < len(lines) and (not lines[end].strip() or lines[end][0] == " "):
        end += 1
    return lines[start:end], end


def _until_blank(lines: list[str], start: int) -> int:
    end = start
    while end < len(lines) and lines[end].strip():
        end += 1
    return end


def _starts_entry(lines: list[str], i: int, section: str) -> bool:
    """Whether line ``i`` is the term of a definition: over an indented line, or ``name : type``."""
    follows = lines[i + 1] if i + 1 < len(lines) else ""
    if follows.strip() and follows[0] == " ":
        return True
    return section in _ENTRY_SECTIONS and (section == "See Also" or bool(_ENTRY.match(lines[i])))


def _ends_paragraph(lines: list[str], i: int, section: str) -> bool:
    line = lines[i]
    if not line.strip() or line.startswith((">>>", ".. ", "- ", "* ")):
        return True
    return section in _ENTRY_SECTIONS and line[0] != " " and _starts_entry(lines, i, section)


def _entry(line: str, body: list[str], section: str, targets: dict[str, str]) -> Block:
    """A definition as a list item: ``- `name` (type): text``."""
    match = _ENTRY.match(line)
    if match is None:
        label = _inline(line.strip(), targets)
    elif section == "See Also":
        label = f"`{match[1]}`"
        body = [match[2] or "", *textwrap.dedent("\n".join(body)).split("\n")]
    else:
        label = f"`{match[1]}` ({_inline(match[2], targets)})" if match[2] else f"`{match[1]}`"
    content = _convert(body, "", targets)
    if not content:
        return _item("-", [("other", label)])
    return _item("-", _led(label if label.endswith((":", ".")) else f"{label}:", content))


def _directive(name: str, argument: str, body: list[str], targets: dict[str, str]) -> list[Block]:
    text = textwrap.dedent("\n".join(body)).strip("\n").split("\n")
    while text and re.match(r":[\w-]+:", text[0]):  # options such as ":context: close-figs"
        text = text[1:]
    if name in _CODE:
        return [("other", _fence("\n".join(text).strip("\n"), argument or _CODE[name]))]
    if name in _CHANGES:
        version, _, rest = argument.partition(" ")
        content = _convert([rest, *text], "", targets)
        label = f"{_CHANGES[name]} {version.rstrip(':.')}"
        return _led(f"**{label}:**", content) if content else [("other", f"{label}.")]
    if name in _ADMONITIONS:
        return _led(f"**{name.capitalize()}:**", _convert([argument, *text], "", targets))
    return _convert(text, "", targets)


def _led(label: str, content: list[Block]) -> list[Block]:
    """The blocks with ``label`` in front: on the first one's line where that is a paragraph."""
    kind, first = content[0]
    if kind == "item" or first.startswith(("```", "|")):
        return [("other", label), *content]
    return [("other", f"{label} {first}"), *content[1:]]


def _item(marker: str, content: list[Block]) -> Block:
    text = _render(content)
    return "item", f"{marker} " + textwrap.indent(text, " " * (len(marker) + 1)).lstrip()


def _render(out: list[Block]) -> str:
    """Blocks with a blank line between them; items of one list stand on consecutive lines."""
    text = ""
    for i, (kind, block) in enumerate(out):
        if i:
            text += "\n" if kind == "item" and out[i - 1][0] == "item" else "\n\n"
        text += block
    return text


def _fence(code: str, language: str) -> str:
    ticks = "`" * max([3, *(len(run) + 1 for run in re.findall(r"`{3,}", code))])
    return f"{ticks}{language}\n{code}\n{ticks}"


def _table(lines: list[str], targets: dict[str, str]) -> str:
    """A grid or simple table as a Markdown table; the lines of one cell are joined."""
    grid = lines[0][0] == "+"
    if grid:
        edges = [match.start() for match in re.finditer(r"\+", lines[0])]
        columns = [(a + 1, b) for a, b in pairwise(edges)]
    else:
        starts = [match.start() for match in re.finditer(r"=+", lines[0])]
        columns = list(pairwise([*starts, max(map(len, lines))]))
    header: list[list[str]] = []
    rows: list[list[str]] = []
    fresh = True
    for line in lines[1:]:
        if (_GRID if grid else _SIMPLE).match(line):
            if "=" in line and not header:
                header, rows = rows, []
            fresh = True
            continue
        cells = [line[a:b].strip() for a, b in columns]
        if rows and (not cells[0] if not grid else not fresh):
            rows[-1] = [_join([above, cell]) for above, cell in zip(rows[-1], cells, strict=True)]
        else:
            rows.append(cells)
        fresh = False
    if not rows:  # a simple table of two borders has rows only
        header, rows = [], header
    head = header[0] if header else [""] * len(columns)
    return "\n".join(
        "| " + " | ".join(cells) + " |"
        for cells in (
            [_inline(cell, targets) for cell in head],
            ["---"] * len(columns),
            *([_inline(cell, targets).replace("|", "\\|") for cell in row] for row in rows),
        )
    )


def _join(lines: list[str]) -> str:
    return " ".join(line.strip() for line in lines if line.strip())


def _inline(text: str, targets: dict[str, str]) -> str:
    """Roles, literals and links of one paragraph as Markdown."""

    def replace(match: re.Match[str]) -> str:
        if (literal := match["literal"]) is not None:
            literal = literal.strip() or literal
            return f"`` {literal} ``" if "`" in literal else f"`{literal}`"
        if content := match["content"]:
            titled = re.fullmatch(r"(.+?)\s*<[^>]+>", content)
            if titled and match["role"].endswith("ref"):
                return titled[1]
            name = titled[1] if titled else content.lstrip("!")
            return f"`{_short(name).lstrip('.')}`"
        if match["url"]:
            return f"[{match['text']}]({''.join(match['url'].split())})"  # wrapped in the source
        if name := match["name"]:
            url = targets.get(name.lower())
            return f"[{name}]({url})" if url else name
        if match["default"]:
            return f"`{_short(match['default'])}`"
        return f"[{match['note']}]" if match["note"] else ""

    return _INLINE.sub(replace, text)


def _short(name: str) -> str:
    """A name as it is shown: after a tilde only its last part."""
    return name[1:].rpartition(".")[2] if name.startswith("~") else name
