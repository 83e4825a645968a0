"""Judgements: what the rule gets right and what it cannot see, what a model's verdict may look like."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from cookbook.corpora import load_eval_questions
from cookbook.errors import BadReplyError
from cookbook.judges import RULE, by_rule, from_ragas, judge, to_ragas
from cookbook.prompts import REFUSAL
from cookbook.providers import LLMClient
from cookbook.types import EvalSample

# Written and labelled by meaning before the rule was looked at; "why" says what kind of answer it is.
LABELLED = [
    json.loads(line)
    for line in Path(__file__).with_name("judged_answers.jsonl").read_text(encoding="utf-8").splitlines()
]


def sample(answer, reference, question="?"):
    return EvalSample(question=question, answer=answer, contexts=("c",), reference=reference)


def agrees(answer, reference):
    return by_rule(sample(answer, reference)).agrees


# --- the rule -----------------------------------------------------------------------------------------


def test_forty_answers_are_labelled_and_half_of_them_agree():
    assert len(LABELLED) == 40
    assert 18 <= sum(row["agrees"] for row in LABELLED) <= 22
    assert len({row["answer"] for row in LABELLED if row["answer"] != REFUSAL}) >= 38


def test_the_rule_agrees_with_three_labels_in_four():
    judged = [(row, agrees(row["answer"], row["reference"])) for row in LABELLED]
    wrong_agrees = [row["why"] for row, said in judged if said and not row["agrees"]]
    wrong_disagrees = [row["why"] for row, said in judged if row["agrees"] and not said]
    accuracy = 1 - (len(wrong_agrees) + len(wrong_disagrees)) / len(LABELLED)
    print(f"accuracy {accuracy:.3f}", wrong_agrees, wrong_disagrees)
    # 0.750 when this was written, with five of each kind. The range holds upwards too: who makes the rule
    # better should measure it on answers that it was not made on.
    assert 0.70 <= accuracy <= 0.85
    assert 3 <= len(wrong_agrees) <= 6
    assert 3 <= len(wrong_disagrees) <= 6
    # Where something is missing or a number is another one, it does not agree.
    assert set(wrong_agrees) <= {"right numbers, wrong unit", "negated", "contradicts itself"}


@pytest.mark.parametrize(
    ("answer", "reference"),
    [
        ("Up to 43200 seconds.", "43,200 seconds."),
        ("Up to 43\u202f200 seconds.", "43,200 seconds."),
        ("Fifty values.", "50 values."),
        ("Twenty-four people.", "24 people."),
        ("It costs 150 EUR.", "It costs 150.00 EUR."),
        ("A two-day wait.", "Waiting takes 2 days."),
        ("**No**, the sender pays.", "No: the sender pays."),
        ("It is not in the passages.", REFUSAL),
    ],
)
def test_the_same_said_in_another_way_agrees(answer, reference):
    assert agrees(answer, reference)


@pytest.mark.parametrize(
    ("answer", "reference"),
    [
        ("4,320 seconds.", "43,200 seconds."),
        ("Twenty people.", "24 people."),
        ("1.5 EUR", "150.00 EUR"),
        ("The limit is three hours [2].", "The limit is 2 hours."),  # a citation is no number of the answer
        ("Yes, the sender pays.", "No, the sender pays."),
        ("It depends.", "No."),
        ("", "The sender."),
        (REFUSAL, "The sender."),
        ("The sender.", REFUSAL),
    ],
)
def test_something_else_does_not_agree(answer, reference):
    assert not agrees(answer, reference)


def test_a_reference_agrees_with_itself_and_hardly_ever_with_another():
    references = [q.answer for q in load_eval_questions() if q.evidence]
    assert all(agrees(reference, reference) for reference in references)
    others = [
        agrees(other, reference)
        for shift in (1, 2)
        for other, reference in zip(references[shift:], references, strict=False)
    ]
    assert sum(others) / len(others) < 0.03


# --- who judges ---------------------------------------------------------------------------------------


def test_the_embedded_provider_judges_by_the_rule_and_says_so():
    with LLMClient("local") as client:
        found = judge(sample("It takes 2 days.", "Two days."), client=client)
    assert found == by_rule(sample("It takes 2 days.", "Two days."))
    assert found.judge == RULE and RULE.startswith("rule:")


def model(reply, seen=None):
    def chat(prompt):
        if seen is not None:
            seen.append(prompt)
        return reply

    return SimpleNamespace(provider="openai", chat_model="some-model", chat=chat)


@pytest.mark.parametrize(
    ("reply", "verdict", "reason"),
    [
        ("yes: both say two days", True, "both say two days"),
        ("no: the condition is missing", False, "the condition is missing"),
        ("Yes", True, ""),
        ("**No** - another figure: 3", False, "another figure: 3"),
        ('\n"No."\nIt lacks the limit.', False, "It lacks the limit."),
        ("Yes, both say it", True, "both say it"),
    ],
)
def test_a_model_judges_with_its_reason(reply, verdict, reason):
    found = judge(sample("a", "r"), client=model(reply))
    assert (found.agrees, found.reason, found.judge) == (verdict, reason, "some-model")


def test_the_model_reads_question_reference_and_answer():
    seen = []
    judge(sample("the {answer}", "the reference", "the question?"), client=model("yes: fine", seen))
    assert all(part in seen[0] for part in ("the {answer}", "the reference", "the question?"))


@pytest.mark.parametrize("reply", ["", "Perhaps.", "None of it", "Not sure", "The answer is right: yes"])
def test_a_reply_without_a_verdict_is_named(reply):
    with pytest.raises(BadReplyError) as caught:
        judge(sample("a", "r"), client=model(reply))
    assert "some-model" in str(caught.value) and repr(reply) in str(caught.value)


# --- other evaluators ---------------------------------------------------------------------------------


def test_a_sample_comes_back_from_ragas_as_it_went():
    there = EvalSample(question="q", answer="a", contexts=("c1", "c2"), reference="r")
    assert from_ragas(to_ragas(there)) == there
    bare = EvalSample(question="q", answer="", contexts=(), reference="r")
    assert from_ragas(to_ragas(bare)) == bare, "an empty answer or context is there"


@pytest.mark.parametrize("name", ["user_input", "response", "retrieved_contexts", "reference"])
@pytest.mark.parametrize("how", ["absent", "None"])
def test_a_row_that_lacks_a_field_is_refused_by_name(name, how):
    row = to_ragas(sample("a", "r"))
    row[name] = None
    if how == "absent":
        del row[name]
    with pytest.raises(ValueError, match=f"row lacks {name}:"):
        from_ragas(row)


def test_ragas_takes_the_sample_and_gives_it_back():
    ragas = pytest.importorskip("ragas", reason="the extra ragas is not installed")
    there = sample("a", "r")
    single = ragas.SingleTurnSample(**to_ragas(there))
    assert from_ragas(single.model_dump()) == there
    (row,) = ragas.EvaluationDataset(samples=[single]).to_list()
    assert from_ragas(row) == there
