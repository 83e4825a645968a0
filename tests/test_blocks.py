"""Blocks tile the text, and what looks like Markdown is what a Markdown reader sees."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cookbook.blocks import _parse, _read, _with_stand_ins, blocks

# Pieces that Markdown, line ends and Unicode make hard, glued together at random.
PIECES = st.sampled_from(
    [
        *(
            "\n",
            "\n\n",
            "\r\n",
            "\r",
            "\r\n\r\n",
            "\x0b",
            "\x0c",
            "\x1c",
            "\x85",
            "\u2028",
            "\u2029",
            "\xa0",
            " ",
        ),
        *(
            "    ",
            "\t",
            "\u200b",
            "\ufeff",
            "# ",
            "## ",
            "####### ",
            "---",
            "===",
            "***",
            "- ",
            "* ",
            "1. ",
            "> ",
        ),
        *(
            "```",
            "~~~~",
            "```py\n",
            "| a | b |\n",
            "|---|---|\n",
            "|",
            "<!--",
            "-->",
            "<pre>",
            "</pre>",
            "<p>",
            "\\",
        ),
        *(
            "[a]: /b\n",
            "[a]",
            "](",
            "`",
            "_",
            "**",
            ". ",
            "! ",
            "?",
            "\u2026",
            ".",
            "Dr. ",
            "A. ",
            "(",
            ") ",
            "\u201c",
        ),
        *(
            "\u201d",
            "\u2019",
            "\u300c",
            "\u3002",
            "\u300d",
            "\u7a95\u306f",
            "\u0e40\u0e15\u0e32 ",
            "\u0939\u0948\u0964",
        ),
        *(
            "\U0001f389",
            "\U0001f469\U0001f3fd\u200d\U0001f527",
            "e\u0301",
            "word",
            "Word ",
            "12",
            "\x00",
            "caf\xe9",
        ),
        *("2026-03-01 04:05:06 INFO ", "  at a.b.C(C.java:4)\n", "Ana: ", "title: x\n"),
    ]
)
TEXTS = st.one_of(st.text(max_size=120), st.lists(PIECES, max_size=40).map("".join))
# Stretches that are plainly one block, or look so but are not, or change what those after them are.
STRETCHES = st.sampled_from(
    [
        *("abc", "Foo `x` bar", "abc\ndef", "\u201cq\u201d \u00e9", "(a\n*b*", "a `b`\n[c]: d", "ab"),
        *("```", "```rust", "````", "~~~", "   ```", "- a", "1. b", "  c", "    code", "> q", "> ```"),
        *("# H", "H\n===", "H\n---", "***", "<!-- c", "-->", "abc -->\ndef", "<div>", "</div>"),
        *("<pre>", "abc </pre> d", "<?php", "a ?>\nb", "[a]: b", "[a]:\nabc\ndef", "[a]: /u 'x\ny\nz'"),
        *("```\ncode\n```", "```rs\nx = 1\n\ny = 2\n```", "```\na\n````", "``` a`b\nx\n```", "``"),
        *("abc\n```", "- ```\n  z\n  ```", "* l\nlazy", "a\n1. b", "a\n2. b", "a\n* * *", "a\n    d"),
        *("abc\\\n===", "\x0c", "\xa0x", "a|b\n-|-\nc|d\nfoo", "| a |\n|---|\n| b |"),
    ]
)
GAPS = st.sampled_from(["\n\n", "\n\n", "\n\n", "\n", "\n\n\n", "\n \n", ""])


def outline(text: str) -> list[tuple[int, str]]:
    return [(block.level, block.title) for block in blocks(text) if block.kind == "heading"]


def kinds(text: str) -> list[tuple[str, str]]:
    return [(block.kind, text[block.start : block.end]) for block in blocks(text)]


@settings(max_examples=400, deadline=None)
@given(TEXTS)
@example("\ufeff---\r\na: b\r\n---\r\n# T")
@example("> - ```\n\n\x0c\n\n- \n-\n")
def test_blocks_tile_any_text(text: str) -> None:
    found = blocks(text)
    assert "".join(text[block.start : block.end] for block in found) == text
    assert all(left.end == right.start for left, right in pairwise(found))
    assert all(block.start < block.end for block in found)
    if text.strip():
        assert not any(text[block.start : block.end].isspace() for block in found)
    else:
        assert [block.kind for block in found] == (["paragraph"] if text else [])
    for block in found:
        assert (block.kind == "heading") == (block.level > 0)
        # A block starts where a line starts.
        assert block.start == 0 or text[block.start - 1] in "\r\n"


@settings(max_examples=600, deadline=None)
@given(st.lists(st.tuples(STRETCHES, GAPS), max_size=8))
def test_rules_that_stand_in_for_plain_blocks_change_no_block(pairs: list[tuple[str, str]]) -> None:
    text = "".join(stretch + gap for stretch, gap in pairs)
    assert _parse(text) == _read(text)


def test_stand_ins_are_used_and_given_up_where_the_context_is_not_plain() -> None:
    text = "# T\n\nIt `leaks`\na lot.\n\n```sh\nls\n```\n\nEnd.\n"
    simple, kinds = _with_stand_ins(text)
    assert "leaks" not in simple and "ls" not in simple and len(simple) == len(text)
    assert list(kinds.values()) == ["paragraph", "code", "paragraph"]
    hidden = "~~~\n\nabc\n\n~~~\n\nabc\n"
    assert _with_stand_ins(hidden)[1]
    assert [block.kind for block in blocks(hidden)] == ["code", "paragraph"]


@settings(max_examples=300, deadline=None)
@given(TEXTS, st.integers(1, 30))
@example("- a\n- b\n\n    c\n\n# T\n\n    x\n\n    y\n> q\nlazy\n", 1)
@example("00000000000|0\n|-|-\n00000\n0", 3)
@example("a\n\n---\nb: c\n\n---\n\n| h |\n|---|\n| 1 |\n", 1)
def test_a_long_text_is_parsed_in_segments(text: str, n_characters: int) -> None:
    text = text.replace("]:", "]")  # where a definition stands decides what a link far away is
    whole = blocks(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cookbook.blocks._SEGMENT", n_characters)
        assert blocks(text) == whole


@pytest.mark.parametrize(
    ("text", "headings"),
    [
        pytest.param(
            "# Pump guide\n\nBefore.\n\n~~~sh\n# not a heading\n~~~~\n\n## Next\n\nAfter.\n",
            [(1, "Pump guide"), (2, "Next")],
            id="case-019",
        ),
        pytest.param("# T\n~~~\na\n~~~rb\n# still code\n~~~\n## U\nx\n", [(1, "T"), (2, "U")], id="case-020"),
        pytest.param(
            "Intro line\n\nOverview\n========\n\nText A.\n\nDetails\n-------\n\nText B.\n\n---\n\nTail.\n",
            [(1, "Overview"), (2, "Details")],
            id="case-022",
        ),
        pytest.param(
            "---\ntitle: Loom\n# comment: old\nauthor: R\n---\n\n# Loom\n\nBody.\n",
            [(1, "Loom")],
            id="case-025",
        ),
        pytest.param(
            "# A\n\n<!--\n# hidden\n\n## also hidden\n-->\n\n<pre>\n# no\n\n# no2\n</pre>\n\n## B\ntext\n",
            [(1, "A"), (2, "B")],
            id="case-026",
        ),
        pytest.param(
            "Preface text.\n\n# A\n## B\n\n### C\nBody.\n## D\n",
            [(1, "A"), (2, "B"), (3, "C"), (2, "D")],
            id="case-028",
        ),
        pytest.param(
            "#hashtag talk\n\n    # indented\n\n\\# escaped\n\n####### seven\n\n## C# notes ##\n\ntext\n",
            [(2, "C# notes")],
            id="case-029",
        ),
    ],
)
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_headings(text: str, headings: list[tuple[int, str]], line_end: str) -> None:
    text = text.replace("\n", line_end)
    assert outline(text) == headings
    assert "".join(piece for _, piece in kinds(text)) == text


def test_front_matter_keeps_offsets() -> None:
    text = "---\ntitle: Loom\n# comment: old\nauthor: R\n---\n\n# Loom\n\nBody.\n"
    found = blocks(text)
    assert [block.kind for block in found] == ["front_matter", "heading", "paragraph"]
    assert found[-1].start == text.index("Body.") == 54


@pytest.mark.parametrize(
    "text",
    [
        "Text.\n\n---\nKey: value\n\n---\nMore.\n",  # two rules in the middle of a page
        "---\n\n---\n",  # nothing between them
        "---\nKey: value\n",  # never closed
    ],
)
def test_what_is_not_front_matter(text: str) -> None:
    assert "front_matter" not in [kind for kind, _ in kinds(text)]


def test_every_kind() -> None:
    text = (
        "# A *b* `c_d` [e](f)\n\nTwo\nlines.\n\n- one\n- two\n\n  more\n\n```py\n\n# x\n```\n\n"
        "| h |\n|---|\n| 1 |\n| 2 |\n\n<div>\n</div>\n\n***\n\n    indented\n\n[ref]: /u\n[two]: /v\n"
    )
    assert kinds(text) == [
        ("heading", "# A *b* `c_d` [e](f)\n\n"),
        ("paragraph", "Two\nlines.\n\n"),
        ("item", "- one\n"),
        ("item", "- two\n\n"),
        ("paragraph", "  more\n\n"),
        ("code", "```py\n\n# x\n```\n\n"),
        ("table_head", "| h |\n|---|\n"),
        ("table_row", "| 1 |\n"),
        ("table_row", "| 2 |\n\n"),
        ("html", "<div>\n</div>\n\n"),
        ("rule", "***\n\n"),
        ("code", "    indented\n\n"),
        ("paragraph", "[ref]: /u\n"),
        ("paragraph", "[two]: /v\n"),
    ]
    assert blocks(text)[0].title == "A b c_d e"


def test_headings_in_quotes_and_lists_are_text() -> None:
    assert kinds("> # Quoted\n> text\n\n- # Item\n\n1. x\n   ## Deep\n") == [
        ("paragraph", "> # Quoted\n"),
        ("paragraph", "> text\n\n"),
        ("item", "- # Item\n\n"),
        ("item", "1. x\n"),
        ("paragraph", "   ## Deep\n"),
    ]


def test_code_and_tables_inside_items_keep_their_kind() -> None:
    assert kinds("- ```\n  x\n  ```\n- y\n  ```\n  z\n  ```\n- > | a |\n  > |---|\n  > | 1 |\n") == [
        ("code", "- ```\n  x\n  ```\n"),
        ("item", "- y\n"),
        ("code", "  ```\n  z\n  ```\n"),
        ("table_head", "- > | a |\n  > |---|\n"),
        ("table_row", "  > | 1 |\n"),
    ]


def test_offsets_count_characters_not_bytes() -> None:
    text = "\u7a95 caf\xe9\n\n## \U0001f389 Titel\n\n\u2014 end\n"
    assert [piece for _, piece in kinds(text)] == [
        "\u7a95 caf\xe9\n\n",
        "## \U0001f389 Titel\n\n",
        "\u2014 end\n",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "---\na\r" + "\r\n" * 50_000,
        "[" * 50_000,
        ">" * 50_000,
        "- " * 30_000,
        "*" * 100_000,
        "`" * 50_000,
        "---\n" * 10_000,
    ],
    ids=["front matter", "brackets", "quotes", "lists", "stars", "ticks", "rules"],
)
def test_hostile_text_takes_no_quadratic_time(text: str) -> None:
    started = time.process_time()
    assert sum(block.end - block.start for block in blocks(text)) == len(text)
    assert time.process_time() - started < 2
