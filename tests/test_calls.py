"""Calls: the same text on every Python version, questions at their places, numbers of their own."""

from __future__ import annotations

import hashlib
import re
import statistics
from collections import Counter
from itertools import islice

import pytest

from cookbook import calls, corpora
from cookbook.calls import call, stream_calls
from cookbook.sentences import sentence_spans
from cookbook.tokens import count

HASHES = {
    0: "785ec0a8a379e30a35b68ca588ef8ef7bf231d5078dbaa354c9a9416cb3e6af8",
    1: "e25a4ac163b7253af745bd90266e236fa742aa4715831caf491d0e86b7e2200e",
    11_999: "0f6a311618141afb9148ba95f6630ce91d0a247631d5834ca2066140bc6a3aee",
}
NARROW = "0442dcf24d76fc47b0724e38a0abca7381a44bb386dc5714476f0fdc281ec04d"  # call 0 with p95_ratio=1.3
OTHER_SEED = "71ae0a46cf296b89278bb51b01c1bc216c678b9d042f8cc69df7e13f08bd121c"  # call 0 with seed=1
ORDER = re.compile(r"\b\d{4}-\d{4}\b")
REFERENCE = re.compile(r"\bR-\d{7}\b")


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.fixture(scope="module")
def some() -> list[tuple[calls.Document, list[calls.Question]]]:
    return list(stream_calls(60))


@pytest.mark.parametrize("i", HASHES)
def test_the_text_of_a_call_is_fixed(i: int) -> None:
    assert digest(call(i)[0].text) == HASHES[i]


def test_the_text_depends_on_seed_and_spread() -> None:
    assert digest(call(0, p95_ratio=1.3)[0].text) == NARROW
    assert digest(call(0, seed=1)[0].text) == OTHER_SEED


def test_a_call_does_not_depend_on_those_before_it() -> None:
    alone = call(3)
    assert list(islice(stream_calls(), 3, 4)) == [alone] == [call(3)]


def test_streaming_holds_nothing() -> None:
    stream = stream_calls()
    assert iter(stream) is stream
    assert next(stream)[0].doc_id == "call-00000"


def test_every_quote_stands_once_at_its_place(
    some: list[tuple[calls.Document, list[calls.Question]]],
) -> None:
    for page, questions in some:
        assert 4 <= len(questions) <= 8
        for question in questions:
            assert question.kind in corpora.KINDS
            assert bool(question.evidence) == (question.kind != "unanswerable")
            gold = question.evidence + question.qualifiers
            for quote in gold + question.forbidden:
                assert page.text[quote.start : quote.end] == quote.quote
                assert page.text.count(quote.quote) == 1
            assert not any(quote.span.overlap(other.span) for quote in gold for other in question.forbidden)


def test_the_facts_of_an_answer_stand_in_its_gold(
    some: list[tuple[calls.Document, list[calls.Question]]],
) -> None:
    """Amounts, dates and codes are in the evidence or qualifiers, as is the order asked about."""
    facts = re.compile(
        r"£[\d,.]*\d|\d[\d,]*|\b[A-Z]{2}\d{3}\b| (?:of )?(?:[A-Z][a-z]+ber|January|May|June|July)"
    )
    for _, questions in some:
        for question in questions:
            gold = " ".join(quote.quote for quote in question.evidence + question.qualifiers)
            if gold:
                assert all(fact.strip() in gold for fact in facts.findall(question.answer)), question
                assert ORDER.findall(question.question)[0] in gold


def test_no_slip_of_grammar_shows(some: list[tuple[calls.Document, list[calls.Question]]]) -> None:
    slips = re.compile(
        r"\b(?:dress|for|with) (?:he|she)\b|\b(a|an|and|but|the), \1\b|\b(a|and|but|the|to) \2\b"
        r"|\ba [aeio]\w|\ban [b-df-gj-np-tv-z]\w|,,|\?,|, and (?:and|but|oh|yes|so)\b"
    )
    for page, questions in some:
        for text in (page.text, *(f"{one.question} {one.answer}" for one in questions)):
            assert (slip := slips.search(text)) is None, text[slip.start() - 60 : slip.end() + 60]


def test_a_figure_that_a_later_sentence_replaces_is_asked_about_as_the_first_one_only() -> None:
    corrected = 0
    for page, questions in stream_calls(120):
        for question in questions:
            number = ORDER.search(question.question)
            moved = number and re.search(
                rf"answered about {number[0]}, |over {number[0]}, your second drop", page.text
            )
            if (
                moved
                and question.evidence
                and re.search("first|earlier|from which|suggested", question.question)
            ):
                corrected += 1
            elif moved and question.evidence:
                assert not re.search("arrival|slot|window|hoped|expected", question.question), question
    assert corrected > 5


def test_a_written_quote_stands_in_one_page_only() -> None:
    pages = [page.text for page in corpora.load_corpus("calls")]
    for question in corpora.load_eval_questions("calls"):
        for quote in question.evidence + question.qualifiers + question.forbidden:
            assert sum(text.count(quote.quote) for text in pages) == 1, quote


def test_far_apart_means_more_than_thirty_sentences(
    some: list[tuple[calls.Document, list[calls.Question]]],
) -> None:
    checked = 0
    for page, questions in some:
        starts = [start for start, _ in sentence_spans(page.text)]
        for question in questions:
            if question.kind == "far apart":
                first, last = question.evidence[0].start, question.evidence[-1].start
                assert sum(first < start <= last for start in starts) > 30
                checked += 1
    assert checked > 50


def test_kinds_and_parts_are_mixed(some: list[tuple[calls.Document, list[calls.Question]]]) -> None:
    questions = [question for _, questions in some for question in questions]
    parts = Counter(question.part for question in questions)
    assert 0.3 < parts["test"] / len(questions) < 0.37
    for part in corpora.PARTS:
        assert {question.kind for question in questions if question.part == part} == {*corpora.KINDS} - {
            "table"
        }


def test_no_number_and_no_name_is_in_two_calls() -> None:
    numbers = Counter[str]()
    for page, _ in stream_calls(400):
        numbers.update({*ORDER.findall(page.text), *REFERENCE.findall(page.text)})
    assert numbers.most_common(1)[0][1] == 1
    grammar = calls._grammar()
    names = len(grammar.names["first"]) * len(grammar.names["last"])
    key = int.from_bytes(hashlib.sha256(str(calls.SEED).encode()).digest()[:6], "big")
    assert len({(i * 9973 + key % 100_003) % names for i in range(calls.CALLS)}) == calls.CALLS


@pytest.mark.parametrize(("ratio", "low", "high"), [(2.0, 1.85, 2.15), (1.3, 1.25, 1.45)])
def test_sentence_lengths_have_the_spread_asked_for(ratio: float, low: float, high: float) -> None:
    lengths: list[int] = []
    for page, _ in stream_calls(24, p95_ratio=ratio):
        lengths += [count(page.text[start:end]) for start, end in sentence_spans(page.text)]
    median = statistics.median(lengths)
    assert 20 <= median <= 24
    assert low <= statistics.quantiles(lengths, n=100)[94] / median <= high


def test_every_slot_and_every_tag_of_the_grammar_is_known() -> None:
    grammar = calls._grammar()
    assert len(grammar.topics) >= 40
    for topic in grammar.topics:
        tags = {
            tag for part in topic.parts.values() for turns in part for turn in turns
            for sentence in turn.sentences for tag in sentence.tags
        }  # fmt: skip
        for ask in topic.asks:
            assert {*ask.evidence, *ask.qualifiers} <= tags, (topic.name, ask)


def test_the_committed_sample_is_what_the_generator_says() -> None:
    pages = {page.doc_id: page for page in corpora.load_corpus("calls")}
    made = {page.doc_id: page for page, _ in stream_calls(24)}
    assert pages == made


@pytest.mark.parametrize(
    ("arguments", "message"), [({"i": -1}, "i=-1"), ({"i": 0, "p95_ratio": 1}, "above 1")]
)
def test_a_wrong_argument_is_named(arguments: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call(**arguments)
