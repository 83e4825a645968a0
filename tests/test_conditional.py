"""Expansion only where a rule says so: each rule by hand, and what holds for any rule on drawn documents."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_hits import hit_at, hit_on, page

from cookbook import tokens
from cookbook.chunkers import parent_child, section_child
from cookbook.conditional import (
    auto_merge,
    by_page,
    by_shape,
    expand_where,
    mostly_hit,
    not_self_contained,
    self_contained,
    split,
)
from cookbook.errors import CorpusError
from cookbook.expanders import centred, children, parents, sections, whole_page, window
from cookbook.types import Chunk, Document, Hit, Passage, Span


def hit_of(chunk: Chunk, score: float) -> Hit:
    return Hit(
        chunk_id=chunk.chunk_id,
        doc_id=chunk.doc_id,
        text=chunk.text,
        score=score,
        rank=1,
        retriever="dense",
        metadata={
            "start": chunk.span.start,
            "end": chunk.span.end,
            "parent_id": chunk.parent_id,
            "section_id": chunk.section_id,
        },
    )


def always(members: Sequence[Hit], document: Document) -> bool:
    return True


def never(members: Sequence[Hit], document: Document) -> bool:
    return False


def whole(document: Document, name: str, start: int, end: int) -> Chunk:
    text = document.text[start:end]
    return Chunk(
        chunk_id=name,
        doc_id=document.doc_id,
        span=Span(doc_id=document.doc_id, start=start, end=end),
        text=text,
        kind="parent",
        position=0,
        n_tokens=tokens.count(text),
    )


def shown(passages: Sequence[Passage]) -> list[tuple[str, str]]:
    return [(passage.expansion, passage.text) for passage in passages]


# --- expand_where -----------------------------------------------------------------------------------

PUMP = page("It leaks. Close it. Call us. Wait here. Then go. All is well.", "pump")


def above(score: float) -> Any:
    return lambda members, document: members[0].score > score


def test_only_the_hits_of_the_rule_are_expanded_and_the_order_is_that_of_the_hits() -> None:
    hits = [hit_on(PUMP, "Call us.", 0.9), hit_on(PUMP, "It leaks.", 0.4), hit_on(PUMP, "All is well.", 0.6)]
    passages = expand_where(
        hits, documents={"pump": PUMP}, rule=above(0.5), expander=partial(window, before=0, after=1)
    )
    assert shown(passages) == [
        ("window", "Call us. Wait here. "),
        ("window", "All is well."),
        ("child", "It leaks."),
    ]
    assert [passage.score for passage in passages] == [0.9, 0.6, 0.4]


def test_a_child_inside_an_expanded_passage_joins_it() -> None:
    inside, best = hit_on(PUMP, "Close it.", 0.9), hit_on(PUMP, "Call us.", 0.4)
    [passage] = expand_where(
        [inside, best],
        documents={"pump": PUMP},
        rule=lambda members, _: members[0].score < 0.5,
        expander=partial(window, before=1, after=1),
    )
    assert shown([passage]) == [("window", "Close it. Call us. Wait here. ")]
    assert passage.hits == (inside, best)
    assert passage.score == 0.9


def test_a_child_that_reaches_out_of_an_expanded_passage_keeps_the_rest() -> None:
    start = PUMP.text.index("Wait")
    child = hit_at(PUMP, start, start + len("Wait here. Then go."), 0.4)
    passages = expand_where(
        [hit_on(PUMP, "Call us.", 0.9), child],
        documents={"pump": PUMP},
        rule=above(0.5),
        expander=partial(window, before=0, after=1),
    )
    assert shown(passages) == [("window", "Call us. Wait here. "), ("child", "Then go.")]
    assert passages[1].hits == (child,)


def test_an_expanded_passage_parts_a_child_around_it() -> None:
    child = hit_at(PUMP, 0, len(PUMP.text), 0.4)
    passages = expand_where(
        [hit_on(PUMP, "Wait here.", 0.9), child],
        documents={"pump": PUMP},
        rule=above(0.5),
        expander=partial(window, before=0, after=0),
    )
    assert shown(passages) == [
        ("window", "Wait here. "),
        ("child", "It leaks. Close it. Call us. \n[...]\nThen go. All is well."),
    ]


def test_children_that_touch_become_one_passage() -> None:
    hits = [hit_at(PUMP, 0, 10, 0.3), hit_at(PUMP, 10, 20, 0.8), hit_on(PUMP, "Then go.", 0.5)]
    passages = expand_where(hits, documents={"pump": PUMP}, rule=never, expander=window)
    assert shown(passages) == [("child", "It leaks. Close it. "), ("child", "Then go.")]
    assert passages[0].hits == (hits[1], hits[0])


def test_the_rule_sees_the_hits_of_a_unit_best_first_with_their_document() -> None:
    seen: list[tuple[list[float], str]] = []

    def rule(members: Sequence[Hit], document: Document) -> bool:
        seen.append(([hit.score for hit in members], document.doc_id))
        return False

    other = page("Other.", "other")
    hits = [
        hit_on(PUMP, "It leaks.", 0.2, section_id="s0"),
        hit_on(PUMP, "Call us.", 0.7, section_id="s0"),
        hit_on(other, "Other.", 0.5, section_id=None),
    ]
    documents = {"pump": PUMP, "other": other}
    expand_where(hits, documents=documents, rule=rule, expander=window, unit="section_id")
    assert seen == [([0.7, 0.2], "pump"), ([0.5], "other")]


def test_all_hits_of_a_unit_are_expanded_or_none() -> None:
    hits = [
        hit_on(PUMP, "It leaks.", 0.2, section_id="s0"),
        hit_on(PUMP, "Call us.", 0.7, section_id="s0"),
        hit_on(PUMP, "All is well.", 0.5, section_id="s1"),
    ]
    passages = expand_where(
        hits,
        documents={"pump": PUMP},
        rule=split(),
        expander=partial(window, before=0, after=0),
        unit="section_id",
    )
    assert shown(passages) == [("window", "Call us. "), ("child", "All is well."), ("window", "It leaks. ")]


def test_what_spills_comes_last_unless_a_hit_of_its_own_falls_into_it() -> None:
    text = "# Kiln\n\n" + "".join(f"Step number {i} of the firing.\n\n" for i in range(40))
    kiln = page(text, "kiln")
    far, near = hit_on(kiln, "Step number 39", 0.9), hit_on(kiln, "Step number 3 ", 0.4)
    cut = partial(sections, max_tokens=60, number_rule=False)
    options: dict[str, Any] = {"documents": {"kiln": kiln}, "rule": lambda members, _: members[0] is near}
    before = expand_where([near], expander=cut, **options)
    assert [passage.expansion for passage in before[:2]] == ["section", "spill"]
    first, second, *rest = expand_where([far, near], expander=cut, **options)
    assert (first.hits, first.score, first.expansion) == ((far,), 0.9, "section")
    assert "Step number 39" in first.text
    assert (second.hits, second.expansion) == ((near,), "section")
    assert {passage.expansion for passage in rest} == {"spill"}
    assert len([first, second, *rest]) == len(before)


def test_children_take_a_heading_when_asked() -> None:
    guide = page("# Guide\n\n## Post\n\nFree. Two days.\n", "guide")
    options: dict[str, Any] = {"documents": {"guide": guide}, "rule": never, "expander": window}
    [passage] = expand_where([hit_on(guide, "Two days.")], heading=True, **options)
    assert passage.text == "Guide > Post\nTwo days."
    assert passage.n_tokens == tokens.count(passage.text)


@pytest.mark.parametrize("rule", [always, never])
def test_a_page_that_is_missing_or_changed_is_refused(rule: Any) -> None:
    hits = [hit_on(PUMP, "Call us.")]
    with pytest.raises(CorpusError, match="is not among"):
        expand_where(hits, documents={}, rule=rule, expander=window)
    with pytest.raises(CorpusError, match="changed since"):
        by_page(hits, documents={"pump": page("Other.", "pump")}, choose=by_shape)


# --- auto-merge -------------------------------------------------------------------------------------

#: Two parents: children of 10, 10, 9 characters and of 11, 9, 12.
P0, P1 = whole(PUMP, "p0", 0, 29), whole(PUMP, "p1", 29, len(PUMP.text))


@pytest.mark.parametrize(
    ("spans", "share"),
    [
        ([(0, 10)], 8 / 23),
        ([(0, 10), (10, 20)], 16 / 23),
        ([(0, 10), (5, 20)], 16 / 23),  # what overlaps counts once
        ([(0, 10), (0, 10)], 8 / 23),
        ([(0, 9), (10, 19), (20, 28)], 23 / 23),  # all children, white space between them left out
        ([(20, 40)], 7 / 23),  # what lies outside of the parent counts nothing
    ],
)
def test_the_share_of_a_parent_by_hand(spans: list[tuple[int, int]], share: float) -> None:
    assert len(P0.text.replace(" ", "")) == 23
    members = [hit_at(PUMP, start, end, parent_id="p0") for start, end in spans]
    assert mostly_hit({"p0": P0}, min_share=share - 1e-9)(members, PUMP)
    assert not mostly_hit({"p0": P0}, min_share=share + 1e-9)(members, PUMP)


def test_the_share_itself_is_enough() -> None:
    members = [hit_at(PUMP, start, end, parent_id="p0") for start, end in [(0, 9), (10, 19), (20, 28)]]
    assert mostly_hit({"p0": P0}, min_share=1)(members, PUMP)
    half = page("Ab. Cd.", "half")
    rule = mostly_hit({"p": whole(half, "p", 0, 7)})
    assert rule([hit_on(half, "Cd.", parent_id="p")], half)


def test_auto_merge_by_hand() -> None:
    hits = [
        hit_at(PUMP, 29, 40, 0.9, parent_id="p1"),
        hit_at(PUMP, 0, 10, 0.8, parent_id="p0"),
        hit_at(PUMP, 10, 20, 0.7, parent_id="p0"),
    ]
    options: dict[str, Any] = {"documents": {"pump": PUMP}, "parents": {"p0": P0, "p1": P1}}
    passages = auto_merge(hits, **options)
    assert shown(passages) == [("child", "Wait here. "), ("parent", P0.text)]
    assert passages[1].hits == (hits[1], hits[2])
    assert shown(auto_merge(hits, min_share=0.7, **options)) == [
        ("child", "Wait here. "),
        ("child", "It leaks. Close it. "),
    ]


def test_a_missing_parent_leaves_its_children_with_a_warning() -> None:
    hits = [hit_at(PUMP, 0, 10, parent_id="gone"), hit_at(PUMP, 10, 20, 0.5, parent_id="gone")]
    with pytest.warns(UserWarning, match="parent 'gone' of hit 'pump@0-10' is missing"):
        passages = auto_merge(hits, documents={"pump": PUMP}, parents={}, min_share=0)
    assert shown(passages) == [("child", "It leaks. Close it. ")]


# --- other rules ------------------------------------------------------------------------------------

GUIDE = page(
    "---\nlang: en\n---\nStart here.\n\n# Guide\n\n## Post\n\nFree. In two days.\n\nTo all.\n\n"
    "## List\n\nWe sell:\n\n- a jug\n  of clay\n\n  It holds water.\n- a cup\n  - with a lid\n  - without\n"
    "- a pot\n\nThat is all.\n\n## End\n\nGood bye.\n",
    "guide",
)


@pytest.mark.parametrize(
    ("quote", "expected"),
    [
        ("## Post\n\nFree. In two days.\n\nTo all.", True),
        ("\n\nFree. In two days.\n\nTo all.\n", True),
        ("Free. In two days.", False),
        ("In two days.\n\nTo all.", False),
        ("Start here.", True),
        ("# Guide\n\n## Post\n\nFree. In two days.\n\nTo all.\n\n", True),
        ("# Guide", False),  # headings alone say nothing
        ("---\nlang: en\n---\n", False),
        ("- a jug\n  of clay", False),
        ("- a jug\n  of clay\n\n  It holds water.", True),
        ("It holds water.", False),
        ("- a cup", False),
        ("- a cup\n  - with a lid\n  - without", True),
        ("  - with a lid\n", True),
        ("- with a lid\n  - without", True),
        ("- without\n- a pot", False),
        ("- a pot", True),
        ("- a pot\n\nThat is all.", False),
        ("That is all.", False),
        ("We sell:", False),
        ("Good bye.", True),
        (GUIDE.text, True),
    ],
)
def test_what_is_self_contained(quote: str, expected: bool) -> None:
    members = [hit_on(GUIDE, quote)]
    assert self_contained(members, GUIDE) is expected
    assert not_self_contained(members, GUIDE) is not expected


def test_hits_that_touch_are_seen_as_one() -> None:
    first, second = hit_on(GUIDE, "Free. In two days.\n\n"), hit_on(GUIDE, "To all.\n\n")
    assert not self_contained([first], GUIDE)
    assert not self_contained([second], GUIDE)
    assert self_contained([second, first], GUIDE)
    assert not self_contained([hit_on(GUIDE, "Good bye."), first], GUIDE)


def test_self_contained_chunks_are_left_alone() -> None:
    hits = [hit_on(GUIDE, "Good bye.", 0.9), hit_on(GUIDE, "To all.", 0.8)]
    passages = expand_where(
        hits, documents={"guide": GUIDE}, rule=not_self_contained, expander=partial(sections, heading=False)
    )
    assert shown(passages) == [
        ("child", "Good bye."),
        ("section", "## Post\n\nFree. In two days.\n\nTo all.\n\n"),
    ]


def test_split_counts_distinct_hits() -> None:
    one, two, three = (hit_at(PUMP, start, start + 5) for start in (0, 5, 10))
    assert [split(min_hits=n)([one, two], PUMP) for n in (1, 2, 3)] == [True, True, False]
    assert not split(min_hits=3)([one, two, two], PUMP)
    assert split(min_hits=3)([one, two, three], PUMP)


# --- a rule a page ----------------------------------------------------------------------------------


def test_each_page_has_its_expander() -> None:
    other = page("One. Two. Three.", "other")
    hits = [hit_on(PUMP, "Call us.", 0.8), hit_on(other, "Two.", 0.9), hit_on(PUMP, "All is well.", 0.7)]
    asked: list[str] = []

    def choose(document: Document) -> Any:
        asked.append(document.doc_id)
        return whole_page if document.doc_id == "other" else partial(window, before=0, after=0)

    passages = by_page(hits, documents={"pump": PUMP, "other": other}, choose=choose)
    assert shown(passages) == [
        ("page", "One. Two. Three."),
        ("window", "Call us. "),
        ("window", "All is well."),
    ]
    assert asked == ["other", "pump"]


def test_by_shape_leaves_short_sections_alone() -> None:
    faq = page("# A\n\nYes.\n\n# B\n\nNo.\n", "faq")
    guide = page("# A\n\n" + "Long talk here. " * 60, "guide")
    talk = page("Long talk here. " * 60, "talk")
    documents = {"faq": faq, "guide": guide, "talk": talk}
    hits = [hit_on(faq, "No.", 0.9), hit_at(guide, 5, 20, 0.8), hit_at(talk, 0, 15, 0.7)]
    passages = by_page(hits, documents=documents, choose=by_shape)
    assert [(passage.expansion, passage.doc_id) for passage in passages] == [
        ("child", "faq"),
        ("section", "guide"),
        ("window", "talk"),
    ]
    n_tokens = tokens.count(talk.text)
    for child_tokens, expansion in ((n_tokens, "child"), (n_tokens - 1, "window")):
        choose = partial(by_shape, child_tokens=child_tokens)
        [passage] = by_page(hits[2:], documents=documents, choose=choose)
        assert passage.expansion == expansion


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mostly_hit({}, min_share=-0.1), "min_share=-0.1 must be at least 0"),
        (lambda: mostly_hit({}, min_share=float("nan")), "min_share=nan must be at least 0"),
        (lambda: auto_merge([], documents={}, parents={}, min_share=-1), "min_share=-1 must be at least 0"),
        (lambda: split(min_hits=0), "min_hits=0 must be at least 1"),
        (lambda: by_shape(PUMP, child_tokens=3), "child_tokens=3 must be at least 4"),
    ],
)
def test_bad_arguments(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


# --- what holds for any rule ------------------------------------------------------------------------

WORDS = st.sampled_from(["kiln", "9", "Dr.", "\u732b", "e\u0301", "\U0001f469\u200d\U0001f680", "a_b"])
SENTENCE = st.lists(WORDS, min_size=1, max_size=8).map(lambda words: "The " + " ".join(words) + ". ")
PARAGRAPH = st.lists(SENTENCE, min_size=1, max_size=5).map("".join)
HEADING = st.tuples(st.integers(1, 3), WORDS).map(lambda head: "#" * head[0] + " " + head[1])
LIST = st.lists(SENTENCE, min_size=1, max_size=4).map(lambda items: "".join(f"- {item}\n" for item in items))
ROWS = st.lists(WORDS, min_size=1, max_size=4).map(
    lambda words: "| a | b |\n|---|---|\n" + "".join(f"| {word} | cell |\n" for word in words)
)
WILD = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from(" \n\r\t.#|-"), max_size=60)
TEXTS = st.lists(PARAGRAPH | HEADING | LIST | ROWS | WILD, min_size=1, max_size=10).map("\n\n".join)

Drawn = tuple[dict[str, Document], list[Hit], dict[str, Chunk]]


@st.composite
def children_and_parents(draw: st.DrawFn) -> Drawn:
    """Pages, some of their children as hits, and the parents (sections are parents too)."""
    documents = {
        name: page(draw(TEXTS.filter(str.strip)), name) for name in ("one", "two")[: draw(st.integers(1, 2))]
    }
    overlap = draw(st.sampled_from([0, 4]))
    chunks, found, _ = parent_child(documents.values(), parent_tokens=40, child_tokens=12, overlap=overlap)
    records = {parent.chunk_id: parent for parent in found}
    kept = draw(st.lists(st.sampled_from(chunks), min_size=1, max_size=8))
    return documents, [hit_of(chunk, draw(st.integers(0, 9)) / 10) for chunk in kept], records


def drawn_rule(bits: int) -> Any:
    """Holds for some of the units, always for the same."""
    return lambda members, _: bool(bits >> members[0].span.start % 7 & 1)


EXPANDERS: dict[str, Any] = {
    "window": partial(window, before=1, after=1),
    "window, all on": partial(window, before=0, after=0, heading=True, number_rule=True),
    "centred": partial(centred, max_tokens=30, heading=True),
    "whole page": partial(whole_page, threshold=40, before=1, after=1, max_tokens=None, number_rule=False),
    "parents": None,
    "parents, all on": None,
}


def expander_of(name: str, records: dict[str, Chunk]) -> Any:
    all_on = name.endswith("all on")
    return EXPANDERS[name] or partial(parents, parents=records, heading=all_on, number_rule=all_on)


def check(passages: list[Passage], documents: dict[str, Document], hits: list[Hit]) -> None:
    """Nothing twice, slices of the page, every hit in one passage that holds all of its text."""
    spans = sorted((s.doc_id, s.start, s.end) for passage in passages for s in passage.spans)
    for (doc_id, _, end), (other_id, start, _) in pairwise(spans):
        assert doc_id != other_id or end <= start
    held = {(doc_id, i) for doc_id, start, end in spans for i in range(start, end)}
    for passage in passages:
        text = documents[passage.doc_id].text
        assert all(0 <= span.start < span.end <= len(text) for span in passage.spans)
        assert {span.doc_id for span in passage.spans} == {passage.doc_id}
        exact = "\n[...]\n".join(text[span.start : span.end] for span in passage.spans)
        assert passage.text == (passage.heading + "\n" if passage.heading else "") + exact
        assert passage.n_tokens == tokens.count(passage.text)
        assert passage.score == passage.hits[0].score == max(hit.score for hit in passage.hits)
        for hit in passage.hits:
            assert any(hit.span.overlap(span) for span in passage.spans)
    for hit in hits:
        lost = [i for i in range(hit.span.start, hit.span.end) if (hit.doc_id, i) not in held]
        assert not "".join(documents[hit.doc_id].text[i] for i in lost).strip()
    counts = Counter(hit.chunk_id for passage in passages for hit in passage.hits)
    assert counts == dict.fromkeys((hit.chunk_id for hit in hits), 1)
    assert [p.score for p in passages] == sorted((p.score for p in passages), reverse=True)


@settings(max_examples=100, deadline=None)
@given(
    children_and_parents(),
    st.sampled_from(sorted(EXPANDERS)),
    st.sampled_from(["chunk_id", "parent_id", "doc_id"]),
    st.integers(0, 127),
    st.booleans(),
)
def test_any_rule_loses_no_hit_and_repeats_no_text(
    drawn: Drawn, name: str, unit: str, bits: int, heading: bool
) -> None:
    documents, hits, records = drawn
    before = repr(drawn)
    options: dict[str, Any] = {
        "documents": documents,
        "rule": drawn_rule(bits),
        "expander": expander_of(name, records),
        "unit": unit,
        "heading": heading,
    }
    passages = expand_where(hits, **options)
    check(passages, documents, hits)
    assert expand_where(hits, **options) == passages
    assert repr(drawn) == before


@settings(max_examples=50, deadline=None)
@given(children_and_parents(), st.integers(0, 127), st.booleans())
def test_sections_that_spill_lose_nothing_either(drawn: Drawn, bits: int, spill: bool) -> None:
    documents, hits, _ = drawn
    cut = partial(sections, max_tokens=20, spill=spill)
    passages = expand_where(hits, documents=documents, rule=drawn_rule(bits), expander=cut)
    spans = sorted((s.doc_id, s.start, s.end) for passage in passages for s in passage.spans)
    for (doc_id, _, end), (other_id, start, _) in pairwise(spans):
        assert doc_id != other_id or end <= start
    assert {hit.chunk_id for p in passages for hit in p.hits} == {hit.chunk_id for hit in hits}
    kinds = [passage.expansion == "spill" for passage in passages]
    assert kinds == sorted(kinds)
    # A hit is held by passages of its own rank, and not by the rest of another's section only.
    held = {
        (s.doc_id, i)
        for p in passages
        if p.expansion != "spill"
        for s in p.spans
        for i in range(s.start, s.end)
    }
    for hit in hits:
        assert any((hit.doc_id, i) in held for i in range(hit.span.start, hit.span.end))


@settings(max_examples=60, deadline=None)
@given(children_and_parents(), st.sampled_from(sorted(EXPANDERS)), st.sampled_from(["chunk_id", "parent_id"]))
def test_rules_that_always_or_never_hold(drawn: Drawn, name: str, unit: str) -> None:
    documents, hits, records = drawn
    expander = expander_of(name, records)
    for heading in (False, True):
        nothing = expand_where(
            hits, documents=documents, rule=never, expander=expander, unit=unit, heading=heading
        )
        assert nothing == children(hits, documents=documents, merge=True, heading=heading)
    everything = expand_where(hits, documents=documents, rule=always, expander=expander, unit=unit)
    assert everything == expander(hits, documents=documents)
    by_sections = expand_where(hits, documents=documents, rule=always, expander=sections, unit=unit)
    assert by_sections == sections(hits, documents=documents)
    assert by_page(hits, documents=documents, choose=lambda _: expander) == expander(
        hits, documents=documents
    )


@settings(max_examples=60, deadline=None)
@given(children_and_parents(), st.floats(0, 1))
def test_auto_merge_lies_between_parents_and_children(drawn: Drawn, min_share: float) -> None:
    documents, hits, records = drawn
    options: dict[str, Any] = {"documents": documents, "parents": records}
    assert auto_merge(hits, min_share=0, **options) == parents(hits, **options)
    assert auto_merge(hits, min_share=1 + 1e-9, **options) == children(hits, documents=documents, merge=True)
    passages = auto_merge(hits, min_share=min_share, **options)
    check(passages, documents, hits)
    merged = {passage.spans for passage in passages if passage.expansion == "parent"}
    for name, record in records.items():
        members = [hit for hit in hits if hit.metadata["parent_id"] == name]
        covered = {i for hit in members for i in range(hit.span.start, hit.span.end)}
        seen = [
            i
            for i in range(record.span.start, record.span.end)
            if not documents[record.doc_id].text[i].isspace()
        ]
        share = sum(i in covered for i in seen) / len(seen)
        if members and abs(share - min_share) > 1e-9:
            assert ((record.span,) in merged) is (share > min_share)


@settings(max_examples=60, deadline=None)
@given(st.lists(TEXTS.filter(str.strip), min_size=1, max_size=2))
def test_children_that_are_whole_sections_are_self_contained(texts: list[str]) -> None:
    documents = {str(number): page(text, str(number)) for number, text in enumerate(texts)}
    chunks = section_child(documents.values(), child_tokens=10_000)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for chunk in chunks:
            has_text = any(
                line.strip() and not line.lstrip().startswith("#") for line in chunk.text.splitlines()
            )
            if has_text and "\n---" not in chunk.text:
                assert self_contained([hit_of(chunk, 1.0)], documents[chunk.doc_id])
