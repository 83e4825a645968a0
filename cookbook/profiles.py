"""A corpus -> distributions of its lengths in tokens, and whether windows of sentences are bounded there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .sections import sections
from .sentences import sentences
from .tokens import DEFAULT_ENCODING, TokenMap
from .types import Document

#: Share of a corpus's characters that may stand in sentences above the cap before windows are refused.
MAX_UNPUNCTUATED = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """Lengths in tokens of every sentence, section (its own text) and page of a corpus, in order.

    ``n_characters`` counts the corpus; ``n_long`` the characters in sentences above ``cap`` tokens.
    """

    corpus: str
    sentence: tuple[int, ...]
    section: tuple[int, ...]
    page: tuple[int, ...]
    cap: int
    n_long: int
    n_characters: int

    @property
    def unpunctuated(self) -> float:
        """Share of the characters that stand in sentences above the cap."""
        return self.n_long / self.n_characters if self.n_characters else 0.0


def lengths(
    docs: Iterable[Document],
    *,
    corpus: str = "",
    cap: int = 128,
    max_tokens: int | None = None,
    encoding: str = DEFAULT_ENCODING,
) -> Lengths:
    """The lengths of a corpus. With ``max_tokens`` sentences are cut there first, as the chunker does.

    >>> page = Document(doc_id="kiln", title="Kiln", text="# Kiln\\n\\nHeat slowly. Then wait.\\n")
    >>> found = lengths([page])
    >>> found.sentence, found.section, found.page
    ((4, 4, 3), (10,), (10,))
    """
    by_unit: dict[str, list[int]] = {"sentence": [], "section": [], "page": []}
    n_long = n_characters = 0
    for document in docs:
        if not document.text.strip():
            continue
        token_map = TokenMap(document.text, encoding=encoding)
        spans = sentences(document, max_tokens=max_tokens, tokens=token_map)
        counts = [token_map.count(span.start, span.end) for span in spans]
        by_unit["sentence"] += counts
        by_unit["section"] += [
            section.n_tokens for section in sections(document, encoding=encoding, tokens=token_map)
        ]
        by_unit["page"].append(token_map.count(0, len(document.text)))
        n_characters += len(document.text)
        n_long += sum(len(span) for span, n in zip(spans, counts, strict=True) if n > cap)
    return Lengths(
        corpus=corpus,
        sentence=tuple(by_unit["sentence"]),
        section=tuple(by_unit["section"]),
        page=tuple(by_unit["page"]),
        cap=cap,
        n_long=n_long,
        n_characters=n_characters,
    )


def summary(values: Sequence[int]) -> dict[str, float]:
    """Number, mean, percentiles and largest of some lengths.

    Raises:
        ValueError: there are none.

    >>> summary([4, 4, 10])
    {'n': 3, 'mean': 6.0, 'p50': 4.0, 'p95': 9.4, 'p99': 9.88, 'max': 10}
    """
    if not values:
        raise ValueError("values is empty: there is nothing to summarise")
    import numpy as np

    p50, p95, p99 = (round(float(p), 3) for p in np.percentile(values, [50, 95, 99]))
    mean = round(sum(values) / len(values), 3)
    return {"n": len(values), "mean": mean, "p50": p50, "p95": p95, "p99": p99, "max": max(values)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """Whether windows may be used on a corpus, and the two figures that decide."""

    passes: bool
    demand: float
    budget: int
    unpunctuated: float
    reason: str


def gate(
    found: Lengths,
    *,
    radius: int = 2,
    top_k: int = 8,
    budget: int = 4000,
    max_unpunctuated: float = MAX_UNPUNCTUATED,
) -> Gate:
    """The test before windows: refuse a corpus whose sentences are long, or hardly there.

    It fails when the 95th percentile of its sentences times ``(2 * radius + 1) * top_k`` is above the
    passage budget in tokens, or when more than ``max_unpunctuated`` of its characters stand in sentences
    above the cap, which is what text without punctuation looks like.
    """
    if radius < 0 or top_k < 1:
        raise ValueError(f"radius={radius} must be at least 0 and top_k={top_k} at least 1")
    demand = summary(found.sentence)["p95"] * (2 * radius + 1) * top_k
    reasons = []
    if demand > budget:
        reasons.append(f"p95 x {2 * radius + 1} x {top_k} = {demand:,.0f} tokens is above {budget:,}")
    if found.unpunctuated > max_unpunctuated:
        reasons.append(
            f"{found.unpunctuated:.0%} of the text is in sentences above {found.cap} tokens, "
            f"more than {max_unpunctuated:.0%}"
        )
    return Gate(
        passes=not reasons,
        demand=demand,
        budget=budget,
        unpunctuated=found.unpunctuated,
        reason="; ".join(reasons) or "both figures are below their limits",
    )
