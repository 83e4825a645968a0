"""Questions + Traces -> metrics on character spans, each with an interval and a control that must score low.

A metric looks at the passages that reached the prompt. Characters count once however often they are
sent, text added by a rule (heading paths, table headers) is never evidence, and no question is skipped:
one without an answer is scored on whether it was refused.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

from .judges import Judgement, judge
from .prompts import REFUSAL, REFUSED
from .rankers import check_at_least
from .types import EvalSample, Hit, Question, Quote, Span, Trace

__all__ = [
    "Comparison",
    "EvalSample",
    "Interval",
    "Judgement",
    "compare",
    "expansion_use",
    "failure",
    "interval",
    "judge",
    "recall_at",
    "reciprocal_rank",
    "sample_of",
    "score",
    "scored",
    "shuffled_control",
    "span_iou",
    "span_precision",
    "span_recall",
    "topic_hit",
]


def _merged(spans: Iterable[Span | Quote]) -> dict[str, list[tuple[int, int]]]:
    """Sorted ranges without overlap, per document."""
    ranges: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for span in sorted(spans, key=lambda s: (s.doc_id, s.start, s.end)):
        known = ranges[span.doc_id]
        if known and span.start <= known[-1][1]:
            known[-1] = (known[-1][0], max(known[-1][1], span.end))
        else:
            known.append((span.start, span.end))
    return ranges


Ranges = Mapping[str, Sequence[tuple[int, int]]]


def _size(ranges: Ranges) -> int:
    return sum(end - start for known in ranges.values() for start, end in known)


def _shared(a: Ranges, b: Ranges) -> int:
    return sum(
        max(0, min(end, other_end) - max(start, other_start))
        for doc_id, known in a.items()
        for start, end in known
        for other_start, other_end in b.get(doc_id, ())
    )


def span_recall(gold: Iterable[Span | Quote], found: Iterable[Span | Quote]) -> float | None:
    """Share of the gold characters that were found; None when there is no gold, or only empty spans.

    >>> a = Span(doc_id="a", start=0, end=10)
    >>> span_recall([a], [Span(doc_id="a", start=5, end=30), Span(doc_id="a", start=6, end=9)])
    0.5
    """
    return _recall(_merged(gold), _merged(found))


def _recall(wanted: Ranges, sent: Ranges) -> float | None:
    size = _size(wanted)
    return _shared(wanted, sent) / size if size else None


def span_precision(gold: Iterable[Span | Quote], found: Iterable[Span | Quote]) -> float:
    """Share of the found characters that are gold; 0 when nothing was found.

    >>> span_precision([Span(doc_id="a", start=0, end=10)], [Span(doc_id="a", start=5, end=25)])
    0.25
    """
    return _precision(_merged(gold), _merged(found))


def _precision(wanted: Ranges, sent: Ranges) -> float:
    size = _size(sent)
    return _shared(wanted, sent) / size if size else 0.0


def span_iou(gold: Iterable[Span | Quote], found: Iterable[Span | Quote]) -> float:
    """Characters in both over characters in either; 0 when both are empty.

    >>> span_iou([Span(doc_id="a", start=0, end=10)], [Span(doc_id="a", start=5, end=15)])
    0.3333333333333333
    """
    return _iou(_merged(gold), _merged(found))


def _iou(wanted: Ranges, sent: Ranges) -> float:
    both = _shared(wanted, sent)
    either = _size(wanted) + _size(sent) - both
    return both / either if either else 0.0


def recall_at(gold: Iterable[Span | Quote], hits: Sequence[Hit], *, k: int) -> float | None:
    """Share of the gold characters inside the first ``k`` hits; None when there is no gold.

    Raises:
        ValueError: ``k`` is below 1.
    """
    if k < 1:
        raise ValueError(f"k={k} must be at least 1")
    return span_recall(gold, [hit.span for hit in hits[:k]])


def reciprocal_rank(gold: Iterable[Span | Quote], hits: Sequence[Hit]) -> float | None:
    """1 over the place of the first hit that holds a gold character; 0 when none does, None without gold."""
    return _reciprocal_rank(_merged(gold), hits)


def _reciprocal_rank(wanted: Ranges, hits: Sequence[Hit]) -> float | None:
    if not wanted:
        return None
    for place, hit in enumerate(hits, start=1):
        # Most hits lie on other pages.
        if (ranges := wanted.get(hit.doc_id)) and _shared({hit.doc_id: ranges}, _merged([hit.span])):
            return 1 / place
    return 0.0


def topic_hit(question: Question, trace: Trace) -> bool | None:
    """Whether any passage of a page with evidence reached the prompt; None when there is no evidence.

    It says nothing about the evidence itself: what other metrics are held against.
    """
    pages = {quote.doc_id for quote in question.evidence}
    return any(passage.doc_id in pages for passage in trace.prompt.passages) if pages else None


def score(question: Question, trace: Trace) -> dict[str, Any]:
    """One row of metrics for one question.

    ``recall``, ``rr`` and ``complete`` are None where there is nothing to find. ``complete`` asks that
    every evidence and every qualifier span lie wholly in the prompt; ``forbidden`` that any forbidden
    character does. ``cited`` tells whether the answer quotes evidence, ``refused`` whether it declines.
    """
    sent = _merged(span for passage in trace.prompt.passages for span in passage.spans)
    evidence, claim = _merged(question.evidence), _merged([*question.evidence, *question.qualifiers])
    full = _recall(claim, sent)
    answer = trace.answer
    cited = None
    if answer is not None and question.evidence:
        cited = _shared(evidence, _merged(answer.citations)) > 0
    return {
        "question_id": question.question_id,
        "kind": question.kind,
        "part": question.part,
        "recall": _recall(evidence, sent),
        "precision": _precision(claim, sent),
        "iou": _iou(claim, sent),
        "rr": _reciprocal_rank(evidence, trace.ranked),
        "complete": None if full is None else full == 1.0,
        "forbidden": _shared(_merged(question.forbidden), sent) > 0,
        "n_tokens": trace.prompt.n_tokens,
        "cited": cited,
        "refused": None if answer is None else REFUSED in answer.text.lower(),
    }


#: A complete claim among text of which less than this share is the claim counts as diluted.
MIN_PRECISION = 0.05


def failure(question: Question, trace: Trace, *, min_precision: float = MIN_PRECISION) -> str | None:
    """Why a question fails on what was sent, or None: the first that holds.

    ``missing document``: no passage of a page that the claim needs; ``missing context``: its pages are
    there, but not all of evidence and qualifiers; ``contradicted``: the claim is complete and stands
    beside a forbidden span; ``diluted``: complete, but less than ``min_precision`` of the text is the claim.
    A question without an answer fails as ``contradicted`` when it is answered.
    """
    return _failure(question, trace, score(question, trace), min_precision)


def scored(question: Question, trace: Trace) -> dict[str, Any]:
    """The row of :func:`score` with ``failure``, as :func:`failure` tells it."""
    row = score(question, trace)
    return {**row, "failure": _failure(question, trace, row, MIN_PRECISION)}


def _failure(question: Question, trace: Trace, row: Mapping[str, Any], min_precision: float) -> str | None:
    if row["complete"] is None:
        return "contradicted" if row["refused"] is False else None
    sent = {span.doc_id for passage in trace.prompt.passages for span in passage.spans}
    if not {quote.doc_id for quote in (*question.evidence, *question.qualifiers)} <= sent:
        return "missing document"
    if not row["complete"]:
        return "missing context"
    if row["forbidden"]:
        return "contradicted"
    return "diluted" if row["precision"] < min_precision else None


def expansion_use(question: Question, trace: Trace) -> dict[str, int]:
    """Where the tokens went that expansion added to the hits, over the passages that reached the prompt.

    Returns:
        ``gained``: in passages that hold gold which their hits did not; ``held``: in passages whose hits
        held all of the passage's gold already; ``off``: in passages without gold. Their sum is what
        expansion added.
    """
    from .passages import count
    from .tokens import DEFAULT_ENCODING

    claim = _merged([*question.evidence, *question.qualifiers])
    used = {"gained": 0, "held": 0, "off": 0}
    for passage in trace.prompt.passages:
        texts = {hit.chunk_id: hit.text for hit in passage.hits}.values()
        n_hits = sum(count(text, DEFAULT_ENCODING) for text in texts)
        kind = "off"
        if passage.doc_id in claim and (in_passage := _shared(claim, _merged(passage.spans))):
            in_hits = _shared(claim, _merged(hit.span for hit in passage.hits))
            kind = "gained" if in_passage > in_hits else "held"
        used[kind] += max(0, passage.n_tokens - n_hits)
    return used


def sample_of(question: Question, trace: Trace) -> EvalSample:
    """The answered question as answer-level evaluators take it; without evidence the reference refuses.

    Raises:
        ValueError: the trace holds no answer.
    """
    if trace.answer is None:
        raise ValueError(f"the trace of {question.question_id!r} holds no answer: ask with read=True")
    return EvalSample(
        question=question.question,
        answer=trace.answer.text,
        contexts=tuple(trace.contexts),
        reference=question.answer if question.evidence else REFUSAL,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A mean over ``n`` questions with the bounds of its bootstrap interval."""

    mean: float
    low: float
    high: float
    n: int

    def __str__(self) -> str:
        return f"{self.mean:.2f} [{self.low:.2f}, {self.high:.2f}]"


def _known(value: float | None) -> TypeGuard[float]:
    return value is not None and value == value


def _resampled(values: Sequence[float], *, seed: int, n_samples: int) -> Any:
    import numpy as np

    data = np.asarray(values, dtype=float)
    draws = np.random.default_rng(seed).integers(0, len(data), size=(n_samples, len(data)))
    return data[draws].mean(axis=1)


def interval(values: Iterable[float | None], *, seed: int = 0, n_samples: int = 2000) -> Interval:
    """Mean of the values that are not None or NaN (as pandas writes it), with its 95 % bootstrap interval.

    Raises:
        ValueError: no value is left.

    >>> print(interval([True, True, False, True]))
    0.75 [0.25, 1.00]
    """
    check_at_least(1, n_samples=n_samples)
    known = [float(value) for value in values if _known(value)]
    if not known:
        raise ValueError("values holds no number: there is nothing to average")
    import numpy as np

    low, high = np.percentile(_resampled(known, seed=seed, n_samples=n_samples), [2.5, 97.5])
    return Interval(mean=sum(known) / len(known), low=float(low), high=float(high), n=len(known))


#: Pairs that must differ for a verdict: a sign test at 5 % cannot decide on fewer (2 * 0.5 ** 6 = 0.03).
MIN_DIFFER = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The mean paired difference ``b - a`` with its interval, the pairs that differ, and the verdict."""

    difference: Interval
    n_differ: int
    verdict: str

    def __str__(self) -> str:
        d = self.difference
        few = f" ({self.n_differ} differ)" if self.n_differ < MIN_DIFFER and not d.low <= 0 <= d.high else ""
        return f"{d.mean:+.2f} [{d.low:+.2f}, {d.high:+.2f}] {self.verdict}{few}"

    @property
    def starred(self) -> str:
        """The difference for a narrow column: a star where it is higher or lower.

        >>> compare([0, 0, 0, 1, 0, 0, 0], [1, 1, 1, 1, 1, 1, 1]).starred
        '+0.86 [+0.57, +1.00] *'
        """
        d = self.difference
        star = "" if self.verdict == "not distinguishable" else " *"
        return f"{d.mean:+.2f} [{d.low:+.2f}, {d.high:+.2f}]{star}"


def compare(
    a: Sequence[float | None], b: Sequence[float | None], *, seed: int = 0, n_samples: int = 2000
) -> Comparison:
    """Whether ``b`` is higher than ``a`` over the same questions: a paired bootstrap.

    With fewer than six pairs that differ nothing is distinguishable, whatever the interval says: five coins
    fall alike in one of sixteen throws.

    Raises:
        ValueError: the lists differ in length, or no pair is left.

    >>> print(compare([0, 0, 0, 1, 0, 0, 0], [1, 1, 1, 1, 1, 1, 1]))
    +0.86 [+0.57, +1.00] higher
    >>> print(compare([0, 0, 0, 1, 0, 0], [1, 1, 1, 1, 1, 1]))
    +0.83 [+0.50, +1.00] not distinguishable (5 differ)
    >>> print(compare([0, 1, 0, 1], [1, 0, 0, 1]))
    +0.00 [-0.75, +0.75] not distinguishable
    """
    if len(a) != len(b):
        raise ValueError(f"a has {len(a)} values and b {len(b)}: pair them by question")
    pairs = [float(y) - float(x) for x, y in zip(a, b, strict=True) if _known(x) and _known(y)]
    difference = interval(pairs, seed=seed, n_samples=n_samples)
    n_differ = sum(1 for pair in pairs if pair)
    verdict = "not distinguishable"
    if difference.low > 0 and n_differ >= MIN_DIFFER:
        verdict = "higher"
    elif difference.high < 0 and n_differ >= MIN_DIFFER:
        verdict = "lower"
    return Comparison(difference=difference, n_differ=n_differ, verdict=verdict)


def shuffled_control(
    questions: Sequence[Question],
    traces: Sequence[Trace],
    metric: Callable[[Question, Trace], float | None],
    *,
    n_shuffles: int = 200,
    seed: int = 0,
) -> Interval:
    """The metric when every question is given the trace of another one: what a metric scores by chance.

    Returns:
        Mean over the shuffles with their 2.5 and 97.5 % points; ``n`` is the number of shuffles. A metric
        that can fail has its upper point below the lower end of what is measured.

    Raises:
        ValueError: fewer than two questions, another number of traces, or a metric without a value for
            any of them.
    """
    check_at_least(1, n_shuffles=n_shuffles)
    if len(questions) != len(traces) or len(questions) < 2:
        raise ValueError(
            f"{len(questions)} questions and {len(traces)} traces: "
            "a shuffle needs as many of both, at least two"
        )
    import numpy as np

    rng = np.random.default_rng(seed)
    known: dict[tuple[int, int], float | None] = {}
    means = []
    for _ in range(n_shuffles):
        # A random cyclic order gives every question another question's trace, and each trace once.
        order = rng.permutation(len(questions))
        values = []
        for i, j in zip(order, np.roll(order, 1), strict=True):
            if (i, j) not in known:
                known[i, j] = metric(questions[i], traces[j])
            value = known[i, j]
            if _known(value):
                values.append(float(value))
        if not values:
            raise ValueError("metric gave no number for any question: there is nothing to average")
        means.append(sum(values) / len(values))
    low, high = np.percentile(means, [2.5, 97.5])
    return Interval(mean=float(np.mean(means)), low=float(low), high=float(high), n=n_shuffles)
