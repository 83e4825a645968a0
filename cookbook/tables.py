"""Rows -> an aligned text table, the form that notebooks print and nbval compares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import fill
from typing import Any

from .types import Question


def cell(value: Any) -> str:
    """One value as text: floats to three decimals, missing values as a dash, the rest as it is.

    >>> [cell(x) for x in (0.12345, 7, None, True, "page")]
    ['0.123', '7', '-', 'yes', 'page']
    """
    if value is None or (isinstance(value, float) and value != value):
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        # Adding 0.0 after rounding turns -0.000 into 0.000, so that two machines print the same bytes.
        return f"{round(value, 3) + 0.0:.3f}"
    return str(value)


def table(rows: Sequence[Mapping[str, Any]], *, columns: Sequence[str] | None = None) -> str:
    """Rows as text: a header, a rule, a line each; numbers to the right, words to the left.

    Args:
        rows: mappings with the same keys.
        columns: which keys, in which order; by default those of the first row.

    Raises:
        ValueError: there are neither rows nor columns.

    >>> print(table([{"radius": 1, "tokens": 66.0}, {"radius": 2, "tokens": 108.5}]))
    radius   tokens
    ---------------
         1   66.000
         2  108.500
    """
    if columns is None:
        if not rows:
            raise ValueError("rows is empty: give columns= to print a header alone")
        columns = list(rows[0])
    body = [[cell(row.get(name)) for name in columns] for row in rows]
    widths = [max(len(name), *(len(line[i]) for line in body), 0) for i, name in enumerate(columns)]
    right = [
        all(
            isinstance(row.get(name), (int, float, type(None))) and not isinstance(row.get(name), bool)
            for row in rows
        )
        for name in columns
    ]

    def line(cells: Sequence[str]) -> str:
        parts = [
            text.rjust(w) if r else text.ljust(w) for text, w, r in zip(cells, widths, right, strict=True)
        ]
        return "  ".join(parts).rstrip()

    head = line(list(columns))
    return "\n".join([head, "-" * max(len(head), sum(widths) + 2 * (len(widths) - 1)), *map(line, body)])


def tails(sizes: Mapping[str, Sequence[int]], *, budget: int, name: str = "strategy") -> str:
    """Prompt sizes as text, a line each: p50, p99 with its interval, the largest, the share above a budget.

    Args:
        sizes: name to the tokens of its prompts, as :func:`cookbook.profiles.prompt_sizes` gives them.
        name: head of the first column.

    >>> print(tails({"window": [900] * 400, "page": [4_000] * 392 + [20_000] * 8}, budget=16_000))
    strategy   p50    p99  p99 from  p99 to    max  above
    -----------------------------------------------------
    window     900    900       900     900    900  0.00%
    page      4000  20000      4000   20000  20000  2.00%
    """
    from .profiles import tail

    heads = {"p50": "p50", "p99": "p99", "p99_low": "p99 from", "p99_high": "p99 to", "max": "max"}
    rows: list[dict[str, Any]] = []
    for label, values in sizes.items():
        known = tail(values, budget=budget)
        figures = {head: _rounded(known[key]) for key, head in heads.items()}
        rows.append({name: label, **figures, "above": f"{known['above']:.2%}"})
    return table(rows)


def _rounded(value: float | None) -> int | None:
    return None if value is None else round(value)


def gold_card(question: Question, *, width: int = 100) -> str:
    """A question with its answer and its gold quotes, for reading: number and kind, answer, one quote a line.

    White space inside a quote becomes a single space; lines are wrapped at ``width`` characters.

    >>> from cookbook.types import Quote
    >>> proof = Quote(doc_id="fees", start=0, end=5, quote="Free.")
    >>> asked = Question(question_id="x-1", corpus="x", question="What does it cost?", answer="Nothing.",
    ...     evidence=(proof,), kind="one sentence", part="dev")
    >>> print(gold_card(asked))
    x-1 (one sentence) What does it cost?
    -> Nothing.
       evidence, fees: Free.
    """
    lines = [
        fill(f"{question.question_id} ({question.kind}) {question.question}", width),
        fill(f"-> {question.answer}", width),
    ]
    for name in ("evidence", "qualifiers", "forbidden"):
        for quote in getattr(question, name):
            line = f"{name}, {quote.doc_id}: {' '.join(quote.quote.split())}"
            lines.append(fill(line, width, initial_indent="   ", subsequent_indent="      "))
    return "\n".join(lines)
