"""Sentences tile the text inside its blocks; reported faults of splitters stay fixed."""

from __future__ import annotations

import time
from itertools import pairwise
from unicodedata import category

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from nupunkt import sent_spans
from test_blocks import TEXTS

from cookbook.blocks import Block, blocks
from cookbook.sentences import capped, sentence_spans, sentences, split_block
from cookbook.tokens import count
from cookbook.types import Document


def pieces(text: str) -> list[str]:
    return [text[start:end] for start, end in sentence_spans(text)]


def stripped(text: str) -> list[str]:
    return [piece.strip() for piece in pieces(text)]


def borders(text: str) -> set[int]:
    return {start for start, _ in sentence_spans(text)[1:]}


def page(text: str) -> Document:
    return Document(doc_id="page", title="Page", text=text)


@settings(max_examples=400, deadline=None)
@given(TEXTS)
@example("a\r\n\r\n\x0b\r\nb. \u2028C d.")
@example("```\r\nx\r\n```")
def test_sentences_tile_any_text_inside_its_blocks(text: str) -> None:
    spans = sentence_spans(text)
    assert "".join(text[start:end] for start, end in spans) == text
    assert all(left[1] == right[0] for left, right in pairwise(spans))
    assert all(start < end for start, end in spans)
    if text.strip():
        assert not any(text[start:end].isspace() for start, end in spans)
    layout = blocks(text)
    assert {block.start for block in layout} <= {start for start, _ in spans}
    assert spans == [span for block in layout for span in split_block(text, block)]


@settings(max_examples=150, deadline=None)
@given(TEXTS, st.integers(4, 30))
@example("a" + " " * 3000 + "b. C" + "\n" * 900 + "d", 4)
def test_a_cap_holds_and_loses_only_white_space(text: str, max_tokens: int) -> None:
    document = page(text)
    spans = sentences(document, max_tokens=max_tokens)
    last = 0
    for span in spans:
        assert text[last : span.start].isspace() or last == span.start
        assert count(text[span.start : span.end]) <= max_tokens
        assert text[span.start : span.end].strip()
        last = span.end
    assert text[last:].isspace() or last == len(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            "Ask Dr. Ilse M. Varga about the lathe. "
            "Parts ship from Korr Ltd. in Delft. See Fig. 4 and No. 12.",
            [
                "Ask Dr. Ilse M. Varga about the lathe.",
                "Parts ship from Korr Ltd. in Delft.",
                "See Fig. 4 and No. 12.",
            ],
            id="case-001",
        ),
        pytest.param(
            "The kiln reads 9 p.m. It then cools. She is ill. He slept at no. It ended.",
            ["The kiln reads 9 p.m.", "It then cools.", "She is ill.", "He slept at no.", "It ended."],
            id="case-002",
        ),
        pytest.param(
            "Docs live at https://kiln.example.org/a.b?v=2.1. "
            "Mail ops@kiln.example.org. Open cfg.v2.toml first.",
            [
                "Docs live at https://kiln.example.org/a.b?v=2.1.",
                "Mail ops@kiln.example.org.",
                "Open cfg.v2.toml first.",
            ],
            id="case-004",
        ),
        pytest.param(
            "Moreno et al. [2019] agree. "
            "Oak Inc. (\u201cOak\u201d) sued Elm Corp. (\u201cElm\u201d). See pp. 3\u20135.",
            [
                "Moreno et al. [2019] agree.",
                "Oak Inc. (\u201cOak\u201d) sued Elm Corp. (\u201cElm\u201d).",
                "See pp. 3\u20135.",
            ],
            id="case-005",
        ),
        pytest.param(
            "\u201cReady?\u201d Ana asked. \u2018Go now!\u2019 he said. "
            "She wrote \u201cStop.\u201d Then silence.",
            [
                "\u201cReady?\u201d Ana asked.",
                "\u2018Go now!\u2019 he said.",
                "She wrote \u201cStop.\u201d",
                "Then silence.",
            ],
            id="case-008",
        ),
        pytest.param(
            "The seal holds. The\r\n  valve leaks at\r\n  two bar. Stop.\r\n",
            ["The seal holds.", "The\r\n  valve leaks at\r\n  two bar.", "Stop."],
            id="case-010",
        ),
        pytest.param(
            "\u7a95\u306f\u71b1\u3044\u3002\u6249\u3092\u9589\u3081\u3066\uff01\u672c\u5f53\uff1f\u300c\u5f85\u3063"
            "\u3066\u3002\u300d\u3068\u5f7c\u306f\u8a00\u3063\u305f\u3002\u7d42\u308f\u308a\uff0e\u6b21\u3078\uff61",
            [
                "\u7a95\u306f\u71b1\u3044\u3002",
                "\u6249\u3092\u9589\u3081\u3066\uff01",
                "\u672c\u5f53\uff1f",
                "\u300c\u5f85\u3063\u3066\u3002\u300d\u3068\u5f7c\u306f\u8a00\u3063\u305f\u3002",
                "\u7d42\u308f\u308a\uff0e",
                "\u6b21\u3078\uff61",
            ],
            id="case-011",
        ),
    ],
)
def test_reported_texts(text: str, expected: list[str]) -> None:
    assert stripped(text) == expected
    assert "".join(pieces(text)) == text


@pytest.mark.parametrize(
    ("text", "whole", "parted"),
    [
        pytest.param(
            "He paused .. Then left .... Odd\u2026 isn\u2019t it? Well... maybe so.",
            ["Odd\u2026 isn\u2019t it?", "Well... maybe so.", "..", "...."],
            [("isn\u2019t it?", "Well")],
            id="case-007",
        ),
        pytest.param(
            "Done!!! \U0001f389 Next?! "
            "\U0001f469\U0001f3fd\u200d\U0001f527 fixes it\u2026 \U0001f44d\U0001f3fd Bye.",
            ["!!!", "?!", "\U0001f469\U0001f3fd\u200d\U0001f527", "\U0001f44d\U0001f3fd"],
            [("!!!", "Next"), ("?!", "fixes")],
            id="case-014",
        ),
        pytest.param(
            "2026-03-01 04:05:06.789 WARN kiln.ctl: t=812.5\n  at a.b.C.run(C.java:42)\n"
            "2026-03-01 04:05:07.001 INFO ok\n",
            ["04:05:06.789 WARN kiln.ctl: t=812.5", "a.b.C.run(C.java:42)"],
            [("C.java:42)", "2026-03-01 04:05:07")],
            id="case-016",
        ),
    ],
)
def test_reported_borders(text: str, whole: list[str], parted: list[tuple[str, str]]) -> None:
    found = borders(text)
    for part in whole:
        start = text.index(part)
        assert not found & set(range(start + 1, start + len(part)))
    for left, right in parted:
        left_end = text.index(left) + len(left)
        assert found & set(range(left_end, text.index(right, left_end) + 1))
    assert all(any(character.isalnum() for character in piece) for piece in pieces(text))


def test_log_borders_are_line_ends() -> None:
    lines = ["2026-03-01 04:05:06.789 WARN kiln.ctl: a. B\r\n", "  at a.b.C(C.java:42)\r\n"]
    lines.append("2026-03-01 04:05:07 INFO ok. So\r\n")
    assert pieces("".join(lines)) == lines


def test_case_013() -> None:
    text = "\u0e40\u0e15\u0e32\u0e40\u0e1c\u0e32\u0e23\u0e49\u0e2d\u0e19\u0e21\u0e32\u0e01 " * 400 + "a|b"
    spans = sentences(page(text), max_tokens=180)
    assert "".join(text[span.start : span.end] for span in spans) == text
    assert all(count(text[span.start : span.end]) <= 180 for span in spans)
    assert all(text[span.end - 1] == " " for span in spans[:-1])
    assert text[spans[-1].start : spans[-1].end].endswith("a|b")


@pytest.mark.parametrize(
    "text", ["\u0e40\u0e15\u0e32\u0e1c\u0e49\u0e33\u0e17\u0e35\u0e48" * 200, "e\u0301\u0323" * 300]
)
def test_marks_stay_with_their_letter(text: str) -> None:
    for span in sentences(page(text), max_tokens=20)[1:]:
        assert category(text[span.start])[0] != "M"


def test_case_017() -> None:
    text = "x9k_" * 5000
    started = time.process_time()
    spans = sentences(page(text), max_tokens=180)
    assert time.process_time() - started < 2
    assert "".join(text[span.start : span.end] for span in spans) == text
    assert all(count(text[span.start : span.end]) <= 180 for span in spans)


@pytest.mark.parametrize(
    "expected",
    [
        ["Lt. Oak met Mme. Elm. ", "They left."],
        ["Keep it at max. 5 bar, i.e. low. ", "See Tab. 3."],
        ["The U.K. Parliament met at 5 p.m. on Jan. 5. ", "It rained."],
        ["Use `a.b`. ", "Then call `c()`. ", "And _stop._ ", "Then **go.** ", "Now."],
        ["It rose.[1] ", "It fell.[^note] ", "It stayed.\xb2 ", "The end."],
        [
            "\u201cNo!\u201d the old guard shouted. ",
            "\u201cYes!\u201d\nshe said. ",
            "\u201cGo!\u201d ",
            "He went.",
        ],
        ["What?!?! ", "No... ", "Really."],
        ["\u042f \u043f\u0440\u0438\u0448\u0451\u043b. ", "\u041e\u043d? ", "\u041d\u0435\u0442!"],
        [
            "\u0918\u0930 \u0939\u0948\u0964 ",
            "\u0935\u0939\u0964",
            "\u0915\u094d\u092f\u093e? ",
            "\u0939\u093e\u0901\u0965",
        ],
        ["\u0647\u0644\u061f ", "\u0646\u0639\u0645. ", "\u062c\u06cc\u062f\u06d4 ", "\u0622\u06cc\u0627"],
        [
            "\u4ed6\u8bf4\uff1a\u201c\u8d70\u5427\u3002\u201d",
            "\uff13\uff0e\uff11\u5143\u3002",
            "\u597d!",
            "\u662f",
        ],
        ["\u597d\uff01\uff01\uff1f", "\u300e\u8d70\u3002\u300f\u3001\u4ed6\u8bf4\u3002", "\u6765"],
        ["Done\u203c\ufe0f ", "Next."],
        ["Ana: Is it hot? ", "Very.\n", "Ben: yes\n", "Ana: okay"],
        ["[00:01] Ana: hi\n", "[00:04] Ben: no. ", "Why?"],
        ["Parts:\n", "\u2022 seal\n", "\u2022 valve"],
        ["INFO up v1.2. Done\n", "ERROR down. So"],
        ["WARNING: Cut the power. ", "Wait."],
        ["It says. ", "This:\n", "2026-03-01T04:05:06Z kiln: a. B\n", "\tat x.Y.z(Y.java:1)"],
        [
            "Traceback (most recent call last):\n",
            '  File "a.py", line 3, in f\n',
            "    g(x)\n",
            "ValueError: a. B",
        ],
    ],
    ids=lambda expected: expected[0][:12].strip(),
)
def test_prose(expected: list[str]) -> None:
    assert pieces("".join(expected)) == expected


def test_blocks_set_the_borders() -> None:
    expected = [
        "---\na: b. C\n---\n",
        "# Dr. No. The end\n\n",
        "One line\nand its end. ",
        "Two.\n\n",
        "- First. ",
        "Second.\n",
        "- third\n\n",
        "| a. B |\n|---|\n",
        "| 1. C |\n",
        "| 2. D |\n\n",
        "```py\nx = 1. \ny = 2\n\n",
        "z = 3\n```\n\n",
        "<p>\nOne. ",
        "Two.\n</p>\n",
    ]
    text = "".join(expected)
    assert pieces(text) == expected
    crlf = [piece.replace("\n", "\r\n") for piece in expected]
    assert pieces("".join(crlf)) == crlf


def test_a_piece_without_letters_joins_its_neighbour() -> None:
    assert pieces("*** Go. ... ! Next.") == ["*** Go. ... ! ", "Next."]
    assert pieces("\U0001f389") == ["\U0001f389"]
    assert pieces("...") == ["..."]


@pytest.mark.parametrize(("text", "spans"), [("", []), (" \r\n\t", [(0, 4)])])
def test_nothing_to_cut(text: str, spans: list[tuple[int, int]]) -> None:
    assert sentence_spans(text) == spans
    assert sentences(page(text), max_tokens=4) == []


def test_plain_words_are_decided_as_nupunkt_does() -> None:
    words = [
        "The kiln",
        "holds",
        "(see it)",
        "\u201cnine\u201d",
        "`code`",
        "Smith",
        "no",
        "etc",
        "ed",
        "well-known",
        "_so_",
        "*so*",
    ]
    marks = [". ", "! ", "? ", ".) ", ".\u201d ", ", ", " "]
    text = "".join(
        f"{words[i * 7 % 12]} {words[i * 5 % 12]}{marks[i * i % 7]}{'But' if i % 3 else 'and'} "
        for i in range(300)
    )
    for part in range(0, len(text) - 120, 60):  # short paragraphs, so that many hold only plain cases
        piece = "It " + text[part : part + 120].strip()
        expected = [start for start, _ in sent_spans(piece)[1:]]
        found = [start for start, _ in split_block(piece, Block(0, len(piece), "paragraph"))[1:]]
        assert found == expected, piece


def test_an_abbreviation_is_decided_as_in_its_whole_paragraph() -> None:
    words = ["code", "vs", "Fig", "etc", "equal", "UTF-8", "0.11.0", "2024", "vi", "U.S", "p.m", "Lt", "Max"]
    nexts = ["The pot", "However, it", "Smith", "I", "U.S. law", "If"]
    leads = ["We saw the ", "The kiln\nand ", "1. A ", "Wait... the ", "Is it hot? The "]
    n_parted = 0
    for number in range(len(words) * len(nexts) * len(leads)):
        word, following = words[number % 13], nexts[number // 13 % 6]
        lead, gap = leads[number // 78 % 5], " \n"[number % 2]
        piece = f"{lead}{word}.{gap}{following} went on, no. 5 as well"
        border = len(lead) + len(word) + 2
        expected = word != "Lt" and any(start == border for start, _ in sent_spans(piece))
        found = {start for start, _ in split_block(piece, Block(0, len(piece), "paragraph"))}
        assert (border in found) == expected, piece
        n_parted += expected
    assert 100 < n_parted < 350


def test_a_sentence_above_the_cap_is_cut_before_a_word() -> None:
    text = "Seven small kilns stand behind the old brick wall of the yard"
    pieces = list(capped(text, [(0, len(text))], [count(text)], max_tokens=5))
    cut = [text[start:end] for start, end, _ in pieces]
    assert "".join(cut) == text
    assert all(piece.endswith(" ") for piece in cut[:-1])
    assert [count(piece) for piece in cut] == [n_tokens for _, _, n_tokens in pieces]
    assert all(n_tokens <= 5 for _, _, n_tokens in pieces)


@pytest.mark.parametrize("max_tokens", [3, 0, -1])
def test_a_cap_below_one_code_point_is_refused(max_tokens: int) -> None:
    with pytest.raises(ValueError, match=f"max_tokens={max_tokens} must be at least 4"):
        sentences(page("One."), max_tokens=max_tokens)


@pytest.mark.parametrize(
    "text",
    [
        "a!(b)?(c);" * 20_000,
        "." * 100_000,
        '."' * 50_000,
        ".[1]" * 30_000 + " A",
        ". " * 50_000,
        "a." + " \t" * 50_000 + "b",
        "Word word word. " * 10_000,
        "\u3002\u300d" * 40_000 + "\u3001",
        "\u3002" * 80_000 + "\u3001",
    ],
    ids=["minified", "dots", "quotes", "citations", "spaced dots", "spaces", "prose", "brackets", "stops"],
)
def test_hostile_text_takes_no_quadratic_time(text: str) -> None:
    started = time.process_time()
    assert "".join(pieces(text)) == text
    assert time.process_time() - started < 2


def test_one_giant_word_is_cut_without_counting_its_rest_for_every_piece() -> None:
    page = Document(doc_id="blob", title="", text="x" * 200_000)
    started = time.perf_counter()
    spans = sentences(page, max_tokens=128)
    assert time.perf_counter() - started < 10
    assert "".join(page.text[span.start : span.end] for span in spans) == page.text
