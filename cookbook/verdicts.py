"""A claim and a finding -> a verdict that a notebook prints; stored notebooks -> the table of verdicts.

The claims are those of three published texts: A, "A fixed neighbourhood expands predictably; a section does
not"; B, "When a Retrieval Snippet Needs the Paragraph Above It"; C, the recipe "Sentence-Window and
Parent-Child: Small to Find, Big to Read" of the RAG Cookbook 2026. Their words are paraphrased.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FINDINGS = ("confirmed", "contradicted", "not distinguishable")

#: What each claim says, and which text makes it.
CLAIMS: Mapping[int, tuple[str, str]] = {
    1: ("radius 0, 1, 2, 4, 8 gives median units of 22, 66, 108, 198, 380 tokens", "A"),
    2: ("windows cut off at the document's ends explain why radius 2 gives 108 and not 110", "A"),
    3: ("prompt tokens are the unit times k in every row", "A"),
    4: ("the largest window times k bounds every prompt, whatever the text", "A"),
    5: ("radius 4 with k = 8 costs what radius 2 with k = 15 costs, and both dilute", "A"),
    6: ("three sentences before and one after beat two and two on dialogue, not on procedures", "A"),
    7: ("windows of hits 47 and 49 at radius 2 share four sentences", "A"),
    8: ("merging saves 18 % of the prompt at k = 8 on dialogue and costs no accuracy", "A"),
    9: ("a model takes repeated text for corroboration", "A"),
    10: ("parents have a long tail: p50 4,100, p99 24,600, 4.2 % above 16k; windows have none", "A"),
    11: ("p99 below the budget leaves a share at or near zero above it", "A"),
    12: ("look at the p95 of the sentences before adopting windows", "A"),
    13: ("transcripts want windows, references the structural unit, messy wikis the bounded window", "A"),
    14: ("evidence on line 6 and line 71 is out of reach of any window worth the name", "A"),
    15: ("rerank before expanding: a reranker that reads the window scores the match down", "A, C"),
    16: ("rerank the deduplicated parents, not the children", "B"),
    17: ("reranking the children gains most; so do aligned parent borders; any parent will do", "C"),
    18: ("a 1,500-token parent costs 7.5 times a 200-token child: 10 M, 75 M, 30 M tokens", "B"),
    19: ("fewer and complete results beat more and partial ones at the same cost", "B"),
    20: ("below about 800 tokens page and section cost nearly the same", "B"),
    21: ("cap a section at 800 tokens and let the rest spill into the next slot", "B"),
    22: ("put the heading in front, and the paragraph above it when the claim holds a number", "B"),
    23: ("a fixed window near a section's end pulls in the next section's disclaimer", "B"),
    24: ("sections that are short already need no expansion", "B"),
    25: ("20 to 50 labelled traces decide between strategies", "B"),
    26: ("a page of 1,400 tokens cut at 200 with 20 % overlap gives 8 children", "B"),
    27: ("ten Rust chapters at 900/180/24: 61 children, 17 parents, fan-in 3.6 and at most 6", "C"),
    28: ("children alone and the parent walk both reach recall@5 = 1.00", "C"),
    29: ("the baseline's contexts hold 1,446 characters on average, the parents' 2,462", "C"),
    30: ("small pieces find better, large ones read better", "C"),
    31: ("skip expansion when one token or one sentence answers; mind large parents in small models", "C"),
    32: ("fetch 3 x k children, then dedup", "C"),
    33: ("expanding every hit spends many tokens on questions that did not need it", "A"),
    34: ("on partial evidence a model says fluently what the passages do not support", "A"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the measurement says of one claim, or of the part of it that ``part`` names."""

    claim: int
    finding: str
    figure: str
    interval: str
    reason: str
    part: str = ""
    notebook: str = ""

    def __str__(self) -> str:
        said, source = CLAIMS[self.claim]
        rows = {
            f"claim {self.claim}": f"{said} (source {source})",
            "part": self.part,
            "verdict": self.finding,
            "figure": self.figure,
            "interval": self.interval,
            "reason": self.reason,
        }
        return "\n".join(f"{name + ':':<10} {text}" for name, text in rows.items() if text)


def verdict(
    claim: int, finding: str, *, figure: str, interval: str = "", reason: str = "", part: str = ""
) -> Verdict:
    """The verdict on a claim; a notebook prints it, and :func:`collect` reads it back from there.

    Args:
        claim: its number in :data:`CLAIMS`.
        finding: one of :data:`FINDINGS`.
        figure: what was measured, in a few words.
        interval: its interval; left out for counts and identities.
        reason: why the measurement differs, or what limits it.
        part: which part of the claim, where its parts fare differently.

    Raises:
        ValueError: an unknown claim or finding, a figure that is missing, or a line end in a text.

    >>> print(verdict(7, "contradicted", figure="they share 3 sentences"))
    claim 7:   windows of hits 47 and 49 at radius 2 share four sentences (source A)
    verdict:   contradicted
    figure:    they share 3 sentences
    """
    if claim not in CLAIMS:
        raise ValueError(f"claim={claim!r} is unknown: use 1 to {len(CLAIMS)}")
    if finding not in FINDINGS:
        raise ValueError(f"finding={finding!r} is unknown: use one of {', '.join(FINDINGS)}")
    texts = {"figure": figure, "interval": interval, "reason": reason, "part": part}
    if not figure.strip():
        raise ValueError("figure is blank: say what was measured")
    for name, text in texts.items():
        if len(text.splitlines()) > 1:
            raise ValueError(f"{name}={text!r} must be one line")
    return Verdict(claim=claim, finding=finding, **texts)


_LINE = re.compile(r"^(claim (\d+)|part|verdict|figure|interval|reason): +(.*)$")


def read(text: str, *, notebook: str = "") -> list[Verdict]:
    """The verdicts printed in a text.

    >>> said = verdict(7, "contradicted", figure="3", part="overlap")
    >>> read(f"before\\n{said}\\nafter")[0] == said
    True
    """
    found: list[dict[str, Any]] = []
    inside = False
    for line in text.splitlines():
        match = _LINE.match(line)
        if match is None:
            inside = False
        elif match[2]:
            found.append({"claim": int(match[2]), "notebook": notebook, "interval": "", "reason": ""})
            inside = True
        elif inside:
            found[-1]["finding" if match[1] == "verdict" else match[1]] = match[3]
    # A line that only begins like a verdict, as prose may, has no finding under it.
    return [Verdict(**fields) for fields in found if "finding" in fields]


def collect(folder: str | Path = "notebooks") -> list[Verdict]:
    """The verdicts that the stored outputs of a folder's notebooks print, by claim, then by notebook.

    Raises:
        ValueError: the folder holds no notebook.
    """
    paths = sorted(Path(folder).glob("*.ipynb"))
    if not paths:
        raise ValueError(f"folder={str(folder)!r} holds no notebook")
    found = []
    for path in paths:
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            for output in cell.get("outputs", ()):
                found += read("".join(output.get("text", ())), notebook=path.stem)
    return sorted(found, key=lambda said: (said.claim, said.notebook, said.part))


def markdown(verdicts: Iterable[Verdict]) -> str:
    """A Markdown table of all claims: those without a verdict say so."""
    by_claim: dict[int, list[Verdict]] = {}
    for said in verdicts:
        by_claim.setdefault(said.claim, []).append(said)
    lines = ["| # | claim | source | verdict | figure | notebook |", "|---|---|---|---|---|---|"]
    for number, (claim, source) in CLAIMS.items():
        rows = by_claim.get(number)
        if rows is None:
            lines.append(f"| {number} | {claim} | {source} | not measured yet | | |")
        for said in rows or ():
            part = f"{said.part}: " if said.part else ""
            figure = " ".join(text for text in (said.figure, said.interval) if text)
            cells = (str(number), claim, source, part + said.finding, figure, said.notebook[:2])
            lines.append("| " + " | ".join(text.replace("|", "\\|") for text in cells) + " |")
    return "\n".join(lines)
