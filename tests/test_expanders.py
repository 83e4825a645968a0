"""Windows, parents, sections and pages: by hand, on reported failures, and on drawn documents."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_hits import hit_at, hit_on, page

from cookbook import tokens
from cookbook.errors import CorpusError
from cookbook.expanders import centred, children, parents, sections, whole_page, window
from cookbook.passages import GAP, slices
from cookbook.rankers import widen
from cookbook.sections import sections as sections_of
from cookbook.sentences import sentences
from cookbook.types import Chunk, Document, Hit, Passage, Span


def visible(hit: Hit) -> Span:
    """Where the hit's text stands, white space at its ends left out."""
    start = hit.span.start + len(hit.text) - len(hit.text.lstrip())
    return Span(doc_id=hit.doc_id, start=start, end=start + len(hit.text.strip()))


def sentence_hit(document: Document, index: int, score: float = 1.0) -> Hit:
    span = sentences(document, max_tokens=128)[index]
    return hit_at(document, span.start, span.end, score)


def numbered(count: int, doc_id: str = "page") -> Document:
    """A page of ``count`` sentences, "Tray number 0 is full." and so on."""
    return page(" ".join(f"Tray number {i} is full." for i in range(count)), doc_id)


def indexes(document: Document, passage: Passage) -> list[tuple[int, int]]:
    """First and last sentence of each slice of a passage."""
    spans = sentences(document, max_tokens=128)
    found = []
    for span in passage.spans:
        inside = [i for i, sentence in enumerate(spans) if span.contains(sentence)]
        assert sum(len(spans[i]) for i in inside) == len(span), "a slice must hold whole sentences"
        found.append((inside[0], inside[-1]))
    return found


def check(passages: list[Passage], documents: dict[str, Document], *, apart: bool) -> None:
    """What holds for every expander's result."""
    for passage in passages:
        text = documents[passage.doc_id].text
        exact = [text[span.start : span.end] for span in passage.spans]
        assert slices(passage) == exact
        assert passage.text == (passage.heading + "\n" if passage.heading else "") + GAP.join(exact)
        assert passage.n_tokens == tokens.count(passage.text)
        assert passage.score == passage.hits[0].score
        assert all(first.end < second.start for first, second in pairwise(passage.spans))
        assert len({hit.chunk_id for hit in passage.hits}) == len(passage.hits)
    spans = sorted((s.doc_id, s.start, s.end) for passage in passages for s in passage.spans)
    for (doc_id, _, end), (other_id, start, _) in pairwise(spans):
        if doc_id == other_id:
            assert end < start if apart else end <= start


# --- windows ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("radius", "expected"),
    [
        pytest.param(0, [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4)], id="case-043-radius-0"),
        pytest.param(1, [(0, 1), (0, 2), (1, 3), (2, 4), (3, 4)], id="case-043-radius-1"),
        pytest.param(9, [(0, 4)] * 5, id="case-043-radius-9"),
    ],
)
def test_window_at_both_ends(radius: int, expected: list[tuple[int, int]]) -> None:
    document = page("s0.\n\ns1.\n\ns2.\n\ns3.\n\ns4.")
    documents = {"page": document, "next": page("other.", "next")}
    for index, block in enumerate(expected):
        hits = [sentence_hit(document, index)]
        [passage] = window(hits, documents=documents, before=radius, after=radius)
        assert indexes(document, passage) == [block]
        assert passage.expansion == "window"


@pytest.mark.parametrize(("order", "blocks"), [pytest.param([7, 2, 3, 3], [(6, 8), (1, 4)], id="case-044")])
def test_overlapping_windows_become_one_passage(order: list[int], blocks: list[tuple[int, int]]) -> None:
    document = numbered(10)
    hits = [sentence_hit(document, i, 0.9 - place / 10) for place, i in enumerate(order)]
    passages = window(hits, documents={"page": document}, before=1, after=1)
    assert [indexes(document, passage) for passage in passages] == [[block] for block in blocks]
    assert [passage.score for passage in passages] == [0.9, 0.8]
    assert passages[1].hits == (hits[1], hits[2])
    assert passages[1].text.count("Tray number 3") == 1
    check(passages, {"page": document}, apart=True)


def test_merging_is_transitive_and_takes_contained_and_touching_spans() -> None:
    document = numbered(30)
    at = sentences(document)
    wide = hit_at(document, at[4].start, at[20].end, 0.5)
    hits = [
        wide,
        sentence_hit(document, 10, 0.9),
        sentence_hit(document, 1, 0.8),
        sentence_hit(document, 23, 0.7),
    ]
    [passage] = window(hits, documents={"page": document}, before=1, after=1)
    assert indexes(document, passage) == [(0, 24)]
    assert [hit.score for hit in passage.hits] == [0.9, 0.8, 0.7, 0.5]
    apart = window(hits, documents={"page": document}, before=1, after=1, merge=False)
    assert [indexes(document, p) for p in apart] == [[(9, 11)], [(0, 2)], [(22, 24)], [(3, 21)]]


def test_windows_of_hits_47_and_49_share_three_sentences() -> None:
    document = numbered(60)
    hits = [sentence_hit(document, 47), sentence_hit(document, 49)]
    one, two = window(hits, documents={"page": document}, merge=False)
    shared = Span(doc_id="page", start=two.spans[0].start, end=one.spans[0].end)
    assert sum(shared.contains(sentence) for sentence in sentences(document)) == 3


def test_window_sides_are_independent() -> None:
    document = numbered(9)
    [passage] = window([sentence_hit(document, 4)], documents={"page": document}, before=3, after=1)
    assert indexes(document, passage) == [(1, 5)]


def test_window_by_tokens_takes_whole_sentences_and_never_more_than_asked() -> None:
    document = numbered(9)
    each = tokens.count("Tray number 0 is full. ")
    for asked in range(4 * each):
        hits = [sentence_hit(document, 4)]
        [passage] = window(hits, documents={"page": document}, before_tokens=asked, after=0)
        first, last = indexes(document, passage)[0]
        at = sentences(document)
        assert last == 4
        assert tokens.count(document.text[at[first].start : at[4].start]) <= asked
        if first:
            assert tokens.count(document.text[at[first - 1].start : at[4].start]) > asked


def test_window_within_a_section_stops_at_its_borders() -> None:
    document = page("# Old\n\nLeft alone. \n\n# New\n\nOne. Two.\n\n# Next\n\nNot this.\n")
    hits = [hit_on(document, "One.")]
    [clamped] = window(hits, documents={"page": document}, before=9, after=9, within_section=True)
    assert clamped.text == "# New\n\nOne. Two.\n\n"
    [free] = window(hits, documents={"page": document}, before=9, after=9)
    assert free.text == document.text


def test_white_space_at_a_hits_end_brings_no_sentence_of_its_own() -> None:
    document = numbered(5)
    at = sentences(document)
    padded = hit_at(document, at[2].start - 1, at[2].end)
    assert padded.text.startswith(" ")
    for expand in (
        window([padded], documents={"page": document}, before=0, after=0),
        centred([padded], documents={"page": document}, max_tokens=12),
    ):
        assert indexes(document, expand[0]) == [(2, 2)]


def test_window_takes_hits_of_any_chunker() -> None:
    document = numbered(12)
    at = sentences(document)
    ragged = hit_at(document, at[3].start + 5, at[5].start + 2)
    [passage] = window([ragged], documents={"page": document}, before=1, after=1)
    assert indexes(document, passage) == [(2, 6)]


def test_a_giant_sentence_is_capped_so_that_a_window_has_a_largest_size() -> None:
    document = page("word " * 3000)
    hits = [sentence_hit(document, 7)]
    [passage] = window(hits, documents={"page": document}, before=2, after=2, max_sentence_tokens=128)
    assert 4 * 128 < passage.n_tokens <= 5 * 128
    blank = page("One here." + " " * 20_000 + "\n\nTwo there.")
    [passage] = window([hit_on(blank, "One here.")], documents={"page": blank}, max_sentence_tokens=16)
    assert passage.n_tokens <= 5 * 16


def test_another_radius_starts_from_the_same_hits() -> None:
    document = numbered(20)
    hits = [sentence_hit(document, 8, 0.5)]
    before = repr(hits)
    sizes = [window(hits, documents={"page": document}, before=r, after=r)[0].n_tokens for r in (0, 1, 2, 4)]
    assert sizes == sorted(sizes)
    assert repr(hits) == before


def test_centred_fills_the_limit_on_both_sides() -> None:
    document = numbered(40)
    [passage] = centred([sentence_hit(document, 20)], documents={"page": document}, max_tokens=100)
    [(first, last)] = indexes(document, passage)
    assert abs((20 - first) - (last - 20)) <= 1
    assert 100 - tokens.count("Tray number 20 is full. ") < passage.n_tokens <= 100
    [at_end] = centred([sentence_hit(document, 39)], documents={"page": document}, max_tokens=100)
    assert indexes(document, at_end)[0][1] == 39
    assert at_end.n_tokens > 90


def test_centred_keeps_its_limit_below_the_hit() -> None:
    document = page("Nine words stand in this one sentence right here.")
    [passage] = centred([sentence_hit(document, 0)], documents={"page": document}, max_tokens=4)
    assert passage.n_tokens <= 4
    assert document.text.startswith(passage.text)


def test_children_are_the_hits_and_merge_only_when_asked() -> None:
    document = numbered(6)
    hits = [sentence_hit(document, 3, 0.5), sentence_hit(document, 2, 0.9)]
    passages = children(hits, documents={"page": document})
    assert [passage.text for passage in passages] == [hits[1].text, hits[0].text]
    assert {passage.expansion for passage in passages} == {"child"}
    [merged] = children(hits, documents={"page": document}, merge=True)
    assert merged.text == hits[1].text + hits[0].text


# --- parents ----------------------------------------------------------------------------------------


def family(document: Document, sizes: list[int]) -> tuple[dict[str, Chunk], list[Hit]]:
    """Parents of so many sentences each, and a hit on every sentence, scores falling."""
    spans = sentences(document)
    records: dict[str, Chunk] = {}
    hits: list[Hit] = []
    first = 0
    for number, size in enumerate(sizes):
        start, end = spans[first].start, spans[first + size - 1].end
        name = f"{document.key}#p{number:04}"
        records[name] = Chunk(
            chunk_id=name,
            doc_id=document.doc_id,
            span=Span(doc_id=document.doc_id, start=start, end=end),
            text=document.text[start:end],
            kind="parent",
            position=number,
            n_tokens=tokens.count(document.text[start:end]),
        )
        for span in spans[first : first + size]:
            hits.append(hit_at(document, span.start, span.end, 1 - len(hits) / 100, parent_id=name))
        first += size
    return records, hits


@pytest.mark.parametrize("sizes", [pytest.param([20, 1, 1], id="case-047")])
def test_as_many_parents_as_asked_for(sizes: list[int]) -> None:
    document = numbered(22)
    records, ranked = family(document, sizes)
    for top_k in (1, 2, 3, 4):
        hits = widen(lambda n: ranked[:n], top_k=top_k, fetch=5)
        passages = parents(hits, documents={"page": document}, parents=records, top_k=top_k)
        assert len(passages) == min(top_k, 3)
        assert passages[0].text == records["page#p0000"].text
        check(passages, {"page": document}, apart=False)


def test_a_parent_has_its_best_childs_score_and_all_its_children() -> None:
    document = numbered(6)
    records, hits = family(document, [2, 2, 2])
    a, b, _, _, e, f = hits
    hits = [e, b, f, a]
    passages = parents(hits, documents={"page": document}, parents=records)
    assert [(p.score, p.hits, p.expansion) for p in passages] == [
        (a.score, (a, b), "parent"),
        (e.score, (e, f), "parent"),
    ]
    assert [p.spans for p in passages] == [(records["page#p0000"].span,), (records["page#p0002"].span,)]


@pytest.mark.parametrize("missing", [pytest.param("page#p0000", id="case-049")])
def test_a_missing_parent_falls_back_to_its_children_with_a_warning(missing: str) -> None:
    document = numbered(4)
    records, hits = family(document, [2, 2])
    del records[missing]
    with pytest.warns(UserWarning, match=f"parent '{missing}' of hit .* is missing"):
        passages = parents([hits[0], hits[2]], documents={"page": document}, parents=records)
    assert [(p.text, p.expansion) for p in passages] == [
        (hits[0].text, "child"),
        (records["page#p0001"].text, "parent"),
    ]


def test_a_chunk_without_a_parent_stands_for_itself() -> None:
    document = numbered(2)
    with pytest.warns(UserWarning, match="parent None"):
        [passage] = parents([sentence_hit(document, 1)], documents={"page": document}, parents={})
    assert passage.text == "Tray number 1 is full."


# --- sections ---------------------------------------------------------------------------------------

GUIDE = page(
    "Before all headings.\n\n"
    "# Guide\n\nAll prices exclude VAT.\n\n"
    "## Shipping\n\n### Times\n\nA parcel takes 3 days.\n\nPallets take longer.\n\n"
    "## Limits\n\n"
    "| plan | seats |\n|---|---|\n" + "".join(f"| plan {i} | {i} seats |\n" for i in range(60)) + "\n"
    "After the table.\n",
    "guide",
)


def test_section_by_hand() -> None:
    hits = [hit_on(GUIDE, "Pallets take longer.")]
    [passage] = sections(hits, documents={"guide": GUIDE})
    assert passage.text == (
        "Guide > Shipping\n### Times\n\nA parcel takes 3 days.\n\nPallets take longer.\n\n"
    )
    assert passage.heading == "Guide > Shipping"
    assert passage.expansion == "section"
    [bare] = sections(hits, documents={"guide": GUIDE}, heading=False)
    assert bare.text == "### Times\n\nA parcel takes 3 days.\n\nPallets take longer.\n\n"


def test_a_number_brings_the_paragraph_above_the_heading() -> None:
    hits = [hit_on(GUIDE, "A parcel takes 3 days.")]
    [passage] = sections(hits, documents={"guide": GUIDE})
    assert passage.text.startswith("Guide > Shipping\nAll prices exclude VAT.\n\n## Shipping\n\n### Times\n")
    assert len(passage.spans) == 1
    [without] = sections(hits, documents={"guide": GUIDE}, number_rule=False)
    assert "VAT" not in without.text
    # No paragraph stands above: the table's rows are none.
    table = page("| a | b |\n|---|---|\n| c | d |\n\n# Cost\n\nIt is 5 euros.\n")
    [passage] = sections([hit_on(table, "5 euros")], documents={"page": table})
    assert passage.text == "# Cost\n\nIt is 5 euros.\n"


def test_the_paragraph_above_comes_once_and_goes_with_the_claim() -> None:
    document = page("# Terms\n\nLong talk.\n\nPrices are net.\n\n# Cost\n\nIt is 5 euros.\n")
    documents = {"page": document}
    hits = [hit_on(document, "5 euros", 0.9), hit_on(document, "Long talk.", 0.8)]
    first, second = sections(hits, documents=documents)
    assert first.text == "Prices are net.\n\n# Cost\n\nIt is 5 euros.\n"
    assert second.text == "# Terms\n\nLong talk.\n\n"
    first, second = sections(hits[::-1], documents=documents)
    assert "net" in first.text  # the order of the list does not count, the score does
    claim_last = [hit_on(document, "5 euros", 0.7), hit_on(document, "Long talk.", 0.8)]
    first, second = sections(claim_last, documents=documents)
    assert "net" in first.text
    assert second.text == "# Cost\n\nIt is 5 euros.\n"


def test_a_part_far_from_its_heading_joins_the_paragraph_above_by_a_mark() -> None:
    body = "".join(f"Sentence {'abcdefghij'[i % 10]} of the paragraph.\n\n" for i in range(80))
    document = page(f"Only on weekdays.\n\n# Hours\n\n{body}Open from 9.\n\nThe end.\n")
    first, *rest = sections([hit_on(document, "Open from 9.")], documents={"page": document}, max_tokens=80)
    assert first.text.startswith("Hours\nOnly on weekdays.\n\n" + GAP)
    assert "Open from 9." in first.text
    assert first.n_tokens <= 80
    assert {passage.expansion for passage in rest} == {"spill"}
    # Too little room for both: the paragraph above is a passage of its own, and nothing is lost.
    first, second, *_ = sections(
        [hit_on(document, "Open from 9.")], documents={"page": document}, max_tokens=8
    )
    assert "Open from 9." in first.text
    assert second.text == "Only on weekdays.\n\n"


@pytest.mark.parametrize(
    ("head", "body", "then", "cap", "quote"),
    [
        pytest.param(
            "# Log\n",
            "Kiln holds steady. " * 900,
            "The leak is at valve nine.\n## Next\nOther.\n",
            900,
            "The leak is at valve nine.",
            id="case-050",
        )
    ],
)
def test_a_capped_section_keeps_the_hit(head: str, body: str, then: str, cap: int, quote: str) -> None:
    document = page(head + body + then)
    hits = [hit_on(document, quote)]
    first, *rest = sections(hits, documents={"page": document}, max_tokens=cap)
    assert quote in first.text
    assert cap * 0.95 < first.n_tokens <= cap
    assert len(first.spans) == 1
    [log, _] = sections_of(document)
    assert log.body.contains(first.spans[0])
    assert "Next" not in first.text
    assert first.heading == "Log"
    # Cut between sentences, and the rest spills: nothing of the section is lost, nothing comes twice.
    assert slices(first)[0].startswith("Kiln holds")
    everything = sorted(span.start for passage in [first, *rest] for span in passage.spans)
    assert everything[0] == 0
    assert sum(len(span) for passage in [first, *rest] for span in passage.spans) == len(log.body)
    assert all(passage.n_tokens <= cap for passage in rest)
    assert [passage.expansion for passage in rest] == ["spill"] * len(rest)
    assert sections(hits, documents={"page": document}, max_tokens=cap, spill=False) == [first]
    [whole] = sections(hits, documents={"page": document}, max_tokens=None)
    assert whole.spans == (log.body,)


@pytest.mark.parametrize("max_tokens", [16, 18, 20])
def test_a_heading_is_left_out_before_a_sentence_is_cut(max_tokens: int) -> None:
    """The hit is a part of a sentence, which fits the limit alone but not below its heading."""
    sentence = "The valve opens slowly and closes when the pressure falls below nine bar again. "
    head = "# A heading that takes some room of its own here\n\n"
    page = Document(doc_id="valve", title="Valve", text=f"{head}{sentence}Then wait. Then go on.\n")
    start = len(head) + len("The valve ")
    end = start + len("opens slowly")
    place = {"start": start, "end": end}
    part = Hit(
        chunk_id="valve#w0001",
        doc_id="valve",
        text=page.text[start:end],
        score=1.0,
        rank=1,
        retriever="dense",
        metadata=place,
    )
    first = sections([part], documents={"valve": page}, max_tokens=max_tokens)[0]
    assert first.text.startswith(sentence)
    assert first.n_tokens <= max_tokens


def test_part_of_a_table_keeps_its_header_and_whole_rows() -> None:
    hits = [hit_on(GUIDE, "| plan 30 | 30 seats |")]
    passages = sections(hits, documents={"guide": GUIDE}, max_tokens=120, number_rule=False)
    first = passages[0]
    assert first.heading == "Guide > Limits\n\n| plan | seats |\n|---|---|"
    assert "| plan 30 | 30 seats |\n" in first.text
    for passage in passages:
        assert passage.n_tokens <= 120
        for line in "".join(slices(passage)).splitlines():
            assert line in GUIDE.text.splitlines(), "a row was cut"
        if slices(passage)[0].startswith("| plan "):
            assert "|---|---|" in passage.text


def test_hits_in_one_section_share_their_part_or_earn_their_own() -> None:
    near = [hit_on(GUIDE, "| plan 30 |", 0.5), hit_on(GUIDE, "| plan 31 |", 0.9)]
    first, *rest = sections(near, documents={"guide": GUIDE}, max_tokens=120)
    assert first.hits == (near[1], near[0])
    assert all(passage.expansion == "spill" for passage in rest)
    far = [hit_on(GUIDE, "| plan 3 |", 0.9), hit_on(GUIDE, "| plan 50 |", 0.5)]
    first, second, *rest = sections(far, documents={"guide": GUIDE}, max_tokens=120, number_rule=False)
    assert (first.hits, second.hits) == ((far[0],), (far[1],))
    assert all(passage.expansion == "spill" for passage in rest)
    check([first, second, *rest], {"guide": GUIDE}, apart=False)


def test_a_hit_across_sections_brings_them_as_one_slice() -> None:
    start = GUIDE.text.index("exclude VAT")
    hit = hit_at(GUIDE, start, GUIDE.text.index("A parcel") + 8)
    [passage] = sections([hit], documents={"guide": GUIDE}, number_rule=False)
    assert passage.text.startswith("# Guide\n")
    assert passage.text.endswith("Pallets take longer.\n\n")


def test_a_hit_in_the_preamble_has_no_heading() -> None:
    [passage] = sections([hit_on(GUIDE, "Before all")], documents={"guide": GUIDE})
    assert (passage.heading, passage.text) == ("", "Before all headings.\n\n")


# --- the heading path and the paragraph above a number, on every expander --------------------------


def all_of(document: Document) -> dict[str, Chunk]:
    """The page as the one parent."""
    span = Span(doc_id=document.doc_id, start=0, end=len(document.text))
    n_tokens = tokens.count(document.text)
    chunk = Chunk(
        chunk_id="all",
        doc_id=document.doc_id,
        span=span,
        text=document.text,
        kind="parent",
        position=0,
        n_tokens=n_tokens,
    )
    return {"all": chunk}


@pytest.mark.parametrize(
    "expand",
    [
        children,
        partial(window, before=0, after=0),
        partial(window, before=0, after=0, merge=False),
        partial(centred, max_tokens=13),
    ],
)
def test_the_heading_path_stands_above_when_asked(expand: Any) -> None:
    hits = [hit_on(GUIDE, "Pallets take longer.")]
    documents = {"guide": GUIDE}
    [without] = expand(hits, documents=documents)
    assert without.heading == ""
    [passage] = expand(hits, documents=documents, heading=True)
    assert passage.heading == "Guide > Shipping > Times"
    assert passage.text.startswith("Guide > Shipping > Times\nPallets take longer.")
    check([passage], documents, apart=True)
    # A table's row is read below its header, as in sections.
    [row] = expand([hit_on(GUIDE, "| plan 30 |")], documents=documents, heading=True, **_roomy(expand))
    assert row.heading == "Guide > Limits\n\n| plan | seats |\n|---|---|"


def _roomy(expand: Any) -> dict[str, int]:
    return {"max_tokens": 40} if getattr(expand, "func", None) is centred else {}


def test_a_title_that_the_text_begins_with_is_not_repeated_above_it() -> None:
    hits = [hit_on(GUIDE, "\n\n### Times\n\nA parcel")]
    for expand in (children, partial(window, before=0, after=0)):
        [passage] = expand(hits, documents={"guide": GUIDE}, heading=True)
        assert passage.heading == "Guide > Shipping"
    padded = page("\n\n# A\n\nOne.\n")
    for start in (0, 1, 2):
        [passage] = children([hit_at(padded, start, 5)], documents={"page": padded}, heading=True)
        assert passage.heading == ""


def test_merged_windows_stand_below_the_path_of_the_first() -> None:
    hits = [hit_on(GUIDE, "| plan 0 |", 0.9), hit_on(GUIDE, "Pallets", 0.5)]
    [passage] = window(hits, documents={"guide": GUIDE}, before=3, after=0, heading=True)
    assert passage.text.startswith("Guide\n## Shipping\n\n### Times\n")
    assert passage.text.endswith("| plan 0 | 0 seats |\n")


def test_centred_counts_its_heading_and_leaves_it_out_before_the_sentence() -> None:
    hits = [hit_on(GUIDE, "Pallets take longer.")]
    n_bare = tokens.count("Pallets take longer.\n\n")
    n_headed = tokens.count("Guide > Shipping > Times\nPallets take longer.\n\n")
    for max_tokens in range(4, n_headed + 6):
        [passage] = centred(hits, documents={"guide": GUIDE}, max_tokens=max_tokens, heading=True)
        assert passage.n_tokens <= max_tokens
        if n_bare <= max_tokens < n_headed:
            assert passage.heading == ""
            assert "Pallets take longer." in passage.text
        if max_tokens >= n_headed:
            assert passage.heading.startswith("Guide")


@pytest.mark.parametrize("merge", [True, False])
def test_a_number_in_a_child_or_window_brings_the_paragraph_above(merge: bool) -> None:
    hits = [hit_on(GUIDE, "A parcel takes 3 days.")]
    for expand in (children, partial(window, before=0, after=0)):
        options: dict[str, Any] = {"documents": {"guide": GUIDE}, "merge": merge}
        [passage] = expand(hits, number_rule=True, **options)
        assert passage.text.startswith(
            f"All prices exclude VAT.\n\n## Shipping\n\n{GAP}A parcel takes 3 days."
        )
        check([passage], {"guide": GUIDE}, apart=True)
        [both] = expand(hits, number_rule=True, heading=True, **options)
        assert both.text == f"Guide > Shipping > Times\n{passage.text}"
        [without] = expand(hits, **options)
        assert "VAT" not in without.text
        [no_digit] = expand([hit_on(GUIDE, "Pallets take longer.")], number_rule=True, **options)
        assert "VAT" not in no_digit.text
    [touching] = window(hits, documents={"guide": GUIDE}, before=1, after=0, number_rule=True)
    assert touching.text.startswith("All prices exclude VAT.\n\n## Shipping\n\n### Times\n\nA parcel")


def test_windows_that_bring_one_paragraph_become_one_passage() -> None:
    filler = "".join(f"Line {'abcdefghij'[i % 10]} of the list.\n\n" for i in range(12))
    document = page(f"Net prices.\n\n# Cost\n\nIntro.\n\n{filler}It is 5 euros.\n\n{filler}Or 7 dollars.\n")
    hits = [hit_on(document, "Or 7 dollars.", 0.9), hit_on(document, "It is 5 euros.", 0.5)]
    options: dict[str, Any] = {"documents": {"page": document}, "before": 0, "after": 0}
    [passage] = window(hits, number_rule=True, heading=True, **options)
    assert passage.text == f"Cost\nNet prices.\n\n{GAP}It is 5 euros.\n\n{GAP}Or 7 dollars.\n"
    assert (passage.hits, passage.score) == (tuple(hits), 0.9)
    check([passage], {"page": document}, apart=True)
    assert len(window(hits, **options)) == 2


def test_parents_take_a_heading_and_the_paragraph_above_a_number_once() -> None:
    document = page("# Terms\n\nTalk.\n\nPrices are net.\n\n# Cost\n\nIt is 5 euros.\n\nOr 7 dollars.\n")
    spans = [("p0", "# Terms"), ("p1", "# Cost"), ("p2", "Or 7")]
    starts = [document.text.index(quote) for _, quote in spans]
    records: dict[str, Chunk] = {}
    for (name, _), start, end in zip(spans, starts, [*starts[1:], len(document.text)], strict=True):
        [record] = all_of(document).values()
        span = Span(doc_id="page", start=start, end=end)
        records[name] = replace(record, chunk_id=name, span=span, text=document.text[start:end])
    documents = {"page": document}
    claim = hit_on(document, "It is 5 euros.", 0.9, parent_id="p1")
    other = hit_on(document, "Or 7 dollars.", 0.8, parent_id="p2")
    options: dict[str, Any] = {"documents": documents, "parents": records}

    [alone] = parents([claim], **options)
    assert alone.text == "# Cost\n\nIt is 5 euros.\n\n"
    first, second = parents([claim, other], heading=True, number_rule=True, **options)
    assert first.text == "Prices are net.\n\n# Cost\n\nIt is 5 euros.\n\n"
    assert second.text == "Cost\nOr 7 dollars.\n"
    [second] = parents([other], number_rule=True, **options)
    assert second.text == f"Prices are net.\n\n{GAP}Or 7 dollars.\n"
    # A parent that comes anyway holds it.
    talk = hit_on(document, "Talk.", 0.1, parent_id="p0")
    passages = parents([claim, talk], number_rule=True, **options)
    assert [passage.text for passage in passages] == [records["p1"].text, records["p0"].text]
    check(passages, documents, apart=False)


def test_whole_page_hands_both_to_sections() -> None:
    hits = [hit_on(GUIDE, "A parcel takes 3 days.")]
    options: dict[str, Any] = {"documents": {"guide": GUIDE}, "threshold": 0}
    for heading in (False, True):
        for number_rule in (False, True):
            switched: dict[str, Any] = {"heading": heading, "number_rule": number_rule}
            assert whole_page(hits, **switched, **options) == sections(
                hits, documents={"guide": GUIDE}, **switched
            )


# --- whole page -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "n_tokens", "whole"),
    [
        pytest.param(" house" * 799, 799, True, id="case-041-799"),
        pytest.param(" house" * 800, 800, False, id="case-041-800"),
        pytest.param(" house" * 801, 801, False, id="case-041-801"),
        pytest.param(" kiln" * 399, 798, True, id="case-041-kiln-399"),
        pytest.param(" kiln" * 400, 800, False, id="case-041-kiln-400"),
        pytest.param("\u732b" * 267, 801, False, id="case-041-cjk"),
    ],
)
def test_the_threshold_counts_tokens_strictly(text: str, n_tokens: int, whole: bool) -> None:
    document = page(text)
    assert tokens.count(text) == n_tokens
    [passage] = whole_page([hit_at(document, 0, 5)], documents={"page": document}, threshold=800)
    assert passage.expansion == ("page" if whole else "window")
    assert (passage.text == text) is whole


def test_each_page_takes_the_largest_unit_it_can() -> None:
    small, plain = page("Short. And sweet.", "small"), numbered(300, "plain")
    documents = {"small": small, "plain": plain, "guide": GUIDE}
    hits = [
        sentence_hit(plain, 100, 0.9),
        hit_on(small, "sweet", 0.5),
        hit_on(GUIDE, "| plan 30 |", 0.8),
        hit_on(small, "Short", 0.7),
    ]
    passages = whole_page(hits, documents=documents, threshold=100, max_tokens=120, before=1, after=1)
    assert [passage.expansion for passage in passages[:3]] == ["window", "section", "page"]
    assert passages[2].hits == (hits[3], hits[1])
    assert {passage.expansion for passage in passages[3:]} == {"spill"}
    check(passages, documents, apart=False)


# --- what all share ---------------------------------------------------------------------------------


def expand_all(hits: list[Hit], documents: dict[str, Document]) -> dict[str, list[Passage]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {
            "children": children(hits, documents=documents),
            "window": window(hits, documents=documents),
            "centred": centred(hits, documents=documents, max_tokens=50),
            "parents": parents(hits, documents=documents, parents={}),
            "sections": sections(hits, documents=documents),
            "whole_page": whole_page(hits, documents=documents),
        }


def test_no_hits_give_no_passages() -> None:
    assert not any(expand_all([], {}).values())


EXPANDERS: list[Any] = [
    lambda hits, docs: children(hits, documents=docs),
    lambda hits, docs: window(hits, documents=docs),
    lambda hits, docs: centred(hits, documents=docs, max_tokens=50),
    lambda hits, docs: parents(hits, documents=docs, parents={}),
    lambda hits, docs: sections(hits, documents=docs),
    lambda hits, docs: whole_page(hits, documents=docs),
]


@pytest.mark.parametrize("expand", EXPANDERS)
def test_what_cannot_be_expanded_is_refused_by_name(expand: Any) -> None:
    document = numbered(3)
    hit = sentence_hit(document, 1)
    with pytest.raises(CorpusError, match=r"document 'page' of hit 'page@.*' is not among"):
        expand([hit], {})
    with pytest.raises(CorpusError, match="changed since it was indexed"):
        expand([hit], {"page": page("Tray number nine is full. And more.")})
    bare = Hit(chunk_id="c", doc_id="page", text="x", score=1.0, rank=1, retriever="dense")
    with pytest.raises(ValueError, match="has no offsets"):
        expand([bare], {"page": document})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: window([], documents={}, before=-1), "before=-1 must be at least 0"),
        (lambda: window([], documents={}, after_tokens=-1), "after_tokens=-1 must be at least 0"),
        (lambda: window([], documents={}, max_sentence_tokens=3), "max_sentence_tokens=3 must be at least 4"),
        (lambda: centred([], documents={}, max_tokens=3), "max_tokens=3 must be at least 4"),
        (lambda: parents([], documents={}, parents={}, top_k=0), "top_k=0 must be at least 1"),
        (lambda: sections([], documents={}, max_tokens=0), "max_tokens=0 must be at least 4"),
        (lambda: whole_page([], documents={}, threshold=-1), "threshold=-1 must be at least 0"),
        (lambda: whole_page([], documents={}, before=-1), "before=-1 must be at least 0"),
    ],
)
def test_bad_arguments(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


WORDS = st.sampled_from(
    [
        "kiln",
        "tray",
        "9",
        "3.5",
        "Dr.",
        "\u732b",
        "caf\u00e9",
        "e\u0301",
        "\U0001f469\u200d\U0001f680",
        "<|endoftext|>",
        "a_b",
    ]
)
SENTENCE = st.lists(WORDS, min_size=1, max_size=8).map(lambda words: "The " + " ".join(words) + ". ")
PARAGRAPH = st.lists(SENTENCE, min_size=1, max_size=5).map("".join)
ROWS = st.lists(WORDS, min_size=1, max_size=6).map(
    lambda words: "| a | b |\n|---|---|\n" + "".join(f"| {word} | cell |\n" for word in words)
)
HEADING = st.tuples(st.integers(1, 4), WORDS).map(lambda head: "#" * head[0] + " " + head[1])
LIST = st.lists(SENTENCE, min_size=1, max_size=4).map(lambda items: "".join(f"- {item}\n" for item in items))
CODE = st.just("```\nx = 1\n\ny = 2\n```")
WILD = st.text(
    st.characters(exclude_categories=["Cs"]) | st.sampled_from(" \n\r\t.#|-\u3002\u2028"), max_size=60
)
TEXTS = st.lists(PARAGRAPH | HEADING | ROWS | LIST | CODE | WILD, min_size=1, max_size=12).map("\n\n".join)


@st.composite
def pages_and_hits(draw: st.DrawFn) -> tuple[dict[str, Document], list[Hit]]:
    documents: dict[str, Document] = {}
    hits: list[Hit] = []
    for name in ("one", "two")[: draw(st.integers(1, 2))]:
        text = draw(TEXTS.filter(str.strip))
        documents[name] = page(text, name)
        for _ in range(draw(st.integers(1, 4))):
            start = draw(st.integers(0, len(text) - 1))
            end = draw(st.integers(start + 1, min(len(text), start + 120)))
            if text[start:end].strip():
                hits.append(hit_at(documents[name], start, end, draw(st.integers(0, 9)) / 10))
    return documents, hits


@settings(max_examples=80, deadline=None)
@given(pages_and_hits(), st.integers(0, 3), st.integers(0, 3), st.booleans(), st.integers(4, 40))
def test_windows_of_any_page(
    drawn: tuple[dict[str, Document], list[Hit]], before: int, after: int, within: bool, cap: int
) -> None:
    documents, hits = drawn
    options: dict[str, Any] = {
        "documents": documents,
        "before": before,
        "after": after,
        "within_section": within,
        "max_sentence_tokens": cap,
    }
    merged = window(hits, **options)
    check(merged, documents, apart=True)
    assert window(hits, **options) == merged
    assert {hit.chunk_id for passage in merged for hit in passage.hits} == {hit.chunk_id for hit in hits}
    assert [p.score for p in merged] == sorted((p.score for p in merged), reverse=True)
    for passage in window(hits, merge=False, **options):
        [hit], [span] = passage.hits, passage.spans
        document = documents[hit.doc_id]
        at = sentences(document, max_tokens=cap)
        core = [i for i, sentence in enumerate(at) if sentence.overlap(visible(hit))]
        # Neither white space above the cap nor, where asked for, a section's end is crossed.
        low, high = core[0], core[-1]
        bodies = [s.body for s in sections_of(document) if s.body.overlap(visible(hit))]
        for _ in range(before):
            if (
                low
                and at[low - 1].end == at[low].start
                and not (within and at[low - 1].start < bodies[0].start)
            ):
                low -= 1
        for _ in range(after):
            if (
                high + 1 < len(at)
                and at[high].end == at[high + 1].start
                and not (within and at[high + 1].end > bodies[-1].end)
            ):
                high += 1
        assert (span.start, span.end) == (at[low].start, at[high].end)
        assert any(block.contains(span) for other in merged for block in other.spans)


@settings(max_examples=80, deadline=None)
@given(pages_and_hits(), st.integers(0, 60), st.integers(4, 90))
def test_token_limits_of_windows_hold_on_any_page(
    drawn: tuple[dict[str, Document], list[Hit]], asked: int, limit: int
) -> None:
    documents, hits = drawn
    for hit in hits:
        text = documents[hit.doc_id].text
        [alone] = window([hit], documents=documents, before=0, after=0)
        [passage] = window([hit], documents=documents, before_tokens=asked, after_tokens=asked)
        [outer], [inner] = passage.spans, alone.spans
        assert outer.contains(inner)
        assert tokens.count(text[outer.start : inner.start]) <= asked
        assert tokens.count(text[inner.end : outer.end]) <= asked
        [passage] = centred([hit], documents=documents, max_tokens=limit)
        assert passage.n_tokens <= limit
        assert passage.spans[0].overlap(visible(hit))


@settings(max_examples=60, deadline=None)
@given(pages_and_hits(), st.integers(0, 2), st.integers(4, 60), st.booleans())
def test_rules_about_the_text_around_hold_on_any_page(
    drawn: tuple[dict[str, Document], list[Hit]], radius: int, limit: int, number_rule: bool
) -> None:
    documents, hits = drawn
    options: dict[str, Any] = {"documents": documents, "heading": True}
    around = window(hits, before=radius, after=radius, number_rule=number_rule, **options)
    merged = children(hits, merge=True, number_rule=number_rule, **options)
    for passages in (around, merged, centred(hits, max_tokens=limit, **options)):
        check(passages, documents, apart=True)
        assert {hit.chunk_id for p in passages for hit in p.hits} == {hit.chunk_id for hit in hits}
        assert [p.score for p in passages] == sorted((p.score for p in passages), reverse=True)
    for passage in centred(hits, max_tokens=limit, merge=False, **options):
        assert passage.n_tokens <= limit


@settings(max_examples=40, deadline=None)
@given(st.lists(SENTENCE, min_size=3, max_size=12), st.data())
def test_a_window_of_radius_1_is_a_centred_parent_of_a_sentence_each_side(
    made: list[str], data: st.DataObject
) -> None:
    document = page("".join(made))
    index = data.draw(st.integers(0, len(sentences(document, max_tokens=128)) - 1))
    hits = [sentence_hit(document, index)]
    [around] = window(hits, documents={"page": document}, before=1, after=1)
    [parent] = centred(hits, documents={"page": document}, max_tokens=max(4, around.n_tokens))
    assert parent.spans == around.spans


@settings(max_examples=80, deadline=None)
@given(pages_and_hits(), st.integers(4, 90), st.booleans(), st.booleans())
def test_sections_of_any_page(
    drawn: tuple[dict[str, Document], list[Hit]], cap: int, heading: bool, number_rule: bool
) -> None:
    documents, hits = drawn
    options: dict[str, Any] = {"documents": documents, "heading": heading, "number_rule": number_rule}
    passages = sections(hits, max_tokens=cap, **options)
    check(passages, documents, apart=False)
    assert sections(hits, max_tokens=cap, **options) == passages
    assert all(passage.n_tokens <= cap for passage in passages)
    kinds = [passage.expansion == "spill" for passage in passages]
    assert kinds == sorted(kinds)
    covered = [span for passage in passages for span in passage.spans]
    for hit in hits:
        document = documents[hit.doc_id]
        held = {i for s in covered if s.doc_id == hit.doc_id for i in range(s.start, s.end)}
        for section in sections_of(document):
            if section.body.overlap(visible(hit)):
                left = set(range(section.body.start, section.body.end)) - held
                assert not "".join(document.text[i] for i in left).strip()
    if hits:
        best = max(hits, key=lambda hit: hit.score)
        if tokens.count(best.text.strip()) <= cap:
            assert any(s.contains(visible(best)) for s in passages[0].spans)
    # (A paragraph brought by the number rule can hold a lesser hit, whose section's rest then follows.)
    for passage in sections(hits, max_tokens=None, **{**options, "number_rule": False}):
        assert passage.expansion == "section"


@settings(max_examples=30, deadline=None)
@given(pages_and_hits())
def test_every_expander_on_any_page(drawn: tuple[dict[str, Document], list[Hit]]) -> None:
    documents, hits = drawn
    before = repr((documents, hits))
    for name, passages in expand_all(hits, documents).items():
        if name == "children":
            assert [p.text for p in passages] == [p.hits[0].text for p in passages]
        elif name != "parents":
            check(passages, documents, apart=name in ("window", "centred"))
        assert {p.doc_id for p in passages} == {hit.doc_id for hit in hits}
    assert repr((documents, hits)) == before
