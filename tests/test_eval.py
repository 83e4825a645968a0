"""Metrics by hand: overlap counts once, nothing sent scores nothing, and the control stays low."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cookbook.eval import (
    compare,
    interval,
    reciprocal_rank,
    score,
    shuffled_control,
    span_iou,
    span_precision,
    span_recall,
)
from cookbook.prompts import REFUSAL, REFUSED, SYSTEM
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
    prompt = Prompt(question="?", messages=(), passages=passages, dropped=(), n_tokens=9, budget=99)
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
    assert compare([0.0] * 20, [0.0] * 15 + [1.0] * 5).verdict == "higher"
    assert compare([0.0] * 15 + [1.0] * 5, [0.0] * 20).verdict == "lower"
    with pytest.raises(ValueError, match="3 values and b 2"):
        compare([1, 2, 3], [1, 2])


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
