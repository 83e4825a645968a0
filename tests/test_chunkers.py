"""Every chunker gives exact, ordered slices that cover the text, counted and within the limit."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from types import SimpleNamespace

import pytest
import regex
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from cookbook.blocks import blocks
from cookbook.chunkers import fixed_window, parent_child, section_child, sentence_window, whole_page
from cookbook.passages import page_of
from cookbook.sections import section_at, sections
from cookbook.sentences import sentences
from cookbook.tokens import get_encoding
from cookbook.types import Chunk, Document

PIECES = [
    "kiln", "Ton ", "Ünï", "🧑🏽‍🚀", "🇩🇪", "猫", "你好世界。", "กำ", "한국", "e\u0301", "\u0301", "\u200d",
    "\r\n", "\n", "\n\n", "\n" * 20, " ", "    ", " " * 30, "\t", "\r", "\x0b", "\x0c", "\x1c", "\x85",
    "\xa0", "\u2028", "\u3000", "12345", "'s", "<|endoftext|>", "^^^^", "...", "_", "{", "}\n", "1. ", "- ",
    "> ", "---\n", "<b>",
    "# Head\n\n", "\n## Sub\n", "\nOver\n===\n", "```\n", "| a | b |\n|---|---|\n| 1 | 2 |\n", "Then we go. ",
    "Wait two days! ", "The kiln is hot. ", "\n\nA paragraph that goes on a bit. It has two sentences.\n\n",
]  # fmt: skip
hostile = st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=40).map("".join)


def page(text: str, doc_id: str = "kiln", corpus: str = "wiki") -> Document:
    return Document(doc_id=doc_id, title="", text=text, corpus=corpus)


def alone(text: str) -> int:
    """The oracle: the text encoded by itself."""
    return len(get_encoding("cl100k_base").encode_ordinary(text))


def check(
    text: str,
    chunks: Sequence[Chunk],
    *,
    limit: float,
    overlap: float = 0,
    start: int = 0,
    end: int | None = None,
) -> None:
    """The invariants of all chunkers, over ``text[start:end]``."""
    end = len(text) if end is None else end
    assert len({chunk.chunk_id for chunk in chunks}) == len(chunks)
    assert [chunk.position for chunk in chunks] == list(range(len(chunks)))
    done = start
    for chunk in chunks:
        assert start <= chunk.span.start < chunk.span.end <= end
        assert chunk.text == text[chunk.span.start : chunk.span.end]
        assert not chunk.text.isspace()
        assert chunk.n_tokens == alone(chunk.text) <= limit
        assert not text[done : chunk.span.start].strip(), "only white space may be left out"
        assert alone(text[chunk.span.start : done]) <= overlap, "no more overlap than asked for"
        assert chunk.span.end > done, "no chunk inside the one before it"
        done = chunk.span.end
    assert not text[done:end].strip()
    assert all(a.span.start < b.span.start for a, b in pairwise(chunks))


def pieces(chunks: Sequence[Chunk]) -> list[str]:
    return [chunk.text for chunk in chunks]


@settings(max_examples=2000, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    text=hostile,
    size=st.sampled_from([4, 5, 9, 30, 60]),
    share=st.integers(0, 9),
    ratio=st.sampled_from([1, 3]),
)
@example(text="", size=4, share=9, ratio=1)
@example(text=" \n\t ", size=4, share=0, ratio=1)
@example(text="word" + " " * 400 + "word", size=5, share=5, ratio=3)
@example(text="🧑🏽‍🚀" * 9, size=5, share=8, ratio=1)
def test_invariants_of_every_chunker(text: str, size: int, share: int, ratio: int) -> None:
    document, overlap = page(text), size * share // 10
    # Windows start between clusters, so they may reach further back than the overlap.
    windows = fixed_window([document], chunk_tokens=size, overlap=overlap)
    check(text, windows, limit=size, overlap=math.inf if overlap else 0)
    check(text, sentence_window([document], max_tokens=size), limit=size)
    check(text, whole_page([document]), limit=math.inf)

    by_section: dict[str, list[Chunk]] = {section.section_id: [] for section in sections(document)}
    for chunk in section_child([document], child_tokens=size, overlap=overlap):
        assert chunk.parent_id == chunk.section_id
        by_section[chunk.parent_id or ""].append(chunk)
    for section in sections(document):
        body = section.body
        inside = by_section[section.section_id]
        check(text, inside, limit=size, overlap=overlap, start=body.start, end=body.end)

    children, parents, mapping = parent_child(
        [document], parent_tokens=size * ratio, child_tokens=size, overlap=overlap
    )
    check(text, parents, limit=size * ratio)
    assert mapping == {child.chunk_id: child.parent_id for child in children}
    assert list(dict.fromkeys(mapping.values())) == [parent.chunk_id for parent in parents]
    for parent in parents:
        own = [child for child in children if child.parent_id == parent.chunk_id]
        check(text, own, limit=size, overlap=overlap, start=parent.span.start, end=parent.span.end)


@settings(max_examples=100, deadline=None)
@given(text=hostile)
def test_places_in_the_page(text: str) -> None:
    document = page(text)
    tree, tiles = sections(document), blocks(text)
    children, parents, _ = parent_child([document], parent_tokens=40, child_tokens=12, overlap=3)
    for chunk in [*children, *parents, *sentence_window([document]), *whole_page([document])]:
        section = section_at(tree, chunk.span.start)
        assert (chunk.section_id, chunk.heading_id) == (section.section_id, section.heading_id)
        before = [tile for tile in tiles if section.body.start <= tile.start <= chunk.span.start]
        assert chunk.para_index == len(before) - 1
        assert chunk.doc_id == chunk.span.doc_id == "kiln"


@settings(max_examples=100, deadline=None)
@given(text=hostile, cap=st.sampled_from([4, 16, 128]))
def test_sentence_chunks_are_the_sentences(text: str, cap: int) -> None:
    document = page(text)
    if text.strip():
        spans = sentences(document, max_tokens=cap)
        assert [chunk.span for chunk in sentence_window([document], max_tokens=cap)] == spans


# ------------------------------------------------------------------------------------ bad arguments


@pytest.mark.parametrize(
    ("size", "overlap"),
    [(180, 180), (180, 200), (0, 0), (-1, 0), (180, -1), (3, 0)],
    ids=[*[f"case-034-{n}" for n in range(5)], "below-one-code-point"],
)
@pytest.mark.parametrize(
    "chunk",
    [
        lambda docs, size, overlap: fixed_window(docs, chunk_tokens=size, overlap=overlap),
        lambda docs, size, overlap: section_child(docs, child_tokens=size, overlap=overlap),
        lambda docs, size, overlap: parent_child(docs, child_tokens=size, overlap=overlap),
    ],
    ids=["fixed_window", "section_child", "parent_child"],
)
def test_settings_are_refused_before_a_text_is_read(
    chunk: Callable[..., object], size: int, overlap: int
) -> None:
    def unread() -> object:
        raise AssertionError("a document was read")
        yield

    with pytest.raises(ValueError, match=rf"={overlap}\b.*={size}\b|={size}\b.*={overlap}\b"):
        chunk(unread(), size, overlap)


def test_case_034_a_step_of_one_token_ends() -> None:
    assert pieces(fixed_window([page("one two three")], chunk_tokens=180, overlap=179)) == ["one two three"]
    text = " the" * 200
    assert len(fixed_window([page(text)], chunk_tokens=180, overlap=179)) == 21
    children, parents, _ = parent_child([page(text)], child_tokens=180, overlap=179)
    check(text, children, limit=180, overlap=179)
    assert len(parents) == 1


def test_a_parent_is_not_smaller_than_its_children() -> None:
    with pytest.raises(ValueError, match="child_tokens=180 must not be above parent_tokens=90"):
        parent_child([], parent_tokens=90)


def test_unknown_encoding() -> None:
    with pytest.raises(ValueError, match="encoding='nope'"):
        whole_page([page("text")], encoding="nope")


# -------------------------------------------------------------------------------------------- cases


def test_case_013_thai_without_sentence_marks() -> None:
    text = "เตาเผาร้อนมาก " * 400 + "a|b"
    children, parents, _ = parent_child([page(text)], child_tokens=180, overlap=0)
    assert "".join(pieces(children)) == "".join(pieces(parents)) == text
    check(text, children and parents, limit=900)
    assert max(alone(child.text) for child in children) <= 180
    for child in children[1:]:
        assert text[child.span.start - 1] == " "
    assert children[-1].text.endswith("a|b")


def test_case_017_a_giant_run() -> None:
    text = "x9k_" * 5000
    started = time.perf_counter()
    children, parents, _ = parent_child([page(text)], child_tokens=180, overlap=24)
    assert time.perf_counter() - started < 2
    check(text, parents, limit=900)
    assert all(alone(child.text) <= 180 for child in children)
    assert "".join(pieces(parents)) == text
    assert len(children) < 110  # full chunks: the hard cut wastes no room


def test_case_031_control_tokens() -> None:
    text = "Stop at <|endoftext|> then <|fim_prefix|> and <|im_start|>."
    assert pieces(whole_page([page(text)])) == [text]
    assert whole_page([page(text)])[0].n_tokens == 21
    assert "".join(pieces(fixed_window([page(text)], chunk_tokens=4, overlap=0))) == text


@pytest.mark.parametrize(
    ("size", "overlap"), [(20, 5), (5, 0), (5, 4)], ids=["case-032", "case-032-small", "tight"]
)
def test_clusters_of_many_tokens(size: int, overlap: int) -> None:
    text = "🧑🏽‍🚀🦜猫" * 40
    chunks = fixed_window([page(text)], chunk_tokens=size, overlap=overlap)
    check(text, chunks, limit=size, overlap=math.inf)
    assert "\ufffd" not in "".join(pieces(chunks))
    if size == 20:
        borders = {match.end() for match in regex.finditer(r"\X", text)} | {0}
        assert all({chunk.span.start, chunk.span.end} <= borders for chunk in chunks)


@pytest.mark.parametrize(
    ("n_tokens", "n_chunks"),
    [(0, 0), (1, 1), (180, 1), (181, 2), (336, 2), (337, 3), (360, 3)],
    ids=lambda value: f"case-035-{value}",
)
def test_number_of_token_windows(n_tokens: int, n_chunks: int) -> None:
    text = " the" * n_tokens
    assert alone(text) == n_tokens
    chunks = fixed_window([page(text)], chunk_tokens=180, overlap=24)
    assert len(chunks) == n_chunks
    assert all(chunk.n_tokens == 180 for chunk in chunks[:-1])
    for before, after in pairwise(chunks):
        assert alone(text[after.span.start : before.span.end]) == 24


@pytest.mark.parametrize("size", [50, 200])
def test_token_windows_of_prose_follow_the_formula(size: int) -> None:
    text = "Each tray holds two unglazed pots, stacked; nobody opens the kiln-door before 05:30. " * 60
    chunks = fixed_window([page(text)], chunk_tokens=size, overlap=10)
    assert len(chunks) == 1 + math.ceil((alone(text) - size) / (size - 10))


def test_case_037_a_million_times_one_character() -> None:
    text = "^" * 1_000_000
    children, parents, _ = parent_child([page(text)], child_tokens=180, overlap=0)
    assert "".join(pieces(parents)) == "".join(pieces(children)) == text
    assert max(child.n_tokens for child in children) <= 180
    assert len(children) < 1_000_000 / 4 / 180 * 1.3


# ------------------------------------------------------------------------------------------ borders


def prose(n_sentences: int, word: str = "kiln") -> str:
    return " ".join(f"Sentence {n} says that the {word} is warm." for n in range(n_sentences))


def test_by_hand() -> None:
    """Two sections of 31 tokens under a parent limit of 40: two parents, cut at the second heading."""
    text = f"# One\n\n{prose(3)}\n\n# Two\n\n{prose(3)}\n"
    children, parents, mapping = parent_child([page(text)], parent_tokens=40, child_tokens=16, overlap=0)
    assert pieces(parents) == [f"# One\n\n{prose(3)}\n\n", f"# Two\n\n{prose(3)}\n"]
    assert pieces(children)[:3] == [
        "# One\n\nSentence 0 says that the kiln is warm. ",
        "Sentence 1 says that the kiln is warm. ",
        "Sentence 2 says that the kiln is warm.\n\n",
    ]
    assert list(mapping)[:3] == ["wiki/kiln#p0000#c000", "wiki/kiln#p0000#c001", "wiki/kiln#p0000#c002"]
    assert [chunk.heading_id for chunk in parents] == ["one", "two"]


@pytest.mark.parametrize(
    ("text", "border"),
    [
        pytest.param(
            f"{prose(4)}\n\n## Next\n\n{prose(3)}\n\n{prose(3)}", "## Next", id="section-before-block"
        ),
        pytest.param(f"{prose(4)}\n\nHere. {prose(6)}", "Here.", id="block-before-sentence"),
        pytest.param(f"{'warm ' * 40}stop. Here {'cold ' * 45}", "Here", id="sentence-before-word"),
        pytest.param(
            f"```\n{'a = b' * 12}\n{'c = d' * 10}\n{'e = f' * 12}\n```\n", "e = f", id="line-before-word"
        ),
        pytest.param(f"{prose(5)}\n\n# Title\n\n{prose(8)}", "# Title", id="heading-stays-with-its-text"),
        pytest.param(
            f"{prose(6)}\n\n| x | y |\n|---|---|\n" + "| one two three | four five six |\n" * 6,
            "| x | y |",
            id="table-head-stays-with-its-rows",
        ),
    ],
)
def test_the_strongest_border_wins(text: str, border: str) -> None:
    _, parents, _ = parent_child([page(text)], parent_tokens=72, child_tokens=20, overlap=0)
    assert len(parents) > 1
    assert parents[1].text.startswith(border)


def test_a_row_is_cut_only_when_it_alone_exceeds_the_limit() -> None:
    rows = "".join(f"| setting {n} | stands for kiln number {n} |\n" for n in range(40))
    text = f"| name | meaning |\n|---|---|\n{rows}"
    children, _, _ = parent_child([page(text)], parent_tokens=200, child_tokens=50, overlap=0)
    assert all(child.text.endswith("|\n") for child in children)
    assert all(child.text.startswith("|") for child in children)


def test_no_heading_ends_a_chunk() -> None:
    text = "".join(f"## Part {n}\n\n### Detail {n}\n\n{prose(n % 7 + 1)}\n\n" for n in range(60))
    for limit in (40, 90, 180):
        children, parents, _ = parent_child(
            [page(text)], parent_tokens=limit * 3, child_tokens=limit, overlap=8
        )
        for chunk in [*children, *parents]:
            assert not chunk.text.rstrip().splitlines()[-1].startswith("#")


@pytest.mark.parametrize("n_sentences", range(16, 60, 3))
def test_a_short_rest_is_balanced(n_sentences: int) -> None:
    text = prose(n_sentences)
    children, parents, _ = parent_child([page(text)], parent_tokens=400, child_tokens=100, overlap=0)
    for parent in parents:
        own = [child for child in children if child.parent_id == parent.chunk_id]
        assert len(own) == 1 or min(child.n_tokens for child in own) >= 25
    assert len(parents) == 1 or min(parent.n_tokens for parent in parents) >= 100


def test_a_small_page_is_one_chunk() -> None:
    text = "# A\n\nOne.\n\n# B\n\nTwo.\n\n# C\n\nThree.\n"
    children, parents, _ = parent_child([page(text)])
    assert pieces(children) == pieces(parents) == [text]


def test_overlap_starts_at_a_border() -> None:
    text = "\n\n".join(prose(5, word) for word in ("kiln", "clay", "glaze", "shelf"))
    children, _, _ = parent_child([page(text)], parent_tokens=900, child_tokens=60, overlap=24)
    assert len(children) > 4
    starts = {start for start in range(len(text)) if text.startswith("Sentence", start)}
    for before, after in pairwise(children):
        assert after.span.start in starts
        assert 8 <= alone(text[after.span.start : before.span.end]) <= 24


def test_overlap_stays_inside_a_section() -> None:
    text = "".join(f"# Part {n}\n\n{prose(6)}\n\n" for n in range(5))
    children, _, _ = parent_child([page(text)], parent_tokens=900, child_tokens=60, overlap=24)
    for child in children:
        assert "# Part" not in child.text[1:]


def test_sentence_above_the_cap_is_cut() -> None:
    text = "Short one. " + "word " * 300 + "end."
    chunks = sentence_window([page(text)])
    assert "".join(pieces(chunks)) == text
    assert max(chunk.n_tokens for chunk in chunks) <= 128


# ------------------------------------------------------------------------------------------ documents


def test_ids() -> None:
    text = f"# One\n\n{prose(3)}\n"
    document = page(text, "guide/setup", "docs")
    assert fixed_window([document])[0].chunk_id == "docs/guide/setup#w0000"
    assert sentence_window([document])[1].chunk_id == "docs/guide/setup#s0001"
    assert section_child([document])[0].chunk_id == "docs/guide/setup#h000#c000"
    assert whole_page([document])[0].chunk_id == "docs/guide/setup#page"
    children, parents, _ = parent_child([document])
    assert [chunk.chunk_id for chunk in (*parents, *children)] == [
        "docs/guide/setup#p0000",
        "docs/guide/setup#p0000#c000",
    ]


@pytest.mark.parametrize("text", ["", "   ", "\n\n\t\r\n", "\u3000\u2028"], ids=ascii)
def test_a_blank_document_has_no_chunk(text: str) -> None:
    docs = [page(text)]
    assert fixed_window(docs) == sentence_window(docs) == section_child(docs) == whole_page(docs) == []
    assert parent_child(docs) == ([], [], {})


def test_many_documents_keep_their_order_and_are_read_as_they_come() -> None:
    docs = [page(prose(n % 90), f"page-{n:03}") for n in range(200)]
    chunks = fixed_window(iter(docs))
    assert chunks == [chunk for document in docs for chunk in fixed_window([document])]
    assert list(dict.fromkeys(chunk.doc_id for chunk in chunks)) == [
        f"page-{n:03}" for n in range(200) if n % 90
    ]


@pytest.mark.parametrize("cut", [fixed_window, sentence_window, parent_child, section_child, whole_page])
def test_a_page_that_is_kept_is_cut_alike(
    cut: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "# Kiln\n\n" + prose(40) + "\n\n## Pots 🏺\n\n" + prose(60, "pot")
    alone, kept = page(text, doc_id=f"alone-{cut.__name__}"), page(text, doc_id=f"kept--{cut.__name__}")
    page_of(kept, "cl100k_base").read_ahead()
    expected = cut([alone])
    with monkeypatch.context() as patched:
        patched.setattr("cookbook.chunkers.blocks", None)  # a kept page is not parsed
        patched.setattr("cookbook.chunkers.TokenMap", None)  # and not encoded
        found = cut([kept])
    assert repr(found).replace("kept--", "alone-") == repr(expected)


def test_a_document_of_a_forks_own_class_is_cut_as_it_is_now() -> None:
    own = SimpleNamespace(doc_id="kiln", key="kiln", title="", text=prose(40))
    page_of(page(own.text), "cl100k_base").read_ahead()
    own.text = "Then it cools. " * 3
    assert pieces(fixed_window([own])) == [own.text]  # type: ignore[list-item]


def test_a_failing_source_of_documents_is_heard() -> None:
    def failing() -> object:
        yield page("text")
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        whole_page(failing())


def test_headings_are_recorded_when_asked_for_and_searched_with_the_text():
    text = "Intro.\n\n# Guide\n\nOne.\n\n## Shipping\n\nTwo.\n"
    page = Document(doc_id="guide", title="Kiln guide", text=text)
    for chunk in section_child([page]) + sentence_window([page]) + parent_child([page])[0]:
        assert chunk.heading == "" and chunk.search_text == chunk.text
    found = section_child([page], heading=True)
    assert [chunk.heading for chunk in found] == [
        "Kiln guide",
        "Kiln guide > Guide",
        "Kiln guide > Guide > Shipping",
    ]
    assert found[2].search_text == "Kiln guide > Guide > Shipping\n" + found[2].text
    titled = Document(doc_id="guide", title="Guide", text="# Guide\n\nOne.\n")
    assert section_child([titled], heading=True)[0].heading == "Guide"
