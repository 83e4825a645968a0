"""The calls of a published parent-child recipe, in its order: names, shapes and what they give back.

The recipe reads the Rust book. Where the book is absent, pages of the wiki take its place under its
name; where it is there, the same calls run on it as well.
"""

from __future__ import annotations

import inspect
import os
from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from cookbook import baselines, corpora

HAS_BOOK = (Path(os.environ.get("COOKBOOK_DATA", "")) / "rust-book" / "SUMMARY.md").is_file()
QUESTIONS = {
    "stand-in": "On which day does the barrier code change?",
    "rust-book": "What does cargo build do?",
}


STAND_IN = ("visitor-parking", "loan-kilns", "firing-limits", "loom-controller", "swift-tube-meeting")


def wiki_as_the_book():
    pages = {page.doc_id: page for page in corpora.load_corpus("wiki")}
    return [replace(pages[name], corpus="rust-book") for name in STAND_IN]


@pytest.fixture(
    params=[
        "stand-in",
        pytest.param(
            "rust-book",
            marks=pytest.mark.skipif(
                not HAS_BOOK, reason="the Rust book is not in COOKBOOK_DATA/rust-book; a stand-in was read"
            ),
        ),
    ]
)
def question(request, monkeypatch):
    """A question that the pages answer; the pages are what the recipe's loader gives."""
    for name in ("PROVIDER", "QDRANT_URL", "COOKBOOK_TRACING"):
        monkeypatch.delenv(name, raising=False)
    if request.param == "stand-in":
        monkeypatch.setattr(corpora, "load_rust_book", wiki_as_the_book)
        monkeypatch.setitem(corpora.LOADERS, "rust-book", wiki_as_the_book)
    baselines._indexed.cache_clear()
    yield QUESTIONS[request.param]
    baselines._indexed.cache_clear()


def test_the_recipe_runs_as_published(question):
    from cookbook.providers import LLMClient
    from cookbook.tracing import init_tracing

    client = LLMClient()
    assert client.provider == "local" and client.chat_model
    assert init_tracing() == "tracing: off"

    from cookbook.corpora import load_rust_book

    docs = list(load_rust_book())[:10]

    from cookbook.chunkers import parent_child

    children, parents, mapping = parent_child(docs, parent_tokens=900, child_tokens=180, overlap=24)
    parents_by_id = {p.chunk_id: p for p in parents}
    assert len(children) > len(parents) > 0
    assert set(mapping) == {c.chunk_id for c in children}
    assert set(mapping.values()) == set(parents_by_id)
    assert all(c.text in parents_by_id[mapping[c.chunk_id]].text for c in children)
    vectors = client.embed([c.text for c in children])
    assert len(vectors) == len(children)

    from cookbook.stores import QdrantBackend

    store = QdrantBackend("pc", dim=len(vectors[0]))
    store.add([c.text for c in children], vectors, ids=[c.chunk_id for c in children])

    def retrieve_parents(question, top_k=4):
        seen, out = set(), []
        for hit in store.search(client.embed([question])[0], top_k=top_k * 3):
            parent_id = mapping.get(hit.doc_id)  # the id that was stored
            if parent_id and parent_id not in seen:
                seen.add(parent_id)
                out.append(parent_id)
            if len(out) >= top_k:
                break
        return [parents_by_id[i] for i in out]

    contexts = [p.text for p in retrieve_parents(question, 3)]
    assert len(contexts) == len(set(contexts)) == 3
    passages = "\n\n".join(contexts)
    answer = client.chat(f"Use these passages.\n{passages}\nQ: {question}\nA:")
    assert isinstance(answer, str) and answer.strip()
    assert answer != "The answer is not in the passages."
    assert any(answer.split("\n")[0] in context for context in contexts), "the embedded reader quotes"

    fan = Counter(mapping.values())
    assert sum(fan.values()) / len(fan) > 1

    from cookbook.baselines import vanilla_pipeline

    base = vanilla_pipeline(question, corpus="rust-book", top_k=5)
    assert len(base.contexts) == 5 and all(isinstance(text, str) for text in base.contexts)

    from cookbook.eval import EvalSample

    sample = EvalSample(question=question, answer=answer, contexts=contexts, reference="a reference")
    assert list(asdict(sample)) == ["question", "answer", "contexts", "reference"]


def test_the_questions_read_as_rows():
    from cookbook.corpora import load_eval_questions

    rows = [row for row in load_eval_questions() if row["corpus"] == "rust-book"]
    assert len(rows) >= 30
    assert all(row["question"] and row["answer"] for row in rows)
    assert rows[0]["question"] == rows[0].question
    with pytest.raises(KeyError):
        rows[0]["score"]


def test_a_bare_id_stands_for_chunk_and_document():
    from cookbook.stores import QdrantBackend

    with QdrantBackend("pc", dim=2, location=":memory:") as store:
        store.add(["red", "blue"], [[1, 0], [0, 1]], ids=["book/one#p0000#c000", "book/one#p0000#c001"])
        (hit,) = store.search([1, 0.1], top_k=1)
    assert hit.chunk_id == hit.doc_id == "book/one#p0000#c000"
    assert hit.text == "red"


def test_the_defaults_are_the_recipe_s():
    from cookbook.chunkers import parent_child

    given = {name: p.default for name, p in inspect.signature(parent_child).parameters.items()}
    assert (given["parent_tokens"], given["child_tokens"], given["overlap"]) == (900, 180, 24)
