"""A corpus -> lengths in tokens, sizes of units and prompts with their bounds and causes, and advice."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import exp, lgamma, log
from typing import TYPE_CHECKING, Any

from .passages import page_of
from .prompts import SYSTEM, pack
from .sentences import sentences
from .tokens import DEFAULT_ENCODING, count
from .types import Chunk, Document, Hit, Strategy

if TYPE_CHECKING:
    from .pipeline import Index
    from .providers import LLMClient

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
        page = page_of(document, encoding)
        spans = sentences(document, max_tokens=max_tokens, encoding=encoding)
        counts = [page.tokens.count(span.start, span.end) for span in spans]
        by_unit["sentence"] += counts
        by_unit["section"] += [section.n_tokens for section in page.sections]
        by_unit["page"].append(page.tokens.count(0, len(document.text)))
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


def prompt_sizes(
    strategy: Strategy,
    queries: Iterable[str],
    *,
    store: Index,
    client: LLMClient,
    hits: Iterable[Sequence[Hit]] | None = None,
) -> list[int]:
    """Tokens of the prompt that each query asks for, before the budget: nothing dropped, nothing cut.

    The queries need no labels. A cap inside the strategy's expander still holds: leave it off to see what it
    hides. The store holds the strategy's chunks. With ``hits``, those of each query, nothing is searched:
    strategies that differ after the search share them.
    """
    from .pipeline import ask

    options: dict[str, Any] = {"store": store, "client": client, "strategy": strategy, "read": False}
    if hits is None:
        return [ask(query, **options).prompt.demand for query in queries]
    return [ask(query, hits=of, **options).prompt.demand for query, of in zip(queries, hits, strict=True)]


def quantile_interval(
    values: Sequence[float], *, quantile: float = 0.99, level: float = 0.95
) -> tuple[float, float | None]:
    """An interval for a quantile of what the values were drawn from, whatever its shape.

    It lies between two of the sorted values, since how many of ``n`` values fall below the quantile is a
    binomial number (Conover, Practical Nonparametric Statistics). The upper end is None where the values
    are too few to hold it: below 368 for the 99th percentile.

    Raises:
        ValueError: there are no values, or quantile or level do not lie between 0 and 1.

    >>> quantile_interval(range(1000))
    (982, 996)
    >>> quantile_interval(range(100))
    (96, None)
    """
    if not values:
        raise ValueError("values is empty: there is nothing to summarise")
    for name, share in (("quantile", quantile), ("level", level)):
        if not 0 < share < 1:
            raise ValueError(f"{name}={share} must lie between 0 and 1")
    ordered = sorted(values)
    n = len(ordered)
    below, lower, upper = 0.0, 0, None
    for rank in range(n + 1):  # the chance that exactly ``rank`` values lie below the quantile
        chance = lgamma(n + 1) - lgamma(rank + 1) - lgamma(n - rank + 1)
        below += exp(chance + rank * log(quantile) + (n - rank) * log(1 - quantile))
        if below <= (1 - level) / 2:
            lower = rank
        if below >= 1 - (1 - level) / 2:
            upper = rank
            break
    return ordered[lower], ordered[upper] if upper is not None and upper < n else None


def tail(sizes: Sequence[int], *, budget: int) -> dict[str, float | None]:
    """:func:`summary` of prompt sizes with an interval on the 99th percentile and the share above a budget.

    >>> tail([900] * 990 + [20_000] * 10, budget=16_000)["above"]
    0.01
    """
    low, high = quantile_interval(sizes)
    above = sum(size > budget for size in sizes) / len(sizes)
    return {**summary(sizes), "p99_low": low, "p99_high": high, "above": round(above, 6)}


#: Tokens that a sentence may take more inside a window than alone. The space that ends one sentence becomes
#: part of the next one's first word, and that word may then be cut otherwise: "ollow" is one token, " ollow"
#: three. No word of cl100k_base's vocabulary takes more than four beyond itself and the space.
SEAM_TOKENS = 4


def window_bound(
    question: str,
    *,
    doc_ids: Iterable[str],
    before: int,
    after: int,
    top_k: int,
    max_sentence_tokens: int,
    system: str = SYSTEM,
    encoding: str = DEFAULT_ENCODING,
) -> int:
    """The largest prompt that ``top_k`` windows around sentence chunks can make, overhead included.

    ``top_k * (before + 1 + after)`` sentences of at most ``max_sentence_tokens``, and :data:`SEAM_TOKENS`
    for each; the label and the two line ends of each passage; system text, question and the chat format.
    Merging windows only takes text away.
    """
    base = pack(question, [], budget=10**9, system=system, encoding=encoding).n_tokens
    label = max((count(f"[{top_k}] {doc_id}\n", encoding=encoding) for doc_id in doc_ids), default=0)
    n_sentences = before + 1 + after
    return base + top_k * (label + 2 + n_sentences * (max_sentence_tokens + SEAM_TOKENS))


def window_units(
    chunks: Iterable[Chunk],
    *,
    documents: Mapping[str, Document],
    before: int,
    after: int,
    encoding: str = DEFAULT_ENCODING,
) -> list[int]:
    """Tokens of the window around each sentence, alone: as the reader would get it, had it one hit.

    Args:
        chunks: those of ``sentence_window``, a document's together and in order.

    >>> from cookbook.chunkers import sentence_window
    >>> page = Document(doc_id="kiln", title="Kiln", text="# Kiln\\n\\nHeat slowly. Then wait.\\n")
    >>> window_units(sentence_window([page]), documents={"kiln": page}, before=1, after=0)
    [4, 8, 6]
    """
    units = []
    for doc_id, group in groupby(chunks, key=lambda chunk: chunk.doc_id):
        spans = [chunk.span for chunk in group]
        tokens = page_of(documents[doc_id], encoding).tokens
        for i in range(len(spans)):
            first, last = spans[max(i - before, 0)], spans[min(i + after, len(spans) - 1)]
            units.append(tokens.count(first.start, last.end))
    return units


def unit_gap(
    sentences: Sequence[Sequence[int]], units: Sequence[int], *, before: int, after: int
) -> dict[str, float]:
    """From a number of median sentences to the median window: what each cause adds or takes, in tokens.

    Args:
        sentences: for each page the tokens of its sentences, in order.
        units: tokens of every window, as :func:`window_units` gives them.

    Returns:
        ``n x median``, then what is added to it: ``skew of sentences`` (the mean is above the median),
        ``clamping`` (windows end where the page does), ``joining`` (a space behind a sentence becomes part
        of the next word); their sum is ``mean unit``; then ``skew of units`` leads to ``median unit``.

    >>> unit_gap([[10, 10, 40]], [20, 57, 50], before=1, after=1)  # doctest: +NORMALIZE_WHITESPACE
    {'n x median': 30.0, 'skew of sentences': 30.0, 'clamping': -16.667, 'joining': -1.0,
     'mean unit': 42.333, 'skew of units': 7.667, 'median unit': 50.0}
    """
    sums = [
        sum(of_page[max(i - before, 0) : i + after + 1]) for of_page in sentences for i in range(len(of_page))
    ]
    if not sums or len(sums) != len(units):
        raise ValueError(f"{len(sums)} sentences and {len(units)} units: each sentence needs its window")
    n = before + 1 + after
    every = summary([length for of_page in sentences for length in of_page])
    windows, mean_sum = summary(units), sum(sums) / len(sums)
    parts = {
        "n x median": n * every["p50"],
        "skew of sentences": n * (every["mean"] - every["p50"]),
        "clamping": mean_sum - n * every["mean"],
        "joining": windows["mean"] - mean_sum,
        "mean unit": windows["mean"],
        "skew of units": windows["p50"] - windows["mean"],
        "median unit": windows["p50"],
    }
    return {name: round(value, 3) for name, value in parts.items()}


def gap(
    units: Sequence[int], retrieved: Sequence[Sequence[int]], prompts: Sequence[int], *, overhead: float
) -> dict[str, float]:
    """From ``k`` times the median unit to the median prompt: what each cause adds or takes, in tokens.

    Args:
        units: tokens of every unit of the corpus (window, parent, section, page).
        retrieved: for each question the tokens of its hits' units, a unit as often as it was hit, before
            dedup and merging.
        prompts: for each question the tokens of its prompt, before the budget.
        overhead: tokens of a prompt without passages, and of the passages' labels, on average.

    Returns:
        ``k x median``, then what is added to it: ``skew of units`` (the mean is above the median),
        ``selection`` (units that are hit are larger, or smaller), ``sharing`` (dedup and merging),
        ``overhead``; their sum is ``mean prompt``; then ``skew of prompts`` leads to ``median prompt``.

    >>> parts = gap([10, 10, 40], [[40, 10], [40, 40]], [45, 85], overhead=5)
    >>> [parts[name] for name in ("k x median", "skew of units", "selection", "sharing", "overhead")]
    [20.0, 20.0, 25.0, -5.0, 5.0]
    >>> parts["mean prompt"], parts["skew of prompts"], parts["median prompt"]
    (65.0, 0.0, 65.0)
    """
    hit = [size for sizes in retrieved for size in sizes]
    if not units or not hit or len(retrieved) != len(prompts):
        raise ValueError(
            f"{len(units)} units, {len(hit)} hits of {len(retrieved)} questions and {len(prompts)} prompts: "
            "units and hits must not be empty, and each question needs its prompt"
        )
    every, chosen, sent = summary(units), summary(hit), summary(prompts)
    k = len(hit) / len(retrieved)
    parts = {
        "k x median": k * every["p50"],
        "skew of units": k * (every["mean"] - every["p50"]),
        "selection": k * (chosen["mean"] - every["mean"]),
        "sharing": sent["mean"] - overhead - k * chosen["mean"],
        "overhead": float(overhead),
        "mean prompt": sent["mean"],
        "skew of prompts": sent["p50"] - sent["mean"],
        "median prompt": sent["p50"],
    }
    return {name: round(value, 3) for name, value in parts.items()}


#: A page or a section is small below this many tokens: the cap of a section's passage.
SMALL_TOKENS = 800
#: Sections are the unit when at most this share of the corpus stands in sections that are not small ...
MAX_LARGE_SHARE = 0.25
#: ... and there are none to speak of from this share on. Between the two, measure.
MIN_LARGE_SHARE = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """Which expansion to begin with, why, and the figures that say so.

    ``expansion`` is ``whole corpus``, ``page``, ``section``, ``window``, ``parent`` or ``measure first``.
    """

    expansion: str
    reason: str
    figures: dict[str, float]


def advise(found: Lengths, *, budget: int = 4000, top_k: int = 8, rarely_changes: bool = False) -> Advice:
    """Where to begin, from lengths alone: a default to measure against, never in place of measuring.

    The thresholds were set on the development questions of this project's corpora, before the test
    questions were scored. The first rule that holds decides: a corpus that fits the budget and rarely
    changes can be sent whole, so that a provider's cache of the prompt pays for most of it; small pages are
    sent whole; small sections are the author's own units; text without sections takes windows, where the
    gate lets them pass, and parents of a set size where it does not.

    Args:
        found: the corpus, from :func:`lengths`.
        budget: tokens of a prompt.
        rarely_changes: the corpus stays as it is for many questions.

    >>> page = Document(doc_id="kiln", title="Kiln", text="# Kiln\\n\\nHeat slowly. Then wait.\\n")
    >>> advise(lengths([page]), rarely_changes=True).expansion, advise(lengths([page])).expansion
    ('whole corpus', 'page')
    """
    if not found.page:
        raise ValueError("found holds no page: there is nothing to advise on")
    total = sum(found.page)
    figures = {
        "corpus tokens": total,
        "page p95": summary(found.page)["p95"],
        "large share": sum(n for n in found.section if n > SMALL_TOKENS) / max(1, sum(found.section)),
    }
    ruling = gate(found, top_k=top_k, budget=budget)
    large = figures["large share"]
    if rarely_changes and total <= budget:
        expansion = "whole corpus"
        reason = f"all of it is {total:,} tokens a question, within {budget:,}"
    elif figures["page p95"] < SMALL_TOKENS:
        expansion, reason = "page", f"95 of 100 pages are below {SMALL_TOKENS} tokens"
    elif large <= MAX_LARGE_SHARE:
        expansion, reason = "section", f"{large:.0%} of the text is in sections above {SMALL_TOKENS} tokens"
    elif large < MIN_LARGE_SHARE:
        expansion = "measure first"
        reason = f"{large:.0%} of the text is in sections above {SMALL_TOKENS} tokens: neither few nor most"
    elif ruling.passes:
        expansion, reason = "window", f"{large:.0%} of the text is in large sections; windows are bounded"
    else:
        expansion, reason = "parent", f"{large:.0%} of the text is in large sections; {ruling.reason}"
    return Advice(
        expansion=expansion,
        reason=reason,
        figures={name: round(value, 3) for name, value in figures.items()},
    )
