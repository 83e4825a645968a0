"""The embedded provider's reader: the sentences that it quotes, and when it refuses."""

from __future__ import annotations

import time

import pytest

from cookbook import local, reader
from cookbook.passages import render
from cookbook.prompts import REFUSAL
from cookbook.reader import Candidate, Slice
from cookbook.types import Passage, Span

SHIPPING = """# Shipping

Parcels inside the country arrive within two working days. Remote islands take a week.

## Returns

- `label`: Every parcel holds a return label:

  - small: stick it on the box.
  - large: call the carrier first.
- `refund`: The money is back ten days after we receive the goods.

| country | fee |
|---|---|
| Norway | 12 euro |
| Chile | 40 euro |

```python
>>> refund(days=10)
```

## See also

- Refund policy: when the money is back.
"""


def quotes(question: str, text: str = SHIPPING, **options: float) -> list[str]:
    readings = reader.read(question, [Slice("shipping", 100, text)], **options)  # type: ignore[arg-type]
    for reading in readings:
        quote = reading.quote
        assert quote.doc_id == "shipping"
        assert text[quote.start - 100 : quote.end - 100] == quote.quote == quote.quote.strip()
    return [reading.quote.quote for reading in readings]


def test_the_answer_is_a_sentence_of_the_page() -> None:
    found = quotes("How many working days do parcels inside the country take?")
    assert found[0] == "Parcels inside the country arrive within two working days."
    assert len(found) <= 3


def test_a_nested_item_is_read_with_the_item_above_it() -> None:
    assert "- large: call the carrier first." in quotes("Where do I get the return label of a large parcel?")


def test_a_table_row_is_read_with_its_head() -> None:
    assert quotes("What is the fee for Chile?")[0] == "| Chile | 40 euro |"


def test_headings_pointers_and_code_do_not_win() -> None:
    found = quotes("When is the money back after a refund?", max_sentences=1)
    assert found == ["- `refund`: The money is back ten days after we receive the goods."]
    assert not any(text.startswith("#") for text in quotes("shipping returns", threshold=-1, max_sentences=9))


@pytest.mark.parametrize("title", ["Examples", "See also"])
def test_what_is_said_of_an_example_counts_less(title: str) -> None:
    def score(under: str) -> float:
        page = reader.Slice("kiln", 0, f"## {under}\n\nThe door opens at 200 degrees.\n")
        return float(reader.score_sentences("When does the door open?", list(reader.candidates(0, page)))[0])

    assert score(title) < 0.9 * score("Notes")


@pytest.mark.parametrize(
    "question",
    [
        "Which wallpaper does the office in Lima have?",
        "Who invented the quantum computer?",
        "What is the password of the database server?",
    ],
)
def test_what_the_page_does_not_hold_is_refused(question: str) -> None:
    assert quotes(question) == []


def test_a_sentence_far_below_the_best_is_left_out() -> None:
    question = "How many working days do parcels inside the country take?"
    page = Slice("shipping", 0, SHIPPING)
    scores = reader.score_sentences(question, list(reader.candidates(0, page)))
    readings = reader.read(question, [page], threshold=-1, max_sentences=99)
    assert 0 < len(readings) == (scores >= 0.7 * scores.max()).sum() < len(scores)


def test_near_copies_are_returned_once() -> None:
    text = "Parcels to Norway take seven days.\n\nParcels to Norway take seven days!\n\nGifts are wrapped."
    found = quotes("How long do parcels to Norway take?", text, threshold=-1)
    assert sum("Norway" in sentence for sentence in found) == 1


def test_the_number_of_sentences_and_the_threshold_hold() -> None:
    question = "How many working days do parcels inside the country take?"
    text = "\n\n".join(
        f"Parcels inside country {n} take {n} working days, {n * n} at most." for n in range(9)
    )
    readings = reader.read(question, [Slice("shipping", 100, text)], threshold=-1, max_sentences=5)
    assert len(readings) == 5
    scores = [reading.score for reading in readings]
    assert scores == sorted(scores, reverse=True)
    found = list(reader.candidates(0, Slice("shipping", 100, text)))
    most = reader.confidence(question, found, reader.score_sentences(question, found))
    assert len(quotes(question, text, threshold=most - 1e-6, max_sentences=5)) == 5
    assert quotes(question, text, threshold=most + 1e-6, max_sentences=5) == []
    with pytest.raises(ValueError, match="max_sentences=0 must be at least 1"):
        quotes(question, max_sentences=0)


def confidence(question: str, *found: Candidate) -> float:
    return reader.confidence(question, found, reader.score_sentences(question, found))


def test_a_question_that_spells_a_name_above_is_answered_more_surely() -> None:
    def confident(heading: str, question: str) -> float:
        path = ("frame", f"Frame > {heading}")
        return confidence(question, Candidate("Rows without a value are dropped.", headings=path))

    spelled, said = "What does `dropna` drop?", "What does the dropna drop?"
    assert confident("Frame.dropna", spelled) - confident("Frame.dropna", said) == pytest.approx(
        0.3, abs=0.05
    )
    # Where no heading is a name, none can be spelled.
    assert confident("Rows that lack a value", spelled) == pytest.approx(
        confident("Rows that lack a value", said), abs=0.05
    )


def test_a_sentence_that_stands_out_answers_more_surely_than_one_of_many() -> None:
    question = "How long do parcels to Norway take?"
    answer = Candidate("Parcels to Norway take seven days.")
    others = [Candidate(f"Kiln {n} is fired with gas.") for n in range(30)]
    alike = [Candidate(f"Parcels to region {n} take {n} days.") for n in range(30)]
    assert confidence(question, answer, *others) > confidence(question, answer, *alike) + 0.2


def test_a_lone_sentence_can_answer_and_can_be_refused() -> None:
    alone = "Parcels to Norway take seven days."
    assert quotes("How long do parcels to Norway take?", alone) == [alone]
    assert quotes("Who designed the company's logo?", alone) == []


def test_a_word_that_no_sentence_holds_lowers_the_support() -> None:
    candidates = [Candidate("The lower bound clips the values."), Candidate("Glazes are weighed.")]
    known = reader.supports("What does the lower bound do?", candidates)
    unknown = reader.supports("What does the lower bound of the zeppelin do?", candidates)
    assert known[0] > known[1]
    assert known[0] > unknown[0]


def test_one_clause_that_is_covered_supports_a_long_question() -> None:
    page = [Candidate("The lower bound clips the values.")]
    short = reader.supports("What does the lower bound clip?", page)[0]
    chatty = "My zeppelin landed in Peru yesterday, and my cat was asleep. What does the lower bound clip?"
    one_breath = chatty.replace(", and", " while").replace("asleep. What", "asleep what")
    assert reader.supports(chatty, page)[0] >= short - 1e-6 > reader.supports(one_breath, page)[0] + 0.1
    assert reader.supports("And?", page).shape == (1,)


def test_a_sentence_that_reads_like_an_answer_to_that_kind_of_question_wins() -> None:
    texts = ["The glaze crawls over dust.", "The glaze crawls because of dust."]
    why = reader.score_sentences("Why does the glaze crawl?", [Candidate(text) for text in texts])
    where = reader.score_sentences("Where does the glaze crawl?", [Candidate(text) for text in texts])
    assert why[1] - why[0] > where[1] - where[0] + 0.01
    counts = reader.score_sentences(
        "How many shelves?", [Candidate("Some shelves."), Candidate("6 shelves.")]
    )
    assert counts.argmax() == 1


def test_words_held_exactly_count_in_other_forms_too() -> None:
    candidates = [Candidate("A column is tabulated."), Candidate("A pillar is counted.")]
    assert reader._exact("How do you get columns?", candidates).tolist() == pytest.approx([1, 0])
    assert reader._exact("Is it?", candidates).tolist() == [0, 0]  # nothing but glue


def test_the_whole_of_a_sentence_is_compared_with_its_headings() -> None:
    query = local.bags_of(["How long does Norway take?"])[0]
    bare, headed = reader._about(
        query, [Candidate("It takes a week."), Candidate("It takes a week.", headings=("Norway",))]
    )
    assert 0 < bare < headed <= 1


def test_headings_count_and_a_lead_in_counts_less() -> None:
    question = "How long does Norway take?"
    other = Candidate("It takes a month.", slice_index=1)
    text = "It takes a week."

    def score(candidate: Candidate) -> float:
        return float(reader.score_sentences(question, [candidate, other])[0])

    bare = score(Candidate(text))
    led = score(Candidate(text, lead=("Norway", " ")))
    headed = score(Candidate(text, headings=("Norway",)))
    assert bare < led < headed
    assert score(Candidate(text, headings=("Norway",), weight=0.5)) == pytest.approx(headed / 2, abs=2e-6)


def test_neighbours_count_only_inside_one_slice() -> None:
    question = "How long do parcels to Norway take?"
    texts = ["Parcels to Norway are weighed.", "It takes a week."]
    together = reader.score_sentences(question, [Candidate(text) for text in texts])
    apart = reader.score_sentences(question, [Candidate(t, slice_index=n) for n, t in enumerate(texts)])
    assert together[1] > apart[1]
    assert reader.score_sentences(question, []).shape == reader.supports(question, []).shape == (0,)


def test_candidates_carry_what_says_what_they_are_about() -> None:
    found = {c.text: c for c in reader.candidates(3, Slice("shipping", 0, SHIPPING, "Shop"))}
    large = found["- large: call the carrier first."]
    assert large.headings == ("shipping", "Shop", "Shipping", "Returns")
    assert large.lead == ("- `label`: Every parcel holds a return label:", "")
    assert (large.slice_index, SHIPPING[large.start :][: len(large.text)]) == (3, large.text)
    assert found["Remote islands take a week."].lead == (
        "Parcels inside the country arrive within two working days.",
    )
    assert "country" in found["| Chile | 40 euro |"].lead[0]
    assert found["- `refund`: The money is back ten days after we receive the goods."].lead == ("",)
    pointer = found["- Refund policy: when the money is back."]
    code = next(c for text, c in found.items() if "refund(days=10)" in text)
    assert pointer.weight == code.weight < large.weight == 1


def test_empty_and_symbol_pages_are_refused() -> None:
    assert quotes("How long?", "") == []
    assert quotes("How long?", "\n\n") == []
    assert quotes("How long?", "---\n\n***\n") == []
    assert reader.read("How long?", []) == []


def passage(text: str, *spans: tuple[int, int], heading: str = "") -> Passage:
    texts = [SHIPPING[start:end] for start, end in spans]
    assert text.endswith(texts[-1])
    return Passage(
        doc_id="shipping",
        spans=tuple(Span(doc_id="shipping", start=start, end=end) for start, end in spans),
        heading=heading,
        text=text,
        hits=(),
        score=1.0,
        expansion="window",
        n_tokens=1,
    )


def test_citations_are_exact_spans_of_the_document() -> None:
    first = (SHIPPING.index("Parcels"), SHIPPING.index("## Returns"))
    second = (SHIPPING.index("- `refund`"), SHIPPING.index("| country"))
    made = passage(
        render("Shipping", [SHIPPING[slice(*first)], SHIPPING[slice(*second)]]),
        first,
        second,
        heading="Shipping",
    )
    other = passage(SHIPPING[0:10], (0, 10))
    readings, text = reader.answer("When is the money back after a refund?", [other, made])
    quote = readings[0].quote
    assert SHIPPING[quote.start : quote.end] == quote.quote
    assert quote.quote == "- `refund`: The money is back ten days after we receive the goods."
    assert text.splitlines()[0] == f"{quote.quote} [2]"
    readings, text = reader.answer("Who invented the quantum computer?", [made])
    assert (readings, text) == ([], REFUSAL)


# --- prompts written as text --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Two days.\nQ: How long?\nA:", ("Two days.\n", "How long?")),
        ("Two days.\nQuestion: How long?", ("Two days.\n", "How long?")),
        (
            "Q: Old?\nA: Yes.\nTwo days.\nQ: How long?\nAnswer: ",
            ("Q: Old?\nA: Yes.\nTwo days.\n", "How long?"),
        ),
        ("Two days.\nQ: How long\nfor islands?\nA:", ("Two days.\n", "How long\nfor islands?")),
        ("FAQ: not a mark\nQ:How long?", ("FAQ: not a mark\n", "How long?")),
        ("Two days.\n\nHow long?\n", ("Two days.\n", "How long?")),
        ("How long?", ("", "How long?")),
        ("Two days.\r\nQ: How long?\r\nA:", ("Two days.\r\n", "How long?")),
    ],
)
def test_the_question_of_a_text_prompt(text: str, expected: tuple[str, str]) -> None:
    assert reader.split_prompt(text) == expected


def test_a_text_prompt_is_answered_from_what_stands_above() -> None:
    question = "How many working days do parcels inside the country take?"
    reply = reader.chat(f"Use these passages.\n{SHIPPING}\nQ: {question}\nA:")
    assert reply.splitlines()[0] == "Parcels inside the country arrive within two working days."
    assert reader.chat(f"We sell kilns.\nQ: {question}\nA:") == REFUSAL
    assert reader.chat(question) == REFUSAL


def test_passage_numbers_are_titles_and_not_quoted() -> None:
    reply = reader.chat(
        "Passages:\n\n[1] kilns\nWe sell kilns.\n\n[2] shipping\nShipping takes two days.\n\n"
        "Question: How long does shipping take?"
    )
    assert reply.splitlines()[0] == "Shipping takes two days."


def test_a_prompt_without_a_question_is_refused() -> None:
    with pytest.raises(ValueError, match="no question"):
        reader.chat("Two days.\nQ:\nA:")


def test_the_reader_is_fast() -> None:
    pages = [Slice(f"page{n}", 0, SHIPPING.replace("parcel", f"parcel{n}")) for n in range(14)]
    reader.read("How long do parcels take?", pages[:1])
    started = time.process_time()
    reader.read("How long do parcels take?", pages)
    assert time.process_time() - started < 0.5  # about 10 ms; the margin is for a busy machine


def test_tokens_of_the_embedders_own_vocabulary_are_counted_text_by_text():
    texts = ["a kiln", "a kiln a kiln", "", "窯" * 40]
    counted = local.count_tokens(texts)
    assert counted == [local.count_tokens([text])[0] for text in texts]
    assert counted[1] == 2 * counted[0] and counted[2] == 0 and counted[3] >= 40
