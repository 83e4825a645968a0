"""Tables are aligned, and the same on every machine."""

import pytest

from cookbook.tables import cell, table


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
