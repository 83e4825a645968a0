"""One contract for every store: in memory, in a folder, over the client's REST models, on a server."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import threading
import unicodedata
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cookbook import pages, points
from cookbook.collection import Collection
from cookbook.edge import EdgeEngine
from cookbook.engines import QdrantEngine
from cookbook.errors import (
    DimensionError,
    SettingsError,
    StoreClosedError,
    StoreError,
    StoreLockedError,
)
from cookbook.lexical import Postings, document_terms, query_terms
from cookbook.memory import MemoryEngine, Vectors
from cookbook.stores import EdgeBackend, MemoryBackend, QdrantBackend, open_store
from cookbook.types import Chunk, Document, Span

# The client in memory says so of what it is told for a server's sake.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Payload indexes have no effect"),
    pytest.mark.filterwarnings("ignore:Local mode performs exact"),
]

Open = Callable[..., Any]
_numbers = itertools.count()


class _RestLike(Collection):
    """The code that talks to a server, with the client's own local mode in the server's place."""

    clients: dict[str, Any]

    def __init__(self, client: Any, collection: str, dim: int | None, settings: Any) -> None:
        def make() -> Any:
            return QdrantEngine(client, collection, exact=True)

        super().__init__(f"collection {collection!r}", make, dim, settings)

    def close(self) -> None:
        self._closed = True


@pytest.fixture(params=["memory", "edge", "client", "server"])
def opener(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    """Opens the store of this test, again when it is called again (memory forgets)."""
    collection = f"test-{os.getpid()}-{next(_numbers)}"
    opened: list[Any] = []

    def remember(store: Any) -> Any:
        opened.append(store)
        return store

    if request.param == "memory":

        def make(dim: int | None = None, settings: Any = None) -> Any:
            return MemoryBackend(collection, dim, settings=settings)

    elif request.param == "edge":

        def make(dim: int | None = None, settings: Any = None) -> Any:
            return EdgeBackend(tmp_path / "store", dim, collection=collection, settings=settings)

    elif request.param == "client":
        from qdrant_client import QdrantClient

        client = QdrantClient(":memory:")

        def make(dim: int | None = None, settings: Any = None) -> Any:
            return _RestLike(client, collection, dim, settings)

    else:
        url = os.environ.get("QDRANT_URL")
        if not url:
            pytest.skip("QDRANT_URL names no server")

        def make(dim: int | None = None, settings: Any = None) -> Any:
            return QdrantBackend(collection, dim, location=url, settings=settings)

    yield lambda dim=None, settings=None: remember(make(dim, settings))
    for store in opened:
        if request.param == "server" and not store._closed:
            for name in store._engine._names.values():
                store._engine._client.delete_collection(name)
        store.close()


@pytest.fixture
def reopens(request: pytest.FixtureRequest) -> None:
    """Skips a test that opens a store again where memory forgets."""
    if request.node.callspec.params["opener"] == "memory":
        pytest.skip("a store in memory is gone when it is closed")


def page(doc_id: str, sentences: Sequence[str], corpus: str = "toy") -> Document:
    return Document(
        doc_id=doc_id, title=doc_id, text="".join(sentences), corpus=corpus, source=f"{doc_id}.md"
    )


def cut(document: Document, sentences: Sequence[str]) -> list[Chunk]:
    """One child a sentence; all of them under one parent."""
    chunks, start = [], 0
    for position, text in enumerate(sentences):
        chunks.append(
            Chunk(
                chunk_id=f"{document.key}#p0000#c{position:03d}",
                doc_id=document.doc_id,
                span=Span(doc_id=document.doc_id, start=start, end=start + len(text)),
                text=text,
                kind="child",
                position=position,
                parent_id=f"{document.key}#p0000",
                section_id=f"{document.key}#h000",
                n_tokens=len(text.split()),
            )
        )
        start += len(text)
    return chunks


def parent(document: Document) -> Chunk:
    return Chunk(
        chunk_id=f"{document.key}#p0000",
        doc_id=document.doc_id,
        span=Span(doc_id=document.doc_id, start=0, end=len(document.text)),
        text=document.text,
        kind="parent",
        position=0,
        n_tokens=len(document.text.split()),
    )


ANIMALS = ["red", "blue", "green", "old", "young", "quick", "lazy"]


def farm(n_pages: int = 3, n_sentences: int = 4, dim: int = 4) -> tuple[list, list, list, np.ndarray]:
    """Pages, parents, children and their vectors, the same in every call."""
    documents, parents, chunks = [], [], []
    for number in range(n_pages):
        sentences = [
            f"The {ANIMALS[(number + i) % 7]} fox number {i} met a {ANIMALS[(3 * i + number) % 7]} dog. "
            for i in range(n_sentences)
        ]
        document = page(f"page-{number}", sentences)
        documents.append(document)
        parents.append(parent(document))
        chunks += cut(document, sentences)
    vectors = np.random.default_rng(7).normal(size=(len(chunks), dim)).astype(np.float32)
    return documents, parents, chunks, vectors


def run_python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Another process, as a user's second notebook would be."""
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)


def ids(hits: Sequence[Any]) -> list[Any]:
    return [hit.chunk_id for hit in hits]


# What goes in comes out


def test_everything_comes_back(opener: Open) -> None:
    documents, parents, chunks, vectors = farm()
    store = opener(dim=4)
    order = np.random.default_rng(1).permutation(len(chunks))
    store.add([chunks[i] for i in order], vectors[order], documents=documents, parents=parents)
    assert list(store) == chunks
    assert store.count() == 12
    assert [store.documents[name] for name in store.documents] == documents
    assert [store.parents[name] for name in store.parents] == parents
    assert (len(store.documents), len(store.parents)) == (3, 3)
    assert "page-1" in store.documents
    assert "page-9" not in store.documents
    assert store.get(chunks[5].chunk_id) == chunks[5]
    assert store.get("toy/none#c000") is None


def test_hit_holds_the_chunk(opener: Open) -> None:
    _, _, chunks, vectors = farm()
    store = opener(dim=4)
    store.add(chunks, vectors)
    hit = store.search(vectors[6], top_k=1)[0]
    chunk = chunks[6]
    assert (hit.chunk_id, hit.doc_id, hit.text, hit.span) == (
        chunk.chunk_id,
        chunk.doc_id,
        chunk.text,
        chunk.span,
    )
    assert (hit.score, hit.rank, hit.retriever) == (1.0, 1, "dense")
    assert hit.metadata == {
        "start": chunk.span.start,
        "end": chunk.span.end,
        "kind": "child",
        "position": 2,
        "parent_id": "toy/page-1#p0000",
        "section_id": "toy/page-1#h000",
        "heading_id": None,
        "para_index": None,
        "n_tokens": 9,
        "heading": "",
        "corpus": "toy",
    }


def test_hit_is_read_under_the_heading_that_it_was_found_by(opener: Open) -> None:
    _, _, chunks, vectors = farm()
    store = opener(dim=4)
    chunk = replace(chunks[6], heading="Farm > Goats")
    store.add([chunk], vectors[6:7])
    assert (
        store.search(vectors[6], top_k=1)[0].search_text == chunk.search_text == f"Farm > Goats\n{chunk.text}"
    )


def test_short_form(opener: Open) -> None:
    store = opener(dim=2)
    store.add(["red fox", "blue dog"], [[1, 0], [0, 1]], ids=["r", "b"])
    hits = store.search([0.1, 0.9], top_k=2)
    assert [(hit.chunk_id, hit.doc_id, hit.text, hit.metadata) for hit in hits] == [
        ("b", "b", "blue dog", {}),
        ("r", "r", "red fox", {}),
    ]
    with pytest.raises(ValueError, match="bare id"):
        _ = hits[0].span
    assert [(chunk.chunk_id, chunk.kind, chunk.text) for chunk in store] == [
        ("b", "bare", "blue dog"),
        ("r", "bare", "red fox"),
    ]
    assert store.delete("b") == 1
    assert ids(store.search([0.1, 0.9], top_k=2)) == ["r"]


def test_scores_are_cosines_whatever_the_length(opener: Open) -> None:
    store = opener(dim=2)
    store.add(["a", "b", "c"], [[3e30, 4e30], [1e-30, 0], [0, -5]], ids=["a", "b", "c"])
    hits = store.search([10, 0], top_k=3)
    assert [(hit.chunk_id, hit.score) for hit in hits] == [("b", 1.0), ("a", 0.6), ("c", 0.0)]


def test_size_from_the_first_vectors(opener: Open) -> None:
    store = opener()
    assert (store.dim, store.count(), list(store), store.delete("page-0")) == (None, 0, [], 0)
    assert store.get("toy/page-0#c000") is None
    store.add([], [], documents=[page("page-0", [" "])])
    assert list(store.documents) == ["page-0"]
    _, _, chunks, vectors = farm()
    store.add(chunks, vectors)
    assert (store.dim, store.count()) == (4, 12)


# Ranking


def independent_ranking(vectors: np.ndarray, chunks: list[Chunk], query: np.ndarray) -> list[str]:
    unit = vectors.astype(float) / np.linalg.norm(vectors.astype(float), axis=1, keepdims=True)
    scores = np.round(unit @ (query / np.linalg.norm(query)), 6)
    pairs = zip(scores, chunks, strict=True)
    return [chunk.chunk_id for score, chunk in sorted(pairs, key=lambda pair: (-pair[0], pair[1].chunk_id))]


def test_dense_ranking_is_the_exact_one(opener: Open) -> None:
    _, _, chunks, vectors = farm(n_pages=40, n_sentences=5, dim=16)
    store = opener(dim=16)
    store.add(chunks, vectors)
    for query in np.random.default_rng(3).normal(size=(5, 16)):
        expected = independent_ranking(vectors, chunks, query)
        assert ids(store.search(query, top_k=200)) == expected
        assert ids(store.search(query, top_k=9)) == expected[:9]


def test_ties_are_broken_by_id_across_the_cut(opener: Open) -> None:
    store = opener(dim=2)
    names = [f"t{number:03d}" for number in range(150)]
    shuffled = list(np.random.default_rng(5).permutation(names))
    store.add(["twin"] * 150, [[1, 1]] * 150, ids=[str(name) for name in shuffled])
    store.add(["best"], [[1, 0]], ids=["z"])
    assert ids(store.search([1, 0], top_k=4)) == ["z", "t000", "t001", "t002"]
    assert ids(store.search([1, 0], top_k=4, text="twins"))[0] == "t000"


def expected_bm25(texts: dict[str, str], query: str) -> dict[str, float]:
    """Scores by the formula, from the term weights alone."""
    weights = {}
    for name, text in texts.items():
        terms = document_terms(text)
        weights[name] = dict(zip(terms.indices, terms.values, strict=True))
    scores: dict[str, float] = {}
    for index in query_terms(query).indices:
        holders = [name for name in weights if index in weights[name]]
        idf = np.log(1 + (len(texts) - len(holders) + 0.5) / (len(holders) + 0.5))
        for name in holders:
            scores[name] = scores.get(name, 0.0) + idf * weights[name][index]
    return scores


def lexical_scores(store: Any, query: str) -> dict[str, float]:
    rows = store._engine.lexical(query_terms(query), 1000, {})
    return {payload["chunk_id"]: round(score, 4) for score, payload in rows}


def test_lexical_scores_are_the_same_everywhere(opener: Open) -> None:
    _, _, chunks, vectors = farm(n_pages=20)
    store = opener(dim=4)
    store.add(chunks, vectors)
    texts = {chunk.chunk_id: chunk.text for chunk in chunks}
    for query in ("a lazy dog", "quick foxes number 3", "nothing of it"):
        expected = {name: round(score, 4) for name, score in expected_bm25(texts, query).items()}
        assert lexical_scores(store, query) == pytest.approx(expected, abs=2e-4)
    assert expected_bm25(texts, "a lazy dog")


def test_lexical_scores_after_replacing_and_deleting(opener: Open) -> None:
    documents, _, chunks, vectors = farm(n_pages=5)
    store = opener(dim=4)
    store.add(chunks, vectors, documents=documents)
    store.delete("page-4")
    sentences = ["A lazy fox. ", "A lazy hen. "]
    new = page("page-1", sentences)
    store.add(cut(new, sentences), vectors[:2], documents=[new])
    texts = {chunk.chunk_id: chunk.text for chunk in store}
    assert len(texts) == 14
    for query in ("a lazy dog", "hen"):
        expected = {name: round(score, 4) for name, score in expected_bm25(texts, query).items()}
        assert lexical_scores(store, query) == pytest.approx(expected, abs=2e-4)


def test_hybrid_lets_words_decide(opener: Open) -> None:
    texts = ["The parcel weighs two kilos.", "Error E1047 means a jam.", "Open the lid.", "邮件在这里。"]
    store = opener(dim=2)
    store.add(texts, [[1, 0], [0.5, 0.5], [0.9, 0.1], [0.2, 0.8]], ids=["w", "e", "o", "z"])
    assert ids(store.search([1, 0], top_k=4)) == ["w", "o", "e", "z"]
    hits = store.search([1, 0], top_k=4, text="what is E1047?")
    assert (hits[0].chunk_id, hits[0].retriever, hits[0].rank) == ("e", "dense+lexical", 1)
    assert {hit.retriever for hit in hits[1:]} == {"dense"}
    assert ids(store.search([1, 0], top_k=1, text="邮件")) == ["z"]
    assert ids(store.search([1, 0], top_k=4, text="?!")) == ["w", "o", "e", "z"]


def test_larger_top_k_only_adds_hits(opener: Open) -> None:
    _, _, chunks, vectors = farm(n_pages=20)
    store = opener(dim=4)
    store.add(chunks, vectors)
    for text in (None, "a lazy dog"):
        longest = ids(store.search(vectors[0], top_k=50, text=text))
        assert len(longest) == 50
        for top_k in (1, 3, 20):
            assert ids(store.search(vectors[0], top_k=top_k, text=text)) == longest[:top_k]


@pytest.mark.parametrize("text", [None, "lazy dog"])
def test_where(opener: Open, text: str | None) -> None:
    documents, _, chunks, vectors = farm(n_pages=6)
    store = opener(dim=4)
    store.add(chunks, vectors)

    def found(**where: Any) -> set[str]:
        return {hit.chunk_id for hit in store.search(vectors[0], top_k=99, text=text, where=where)}

    assert found(doc_id="page-2") == {chunk.chunk_id for chunk in chunks if chunk.doc_id == "page-2"}
    assert found(doc_id=["page-2", "page-3"], position=(0, 1)) == {
        chunk.chunk_id for chunk in chunks if chunk.doc_id in ("page-2", "page-3") and chunk.position < 2
    }
    assert found(corpus="toy", section_id={"toy/page-0#h000"}) == {chunk.chunk_id for chunk in chunks[:4]}
    assert len(found(kind="child")) == 24
    assert found(kind="parent") == found(doc_id=[]) == found(doc_id="page-77") == set()
    assert documents


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ({"color": "red"}, "where='color' is no field"),
        ({"position": "0"}, "must be of type int"),
        ({"position": True}, "must be of type int"),
        ({"kind": 3}, "must be of type str"),
        ({"doc_id": None}, "must be a string"),
    ],
)
def test_where_that_cannot_be(where: dict[str, Any], said: str) -> None:
    store = open_store(dim=2)
    with pytest.raises(ValueError, match=said):
        store.search([1, 0], top_k=1, where=where)


# Cases that others reported

FREE_FORM = ["guide.md#3", "b07x", "é/猫", "e\u0301/猫", "7", "./data/a.txt_1"]
REWRITTEN = [
    "ABCDEF0123456789ABCDEF0123456789",
    "abcdef01-2345-6789-abcd-ef0123456789",
    "abcdef0123456789abcdef0123456789",
    -1,
    18446744073709551616,
    True,
    1.0,
    1,
    "1",
    "int(-1)",
]


@pytest.mark.parametrize(
    "given_ids", [pytest.param(FREE_FORM, id="case-052"), pytest.param(REWRITTEN, id="case-053")]
)
def test_ids_come_back_unchanged(opener: Open, given_ids: list[Any]) -> None:
    vectors = np.eye(len(given_ids))
    store = opener(dim=len(given_ids))
    store.add([f"text {i}" for i in range(len(given_ids))], vectors, ids=given_ids)
    assert store.count() == len(given_ids)
    for row, given_id in enumerate(given_ids):
        hit = store.search(vectors[row], top_k=1)[0]
        fetched = store.get(given_id)
        for found in (hit.chunk_id, hit.doc_id, fetched.chunk_id):
            assert (type(found), found) == (type(given_id), given_id)
        assert fetched.text == hit.text == f"text {row}"
        assert ids(store.search(vectors[row], top_k=9, where={"doc_id": given_id})) == [given_id]
    assert len(store.search(vectors[0], top_k=99, text="text")) == len(given_ids)
    for left, given_id in enumerate(reversed(given_ids)):
        assert store.delete(given_id) == 1
        assert store.count() == len(given_ids) - left - 1


def test_normal_forms_stay_apart() -> None:
    composed, decomposed = FREE_FORM[2], FREE_FORM[3]
    assert unicodedata.normalize("NFC", decomposed) == composed
    assert points.point_id(composed) != points.point_id(decomposed)


def test_point_ids_are_the_same_in_every_process() -> None:
    code = "from cookbook.points import encode_id, point_id; print(point_id(encode_id('guide.md#3')))"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, encoding="utf-8"
    )
    assert run.stdout.strip() == points.point_id("guide.md#3") == "f84bafdb-cc39-5df9-8bcc-b2217676d562"


@given(st.one_of(st.text(), st.integers(), st.booleans(), st.floats(allow_nan=False, allow_infinity=False)))
def test_stored_ids_decode(given_id: Any) -> None:
    stored = points.encode_id(given_id)
    back = points.decode_id(stored)
    assert (type(back), repr(back)) == (type(given_id), repr(given_id))


@pytest.mark.parametrize("bad", [None, b"x", ("a",), float("nan"), float("inf"), "\ud800"])
def test_ids_that_cannot_be(bad: Any) -> None:
    store = open_store(dim=2)
    with pytest.raises(ValueError, match=r"ids\[1\]="):
        store.add(["a", "b"], [[1, 0], [0, 1]], ids=["a", bad])
    assert store.count() == 0


def version(doc_id: str, number: int, n_chunks: int) -> tuple[Document, list[Chunk]]:
    sentences = [f"Version {number}, line {i}. " for i in range(n_chunks)]
    document = page(doc_id, sentences)
    return document, cut(document, sentences)


@pytest.mark.parametrize(("n_old", "n_new"), [pytest.param(5, 2, id="case-055")])
def test_replacing_leaves_nothing_stale(opener: Open, n_old: int, n_new: int) -> None:
    store = opener(dim=5)
    for doc_id in ("a.md", "b.md"):
        document, chunks = version(doc_id, 1, n_old)
        store.add(chunks, np.eye(5), documents=[document], parents=[parent(document)])
    document, chunks = version("a.md", 2, n_new)
    bad = np.eye(5)[:n_new]
    bad[1, 3] = np.nan
    with pytest.raises(ValueError, match=r"vectors\[1\]"):  # the new version fails to embed
        store.add(chunks, bad, documents=[document], parents=[parent(document)])
    assert [chunk.text for chunk in store if chunk.doc_id == "a.md"] == [
        f"Version 1, line {i}. " for i in range(n_old)
    ]
    assert store.documents["a.md"].text.startswith("Version 1")
    store.add(chunks, np.eye(5)[:n_new], documents=[document], parents=[])
    texts = {name: [chunk.text for chunk in store if chunk.doc_id == name] for name in ("a.md", "b.md")}
    assert texts["a.md"] == ["Version 2, line 0. ", "Version 2, line 1. "]
    assert len(texts["b.md"]) == 5
    assert store.documents["a.md"] == document
    assert list(store.parents) == ["toy/b.md#p0000"]
    assert store.delete("a.md") == 2
    assert {chunk.doc_id for chunk in store} == {"b.md"}
    assert (store.count(), list(store.documents), list(store.parents)) == (5, ["b.md"], ["toy/b.md#p0000"])
    assert {hit.doc_id for hit in store.search(np.ones(5), top_k=99, text="version line")} == {"b.md"}


def test_replacing_a_document_by_nothing(opener: Open) -> None:
    documents, parents, chunks, vectors = farm(n_pages=2)
    store = opener(dim=4)
    store.add(chunks, vectors, documents=documents, parents=parents)
    store.add([], np.empty((0, 4)), documents=[page("page-0", [" "])])
    assert {chunk.doc_id for chunk in store} == {"page-1"}
    assert store.documents["page-0"].text == " "


def test_adding_again_repeats_nothing(opener: Open) -> None:
    documents, parents, chunks, vectors = farm()
    store = opener(dim=4)
    before = None
    for _ in range(3):
        store.add(chunks, vectors, documents=documents, parents=parents)
        now = [(hit.chunk_id, hit.score) for hit in store.search(vectors[0], top_k=99, text="lazy dog")]
        assert before in (None, now)
        before = now
    assert list(store) == chunks
    assert (len(store.documents), len(store.parents)) == (3, 3)


@pytest.mark.parametrize(
    "n_points", [pytest.param(0, id="case-056-empty"), pytest.param(3, id="case-056-filled")]
)
@pytest.mark.usefixtures("reopens")
def test_another_dimension(opener: Open, n_points: int) -> None:
    names = [f"t{i}" for i in range(n_points)]
    store = opener(dim=4)
    store.add(names, np.eye(4)[:n_points], ids=names)
    store.close()
    with pytest.raises(DimensionError, match=r"(?s)test-\d+-\d+.*size 4.*size 3.*index again"):
        opener(dim=3)
    again = opener()
    assert (again.dim, again.count()) == (4, n_points)
    with pytest.raises(DimensionError, match=r"(?s)test-\d+-\d+.*size 4.*size 3.*index again"):
        again.add(["x"], [[1, 0, 0]], ids=["x"])
    with pytest.raises(DimensionError, match=r"size 4, but query\[0\] has size 3"):
        again.search([1, 0, 0], top_k=1)
    assert again.count() == n_points


@pytest.mark.parametrize("names", [pytest.param(["a", "b", "c"], id="case-058")])
def test_two_openers(tmp_path: Path, names: list[str]) -> None:
    path = tmp_path / "store"
    first = EdgeBackend(path, dim=3)
    first.add(names, np.eye(3), ids=names)
    folders = sorted(tmp_path.rglob("*"))
    with pytest.raises(StoreLockedError) as caught:
        EdgeBackend(path, dim=3)
    assert str(path) in str(caught.value)
    assert "close()" in str(caught.value)
    assert first.count() == 3
    assert sorted(tmp_path.rglob("*")) == folders
    first.close()
    first.close()
    third = EdgeBackend(path)
    assert third.count() == 3
    with pytest.raises(StoreClosedError, match="is closed"):
        first.search([1, 0, 0], top_k=1)
    third.close()
    with pytest.raises(KeyError), EdgeBackend(path) as store:
        raise KeyError(store.count())
    with EdgeBackend(path) as store:
        assert store.count() == 3
    assert [entry.name for entry in tmp_path.iterdir()] == ["store"]


def test_second_process_is_refused(tmp_path: Path) -> None:
    code = "import sys; from cookbook.stores import EdgeBackend; EdgeBackend(sys.argv[1])"
    with EdgeBackend(tmp_path / "store", dim=3):
        run = run_python(code, str(tmp_path / "store"))
    assert "StoreLockedError" in run.stderr


def test_a_closed_store_says_so(opener: Open) -> None:
    store = opener(dim=2)
    with store:
        store.add(["a"], [[1, 0]], ids=["a"])
    store.close()
    uses: list[Callable[[], Any]] = [
        lambda: store.search([1, 0], top_k=1),
        lambda: store.add(["a"], [[1, 0]], ids=["a"]),
        lambda: store.delete("a"),
        lambda: store.count(),
        lambda: store.get("a"),
        lambda: list(store),
        lambda: store.documents["a"],
        lambda: list(store.parents),
    ]
    for use in uses:
        with pytest.raises(StoreClosedError, match="is closed"):
            use()
    assert "closed" in repr(store)


@pytest.mark.parametrize(("n_points", "dim", "n_characters"), [pytest.param(3000, 1536, 2000, id="case-059")])
def test_requests_are_split(
    monkeypatch: pytest.MonkeyPatch, n_points: int, dim: int, n_characters: int
) -> None:
    """In one request these would be about 100 MB."""
    sent: list[list[points.Point]] = []
    written: dict[str, str] = {}
    failing = [3]

    def upsert(_: MemoryEngine, table: str, batch: Sequence[points.Point]) -> None:
        if table == "chunks":
            if len(sent) + 1 == failing[0]:
                raise TimeoutError("timed out")
            sent.append(list(batch))
            written.update({point.id: point.payload["chunk_id"] for point in batch})

    monkeypatch.setattr(MemoryEngine, "upsert", upsert)
    monkeypatch.setattr("cookbook.points.document_terms", lambda _: query_terms(""))
    store = open_store(dim=dim)
    names = [f"n{i}" for i in range(n_points)]
    vectors = np.random.default_rng(0).normal(size=(n_points, dim)).astype(np.float32)
    with pytest.raises(
        StoreError, match=r"after \d[\d,]* of 3,000 chunks: timed out.*repeats nothing"
    ) as caught:
        store.add(["x" * n_characters] * n_points, vectors, ids=names)
    n_written = len(sent[0]) + len(sent[1])
    assert f"after {n_written:,} of" in str(caught.value)
    failing[0] = 0
    sent.clear()
    store.add(["x" * n_characters] * n_points, vectors, ids=names)
    assert len(sent) >= 7
    assert [point.payload["chunk_id"] for batch in sent for point in batch] == names
    assert len(written) == n_points
    for batch in sent:
        assert len(batch) <= 1000
        assert sum(point.n_bytes for point in batch) <= 16 * 2**20
    for point in sent[0][::100]:
        sent_text = json.dumps([point.id, point.payload, point.vector.tolist()], separators=(",", ":"))
        assert 0.7 * point.n_bytes < len(sent_text) <= point.n_bytes


def test_one_point_above_the_limit() -> None:
    store = open_store(dim=2)
    with pytest.raises(StoreError, match=r"'big' takes 16,\d+,\d+ bytes.*cut it into smaller"):
        store.add(["small", "x" * (16 * 2**20)], [[1, 0], [0, 1]], ids=["small", "big"])
    assert store.count() == 0


def test_a_failing_batch_leaves_other_documents_old(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cookbook.points.MAX_BATCH_POINTS", 4)
    store = open_store(dim=4)
    old = [version(name, 1, 4) for name in "abc"]
    for document, chunks in old:
        store.add(chunks, np.eye(4), documents=[document])
    new = [version(name, 2, 3) for name in "abc"]
    upsert, calls = MemoryEngine.upsert, itertools.count(1)

    def fail_at_third(self: MemoryEngine, table: str, batch: Sequence[points.Point]) -> None:
        if table == "chunks" and next(calls) == 3:
            raise ConnectionError("gone")
        upsert(self, table, batch)

    monkeypatch.setattr(MemoryEngine, "upsert", fail_at_third)
    call = {
        "chunks": [chunk for _, chunks in new for chunk in chunks],
        "vectors": np.concatenate([np.eye(4)[:3]] * 3),
        "documents": [document for document, _ in new],
    }
    with pytest.raises(StoreError, match="after 6 of 9 chunks: gone"):
        store.add(**call)
    texts = {name: [chunk.text for chunk in store if chunk.doc_id == name] for name in "abc"}
    assert [len(texts[name]) for name in "abc"] == [3, 3, 4]
    assert all(text.startswith("Version 1") for text in texts["c"])
    assert [store.documents[name].text[:9] for name in "abc"] == ["Version 2", "Version 2", "Version 1"]
    store.add(**call)
    assert list(store) == [chunk for _, chunks in new for chunk in chunks]


def test_no_chunk_of_a_new_document_is_stored_without_its_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process may be killed between two writes; what is found must have the page it came from."""
    store = open_store(dim=4)
    document, chunks = version("a", 1, 4)
    upsert = MemoryEngine.upsert

    def fail_after_chunks(self: MemoryEngine, table: str, batch: Sequence[points.Point]) -> None:
        upsert(self, table, batch)
        if table == "chunks":
            raise ConnectionError("gone")

    with monkeypatch.context() as patched:
        patched.setattr(MemoryEngine, "upsert", fail_after_chunks)
        with pytest.raises(StoreError, match="gone"):
            store.add(chunks, np.eye(4), documents=[document])
    assert {chunk.doc_id for chunk in store} == set(store.documents) == {"a"}
    assert not store.complete
    store.add(chunks, np.eye(4), documents=[document])
    assert store.complete


@pytest.mark.parametrize("field", ["title", "source", "corpus"])
def test_a_lone_surrogate_in_any_field_is_refused(opener: Open, field: str) -> None:
    store = opener(dim=2)
    page = Document(**{"doc_id": "a", "title": "A", "text": "x", field: "\udcff"})
    with pytest.raises(ValueError, match=f"the {field} of 'a' must not hold a lone surrogate"):
        store.add([], [], documents=[page])
    assert len(store.documents) == 0


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"where": {"kind": "\ud800"}}, "lone surrogate"),
        ({"where": {"position": 2**70}}, "64 bits"),
        ({"where": "kind"}, "must be a mapping"),
        ({"text": "\ud800"}, "text must not hold a lone surrogate"),
        ({"text": 5}, "text=5 must be a string"),
    ],
)
def test_searches_that_no_engine_takes(opener: Open, options: dict[str, Any], says: str) -> None:
    store = opener(dim=2)
    store.add(["red", "blue"], [[1, 0], [0, 1]], ids=["r", "b"])
    with pytest.raises(ValueError, match=says):
        store.search([1, 0], top_k=1, **options)


@pytest.mark.parametrize("positive", [pytest.param((5, 2, 1_000_000), id="case-061")])
def test_empty_store_and_odd_top_k(opener: Open, positive: tuple[int, ...]) -> None:
    store = opener(dim=2)
    for text in (None, "red"):
        assert [store.search([1, 0], top_k=top_k, text=text) for top_k in positive] == [[], [], []]
    store.add(["red", "blue"], [[1, 0], [0, 1]], ids=["r", "b"])
    for text in (None, "red"):
        found = [len(store.search([1, 0], top_k=top_k, text=text)) for top_k in (*positive, 1)]
        assert found == [2, 2, 2, 1]
        for top_k in (0, -1, 2.0, True, None):
            with pytest.raises(ValueError, match="top_k="):
                store.search([1, 0], top_k=top_k, text=text)


def test_top_k_is_checked_before_the_first_add(opener: Open) -> None:
    store = opener()
    assert store.search([1, 0, 0], top_k=3, text="red") == []
    with pytest.raises(ValueError, match="top_k=0"):
        store.search([1, 0, 0], top_k=0)


# Bad input stores nothing


@pytest.mark.parametrize(
    ("vectors", "error", "said"),
    [
        ([[1, 0], [0, np.nan]], ValueError, r"vectors\[1\] holds NaN"),
        ([[1, 0], [np.inf, 0]], ValueError, r"vectors\[1\] holds NaN or infinity"),
        ([[0, 0], [1, 0]], ValueError, r"vectors\[0\] is all zeros"),
        ([[1, 0], [1, 0, 0]], DimensionError, r"vectors\[1\] has size 3"),
        ([[1, 0]], ValueError, "1 rows for 2 texts"),
        ([1.0, 0.0], ValueError, r"vectors\[0\] has 0 axes"),
        (np.ones((2, 1, 2)), ValueError, r"vectors\[0\] has 2 axes"),
    ],
)
def test_bad_vectors(vectors: Any, error: type[Exception], said: str) -> None:
    store = open_store(dim=2)
    store.add(["old"], [[1, 0]], ids=["old"])
    with pytest.raises(error, match=said):
        store.add(["a", "b"], vectors, ids=["a", "b"])
    assert [chunk.text for chunk in store] == ["old"]


@pytest.mark.parametrize(("value", "said"), [(np.nan, "holds NaN"), (0.0, "is all zeros")])
def test_a_bad_vector_among_thousands_is_named_by_its_row(value: float, said: str) -> None:
    vectors = np.ones((3000, 2))
    vectors[1500] = value
    for rows in (vectors, vectors.tolist(), deque(vectors)):
        with pytest.raises(ValueError, match=rf"vectors\[1500\] {said}"):
            points.unit_rows(rows, dim=2, n_rows=3000, collection="toy")


@pytest.mark.parametrize("query", [[np.nan, 1], [0, 0], [np.inf, 1]])
def test_bad_query(query: list[float]) -> None:
    with pytest.raises(ValueError, match=r"query\[0\]"):
        open_store(dim=2).search(query, top_k=1)


def test_bad_calls() -> None:
    store = open_store(dim=4)
    documents, parents, chunks, vectors = farm(n_pages=1)
    with pytest.raises(ValueError, match="given twice"):
        store.add([chunks[0], chunks[0]], vectors[:2])
    with pytest.raises(ValueError, match="given twice"):
        store.add(chunks, vectors, documents=[*documents, *documents])
    with pytest.raises(ValueError, match="given twice"):
        store.add(chunks, vectors, parents=[*parents, *parents])
    with pytest.raises(ValueError, match="texts need ids"):
        store.add(["a"], vectors[:1])
    with pytest.raises(ValueError, match="ids= goes with texts"):
        store.add(chunks[:1], vectors[:1], ids=["a"])
    with pytest.raises(ValueError, match="one text: give a list"):
        store.add("a", vectors[:1], ids=["a"])
    with pytest.raises(ValueError, match="ids has 2 entries for 1 texts"):
        store.add(["a"], vectors[:1], ids=["a", "b"])
    with pytest.raises(ValueError, match="lone surrogate"):
        store.add(["\ud800"], vectors[:1], ids=["a"])
    assert (store.count(), len(store.documents), len(store.parents)) == (0, 0, 0)
    with pytest.raises(ValueError, match="dim=0"):
        open_store(dim=0)
    with pytest.raises(ValueError, match="location=''"):
        open_store("")
    with pytest.raises(ValueError, match=r"settings=.* must hold JSON values"):
        open_store(settings={"sizes": {1, 2}})
    for name in ("", " ", "..", "../x", "a\\b", "/x"):
        with pytest.raises(ValueError, match=r"collection=.* must be a name"):
            QdrantBackend(name)
        with pytest.raises(ValueError, match=r"collection=.* must be a name"):
            open_store("unused", collection=name)


def test_one_name_in_two_corpora(opener: Open) -> None:
    store = opener(dim=4)
    documents, parents, chunks, vectors = farm(n_pages=1)
    other = page("page-0", ["Another text. "], corpus="other")
    with pytest.raises(StoreError, match="'page-0' belongs to the corpora 'toy' and 'other'"):
        store.add(chunks, vectors, documents=[*documents, other])
    store.add(chunks, vectors, documents=documents, parents=parents)
    for call in ({"documents": [other]}, {}):
        with pytest.raises(StoreError, match="rename one"):
            store.add(cut(other, [other.text]), vectors[:1], **call)
    assert list(store) == chunks
    assert store.documents["page-0"] == documents[0]


def test_ids_that_name_no_corpus(opener: Open) -> None:
    documents, _, chunks, vectors = farm(n_pages=1)
    store = opener(dim=4)
    renamed = [replace(chunk, chunk_id=f"id-{chunk.position}") for chunk in chunks]
    store.add(renamed, vectors, documents=documents)
    assert list(store) == renamed
    hits = store.search(vectors[0], top_k=9, where={"corpus": "toy"})
    assert [hit.metadata["corpus"] for hit in hits] == ["toy"] * 4


# Opening again


@pytest.mark.usefixtures("reopens")
def test_everything_survives_a_restart(opener: Open) -> None:
    documents, parents, chunks, vectors = farm()
    settings = {"chunker": "parent_child", "sizes": (900, 180), "embedder": None}
    store = opener(dim=4, settings=settings)
    store.add(chunks, vectors, documents=documents, parents=parents)
    before = [(hit.chunk_id, hit.score) for hit in store.search(vectors[3], top_k=99, text="lazy dog")]
    store.close()
    again = opener(settings=settings)
    assert again.settings == {"chunker": "parent_child", "sizes": [900, 180], "embedder": None}
    assert [
        (hit.chunk_id, hit.score) for hit in again.search(vectors[3], top_k=99, text="lazy dog")
    ] == before
    assert list(again) == chunks
    assert list(again.documents.values()) == documents
    assert list(again.parents.values()) == parents


@pytest.mark.usefixtures("reopens")
def test_other_settings_are_refused(opener: Open) -> None:
    store = opener(dim=4, settings={"chunk_tokens": 200})
    store.close()
    empty = opener(settings={"chunk_tokens": 180})  # nothing was built yet
    _, _, chunks, vectors = farm()
    empty.add(chunks, vectors)
    empty.close()
    with pytest.raises(SettingsError, match="chunk_tokens=180 stored, 200 asked"):
        opener(settings={"chunk_tokens": 200})
    opener(settings={"chunk_tokens": 180}).close()
    opener().close()


@pytest.mark.usefixtures("reopens")
def test_unknown_settings_are_refused(opener: Open) -> None:
    store = opener(dim=4)
    _, _, chunks, vectors = farm()
    store.add(chunks, vectors)
    store.close()
    with pytest.raises(SettingsError, match="built without settings"):
        opener(settings={"chunk_tokens": 200})


def test_a_new_process_answers_the_same(tmp_path: Path) -> None:
    _, _, chunks, vectors = farm()
    query = vectors[2].tolist()
    with open_store(tmp_path / "store", dim=4) as store:
        store.add(chunks, vectors)
        expected = [(hit.chunk_id, hit.score) for hit in store.search(query, top_k=5, text="lazy")]
    code = (
        "import sys; from cookbook.stores import open_store\n"
        "with open_store(sys.argv[1]) as store:\n"
        f"    print([(hit.chunk_id, hit.score) for hit in store.search({query}, top_k=5, text='lazy')])"
    )
    run = run_python(code, str(tmp_path / "store"))
    assert run.stdout.strip() == str(expected)


def test_cached_pages_are_bounded_and_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "CACHED_PAGES", 2)
    store = open_store(dim=4)
    documents, _, chunks, vectors = farm(n_pages=4)
    store.add(chunks, vectors, documents=documents)
    for _ in range(2):
        assert [store.documents[document.doc_id] for document in documents] == documents
    assert len(store._documents._kept) == 2
    new = page("page-3", ["New. "])
    store.add([], [], documents=[new])
    assert store.documents["page-3"] == new


def test_pages_of_ids_that_look_alike_are_apart() -> None:
    store = open_store(dim=2)
    ids = [True, 1, 1.0, "1", "int(1)", -0.0, 0.0]
    documents = [Document(doc_id=doc_id, title="", text=f"{n}.") for n, doc_id in enumerate(ids)]  # type: ignore[arg-type]
    store.add([], [], documents=documents)
    for _ in range(2):  # read, then kept
        assert [store.documents[doc_id].text for doc_id in ids] == [d.text for d in documents]  # type: ignore[index]
        for unknown in ("True", 2, ["1"], float("nan")):
            assert store.documents.get(unknown) is None  # type: ignore[call-overload]


def test_open_store_picks_the_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_store(dim=2) as store:
        assert isinstance(store._engine, MemoryEngine)
    with open_store(tmp_path / "s", collection="toy", dim=2) as store:
        assert isinstance(store._engine, EdgeEngine)
        assert f"'toy' in {tmp_path / 's'}" in repr(store)
    with pytest.raises(StoreError, match=r"http://127\.0\.0\.1:9.*cannot be opened"):
        open_store("http://127.0.0.1:9", dim=2)
    monkeypatch.setenv("QDRANT_URL", "http://127.0.0.1:9")
    with pytest.raises(StoreError, match=r"http://127\.0\.0\.1:9"):
        QdrantBackend("toy", dim=2)


def test_a_file_is_no_store(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    with pytest.raises(StoreError, match="file"):
        EdgeBackend(tmp_path / "file", dim=2)


def test_foreign_collections_are_refused() -> None:
    from qdrant_client import QdrantClient, models

    client = QdrantClient(":memory:")
    params = models.VectorParams(size=2, distance=models.Distance.DOT)
    client.create_collection("theirs", vectors_config=params)
    with pytest.raises(StoreError, match="'theirs' was not made by this package"):
        _RestLike(client, "theirs", 2, None)


@pytest.mark.parametrize("make", [MemoryBackend, partial(QdrantBackend, location=":memory:")])
def test_two_stores_in_memory_are_apart(make: Any) -> None:
    with make("pc", dim=2) as one, make("pc", dim=3) as two:
        one.add(["a"], [[1, 0]], ids=["a"])
        assert (one.count(), two.count()) == (1, 0)


def test_two_collections_share_a_folder(tmp_path: Path) -> None:
    with (
        open_store(tmp_path, collection="one", dim=2) as one,
        open_store(tmp_path, collection="two", dim=3) as two,
    ):
        one.add(["a"], [[1, 0]], ids=["a"])
        assert (one.count(), two.count()) == (1, 0)


def test_approximate_search_after_optimize(tmp_path: Path) -> None:
    _, _, chunks, vectors = farm(n_pages=10)
    with open_store(tmp_path, dim=4, exact=False) as store:
        store.add(chunks, vectors)
        store.optimize()
        assert ids(store.search(vectors[7], top_k=1)) == [chunks[7].chunk_id]


def test_postings_follow_changes() -> None:
    index = Postings()
    assert index.search(query_terms("fox"), limit=3) == []
    index.put("a", document_terms("a fox"))
    index.put("b", document_terms("a fox and a fox"))
    index.put("c", document_terms(""))
    assert [key for key, _ in index.search(query_terms("fox"), limit=3)] == ["b", "a"]
    assert [key for key, _ in index.search(query_terms("fox"), limit=1)] == ["b"]
    assert [key for key, _ in index.search(query_terms("fox"), limit=3, allowed={"a"})] == ["a"]
    index.put("b", document_terms("a hen"))
    index.remove("a")
    assert index.search(query_terms("fox"), limit=3) == []


def test_vectors_follow_changes() -> None:
    rows = np.eye(3, dtype=np.float32)
    index = Vectors()
    assert index.search(rows[0], limit=3) == []
    for key, row in zip("abc", rows, strict=True):
        index.put(key, row)
    assert index.search(rows[1], limit=1) == [("b", 1.0)]
    assert index.search(rows[1], limit=3, allowed={"a", "c"}) == [("a", 0.0), ("c", 0.0)]
    assert index.search(rows[1], limit=3, allowed={"x"}) == []
    index.put("a", rows[1])
    index.remove("b")
    assert index.search(rows[1], limit=1) == [("a", 1.0)]


@pytest.mark.parametrize("text", [None, "fox"])
def test_a_write_waits_for_the_search_of_another_thread(
    monkeypatch: pytest.MonkeyPatch, text: str | None
) -> None:
    """Else the index that is being built would bring back what was deleted meanwhile."""
    store = open_store(dim=2)
    store.add(["fox", "hen"], [[1, 0], [0, 1]], ids=["f", "h"])
    delete = threading.Thread(target=store.delete, args=("h",))

    def slow(function: Callable[..., Any]) -> Callable[..., Any]:
        def called(*given: Any, **options: Any) -> Any:
            if delete.ident is None:
                delete.start()
                delete.join(0.2)
            return function(*given, **options)

        return called

    monkeypatch.setattr("cookbook.memory.np.stack", slow(np.stack))
    monkeypatch.setattr("cookbook.lexical.np.concatenate", slow(np.concatenate))
    assert [hit.chunk_id for hit in store.search([1, 0], top_k=2, text=text)] == ["f", "h"]
    delete.join()
    assert [hit.chunk_id for hit in store.search([1, 0], top_k=2, text=text)] == ["f"]


def test_the_best_vectors_are_told_apart_in_double_precision() -> None:
    rows = np.random.default_rng(0).normal(size=(500, 64))
    rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    index = Vectors()
    for number, row in enumerate(rows):
        index.put(str(number), row)
    exact = rows.astype(np.float64) @ rows[7].astype(np.float64)
    expected = [(str(number), exact[number]) for number in np.argsort(-exact)[:20]]
    found = index.search(rows[7], limit=20)
    assert [key for key, _ in found] == [key for key, _ in expected]
    assert [score for _, score in found] == pytest.approx([score for _, score in expected], abs=1e-12)


@pytest.mark.parametrize("text", [None, "", "fox"])
def test_no_more_hits_than_asked_for(text: str | None) -> None:
    with open_store(dim=2) as store:
        store.add(["fox"] * 30, [[1, 0]] * 30, ids=[f"{n:02}" for n in range(30)])
        assert [hit.rank for hit in store.search([1, 0], top_k=3, text=text)] == [1, 2, 3]


def test_import_is_light() -> None:
    heavy = ["pandas", "matplotlib", "openai", "qdrant_client", "qdrant_edge", "wordllama", "tiktoken"]
    run = run_python(f"import sys, cookbook.stores; print([name for name in {heavy} if name in sys.modules])")
    assert run.stdout.strip() == "[]"
