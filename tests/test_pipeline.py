"""From documents to an answer: what flows between the stages, and what stops at the door."""

import dataclasses

import numpy as np
import pytest

from cookbook import pipeline
from cookbook.eval import score
from cookbook.providers import LLMClient
from cookbook.stores import MemoryBackend
from cookbook.types import Document, Question, Quote

PAGES = {
    "kiln": (
        "# Kiln\n\nThe Heron kiln reaches 1,280 degrees. It holds that for eight hours.\n\n"
        "## Cooling\n\nKeep the door shut above 200 degrees. A thermal shock cracks the shelves.\n\n"
        "## Warranty\n\nElements are covered for 1,500 firing hours. Shelves are not covered.\n"
    ),
    "loans": (
        "# Loan kilns\n\nThe first 21 days cost nothing. After that a Heron is 18 euros a day.\n\n"
        "## Before it moves\n\nA contamination sheet must be filled in. "
        "Without it the kiln stays on the lorry.\n"
    ),
    "visitors": "Visitors park behind the hall. The gate closes at six in the evening.\n",
}
DOCS = [Document(doc_id=name, title=name, text=text, corpus="shop") for name, text in PAGES.items()]


@pytest.fixture(scope="module")
def client():
    return LLMClient("local")


@pytest.fixture
def store():
    with MemoryBackend("shop") as opened:
        yield opened


@pytest.mark.parametrize("strategy", pipeline.STRATEGIES.values(), ids=lambda s: s.name)
@pytest.mark.parametrize("order", pipeline.ORDERS)
def test_every_strategy_and_order_answers_from_exact_slices(client, store, strategy, order):
    strategy = dataclasses.replace(strategy, order=order)
    pipeline.index(DOCS, store=store, client=client, chunker=strategy.chunker)
    trace = pipeline.ask(
        "How long are heating elements guaranteed?", store=store, client=client, strategy=strategy
    )
    assert "1,500 firing hours" in "".join(trace.contexts)
    for passage in trace.prompt.passages:
        for span in passage.spans:
            assert PAGES[span.doc_id][span.start : span.end].strip() in passage.text
    assert trace.prompt.n_tokens <= trace.prompt.budget == strategy.budget
    for citation in trace.answer.citations:
        assert PAGES[citation.doc_id][citation.start : citation.end] == citation.quote
    assert set(trace.seconds) == {"search", "rank", "expand", "pack", "read"}


def test_a_filter_holds_through_expansion(client, store):
    strategy = pipeline.STRATEGIES["section"]
    pipeline.index(DOCS, store=store, client=client, chunker=strategy.chunker)
    trace = pipeline.ask(
        "How many days are free?", store=store, client=client, strategy=strategy, where={"doc_id": "kiln"}
    )
    assert {passage.doc_id for passage in trace.passages} == {"kiln"}


def test_a_section_whose_name_the_question_spells_comes_before_those_that_share_its_words(client, store):
    strategy = dataclasses.replace(pipeline.STRATEGIES["section"], top_k=1)
    pages = [
        Document(doc_id=name, title=name, text=f"# {name}\n\n{text}\n", corpus="calls")
        for name, text in (
            ("fire_slowly", "The door stays shut."),
            ("heat", "Firing slowly takes the kiln a night. To fire slowly costs less."),
            ("cool", "A kiln that was fired slowly cools slowly."),
        )
    ]
    pipeline.index(pages, store=store, client=client, chunker=strategy.chunker)
    for question, first in (
        ("How long does kiln.fire_slowly() take?", "fire_slowly"),
        ("How long does firing the kiln slowly take?", "heat"),
    ):
        trace = pipeline.ask(question, store=store, client=client, strategy=strategy, read=False)
        assert [passage.doc_id for passage in trace.prompt.passages] == [first]


def test_two_runs_give_the_same_trace(client, store):
    strategy = pipeline.STRATEGIES["parent"]
    pipeline.index(DOCS, store=store, client=client, chunker=strategy.chunker)
    first, second = (
        pipeline.ask("Where may guests leave a car?", store=store, client=client, strategy=strategy)
        for _ in range(2)
    )
    assert dataclasses.replace(first, seconds={}) == dataclasses.replace(second, seconds={})


def test_without_reading_the_model_is_not_asked(client, store):
    strategy = pipeline.STRATEGIES["window"]
    pipeline.index(DOCS, store=store, client=client, chunker=strategy.chunker)
    trace = pipeline.ask(
        "When does the gate close?", store=store, client=client, strategy=strategy, read=False
    )
    assert trace.answer is None and "read" not in trace.seconds


def test_an_empty_store_gives_no_passage_and_a_refusal(client, store):
    trace = pipeline.ask("Anything?", store=store, client=client, strategy=pipeline.STRATEGIES["section"])
    assert trace.hits == trace.passages == trace.prompt.passages == ()
    question = Question(
        question_id="q",
        corpus="shop",
        question="Anything?",
        answer="",
        evidence=(),
        kind="unanswerable",
        part="dev",
    )
    assert score(question, trace)["refused"] is True


def test_blank_documents_index_as_nothing(client, store):
    blank = [Document(doc_id="a", title="", text=""), Document(doc_id="b", title="", text=" \n\n")]
    for strategy in pipeline.STRATEGIES.values():
        assert pipeline.index(blank, store=store, client=client, chunker=strategy.chunker) == 0
    assert store.count() == 0


def test_a_failing_model_leaves_the_former_version(client, store):
    strategy = pipeline.STRATEGIES["parent"]
    pipeline.index(DOCS, store=store, client=client, chunker=strategy.chunker)
    before = {chunk.chunk_id: chunk.text for chunk in store}

    class Broken:
        def embed(self, texts):
            raise ConnectionError("the model is down")

    with pytest.raises(ConnectionError):
        pipeline.index(
            [dataclasses.replace(DOCS[0], text="# Kiln\n\nNew text.\n")],
            store=store,
            client=Broken(),
            chunker=strategy.chunker,
        )
    assert {chunk.chunk_id: chunk.text for chunk in store} == before


def test_indexing_again_replaces_a_document(client, store):
    strategy = pipeline.STRATEGIES["window"]
    pipeline.index(DOCS, store=store, client=client, chunker=strategy.chunker)
    shorter = dataclasses.replace(DOCS[0], text="Only one sentence is left.\n")
    pipeline.index([shorter], store=store, client=client, chunker=strategy.chunker)
    assert [chunk.text for chunk in store if chunk.doc_id == "kiln"] == ["Only one sentence is left.\n"]
    assert store.documents["kiln"].text == shorter.text


def test_the_unit_counts_distinct_parents(client, store):
    strategy = dataclasses.replace(pipeline.STRATEGIES["section"], fetch=1, top_k=4)
    pipeline.index(DOCS, store=store, client=client, chunker=strategy.chunker)
    trace = pipeline.ask("Tell me about kilns", store=store, client=client, strategy=strategy, read=False)
    assert len({hit.metadata["section_id"] for hit in trace.ranked}) == 4


def test_a_blank_question_and_an_unknown_order_are_refused(client, store):
    strategy = pipeline.STRATEGIES["section"]
    with pytest.raises(ValueError, match="blank"):
        pipeline.ask(" \n", store=store, client=client, strategy=strategy)
    with pytest.raises(ValueError, match="rerank_expand"):
        pipeline.ask(
            "x", store=store, client=client, strategy=dataclasses.replace(strategy, order="backwards")
        )


def test_evidence_of_a_question_is_scored_from_the_trace(client, store):
    strategy = pipeline.STRATEGIES["section"]
    pipeline.index(DOCS, store=store, client=client, chunker=strategy.chunker)
    quote = "Elements are covered for 1,500 firing hours."
    start = PAGES["kiln"].index(quote)
    question = Question(
        question_id="q",
        corpus="shop",
        question="For how many firing hours are elements covered?",
        answer="1,500 firing hours",
        evidence=(Quote(doc_id="kiln", start=start, end=start + len(quote), quote=quote),),
        kind="one sentence",
        part="dev",
    )
    row = score(question, pipeline.ask(question.question, store=store, client=client, strategy=strategy))
    assert row["complete"] is True and row["rr"] > 0 and row["cited"] is True


def test_vectors_reach_the_store_row_by_row(client, store):
    pipeline.index(DOCS, store=store, client=client, chunker=pipeline.STRATEGIES["window"].chunker)
    for chunk in store:
        (hit,) = store.search(np.asarray(client.embed([chunk.text])[0]), top_k=1)
        assert hit.chunk_id == chunk.chunk_id


def gold(question_id, doc_id, question, *quotes):
    spans = []
    for quote in quotes:
        start = PAGES[doc_id].index(quote)
        spans.append(Quote(doc_id=doc_id, start=start, end=start + len(quote), quote=quote))
    return Question(
        question_id=question_id,
        corpus="shop",
        question=question,
        answer="",
        evidence=tuple(spans),
        kind="one sentence" if spans else "unanswerable",
        part="dev",
    )


QUESTIONS = [
    gold("q2", "kiln", "How long are elements covered?", "Elements are covered for 1,500 firing hours."),
    gold("q1", "loans", "What does a loan Heron cost a day?", "After that a Heron is 18 euros a day."),
    gold("q3", "visitors", "Who painted the Mona Lisa?"),
]


def test_run_gives_a_row_a_question_that_the_traces_bear_out(client):
    frame = pipeline.run(pipeline.STRATEGIES["section"], QUESTIONS, client=client, docs=DOCS, read=True)
    assert list(frame.question_id) == ["q2", "q1", "q3"] and set(frame.corpus) == {"shop"}
    for question, row in zip(QUESTIONS, frame.to_dict("records"), strict=True):
        assert row["trace"].question == question.question
        for name, value in score(question, row["trace"]).items():
            assert row[name] == value or (value is None and row[name] != row[name]) or row[name] is value
        assert row["demand"] == row["n_tokens"] and row["n_dropped"] == 0
    assert list(frame.complete[:2]) == [True, True]


def test_run_counts_what_the_budget_lost(client):
    tight = dataclasses.replace(pipeline.STRATEGIES["section"], budget=170)
    frame = pipeline.run(tight, QUESTIONS, client=client, docs=DOCS)
    assert (frame.demand > tight.budget).any() and (frame.n_tokens <= tight.budget).all()
    assert ((frame.n_dropped > 0) == (frame.demand > tight.budget)).all()


def test_strategies_that_share_a_cache_embed_each_text_once(tmp_path, monkeypatch):
    from cookbook import local

    embedded = []
    whole = local.embed

    def watched(texts):
        embedded.extend(texts)
        return whole(texts)

    monkeypatch.setattr(local, "embed", watched)
    for _ in range(2):  # the second time in what another process would find
        with LLMClient("local", cache=tmp_path / "vectors.sqlite") as cached:
            for name in ("section", "page", "window"):
                pipeline.run(pipeline.STRATEGIES[name], QUESTIONS, client=cached, docs=DOCS)
    assert embedded and len(embedded) == len(set(embedded))


def test_given_hits_are_read_and_nothing_is_embedded_or_searched(client, store, monkeypatch):
    strategy = pipeline.STRATEGIES["section"]
    searched = pipeline.run(strategy, QUESTIONS, client=client, store=store)
    hits = [trace.hits for trace in searched.trace]
    monkeypatch.setattr(client, "embed", lambda texts: pytest.fail("embedded"))
    monkeypatch.setattr(store, "search", lambda *args, **options: pytest.fail("searched"))
    plain = dataclasses.replace(strategy, order="none")
    again = pipeline.run(plain, QUESTIONS, client=client, store=store, hits=hits)
    assert [trace.hits for trace in again.trace] == hits
    assert list(again.complete) == list(searched.complete)
    swapped = pipeline.run(plain, QUESTIONS, client=client, store=store, hits=[(), *hits[1:]])
    assert not swapped.complete[0] and not swapped.trace[0].passages
    with pytest.raises(ValueError, match="3 questions and 1 lists of hits"):
        pipeline.run(plain, QUESTIONS, client=client, store=store, hits=hits[:1])


def test_run_refuses_what_it_could_not_tell_apart(client, store):
    section = pipeline.STRATEGIES["section"]
    with pytest.raises(ValueError, match="docs and store are both given"):
        pipeline.run(section, QUESTIONS, client=client, docs=DOCS, store=store)
    other = [*QUESTIONS, dataclasses.replace(QUESTIONS[0], corpus="wiki")]
    with pytest.raises(ValueError, match="several corpora"):
        pipeline.run(section, other, client=client, docs=DOCS)
