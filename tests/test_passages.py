"""Spans into passages: merging, subtracting, growing, shortening."""

from __future__ import annotations

from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cookbook import passages, tokens
from cookbook import sentences as sentence_module
from cookbook.passages import (
    GAP,
    Page,
    fit,
    grow_in,
    make,
    merge_spans,
    page_of,
    render,
    shorten,
    size,
    slices,
    subtract,
)
from cookbook.sentences import sentence_spans, sentences
from cookbook.types import Document, Hit, Passage, Span


def span(start: int, end: int, doc_id: str = "page") -> Span:
    return Span(doc_id=doc_id, start=start, end=end)


def passage_of(text: str, places: list[tuple[int, int]], quote: str, heading: str = "Guide") -> Passage:
    document = Document(doc_id="page", title="Page", text=text)
    start = text.index(quote)
    hit = Hit(
        chunk_id="c",
        doc_id="page",
        text=quote,
        score=0.5,
        rank=1,
        retriever="dense",
        metadata={"start": start, "end": start + len(quote)},
    )
    spans = [span(*place) for place in places]
    return make(page_of(document, "cl100k_base"), spans, [hit], expansion="section", heading=heading)


@pytest.mark.parametrize(
    ("spans", "merged"),
    [pytest.param([(0, 10), (4, 6), (6, 14)], [(0, 14)], id="case-044")],
)
def test_overlapping_and_contained_spans_merge(
    spans: list[tuple[int, int]], merged: list[tuple[int, int]]
) -> None:
    for order in (spans, spans[::-1], spans[1:] + spans[:1]):
        assert merge_spans(span(*place) for place in order) == [span(*place) for place in merged]


SPANS = st.lists(
    st.builds(
        lambda start, size, doc_id: span(start, start + size, doc_id),
        st.integers(0, 50),
        st.integers(1, 12),
        st.sampled_from(["one", "two"]),
    ),
    max_size=12,
)


def characters(spans: list[Span]) -> set[tuple[str, int]]:
    return {(s.doc_id, place) for s in spans for place in range(s.start, s.end)}


@given(SPANS, st.booleans())
def test_merged_spans_hold_the_same_characters_once(spans: list[Span], touching: bool) -> None:
    merged = merge_spans(spans, touching=touching)
    assert characters(merged) == characters(spans)
    assert sum(len(s) for s in merged) == len(characters(spans))
    for first, second in pairwise(merged):
        if first.doc_id == second.doc_id:
            assert first.end < second.start if touching else first.end <= second.start


@given(SPANS, SPANS)
def test_subtract_leaves_what_is_not_taken(spans: list[Span], taken: list[Span]) -> None:
    for whole in spans:
        assert characters(subtract(whole, taken)) == characters([whole]) - characters(taken)


def test_grow_goes_on_when_one_side_is_full() -> None:
    borders = [0, 1, 2, 10, 20, 30, 40]
    assert grow_in(borders, (3, 4), lambda start, end: end - start <= 18) == (2, 20)
    assert grow_in(borders, (3, 4), lambda start, end: end - start <= 20) == (0, 20)
    assert grow_in(borders, (3, 4), lambda start, end: end - start <= 7) is None


def test_a_page_cuts_the_sentences_that_the_document_has() -> None:
    text = "# Kiln\n\nHeat slowly. Wait two days.\n\n- One item. And more.\n\n" + "word " * 90 + "\n\nEnd.\n"
    document = Document(doc_id="page", title="Page", text=text)
    for cap in (None, 5, 128):
        view = Page(document, "cl100k_base")
        expected = sentences(document, max_tokens=cap)
        assert view.sentences_of(span(0, len(text)), cap) == expected
        assert list(view.sentences_behind(0, cap)) == expected
        assert list(view.sentences_before(len(text), cap)) == expected[::-1]
        for at in range(len(text)):
            assert view.sentences_of(span(at, at + 9), cap) == [
                s for s in expected if s.overlap(span(at, at + 9))
            ]
            assert list(view.sentences_behind(at, cap)) == [s for s in expected if s.start >= at]
            assert list(view.sentences_before(at, cap)) == [s for s in expected if s.end <= at][::-1]


TEXT = (
    "# Kiln\n\nHeat slowly now. Wait for two days. Open the lid. Then unload it all.\n\n"
    "| a | b |\n|---|---|\n" + ("| tray | full |\n" * 30)
)


def test_a_page_is_looked_through_once_for_all_its_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    through = sentence_module._special_places

    def look(text: str) -> list[int]:
        looked.append(text)
        return through(text)

    monkeypatch.setattr(sentence_module, "_special_places", look)
    text = "\n\n".join(f"Shelf {n} holds kilns. It is locked." for n in range(50))
    page = Page(Document(doc_id="page", title="", text=text), "cl100k_base")
    assert len(list(page.sentences_behind(0, 128))) == 100
    assert looked == [text]


def test_shorten_keeps_the_hit_and_whole_sentences() -> None:
    passage = passage_of(TEXT, [(0, len(TEXT))], "Open the lid.")
    for limit in range(4, passage.n_tokens + 1):
        shorter = shorten(passage, max_tokens=limit)
        if shorter is None:
            assert limit < tokens.count("Open the lid. ")
            continue
        assert shorter.n_tokens == tokens.count(shorter.text) <= limit
        assert "Open the lid." in shorter.text
        [kept] = shorter.spans
        assert slices(shorter) == [TEXT[kept.start : kept.end]]
        borders = {place for sentence in sentence_spans(TEXT) for place in sentence}
        assert {kept.start, kept.end} <= borders
        assert (shorter.score, shorter.hits, shorter.expansion) == (0.5, passage.hits, "section")


def test_shorten_drops_the_heading_before_the_hit() -> None:
    passage = passage_of(TEXT, [(0, len(TEXT))], "Open the lid.", heading="A long path > of many > headings")
    size = tokens.count("Open the lid. ")
    bare = shorten(passage, max_tokens=size)
    assert bare is not None
    assert (bare.heading, bare.text) == ("", "Open the lid. ")
    headed = shorten(passage, max_tokens=size + 10)
    assert headed is not None
    assert headed.heading == passage.heading


def test_shorten_of_a_table_keeps_its_header() -> None:
    text = TEXT.replace("| tray | full |\n" * 30, "".join(f"| tray {i} | full |\n" for i in range(30)))
    passage = passage_of(text, [(0, len(text))], "| tray 20 | full |")
    shorter = shorten(passage, max_tokens=60)
    assert shorter is not None
    assert shorter.heading == "Guide\n\n| a | b |\n|---|---|"
    assert "| tray 20 | full |" in shorter.text


def test_shorten_keeps_the_beginning_of_a_hit_that_is_too_long() -> None:
    passage = passage_of(TEXT, [(0, len(TEXT))], "Heat slowly now. Wait for two days. Open the lid.")
    shorter = shorten(passage, max_tokens=tokens.count("Guide\nHeat slowly now. "))
    assert shorter is not None
    assert shorter.text == "Guide\nHeat slowly now. "


def test_shorten_takes_the_slice_that_holds_the_hit() -> None:
    start = TEXT.index("Open")
    passage = passage_of(TEXT, [(0, 8), (start, len(TEXT))], "Open the lid.")
    assert passage.text.startswith("Guide\n# Kiln\n\n" + GAP + "Open the lid.")
    shorter = shorten(passage, max_tokens=20)
    assert shorter is not None
    assert slices(shorter)[0].startswith("Open the lid.")


def test_fit_keeps_the_limit_where_the_counts_of_parts_do_not_add_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # As older encodings do, which join a line end with what follows.
    monkeypatch.setattr(tokens, "parts_at_line_ends", lambda encoding: False)

    class Half(tokens.TokenMap):
        def count(self, start: int, end: int) -> int:
            return super().count(start, end) // 2

    text = "".join(f"Tray {i} is full. " for i in range(40))
    borders = [*(start for start, _ in sentence_spans(text)), len(text)]
    for limit in (12, 20, 60):
        found = fit(
            Half(text),
            [((borders[9], borders[10]), [borders])],
            lambda _: "Trays",
            limit,
            "cl100k_base",
        )
        assert found is not None
        (start, end), heading = found
        assert tokens.count(render(heading, [text[start:end]])) <= limit
        assert start <= borders[9] < borders[10] <= end


@settings(max_examples=60, deadline=None)
@given(
    st.text(
        st.characters(exclude_categories=["Cs"]) | st.sampled_from(" .\n"), min_size=1, max_size=80
    ).filter(str.strip),
    st.integers(4, 60),
    st.data(),
)
def test_shorten_keeps_the_limit_on_any_text(text: str, limit: int, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    passage = passage_of(text, [(0, len(text))], text[start:end])
    shorter = shorten(passage, max_tokens=limit)
    if shorter is not None:
        assert tokens.count(shorter.text) == shorter.n_tokens <= limit
        [kept] = shorter.spans
        assert shorter.text.endswith(text[kept.start : kept.end])


@settings(max_examples=200, deadline=None)
@given(
    st.text(st.sampled_from("ab1. \n/\t'\u732b\u00e9"), max_size=60),
    st.sampled_from(["", "Guide", "Guide > Prices.", "| a |\n|---|"]),
    st.data(),
)
def test_a_size_is_the_count_of_what_is_rendered(text, heading, data):
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    token_map = tokens.TokenMap(text)
    wanted = tokens.count(render(heading, [text[start:end]]))
    assert size(token_map, start, end, heading, "cl100k_base") == wanted


def test_the_counts_that_are_kept_are_bounded_whoever_keeps_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passages, "_COUNTS", OrderedDict())
    monkeypatch.setattr(passages, "_MAX_COUNTS", 8)
    texts = [f"kiln {number}" for number in range(2_000)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda text: passages.count(text, "cl100k_base"), texts * 4))
    assert found == tokens.counts(texts) * 4
    assert len(passages._COUNTS) == 8
