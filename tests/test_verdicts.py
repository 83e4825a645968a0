"""Verdicts: what a notebook prints is what the table holds."""

import json
import re
from pathlib import Path

import pytest

from cookbook import verdicts
from cookbook.verdicts import verdict

ROOT = Path(__file__).parent.parent


def test_what_is_printed_is_read_back():
    said = [
        verdict(30, "contradicted", figure="+0.18", interval="[+0.09, +0.28]", part="by rank"),
        verdict(30, "confirmed", figure="+0.94", interval="[+0.51, +1.36]", part="by tokens", reason="a: b"),
    ]
    text = f"claim 9 stands alone\n\n{said[0]}\n\n{said[1]}\nfigure: of something else? yes\n"
    # A line that looks like one of a verdict's belongs to the verdict above it only without a gap.
    assert verdicts.read(text.replace("figure: of", "\nfigure: of")) == said


def test_a_folder_is_read_in_the_order_of_the_claims(tmp_path):
    for name, said in {
        "02_b": verdict(26, "contradicted", figure="9"),
        "01_a": verdict(28, "confirmed", figure="1.00"),
    }.items():
        cells = [
            {"cell_type": "markdown", "source": str(verdict(1, "confirmed", figure="prose does not count"))},
            {"cell_type": "code", "outputs": [{"output_type": "stream", "text": [f"{said}\n"]}]},
        ]
        (tmp_path / f"{name}.ipynb").write_text(json.dumps({"cells": cells}), encoding="utf-8")
    assert [(v.claim, v.notebook) for v in verdicts.collect(tmp_path)] == [(26, "02_b"), (28, "01_a")]
    rows = verdicts.markdown(verdicts.collect(tmp_path)).splitlines()
    assert len(rows) == 2 + len(verdicts.CLAIMS)
    assert rows[27].endswith("| contradicted | 9 | 02 |") and rows[2].endswith("| not measured yet | | |")


@pytest.mark.parametrize(
    ("claim", "finding", "figure", "says"),
    [
        (0, "confirmed", "1", "claim=0 is unknown"),
        (1, "true", "1", "finding='true' is unknown"),
        (1, "confirmed", " ", "figure is blank"),
        (1, "confirmed", "1\n2", "must be one line"),
    ],
)
def test_a_verdict_that_could_not_be_read_is_refused(claim, finding, figure, says):
    with pytest.raises(ValueError, match=re.escape(says)):
        verdict(claim, finding, figure=figure)


def test_a_folder_without_notebooks_is_refused(tmp_path):
    with pytest.raises(ValueError, match="holds no notebook"):
        verdicts.collect(tmp_path)


def test_the_readme_holds_the_table_that_the_notebooks_give():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    table = readme.partition("<!-- make claims -->\n")[2].partition("\n<!-- end -->")[0]
    assert table == verdicts.markdown(verdicts.collect(ROOT / "notebooks"))
