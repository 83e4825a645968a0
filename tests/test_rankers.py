"""Ranking, grouping and widening, by hand and by property."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cookbook.chunkers import parent_child
from cookbook.errors import BadReplyError
from cookbook.rankers import (
    Fused,
    best_first,
    dedup,
    first_units,
    fuse,
    group,
    hits_of,
    key_of,
    named,
    rerank,
    rerank_passages,
    widen,
)
from cookbook.types import Document, Hit, Passage, Span


def hit(name: str, score: Any = 1.0, *, retriever: str = "dense", text: str = "x", **metadata: Any) -> Hit:
    return Hit(
        chunk_id=name,
        doc_id="page",
        text=text,
        score=score,
        rank=1,
        retriever=retriever,
        metadata=metadata,
    )


def ids(hits: list[Hit]) -> list[str]:
    return [h.chunk_id for h in hits]


class Scripted:
    """A reranker that gives the scores it was made with and notes what it was asked."""

    def __init__(self, *scores: float) -> None:
        self.scores = scores
        self.asked: list[tuple[str, list[str]]] = []

    def rerank(self, question: str, texts: Any) -> tuple[float, ...]:
        self.asked.append((question, list(texts)))
        return self.scores


@pytest.mark.parametrize(
    "children",
    [pytest.param([("p1", 0.41), ("p2", 0.87), ("p1", 0.88), ("p3", None), ("p2", 0.1)], id="case-046")],
)
def test_best_child_gives_the_parent_its_place(children: list[tuple[str, float | None]]) -> None:
    hits = [hit(f"c{i}", score, parent_id=parent) for i, (parent, score) in enumerate(children)]
    best = dedup(hits, key="parent_id")
    assert [(h.metadata["parent_id"], h.score) for h in best] == [("p1", 0.88), ("p2", 0.87), ("p3", None)]
    assert [ids(list(members)) for members in group(hits, key="parent_id")] == [
        ["c2", "c0"],
        ["c1", "c4"],
        ["c3"],
    ]


def test_equal_scores_keep_first_seen_order_and_nan_comes_last() -> None:
    hits = [hit("z", 0.5), hit("n", math.nan), hit("a", 0.5000000001), hit("b", 0.7)]
    assert ids(best_first(hits)) == ["b", "z", "a", "n"]


@pytest.mark.parametrize(
    "ignores_size", [pytest.param(False, id="case-047"), pytest.param(True, id="search-returns-all")]
)
def test_widening_finds_as_many_parents_as_exist(ignores_size: bool) -> None:
    store = [hit(f"p1#c{i:03}", 1 - i / 100, parent_id="p1") for i in range(20)]
    store += [hit("p2#c000", 0.5, parent_id="p2"), hit("p3#c000", 0.4, parent_id="p3")]
    sizes = []

    def search(n: int) -> list[Hit]:
        sizes.append(n)
        return store if ignores_size else store[:n]

    hits = widen(search, top_k=3, fetch=5)
    assert {h.metadata["parent_id"] for h in hits} == {"p1", "p2", "p3"}
    assert sizes == ([5] if ignores_size else [5, 10, 20, 40])
    assert len(group(first_units(hits, top_k=2), key="parent_id")) == 2
    assert ids(first_units(hits, top_k=1)) == [h.chunk_id for h in store[:20]]


def test_widening_stops_when_the_store_is_exhausted() -> None:
    store = [hit(f"c{i}", 1.0, parent_id="only") for i in range(7)]
    sizes: list[int] = []

    def search(n: int) -> list[Hit]:
        sizes.append(n)
        return store[:n]

    assert widen(search, top_k=3) == store[:7]
    assert sizes == [9]
    # A search that fills up with copies must not be asked for ever.
    assert ids(widen(lambda n: [store[0]] * n, top_k=3))[0] == "c0"
    assert widen(lambda _: [], top_k=3) == []


def test_widening_keeps_the_filter_of_the_search() -> None:
    store = [hit(f"c{i}", 1 - i / 10, parent_id=f"p{i}", corpus="ab"[i % 2]) for i in range(8)]

    def search(n: int) -> list[Hit]:
        return [h for h in store if h.metadata["corpus"] == "b"][:n]

    assert {h.metadata["corpus"] for h in widen(search, top_k=4, fetch=1)} == {"b"}


def test_a_hit_without_the_key_counts_for_itself() -> None:
    hits = [hit("a", 0.9), hit("b", 0.8), hit("c", 0.7, parent_id="p")]
    assert ids(dedup(hits, key="parent_id")) == ["a", "b", "c"]
    assert key_of(hits[2], "parent_id") == "p"
    assert ids(dedup(hits, key="doc_id")) == ["a"]


def test_dedup_by_text_drops_boilerplate_and_changes_no_hit() -> None:
    hits = [hit("a", 0.5, text="All prices exclude VAT."), hit("b", 0.6, text="All prices exclude VAT.")]
    assert dedup(hits, key="text") == [hits[1]]
    assert dedup(hits, key="text")[0] is hits[1]


def test_fuse_by_hand() -> None:
    dense = [hit("a"), hit("b"), hit("c")]
    lexical = [hit("c", retriever="lexical"), hit("d", retriever="lexical")]
    fused = fuse(dense, lexical)
    assert ids(fused) == ["c", "a", "b", "d"]  # b and d share the score 1/62: the id decides
    assert fused[0].score == pytest.approx(1 / 63 + 1 / 61)
    assert [h.rank for h in fused] == [1, 2, 3, 4]
    assert [h.retriever for h in fused] == ["dense+lexical", "dense", "dense", "lexical"]
    assert dense[0].score == 1.0
    assert fuse() == fuse([]) == []


def test_fuse_counts_the_first_place_of_a_repeated_chunk() -> None:
    assert fuse([hit("a"), hit("b"), hit("a")])[0].score == pytest.approx(1 / 61)


@given(st.lists(st.lists(st.sampled_from("abcdefgh"), max_size=8), max_size=3))
def test_fuse_does_not_depend_on_the_order_of_the_rankings(rankings: list[list[str]]) -> None:
    made = [[hit(name) for name in ranking] for ranking in rankings]
    forward, backward = fuse(*made), fuse(*made[::-1])
    assert ids(forward) == ids(backward)
    assert set(ids(forward)) == {name for ranking in rankings for name in ranking}


def test_rerank_returns_every_hit_in_the_new_order() -> None:
    hits = [hit("a", 0.9, text="one"), hit("b", 0.8, text="two"), hit("c", 0.7, text="three")]
    client = Scripted(0.1, 0.5, 0.5)
    ranked = rerank(hits, question="how many?", client=client)
    assert client.asked == [("how many?", ["one", "two", "three"])]
    assert [(h.chunk_id, h.score, h.rank, h.retriever) for h in ranked] == [
        ("b", 0.5, 1, "dense>rerank"),
        ("c", 0.5, 2, "dense>rerank"),
        ("a", 0.1, 3, "dense>rerank"),
    ]
    assert ids(rerank(hits, question="how many?", client=Scripted(0.1, 0.5, 0.6), top_k=1)) == ["c"]
    assert [h.score for h in hits] == [0.9, 0.8, 0.7]


def test_rerank_of_nothing_asks_nobody() -> None:
    client = Scripted()
    assert rerank([], question="q", client=client) == []
    assert client.asked == []


@pytest.mark.parametrize("scores", [(0.1,), (0.1, 0.2, 0.3), (0.1, math.nan)])
def test_rerank_refuses_a_reply_that_does_not_match(scores: tuple[float, ...]) -> None:
    with pytest.raises(BadReplyError, match="the reranker gave"):
        rerank([hit("a"), hit("b")], question="q", client=Scripted(*scores))


@pytest.mark.parametrize(
    ("question", "found"),
    [
        ("What does pd.to_datetime('2Y') raise?", "ab"),
        ("Why does to_datetime fail?", "ab"),
        ("Does frame.sample() draw twice?", "c"),
        ("Is `sample` random?", "c"),
        ("Does String::from copy?", "d"),
        ("May I draw a sample from a series of dates?", ""),
        ("Is 7.5 enough, e.g. for two, and what of a (small) one?", ""),
        ("", ""),
    ],
)
def test_named_are_the_hits_under_a_name_that_the_question_spells_as_code(question: str, found: str) -> None:
    hits = [
        hit("a", heading="to_datetime > Notes"),
        hit("b", heading="to_datetime"),
        hit("c", heading="DataFrame > DataFrame.sample > Parameters"),
        hit("d", heading="Strings > String::from"),
        hit("e", heading="How to_datetime guesses"),
        hit("f", heading=""),
        hit("g", heading=None),
        hit("h"),
    ]
    assert "".join(ids(named(hits, question=question))) == found


def test_fused_gives_the_order_of_the_texts_as_much_say_as_the_reranker() -> None:
    hits = [hit(name, 0.9 - place / 10, text=name) for place, name in enumerate("abcd")]
    scores = (0.1, 0.4, 0.2, 0.9)
    both = fuse(hits, rerank(hits, question="q", client=Scripted(*scores)))
    values = Fused(Scripted(*scores)).rerank("q", list("abcd"))
    assert [round(score, 6) for score in values] == [
        round(next(h.score for h in both if h.chunk_id == name), 6) for name in "abcd"
    ]
    assert Fused(Scripted(0.5, 0.5)).rerank("q", ["a", "b"]) == [2 / 61, 2 / 62]  # equal scores keep places
    assert Fused(Scripted()).rerank("q", []) == []
    with pytest.raises(ValueError, match="k=-1 must be at least 0"):
        Fused(Scripted(), k=-1)
    with pytest.raises(BadReplyError, match="gave 1 scores for 2 texts"):
        Fused(Scripted(0.1)).rerank("q", ["a", "b"])


def test_rerank_passages_scores_what_the_model_reads() -> None:
    def passage(start: int, text: str) -> Passage:
        span = Span(doc_id="page", start=start, end=start + 3)
        return Passage(
            doc_id="page",
            spans=(span,),
            heading="Guide",
            text=text,
            hits=(hit("a", 0.9),),
            score=0.9,
            expansion="section",
            n_tokens=2,
        )

    client = Scripted(0.2, 0.8)
    ranked = rerank_passages(
        [passage(0, "Guide\none"), passage(3, "Guide\ntwo")], question="q", client=client
    )
    assert client.asked == [("q", ["Guide\none", "Guide\ntwo"])]
    assert [(p.text, p.score, p.hits[0].score) for p in ranked] == [
        ("Guide\ntwo", 0.8, 0.9),
        ("Guide\none", 0.2, 0.9),
    ]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: widen(lambda _: [], top_k=0), "top_k=0 must be at least 1"),
        (lambda: widen(lambda _: [], top_k=1, fetch=0), "fetch=0 must be at least 1"),
        (lambda: first_units([], top_k=0), "top_k=0 must be at least 1"),
        (lambda: rerank([], question="q", client=Scripted(), top_k=0), "top_k=0 must be at least 1"),
        (lambda: fuse([], k=-1), "k=-1 must be at least 0"),
    ],
)
def test_bad_arguments(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_given_hits_carry_what_a_store_would_return() -> None:
    page = Document(
        doc_id="kiln", title="Kiln", text="# Heat\n\nSlowly.\n\n# Wait\n\nTwo days.\n", corpus="works"
    )
    children, _, parent_of = parent_child([page], parent_tokens=8, child_tokens=8, overlap=0)
    hits = hits_of(children)
    assert [hit.rank for hit in hits] == [1, 2] and {hit.score for hit in hits} == {1.0}
    for hit, child in zip(hits, children, strict=True):
        assert (hit.chunk_id, hit.span, hit.text) == (child.chunk_id, child.span, child.text)
        assert key_of(hit, "parent_id") == parent_of[hit.chunk_id]
        assert hit.metadata["section_id"] == child.section_id and hit.metadata["heading"] == child.heading
    assert len(group(hits, key="section_id")) == 2
