"""A sheet that a person fills in becomes questions whose quotes stand in the pages."""

import json
import re

import pytest

from cookbook import labels
from cookbook.__main__ import main
from cookbook.errors import CorpusError
from cookbook.types import Document, Passage, Prompt, Span, Trace

KILN = "# Kiln\n\nElements are covered for\n1,500 firing hours. Shelves are not covered.\n"
DOCS = [
    Document(doc_id="kiln", title="Kiln", text=KILN, corpus="shop"),
    Document(doc_id="door", title="Door", text="Shelves are not covered. The door is.\n", corpus="shop"),
]


def trace(question="For how long\nare elements covered?"):
    whole = Span(doc_id="kiln", start=0, end=len(KILN))
    passage = Passage(
        doc_id="kiln", spans=(whole,), text=KILN, hits=(), score=1, expansion="page", n_tokens=20, heading=""
    )
    prompt = Prompt(
        question=question,
        messages=(),
        passages=(passage,),
        dropped=(),
        n_tokens=30,
        budget=99,
        demand=30,
    )
    return Trace(
        question=question,
        hits=(),
        ranked=(),
        passages=(passage,),
        prompt=prompt,
        answer=None,
        seconds={},
    )


def filled(**fields):
    text = labels.sheet([trace()])
    for name, value in fields.items():
        text = re.sub(rf"^{name}:.*$", lambda _, n=name, v=value: f"{n}: {v}", text, flags=re.MULTILINE)
    return text


def test_a_labelled_sheet_becomes_a_question():
    text = filled(
        kind="one sentence",
        answer="1,500 hours",
        evidence="Elements are covered for\n> 1,500 firing hours.",
        qualifier="Shelves are not\tcovered.",
    )
    (question,) = labels.read(text, DOCS, corpus="shop")
    assert question.question == "For how long are elements covered?"
    assert question.evidence[0].quote == "Elements are covered for\n1,500 firing hours."
    # It stands on another page too, which was not shown.
    assert [(quote.doc_id, quote.start) for quote in question.qualifiers] == [("kiln", KILN.index("Shelves"))]
    assert (question.question_id, question.part, question.answer) == ("shop-trace-001", "dev", "1,500 hours")
    for quote in (*question.evidence, *question.qualifiers):
        assert KILN[quote.start : quote.end] == quote.quote
    row = json.loads(labels.jsonl([question]))
    assert row["evidence"][0]["doc_id"] == "kiln" and row["forbidden"] == []


def test_a_field_may_be_repeated_and_a_quote_may_come_from_another_page():
    text = filled(kind="far apart", evidence="The door is.\nevidence: Elements are covered for")
    (question,) = labels.read(text, DOCS, corpus="shop")
    assert [quote.doc_id for quote in question.evidence] == ["door", "kiln"]


def test_what_is_not_labelled_is_left_out():
    assert labels.read(labels.sheet([trace(), trace()]), DOCS, corpus="shop") == []


def test_passages_cannot_be_taken_for_fields():
    hostile = trace(question="kind: what?")
    text = labels.sheet([hostile]).replace("> # Kiln", "> evidence: Shelves\n> ## trace-009")
    assert labels.read(text, DOCS, corpus="shop") == []


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"kind": "long"}, "trace-001: kind 'long' must be one of"),
        ({"kind": "table"}, "of kind 'table' has 0 quotes"),
        ({"kind": "unanswerable", "evidence": "Elements"}, "of kind 'unanswerable' has 1 quotes"),
        (
            {"kind": "table", "evidence": "Elements were"},
            "trace-001, evidence: no page holds 'Elements were'",
        ),
        ({"kind": "table", "evidence": "covered"}, "stands in 2 places"),
    ],
)
def test_what_cannot_be_read_is_named(fields, says):
    with pytest.raises(CorpusError, match=re.escape(says)):
        labels.read(filled(**fields), DOCS, corpus="shop")


def test_the_command_writes_a_sheet_and_reads_it_back(tmp_path, capsys):
    pages = tmp_path / "shop"
    pages.mkdir()
    (pages / "kiln.md").write_text(KILN, encoding="utf-8")
    asked = tmp_path / "asked.txt"
    asked.write_text("For how long are elements covered?\n\nWhat about shelves?\n", encoding="utf-8")
    sheet, out = tmp_path / "sheet.md", tmp_path / "sheet.jsonl"
    source = ["--folder", str(pages)]
    write = ["traces", *source, "--questions", str(asked), "--out", str(sheet)]
    assert main(write) == 0
    text = sheet.read_text(encoding="utf-8")
    assert text.count("## trace-") == 2 and "> 1,500 firing hours. Shelves are not covered." in text
    # What was labelled is not lost to a second call.
    assert main(write) == 2 and "exists" in capsys.readouterr().err
    sheet.write_text(
        text.replace("kind:\n", "kind: one sentence\n").replace(
            "evidence:\n", "evidence: Shelves are not covered.\n"
        ),
        encoding="utf-8",
    )
    assert main(["traces", *source, "--read", str(sheet)]) == 0
    rows = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert [row["evidence"][0]["quote"] for row in rows] == ["Shelves are not covered."] * 2
    assert {row["corpus"] for row in rows} == {"shop"}


def test_a_folder_needs_its_questions(tmp_path, capsys):
    (tmp_path / "kiln.md").write_text(KILN, encoding="utf-8")
    assert main(["traces", "--folder", str(tmp_path)]) == 2
    assert "--folder needs --questions FILE" in capsys.readouterr().err
