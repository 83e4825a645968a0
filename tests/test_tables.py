"""Tables are aligned, and the same on every machine."""

import pytest

from cookbook.tables import cell, gold_card, table, tails
from cookbook.types import Question, Quote


def test_numbers_stand_right_and_words_left():
    lines = table([{"page": "kiln", "tokens": 7}, {"page": "shipping", "tokens": 1200}]).split("\n")
    assert lines == ["page      tokens", "----------------", "kiln           7", "shipping    1200"]


def test_a_negative_zero_prints_as_zero():
    assert cell(-0.0001) == "0.000"


def test_missing_values_show_as_a_dash_in_every_form():
    assert [cell(None), cell(float("nan"))] == ["-", "-"]


def test_columns_choose_and_order():
    assert table([{"a": 1, "b": 2}], columns=["b"]).split("\n")[0] == "b"


def test_no_rows_prints_the_header_or_says_why_not():
    assert table([], columns=["a", "b"]).split("\n")[0] == "a  b"
    with pytest.raises(ValueError, match="columns="):
        table([])


def test_a_gold_card_holds_every_quote_on_lines_of_bounded_width():
    words = "steel " * 40
    quotes = {
        name: (Quote(doc_id=name, start=0, end=9, quote=f"{name}\n\n{words}"),) for name in ("x", "y", "z")
    }
    card = gold_card(
        Question(
            question_id="q-1",
            corpus="c",
            question=f"Which {words}?",
            answer="None.",
            evidence=quotes["x"],
            qualifiers=quotes["y"],
            forbidden=quotes["z"],
            kind="one sentence",
            part="dev",
        ),
        width=60,
    )
    lines = card.split("\n")
    assert max(map(len, lines)) <= 60 and lines[0].startswith("q-1 (one sentence) Which steel")
    assert [line.split()[:3] for line in lines if ":" in line] == [
        ["evidence,", "x:", "x"],
        ["qualifiers,", "y:", "y"],
        ["forbidden,", "z:", "z"],
    ]
    assert card.count("steel") == 160


def test_tails_say_where_a_sample_is_too_small_for_the_interval():
    printed = tails({"parent": [100] * 9 + [900]}, budget=500, name="way").splitlines()
    assert printed[0].split()[0] == "way"
    assert printed[2].split() == ["parent", "100", "828", "100", "-", "900", "10.00%"]


def test_tails_refuse_a_strategy_without_sizes():
    with pytest.raises(ValueError, match="empty"):
        tails({"parent": []}, budget=500)
