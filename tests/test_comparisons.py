"""Strategies side by side: the same rows as one by one, and nothing embedded or searched twice."""

import dataclasses

import pytest

from cookbook import chunkers, comparisons, corpora, expanders, pipeline
from cookbook.comparisons import pick_rate, run_all
from cookbook.providers import LLMClient
from cookbook.stores import MemoryBackend
from cookbook.types import Strategy


class CountingClient(LLMClient):
    n_texts = n_reranked = 0

    def embed(self, texts):
        self.n_texts += len(texts)
        return super().embed(texts)

    def rerank(self, question, texts):
        self.n_reranked += 1
        return super().rerank(question, texts)


@pytest.fixture(scope="module")
def asked():
    return [q for q in corpora.load_eval_questions("procedures") if q.part == "dev"][:3]


@pytest.fixture(scope="module")
def docs():
    return corpora.load_corpus("procedures")[:4]


def sections(hits, source):
    return expanders.sections(hits, documents=source.documents)


def strategies(order):
    base = Strategy(
        name="child",
        chunker=chunkers.section_child,
        retrieval="hybrid",
        order=order,
        expander=lambda hits, source: expanders.children(hits, documents=source.documents),
        unit="chunk_id",
        fetch=20,
        top_k=12,
        budget=1500,
    )
    section = dataclasses.replace(base, name="section", expander=sections)
    by_section = dataclasses.replace(section, name="by section", unit="section_id", top_k=6)
    return [base, section, by_section, dataclasses.replace(pipeline.STRATEGIES["window"], order=order)]


@pytest.mark.parametrize("order", pipeline.ORDERS)
def test_the_rows_are_those_of_a_run_of_each(asked, docs, order):
    client = LLMClient("local")
    together = run_all(strategies(order), asked, docs=docs, client=client, budgets=(700, 1500))
    assert len(together) == 4 * 2 * len(asked)
    for strategy in strategies(order):
        store = MemoryBackend("alone")
        pipeline.index(docs, store=store, client=client, chunker=strategy.chunker)
        for budget in (700, 1500):
            one = dataclasses.replace(strategy, budget=budget)
            alone = pipeline.run(one, asked, client=client, store=store)
            rows = together[(together["strategy"] == strategy.name) & (together["budget"] == budget)]
            for name in set(alone.columns) & set(together.columns) - {"trace"}:
                assert rows[name].tolist() == alone[name].tolist(), (strategy.name, budget, name)
            for a, b in zip(rows["trace"], alone["trace"], strict=True):
                stages = ("hits", "ranked", "passages")
                assert [getattr(a, stage) for stage in stages] == [getattr(b, stage) for stage in stages]
                assert a.prompt == b.prompt and a.answer is None


def test_nothing_is_embedded_or_reranked_twice(asked, docs):
    client = CountingClient("local")
    three = strategies("rerank_expand")[:3]
    run_all(three, asked, docs=docs, client=client, budgets=(700, 1500, 3000))
    # The first two count alike; the third asks for other hits of the same index.
    assert client.n_texts == len(chunkers.section_child(docs)) + 2 * len(asked)
    assert client.n_reranked == 2 * len(asked)


def test_without_budgets_each_has_its_own(asked, docs):
    pair = [
        dataclasses.replace(s, budget=b) for s, b in zip(strategies("none")[:2], (900, 1300), strict=True)
    ]
    found = run_all(pair, asked, docs=docs, client=LLMClient("local"))
    assert found.groupby("strategy")["budget"].unique().to_dict() == {"child": [900], "section": [1300]}
    assert (found["n_tokens"] <= found["budget"]).all()


def test_a_sample_picks_the_best():
    sure = {"a": [1] * 10, "b": [0] * 10, "c": [0.5] * 10}
    assert pick_rate(sure, n_questions=1) == 1.0
    assert pick_rate({"a": [1, 0, 0, 1], "b": [1, 0, 0, 1]}, n_questions=3) == 1.0
    # One question in ten tells them apart: a sample of one holds it in a tenth of all cases, else a lot.
    rare = {"a": [1] + [0] * 9, "b": [0] * 10}
    assert pick_rate(rare, n_questions=1, n_samples=20_000) == pytest.approx(0.55, abs=0.01)
    assert pick_rate(rare, n_questions=50) > pick_rate(rare, n_questions=10) > 0.7
    assert pick_rate(rare, n_questions=7, seed=3) == pick_rate(rare, n_questions=7, seed=3)


@pytest.mark.parametrize(
    ("scores", "options", "says"),
    [
        ({}, {}, "give each one for every question"),
        ({"a": []}, {}, "give each one for every question"),
        ({"a": [1], "b": [1, 0]}, {}, r"\[1, 2\] values a strategy"),
        ({"a": [1]}, {"n_questions": 0}, "n_questions=0 must be at least 1"),
        ({"a": [1]}, {"n_samples": 0}, "n_samples=0 must be at least 1"),
    ],
)
def test_a_pick_from_nothing_is_refused(scores, options, says):
    with pytest.raises(ValueError, match=says):
        comparisons.pick_rate(scores, **({"n_questions": 5} | options))
