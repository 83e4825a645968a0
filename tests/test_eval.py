"""Metrics by hand: overlap counts once, nothing sent scores nothing, and the control stays low."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cookbook import pipeline, tokens
from cookbook.baselines import flat
from cookbook.corpora import load_corpus, load_eval_questions
from cookbook.eval import (
    MIN_PRECISION,
    compare,
    expansion_use,
    failure,
    interval,
    recall_at,
    reciprocal_rank,
    sample_of,
    score,
    scored,
    shuffled_control,
    span_iou,
    span_precision,
    span_recall,
    topic_hit,
)
from cookbook.prompts import REFUSAL, REFUSED, SYSTEM
from cookbook.providers import LLMClient
from cookbook.stores import MemoryBackend
from cookbook.types import Answer, Hit, Passage, Prompt, Question, Quote, Span, Trace


def span(start, end, doc_id="a"):
    return Span(doc_id=doc_id, start=start, end=end)


def quote(start, end, doc_id="a"):
    return Quote(doc_id=doc_id, start=start, end=end, quote="x" * (end - start))


def question(evidence=(), qualifiers=(), forbidden=(), question_id="q1"):
    return Question(
        question_id=question_id,
        corpus="c",
        question="?",
        answer="!",
        evidence=tuple(evidence),
        qualifiers=tuple(qualifiers),
        forbidden=tuple(forbidden),
        kind="one sentence",
        part="dev",
    )


def trace(spans, *, answer=None):
    hits = tuple(
        Hit(chunk_id=f"a#{i}", doc_id=s.doc_id, text="", score=1.0, rank=i + 1, retriever="t",
            metadata={"start": s.start, "end": s.end})
        for i, s in enumerate(spans)
    )  # fmt: skip
    passages = tuple(
        Passage(
            doc_id=s.doc_id,
            spans=(s,),
            heading="",
            text="",
            hits=(h,),
            score=1.0,
            expansion="child",
            n_tokens=1,
        )
        for s, h in zip(spans, hits, strict=True)
    )
    prompt = Prompt(question="?", messages=(), passages=passages, dropped=(), n_tokens=9, budget=99, demand=9)
    return Trace(
        question="?", hits=hits, ranked=hits, passages=passages, prompt=prompt, answer=answer, seconds={}
    )


def test_by_hand():
    gold, found = [span(0, 10), span(20, 30)], [span(5, 25)]
    assert span_recall(gold, found) == 10 / 20
    assert span_precision(gold, found) == 10 / 20
    assert span_iou(gold, found) == 10 / 30


def test_the_same_text_sent_twice_counts_once():
    gold, found = [span(0, 10)], [span(0, 40)]
    assert span_precision(gold, found * 3) == span_precision(gold, found) == 0.25
    assert span_recall(gold, found * 3) == 1.0


def test_another_document_at_the_same_place_is_no_evidence():
    assert span_recall([span(0, 10, "a")], [span(0, 10, "b")]) == 0.0


def test_nothing_sent_scores_nothing():
    row = score(question([quote(0, 5)], forbidden=[quote(7, 9)]), trace([]))
    assert (row["recall"], row["precision"], row["iou"], row["rr"]) == (0.0, 0.0, 0.0, 0.0)
    assert row["complete"] is False and row["forbidden"] is False


def test_sending_everything_is_complete_but_not_precise():
    row = score(question([quote(0, 5)], [quote(90, 95)], [quote(50, 60)]), trace([span(0, 1000)]))
    assert row["complete"] is True and row["forbidden"] is True
    assert row["precision"] == 10 / 1000


def test_a_claim_without_its_qualifier_is_not_complete():
    row = score(question([quote(0, 5)], [quote(90, 95)]), trace([span(0, 94)]))
    assert row["recall"] == 1.0 and row["complete"] is False


def test_spans_that_touch_make_a_claim_complete_together():
    assert score(question([quote(0, 10)]), trace([span(5, 10), span(0, 5)]))["complete"] is True


def test_a_topic_hit_asks_for_a_page_with_evidence_and_for_nothing_on_it():
    asked = question([quote(0, 10, "a")], [quote(0, 10, "b")])
    assert topic_hit(asked, trace([span(50, 60, "a")])) is True
    assert topic_hit(asked, trace([span(0, 10, "b")])) is False, "a qualifier's page is not the topic"
    assert topic_hit(asked, trace([])) is False
    assert topic_hit(question(), trace([span(0, 10, "a")])) is None


def test_first_evidence_is_ranked_over_hits():
    gold = [quote(100, 110)]
    assert reciprocal_rank(gold, trace([span(0, 5), span(99, 101)]).ranked) == 0.5
    assert reciprocal_rank([], trace([span(0, 5)]).ranked) is None


def test_a_question_without_answer_is_scored_on_refusal():
    no = Answer(text="Not in the passages.", citations=(), model="m", usage={})
    row = score(question(), trace([span(0, 5)], answer=no))
    assert row["refused"] is True and row["recall"] is None and row["cited"] is None
    yes = Answer(text="It is 5.", citations=(quote(0, 5),), model="m", usage={})
    assert score(question(), trace([span(0, 5)], answer=yes))["refused"] is False


def test_the_words_of_a_refusal_are_those_that_the_prompt_asks_for():
    assert REFUSED in REFUSAL.lower() and REFUSAL in SYSTEM


def test_cited_asks_for_evidence_in_a_citation():
    answer = Answer(text="x", citations=(quote(0, 5), quote(8, 20)), model="m", usage={})
    assert score(question([quote(10, 12)]), trace([], answer=answer))["cited"] is True
    assert score(question([quote(30, 32)]), trace([], answer=answer))["cited"] is False


spans = st.lists(
    st.builds(
        lambda d, s, n: span(s, s + n, d), st.sampled_from("ab"), st.integers(0, 40), st.integers(1, 20)
    ),
    max_size=6,
)


@given(spans, spans)
def test_metrics_agree_with_counting_characters(gold, found):
    wanted = {(s.doc_id, i) for s in gold for i in range(s.start, s.end)}
    sent = {(s.doc_id, i) for s in found for i in range(s.start, s.end)}
    both, either = wanted & sent, wanted | sent
    assert span_recall(gold, found) == (len(both) / len(wanted) if wanted else None)
    assert span_precision(gold, found) == (len(both) / len(sent) if sent else 0.0)
    assert span_iou(gold, found) == (len(both) / len(either) if either else 0.0)


def test_interval_is_seeded_and_skips_only_missing_values():
    values = [1.0, 0.0, None, 1.0, 1.0]
    assert interval(values, seed=3) == interval(values, seed=3)
    assert len({interval([n / 7 for n in range(9)], seed=seed).low for seed in range(5)}) > 1
    assert len({interval([n / 7 for n in range(9)], n_samples=n).low for n in (5, 50, 2000)}) > 1
    assert interval(values).n == 4 and interval(values).mean == 0.75
    with pytest.raises(ValueError, match="no number"):
        interval([None])


def test_the_interval_covers_the_truth_about_as_often_as_it_says():
    import random

    rng = random.Random(5)
    covered = 0
    for _ in range(200):
        found = interval([rng.random() < 0.6 for _ in range(60)], n_samples=400)
        covered += found.low <= 0.6 <= found.high
    assert 0.88 <= covered / 200 <= 0.99


def test_compare_is_paired_and_may_say_that_it_cannot_tell():
    a = [0.0, 1.0] * 20
    assert compare(a, a).verdict == "not distinguishable"
    assert compare([0.0] * 20, [0.0] * 14 + [1.0] * 6).verdict == "higher"
    assert compare([0.0] * 14 + [1.0] * 6, [0.0] * 20).verdict == "lower"
    few = compare([0.0] * 20, [0.0] * 15 + [1.0] * 5)  # five coins fall alike in one of sixteen throws
    assert few.difference.low > 0 and few.verdict == "not distinguishable" and str(few).endswith("(5 differ)")
    with pytest.raises(ValueError, match="3 values and b 2"):
        compare([1, 2, 3], [1, 2])


def test_a_star_says_that_zero_is_outside():
    told, open_ = compare([0.0] * 20, [0.0] * 14 + [1.0] * 6), compare([0, 1, 0, 1], [1, 0, 0, 1])
    assert told.starred == str(told).removesuffix("higher") + "*"
    assert open_.starred == str(open_).removesuffix(" not distinguishable")


def test_the_control_is_low_for_a_retriever_that_works():
    questions = [question([quote(0, 10, f"d{i}")], question_id=f"q{i}") for i in range(30)]
    traces = [trace([span(0, 50, f"d{i}")]) for i in range(30)]

    def recall(q, t):
        return score(q, t)["recall"]

    control = shuffled_control(questions, traces, recall)
    assert control.high == 0.0 and control.n == 200
    assert interval([recall(q, t) for q, t in zip(questions, traces, strict=True)]).low == 1.0


def test_the_control_exposes_a_metric_that_cannot_fail():
    questions = [question([quote(0, 10)], question_id=f"q{i}") for i in range(5)]
    traces = [trace([span(0, 50)]) for _ in range(5)]
    assert shuffled_control(questions, traces, lambda q, t: score(q, t)["recall"]).low == 1.0


def test_a_shuffle_needs_two_questions_and_their_traces():
    with pytest.raises(ValueError, match="1 questions and 1 traces"):
        shuffled_control([question()], [trace([])], lambda q, t: 1.0)
    pair = [question(), question()], [trace([]), trace([])]
    with pytest.raises(ValueError, match="metric gave no number"):
        shuffled_control(*pair, lambda q, t: None)
    with pytest.raises(ValueError, match="n_shuffles=0 must be at least 1"):
        shuffled_control(*pair, lambda q, t: 1.0, n_shuffles=0)


def recall(q, t):
    return score(q, t)["recall"]


# --- why a question fails -----------------------------------------------------------------------------

CLAIM = question([quote(0, 100)], [quote(500, 600)], [quote(300, 310)])


@pytest.mark.parametrize(
    ("sent", "kind"),
    [
        ([], "missing document"),
        ([span(0, 900, "b")], "missing document"),
        ([span(200, 250)], "missing context"),
        ([span(0, 100)], "missing context"),
        ([span(0, 100), span(500, 599)], "missing context"),
        ([span(0, 600)], "contradicted"),
        ([span(0, 600), span(0, 90_000, "b")], "contradicted"),
        ([span(0, 100), span(500, 600), span(0, 90_000, "b")], "diluted"),
        ([span(0, 100), span(500, 600)], None),
        ([span(0, 200), span(450, 700)], None),
    ],
)
def test_each_failure_has_its_kind(sent, kind):
    assert failure(CLAIM, trace(sent)) == kind
    assert scored(CLAIM, trace(sent)) == {**score(CLAIM, trace(sent)), "failure": kind}


def test_diluted_begins_just_under_the_share_asked_for():
    one = question([quote(0, 50)])
    assert MIN_PRECISION == 0.05
    assert failure(one, trace([span(0, 1000)])) is None
    assert failure(one, trace([span(0, 1001)])) == "diluted"
    assert failure(one, trace([span(0, 1000)]), min_precision=0.1) == "diluted"
    assert failure(one, trace([span(0, 9000)]), min_precision=0) is None


def test_a_qualifier_on_another_page_is_a_missing_document():
    two_pages = question([quote(0, 10, "a")], [quote(0, 10, "b")])
    assert failure(two_pages, trace([span(0, 10, "a")])) == "missing document"
    assert failure(two_pages, trace([span(0, 10, "a"), span(0, 10, "b")])) is None


def test_a_question_without_answer_fails_only_when_it_is_answered():
    no = Answer(text=REFUSAL, citations=(), model="m", usage={})
    yes = Answer(text="It is 5.", citations=(), model="m", usage={})
    nothing = question(forbidden=[quote(0, 5)])
    assert failure(nothing, trace([span(0, 5)], answer=no)) is None
    assert failure(nothing, trace([span(0, 5)], answer=yes)) == "contradicted"
    assert failure(nothing, trace([span(0, 5)])) is None, "nobody was asked"


# --- what expansion paid for --------------------------------------------------------------------------


def expanded(hit_ranges, passage_range, *, n_added, doc_id="a"):
    """A passage with hits of one token a character, and ``n_added`` tokens more than they have."""
    hits = tuple(
        Hit(chunk_id=f"{doc_id}#{start}-{end}", doc_id=doc_id, text=" a" * (end - start), score=1.0, rank=1,
            retriever="t", metadata={"start": start, "end": end})
        for start, end in hit_ranges
    )  # fmt: skip
    n_hits = sum(tokens.count(text) for text in {hit.chunk_id: hit.text for hit in hits}.values())
    assert n_hits == sum(end - start for start, end in set(hit_ranges))
    start, end = passage_range
    return Passage(
        doc_id=doc_id,
        spans=(span(start, end, doc_id),),
        heading="",
        text="",
        hits=hits,
        score=1.0,
        expansion="window",
        n_tokens=n_hits + n_added,
    )


def with_passages(*passages):
    bare = trace([])
    return replace(bare, passages=passages, prompt=replace(bare.prompt, passages=passages))


def test_expansion_tokens_by_what_they_brought():
    asked = question([quote(0, 10)], [quote(30, 40)])
    gained = expanded([(0, 12)], (0, 50), n_added=38)  # the qualifier came with the passage
    held = expanded([(0, 12)], (0, 20), n_added=8)  # all the gold of the passage was in the hit
    off = expanded([(60, 70)], (50, 100), n_added=40)
    assert expansion_use(asked, with_passages(gained)) == {"gained": 38, "held": 0, "off": 0}
    assert expansion_use(asked, with_passages(held)) == {"gained": 0, "held": 8, "off": 0}
    assert expansion_use(asked, with_passages(held, off)) == {"gained": 0, "held": 8, "off": 40}
    assert expansion_use(question(), with_passages(gained, off)) == {"gained": 0, "held": 0, "off": 78}


def test_a_hit_named_twice_is_paid_for_once_and_no_expansion_costs_nothing():
    asked = question([quote(0, 10)])
    assert expansion_use(asked, with_passages(expanded([(0, 12), (0, 12)], (0, 20), n_added=8)))["held"] == 8
    assert sum(expansion_use(asked, with_passages(expanded([(0, 12)], (0, 12), n_added=0))).values()) == 0
    overlapping = expanded([(0, 12), (6, 18)], (0, 18), n_added=-6)  # merged: shorter than its hits together
    assert sum(expansion_use(asked, with_passages(overlapping)).values()) == 0
    assert sum(expansion_use(asked, trace([])).values()) == 0


# --- ranks and samples --------------------------------------------------------------------------------


def test_recall_at_looks_at_the_first_hits_only():
    hits = trace([span(50, 60), span(0, 5), span(3, 10), span(0, 10, "b")]).ranked
    gold = [quote(0, 10)]
    assert [recall_at(gold, hits, k=k) for k in (1, 2, 3, 99)] == [0.0, 0.5, 1.0, 1.0]
    assert recall_at(gold, [], k=3) == 0.0 and recall_at([], hits, k=3) is None
    with pytest.raises(ValueError, match="k=0 must be at least 1"):
        recall_at(gold, hits, k=0)


def test_a_sample_holds_what_was_answered_from_what():
    answer = Answer(text="5 days [1].", citations=(), model="m", usage={})
    asked = with_passages(replace(expanded([(0, 2)], (0, 4), n_added=2), text="It takes 5 days."))
    made = sample_of(question([quote(0, 4)]), replace(asked, answer=answer))
    assert (made.question, made.answer, made.reference) == ("?", "5 days [1].", "!")
    assert made.contexts == ("It takes 5 days.",)


def test_a_sample_without_evidence_wants_a_refusal_and_one_without_answer_is_none():
    answer = Answer(text=REFUSAL, citations=(), model="m", usage={})
    assert sample_of(question(), trace([], answer=answer)).reference == REFUSAL
    with pytest.raises(ValueError, match="'q1' holds no answer: ask with read=True"):
        sample_of(question(), trace([]))


# --- attacks ------------------------------------------------------------------------------------------

ON_TEXT = ("recall", "precision", "iou", "complete", "forbidden")


def on_text(q, t):
    return {name: score(q, t)[name] for name in ON_TEXT}


@pytest.mark.parametrize(
    "sent",
    [
        [span(0, 60), span(40, 100)],
        [span(0, 100), span(10, 20), span(0, 100)],
        [span(start, start + 10) for start in range(0, 91)],
        [span(50, 100), span(0, 50)],
    ],
    ids=["overlapping", "contained", "sliding", "touching"],
)
def test_passages_cut_otherwise_score_what_their_text_scores(sent):
    asked = question([quote(20, 45)], [quote(80, 90)], [quote(95, 99)])
    assert on_text(asked, trace(sent)) == on_text(asked, trace([span(0, 100)]))
    assert failure(asked, trace(sent)) == failure(asked, trace([span(0, 100)]))


def test_evidence_labelled_twice_weighs_once():
    once = question([quote(0, 10), quote(50, 60)])
    twice = question([quote(0, 10), quote(0, 10), quote(2, 10), quote(50, 60)], [quote(0, 10)])
    for sent in ([span(0, 10)], [span(50, 60)], [span(0, 100)], []):
        assert on_text(twice, trace(sent)) == on_text(once, trace(sent))


def test_evidence_on_two_pages_needs_both():
    asked = question([quote(0, 10, "a"), quote(0, 30, "b")])
    row = score(asked, trace([span(0, 10, "a"), span(0, 400, "c")]))
    assert (row["recall"], row["complete"], row["rr"]) == (0.25, False, 1.0)
    assert failure(asked, trace([span(0, 10, "a"), span(0, 400, "c")])) == "missing document"
    assert failure(asked, trace([span(0, 10, "a"), span(0, 29, "b")])) == "missing context"
    both = trace([span(0, 400, "c"), span(0, 30, "b"), span(0, 10, "a")])
    assert (score(asked, both)["recall"], score(asked, both)["complete"]) == (1.0, True)
    assert score(asked, both)["rr"] == 0.5 and failure(asked, both) is None


@given(spans.filter(bool), spans, spans)
def test_more_text_never_lowers_recall_nor_hides_what_is_forbidden(gold, sent, more):
    quotes = [quote(s.start, s.end, s.doc_id) for s in gold]
    asked = question(quotes, forbidden=quotes[:1])
    less, all_of_it = score(asked, trace(sent)), score(asked, trace([*sent, *more]))
    assert all_of_it["recall"] >= less["recall"]
    assert all_of_it["complete"] >= less["complete"]
    assert all_of_it["forbidden"] >= less["forbidden"]


# --- on a corpus --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def wiki():
    return load_corpus("wiki"), load_eval_questions("wiki")


@pytest.mark.parametrize("strategy", [flat(), pipeline.STRATEGIES["section"]], ids=lambda s: s.name)
def test_a_strategy_scores_above_chance_on_the_wiki(wiki, strategy):
    documents, questions = wiki
    with LLMClient("local") as client, MemoryBackend("wiki") as store:
        pipeline.index(documents, store=store, client=client, chunker=strategy.chunker)
        traces = [
            pipeline.ask(q.question, store=store, client=client, strategy=strategy, read=False)
            for q in questions
        ]
    measured = interval(recall(q, t) for q, t in zip(questions, traces, strict=True))
    control = shuffled_control(questions, traces, recall)
    print(strategy.name, "measured", measured, "control", control)
    assert control.n == 200 and control.high < measured.low


def test_a_retriever_that_returns_everything_is_found_out(wiki):
    documents, questions = wiki
    everything = trace([span(0, len(d.text), d.doc_id) for d in documents])
    rows = [score(q, everything) for q in questions]
    assert {row["recall"] for row in rows} == {1.0, None}
    assert all(row["forbidden"] == bool(q.forbidden) for row, q in zip(rows, questions, strict=True))
    assert max(row["precision"] for row in rows) < 0.05
    assert {failure(q, everything) for q in questions if q.evidence} == {"contradicted", "diluted"}
    control = shuffled_control(questions, [everything] * len(questions), recall)
    assert control.low == 1.0, "its recall is that of chance"


def test_spans_without_characters_are_no_gold():
    empty = Span(doc_id="a", start=4, end=4)
    assert span_recall([empty], [Span(doc_id="a", start=0, end=9)]) is None


def test_what_pandas_writes_for_none_is_left_out():
    nan = float("nan")
    assert interval([1.0, nan, None, 0.0]).n == 2
    assert compare([1.0, nan, 0.0], [1.0, 1.0, None]).difference.n == 1


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: interval([1.0], n_samples=0), "n_samples=0 must be at least 1"),
        (lambda: interval([float("nan")]), "holds no number"),
        (lambda: compare([1], [1], n_samples=0), "n_samples=0 must be at least 1"),
    ],
)
def test_an_interval_of_nothing_is_refused(call, says):
    with pytest.raises(ValueError, match=says):
        call()
