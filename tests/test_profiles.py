"""Lengths are those of the tokenizer, and the gate says which figure refuses windows."""

import pytest

from cookbook.profiles import gate, lengths, summary
from cookbook.tokens import count
from cookbook.types import Document

PROSE = "# Kiln\n\n" + "The kiln holds nine trays of pots. " * 40 + "\n\n## Door\n\nIt opens to the left.\n"
LOG = "t=1 pv=20 sp=30 out=41 " * 400


def page(text, doc_id="kiln"):
    return Document(doc_id=doc_id, title="", text=text)


def test_every_unit_is_counted_alone():
    found = lengths([page(PROSE), page("Two words.", "b"), page(" \n", "blank")])
    assert found.page == (count(PROSE), count("Two words."))
    assert len(found.section) == 3 and sum(found.section[:2]) == pytest.approx(found.page[0], abs=2)
    assert found.sentence[1:40] == (count("The kiln holds nine trays of pots. "),) * 39
    assert found.n_characters == len(PROSE) + 10 and found.n_long == 0


def test_prose_passes_and_the_reason_says_so():
    found = gate(lengths([page(PROSE)]))
    assert found.passes and "below" in found.reason
    assert found.demand == summary(lengths([page(PROSE)]).sentence)["p95"] * 5 * 8


def test_a_log_fails_until_a_cap_is_on():
    assert not gate(lengths([page(LOG)])).passes
    assert "100% of the text" in gate(lengths([page(LOG)])).reason
    assert gate(lengths([page(LOG)], max_tokens=64)).passes


def test_long_sentences_fail_by_demand():
    found = gate(lengths([page(PROSE)]), radius=8, top_k=40)
    assert not found.passes and "p95 x 17 x 40" in found.reason


def test_bad_arguments():
    with pytest.raises(ValueError, match="radius=-1"):
        gate(lengths([page(PROSE)]), radius=-1)
    with pytest.raises(ValueError, match="empty"):
        summary([])
