"""Strategies and Questions -> one table at equal budgets; scores -> how often a sample picks the best."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from .pipeline import Index, ask, index, row
from .prompts import pack
from .rankers import check_at_least
from .types import Document, Hit, Passage, Question, Strategy, Trace

if TYPE_CHECKING:
    import pandas as pd

    from .providers import LLMClient


def run_all(
    strategies: Iterable[Strategy],
    questions: Iterable[Question],
    *,
    docs: Iterable[Document],
    client: LLMClient,
    budgets: Sequence[int] | None = None,
) -> pd.DataFrame:
    """What :func:`cookbook.pipeline.run` gives for each strategy and budget, without doing anything twice.

    Strategies with the same chunker (the same object) share its index; those that also retrieve, rank and
    count alike share their hits; another budget only packs again. No model answers.

    Args:
        docs: the pages of one corpus, which the questions are about.
        budgets: tokens of a prompt; by default each strategy's own.

    Returns:
        One row for each strategy, budget and question, in that order: ``strategy``, ``corpus``, ``budget``,
        the columns of :func:`cookbook.eval.score`, ``failure``, ``n_passages``, ``n_dropped``, ``demand``
        and ``trace``.

    >>> from cookbook import pipeline, providers
    >>> page = Document(doc_id="kiln", title="Kiln", text="Heat slowly. Then wait two days.", corpus="shop")
    >>> asked = Question(question_id="q", corpus="shop", question="How do I heat it?", answer="Slowly.",
    ...     evidence=(), kind="one sentence", part="dev")
    >>> both = pipeline.STRATEGIES["section"], pipeline.STRATEGIES["page"]
    >>> found = run_all(both, [asked], docs=[page], client=providers.LLMClient("local"), budgets=[500, 900])
    >>> list(zip(found["strategy"], found["budget"], found["n_passages"]))
    [('section', 500, 1), ('section', 900, 1), ('page', 500, 1), ('page', 900, 1)]
    """
    import pandas as pd

    from .stores import MemoryBackend

    documents, asked = list(docs), list(questions)
    stores: dict[int, Index] = {}
    searched: dict[tuple[Any, ...], list[Trace]] = {}
    rows = []
    for strategy in strategies:
        chunker = id(strategy.chunker)
        if chunker not in stores:
            stores[chunker] = MemoryBackend("compared")
            index(documents, store=stores[chunker], client=client, chunker=strategy.chunker)
        asker = partial(ask, store=stores[chunker], client=client, read=False)
        reranked = strategy.order == "rerank_expand"
        alike = (chunker, strategy.retrieval, reranked, strategy.unit, strategy.fetch, strategy.top_k)
        if alike not in searched:
            bare = replace(strategy, expander=_nothing)
            searched[alike] = [asker(question.question, strategy=bare) for question in asked]
        # The hits are ranked already.
        rest = replace(strategy, order="none" if reranked else strategy.order)
        limits = budgets or [strategy.budget]
        at: dict[int, list[dict[str, Any]]] = {budget: [] for budget in limits}
        for question, known in zip(asked, searched[alike], strict=True):
            trace = asker(question.question, strategy=rest, hits=known.ranked)
            for budget in limits:  # at once, while the counts of its passages are kept
                prompt = trace.prompt
                if budget != strategy.budget:
                    prompt = pack(question.question, trace.passages, budget=budget)
                sent = replace(trace, hits=known.hits, prompt=prompt)
                first = {"strategy": strategy.name, "corpus": question.corpus, "budget": budget}
                at[budget].append(first | row(strategy, question, sent) | {"trace": sent})
        rows += [each for budget in limits for each in at[budget]]
    return pd.DataFrame(rows)


def _nothing(hits: Sequence[Hit], source: Any) -> list[Passage]:
    return []


def pick_rate(
    scores: Mapping[str, Sequence[float]], *, n_questions: int, n_samples: int = 2000, seed: int = 0
) -> float:
    """How often a sample of questions, drawn with replacement, has the same best strategy as all of them.

    Where several are best in a sample, one of them is chosen by lot; where several are best on the whole, any
    of them is right. With ``s`` strategies that are all alike it is 1; a lot among them that heeds no
    question is right in 1 of ``s`` cases where one is best.

    Args:
        scores: name of a strategy to its score on each question, the questions in one order.
        n_questions: the size of a sample.

    Raises:
        ValueError: there are no scores, or strategies differ in their number.

    >>> pick_rate({"a": [1, 1, 1, 0], "b": [0, 0, 0, 0]}, n_questions=4) > 0.98
    True
    """
    check_at_least(1, n_questions=n_questions, n_samples=n_samples)
    sizes = {len(values) for values in scores.values()}
    if len(sizes) != 1 or sizes == {0}:
        raise ValueError(f"scores holds {sorted(sizes)} values a strategy: give each one for every question")
    import numpy as np

    values = np.array(list(scores.values()), dtype=float)
    [n] = sizes
    drawn = np.random.default_rng(seed).integers(0, n, size=(n_samples, n_questions))
    best = _best(values.mean(axis=1))
    picked = _best(values[:, drawn].mean(axis=2))
    return float(((picked & best[:, None]).sum(axis=0) / picked.sum(axis=0)).mean())


def _best(means: Any) -> Any:
    """Which rows hold the largest value of their column, up to rounding."""
    return means >= means.max(axis=0) - 1e-9
