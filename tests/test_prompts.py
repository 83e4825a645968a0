"""The whole prompt under its budget, and a record of what did not fit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cookbook import tokens
from cookbook.errors import BudgetError
from cookbook.passages import make, page_of, slices
from cookbook.prompts import SYSTEM, count_messages, pack
from cookbook.types import Document, Hit, Passage, Span

QUESTION = "How long does shipping take?"


def passage(text: str, doc_id: str = "page", heading: str = "", hit: str | None = None) -> Passage:
    document = Document(doc_id=doc_id, title=doc_id, text=text)
    start = text.index(hit) if hit else 0
    metadata = {"start": start, "end": start + len(hit or text)}
    found = Hit(
        chunk_id=f"{doc_id}#c",
        doc_id=doc_id,
        text=text[start : metadata["end"]],
        score=0.5,
        rank=1,
        retriever="dense",
        metadata=metadata,
    )
    whole = Span(doc_id=doc_id, start=0, end=len(text))
    return make(page_of(document, "cl100k_base"), [whole], [found], expansion="section", heading=heading)


def sized(n_sentences: int, doc_id: str) -> Passage:
    return passage("".join(f"Tray {i} of {doc_id} is full. " for i in range(n_sentences)), doc_id)


def test_what_the_model_is_sent() -> None:
    history = [{"role": "user", "content": "Hello."}, {"role": "assistant", "content": "Hello!"}]
    first = passage("Two days.\n", "shipping", heading="Guide > Times")
    prompt = pack(QUESTION, [first, passage("We sell kilns.", "shop")], history=history)
    assert prompt.messages == (
        {"role": "system", "content": SYSTEM},
        *history,
        {
            "role": "user",
            "content": "Passages:\n\n"
            "[1] shipping\nGuide > Times\nTwo days.\n\n"
            "[2] shop\nWe sell kilns.\n\n"
            "Question: How long does shipping take?",
        },
    )
    assert (prompt.cut, prompt.dropped, prompt.budget) == (False, (), 2000)
    # 3 tokens a message, its role and its content, and 3 for the reply.
    contents = sum(tokens.count(message["content"]) + 4 for message in prompt.messages)
    assert prompt.n_tokens == contents + 3


def test_without_system_text_and_passages_only_the_question_is_sent() -> None:
    prompt = pack("A question\nof two lines?", [], system="")
    assert prompt.messages == (
        {"role": "user", "content": "Passages:\n\nQuestion: A question\nof two lines?"},
    )


def test_a_passage_may_hold_a_line_that_looks_like_the_question() -> None:
    prompt = pack(QUESTION, [passage("Question: not this one?\nNo.")])
    assert prompt.messages[-1]["content"].rpartition("\nQuestion: ")[2] == QUESTION


def test_a_passage_that_does_not_fit_is_dropped_and_a_smaller_one_kept() -> None:
    small, big, last = sized(2, "small"), sized(60, "big"), sized(3, "last")
    needed = pack(QUESTION, [small, last]).n_tokens
    prompt = pack(QUESTION, [small, big, last], budget=needed)
    assert prompt.passages == (small, last)
    assert prompt.dropped == (big,)
    assert prompt.n_tokens == needed
    assert not prompt.cut
    assert pack(QUESTION, [small, big, last], budget=needed - 1).passages == (small,)


def test_the_first_passage_is_cut_at_a_sentence_with_its_hit_inside() -> None:
    text = "".join(f"Tray {i} is full. " for i in range(100))
    first = passage(text, hit="Tray 70 is full.")
    empty = pack(QUESTION, []).n_tokens
    prompt = pack(QUESTION, [first, sized(1, "next")], budget=empty + 60)
    [kept, *rest] = prompt.passages
    assert prompt.cut
    assert prompt.dropped[0] is first
    assert "Tray 70 is full." in kept.text
    assert len(prompt.dropped) + len(prompt.passages) == 3 - (not rest) + bool(not rest)
    [sentences] = slices(kept)
    assert sentences.startswith("Tray ")
    assert sentences.endswith("is full. ")
    assert empty + 40 < prompt.n_tokens <= empty + 60


def test_a_first_passage_without_room_for_a_sentence_is_dropped() -> None:
    long = passage("word " * 300 + "end.", "long")
    short = sized(1, "short")
    prompt = pack(QUESTION, [long, short], budget=pack(QUESTION, [short]).n_tokens)
    assert (prompt.passages, prompt.dropped, prompt.cut) == ((short,), (long,), False)


def test_only_the_first_passage_is_ever_cut() -> None:
    first, second = sized(2, "first"), sized(50, "second")
    prompt = pack(QUESTION, [first, second], budget=pack(QUESTION, [first]).n_tokens + 100)
    assert (prompt.passages, prompt.dropped, prompt.cut) == ((first,), (second,), False)


def test_the_margin_stays_free() -> None:
    given_passages = [sized(3, name) for name in "abcdefgh"]
    for margin in (0, 7, 50):
        prompt = pack(QUESTION, given_passages, budget=300, margin=margin)
        assert prompt.n_tokens <= 300 - margin
        assert prompt.budget == 300


def test_what_cannot_be_dropped_must_fit() -> None:
    needed = pack(QUESTION, []).n_tokens
    assert pack(QUESTION, [sized(5, "a")], budget=needed).n_tokens == needed
    with pytest.raises(BudgetError, match=rf"{needed} tokens are needed .*system \d+, question 6, history 0"):
        pack(QUESTION, [sized(5, "a")], budget=needed - 1)
    with pytest.raises(BudgetError, match="margin=1"):
        pack(QUESTION, [], budget=needed, margin=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"question": " \n"}, "question is blank"),
        ({"budget": 0}, "budget=0 must be above margin=0"),
        ({"budget": 50, "margin": 50}, "budget=50 must be above margin=50"),
        ({"margin": -1}, "margin=-1 must be at least 0"),
        ({"history": [{"role": "user"}]}, r"history\[0\] must hold"),
    ],
)
def test_bad_arguments(options: dict[str, Any], message: str) -> None:
    question = options.pop("question", QUESTION)
    with pytest.raises(ValueError, match=message):
        pack(question, [], **options)


WORDS = st.sampled_from(
    ["kiln", "\u732b\u732b", "9.5", "<|endoftext|>", "\n\n", "\n/", "/", "[1]", "  ", "\t", "end.", "'s"]
)
TEXT = st.lists(WORDS, min_size=1, max_size=25).map("".join).filter(str.strip)


@settings(max_examples=150, deadline=None)
@given(st.lists(TEXT, max_size=6), st.integers(0, 150), st.integers(0, 20), TEXT, TEXT)
def test_the_budget_always_holds(
    texts: list[str], room: int, margin: int, question: str, system: str
) -> None:
    given_passages = [passage(text, f"d{i}") for i, text in enumerate(texts)]
    least = pack(question, [], system=system).n_tokens
    budget = least + room + margin
    prompt = pack(question, given_passages, budget=budget, margin=margin, system=system)
    assert prompt.n_tokens == count_messages(prompt.messages) <= budget - margin
    assert prompt.messages[-1]["content"].endswith("Question: " + question)
    whole = [p for p in given_passages if any(kept is p for kept in prompt.passages)]
    assert len(whole) + len(prompt.dropped) == len(given_passages)
    assert len(prompt.passages) == len(whole) + prompt.cut
    if prompt.cut:
        assert prompt.dropped[0] is given_passages[0]
    assert pack(question, given_passages, budget=budget, margin=margin, system=system) == prompt


@pytest.mark.parametrize(
    "end", ["", " ", "\n", "  \n\n", " /", ".\n/", " ...", "  x = 1\n", "\u3002", "\t|", ":\n    ```\n"]
)
@pytest.mark.parametrize(
    "start", ["", "/usr ", "\n\n", " ", "  - ", " \r\n  x", "\t", "   /", "[1] ", "\u732b"]
)
def test_entries_are_counted_by_their_ends(start: str, end: str) -> None:
    passage = sized(2, "a")
    text = f"{start}{passage.text}{end}"
    passages = [replace(passage, text=text), replace(passage, text=f"Z{text}")]
    prompt = pack(QUESTION, passages)
    assert prompt.passages == tuple(passages)
    assert prompt.n_tokens == count_messages(prompt.messages)


def test_the_budget_holds_for_an_encoding_that_joins_line_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Older encodings join the line end of one entry with what follows: counts then do not add up."""
    given_passages = [sized(2, name) for name in "abc"]
    full = pack(QUESTION, given_passages)

    def count(text: str, encoding: str) -> int:
        return tokens.count(text, encoding=encoding) + 5 * max(0, text.count("\n\n[") - 1)

    monkeypatch.setattr("cookbook.prompts.count_kept", count)
    monkeypatch.setattr("cookbook.prompts.parts_at_line_ends", lambda encoding: False)
    prompt = pack(QUESTION, given_passages, budget=full.n_tokens)
    assert prompt.passages == tuple(given_passages[:2])
    assert prompt.dropped == (given_passages[2],)
    assert prompt.n_tokens <= full.n_tokens
