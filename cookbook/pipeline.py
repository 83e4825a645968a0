"""Documents -> an indexed store; a question -> a Trace of every stage; Questions -> a table a strategy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from . import chunkers, expanders, prompts, rankers
from .passages import N_PAGES, page_of
from .tokens import DEFAULT_ENCODING, build
from .tracing import StageSpan, stage
from .types import Chunk, Document, Hit, Passage, Question, Strategy, Trace

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from .providers import LLMClient

#: Texts a call of the embedder, and a step of the progress bar.
BATCH = 512
#: What happens between search and packing: nothing but expansion, or reranking before or after it.
ORDERS = ("none", "rerank_expand", "expand_rerank")


class Source(Protocol):
    """Where expansion finds the bigger text: pages by doc_id, parents by chunk_id."""

    @property
    def documents(self) -> Mapping[str, Document]: ...
    @property
    def parents(self) -> Mapping[str, Chunk]: ...


class Index(Source, Protocol):
    """A store that can be searched and that keeps its pages and parents."""

    def add(
        self,
        chunks: Sequence[Chunk],
        vectors: np.ndarray,
        *,
        documents: Sequence[Document] = ...,
        parents: Sequence[Chunk] = ...,
    ) -> None: ...
    def search(
        self,
        vector: np.ndarray,
        *,
        top_k: int,
        text: str | None = None,
        where: Mapping[str, Any] | None = None,
    ) -> list[Hit]: ...


def cut(docs: Iterable[Document], chunker: Callable[..., Any]) -> tuple[list[Chunk], list[Chunk]]:
    """Chunks to embed and parents to read (none for a chunker without parents)."""
    made = chunker(docs)
    if isinstance(made, tuple):
        children, parents, _ = made
        return children, parents
    return made, []


def index(
    docs: Iterable[Document],
    *,
    store: Index,
    client: LLMClient,
    chunker: Callable[..., Any] = chunkers.parent_child,
    progress: bool = False,
) -> int:
    """Cut, embed and store documents; return the number of chunks that can be searched.

    Every vector is computed before the store is touched, so a failing model leaves it as it was. A
    document that is indexed again replaces its former version.
    """
    import numpy as np
    from tqdm import tqdm

    documents = list(docs)
    # The first question about a page would wait for it to be parsed, and the chunker asks for the same.
    pages = [page_of(document, DEFAULT_ENCODING) for document in documents[:N_PAGES]]
    build(page.tokens for page in pages)
    for page in pages:
        page.read_ahead()
    chunks, parents = cut(documents, chunker)
    batches = [chunks[i : i + BATCH] for i in range(0, len(chunks), BATCH)]
    vectors = [
        client.embed([chunk.search_text for chunk in batch])
        for batch in tqdm(batches, desc="embedding", unit="batch", disable=not progress)
    ]
    rows = np.concatenate(vectors) if vectors else np.empty((0, 0), dtype=np.float32)
    store.add(chunks, rows, documents=documents, parents=parents)
    return len(chunks)


def ask(
    question: str,
    *,
    store: Index,
    client: LLMClient,
    strategy: Strategy,
    where: Mapping[str, Any] | None = None,
    hits: Sequence[Hit] | None = None,
    read: bool = True,
) -> Trace:
    """Search, rank, expand, pack and read; return every intermediate result.

    ``strategy.top_k`` counts distinct values of ``strategy.unit`` (chunks, parents, sections, pages): the
    search widens until it holds that many or the store is exhausted. ``where`` filters the search, so
    expansion never sees a hit outside it. With ``hits`` nothing is searched: expanders can be compared on the
    same hits, or on those of a perfect search. With ``read=False`` the model is not asked.

    Raises:
        ValueError: the question is blank, or ``strategy.order`` is unknown.
        BudgetError: system text and question alone exceed ``strategy.budget``.
    """
    if not question.strip():
        raise ValueError("question is blank: ask something")
    if strategy.order not in ORDERS:
        raise ValueError(f"order={strategy.order!r} is unknown: use one of {', '.join(ORDERS)}")
    spans: list[StageSpan] = []
    with stage("search", strategy=strategy.name) as span:
        spans.append(span)
        if hits is None:
            vector = client.embed([question])[0]
            text = question if strategy.retrieval == "hybrid" else None

            def search(top_k: int) -> list[Hit]:
                return store.search(vector, top_k=top_k, text=text, where=where)

            hits = rankers.widen(search, top_k=strategy.top_k, fetch=strategy.fetch, key=strategy.unit)
    with stage("rank", hits=len(hits)) as span:
        spans.append(span)
        ranked = list(hits)
        if strategy.order == "rerank_expand":
            # Fused, since the reranker alone forgets what the search knew, and both read names as words.
            reranked = rankers.rerank(hits, question=question, client=client)
            ranked = rankers.fuse(hits, reranked, rankers.named(hits, question=question))
        ranked = rankers.first_units(ranked, top_k=strategy.top_k, key=strategy.unit)
    with stage("expand", hits=len(ranked)) as span:
        spans.append(span)
        passages = strategy.expander(ranked, store)
        if strategy.order == "expand_rerank":
            passages = rankers.rerank_passages(passages, question=question, client=client)
    with stage("pack", passages=len(passages), budget=strategy.budget) as span:
        spans.append(span)
        prompt = prompts.pack(question, passages, budget=strategy.budget)
    answer = None
    if read:
        with stage("read", n_tokens=prompt.n_tokens) as span:
            spans.append(span)
            answer = client.answer(prompt)
    return Trace(
        question=question,
        hits=tuple(hits),
        ranked=tuple(ranked),
        passages=tuple(passages),
        prompt=prompt,
        answer=answer,
        seconds={span.name: span.seconds for span in spans},
    )


def run(
    strategy: Strategy,
    questions: Iterable[Question],
    *,
    client: LLMClient,
    docs: Iterable[Document] | None = None,
    store: Index | None = None,
    hits: Sequence[Sequence[Hit]] | None = None,
    read: bool = False,
) -> pd.DataFrame:
    """Ask every question under a strategy: a tidy table, one row a question, in the order given.

    Strategies that are compared share a client: with ``LLMClient(cache=...)`` each distinct text is embedded
    once, whatever number of strategies cut it out.

    Args:
        docs: the pages to index, in memory; without them and without a store each question's corpus is
            loaded by its name.
        store: a store that the strategy's chunks are in already; nothing is indexed.
        hits: those of each question, as for :func:`ask`; nothing is searched.
        read: let the model answer too (``cited``, ``refused``).

    Returns:
        Columns ``strategy``, ``corpus``, those of :func:`cookbook.eval.score`, and: ``failure``
        (:func:`cookbook.eval.failure`), ``n_passages`` that reached the prompt, ``n_dropped``, ``demand``
        (tokens of the prompt with nothing dropped), ``gained``, ``held`` and ``off``
        (:func:`cookbook.eval.expansion_use`), ``trace`` (the :class:`Trace` itself).

    Raises:
        ValueError: both ``docs`` and ``store`` are given, or questions of several corpora with either; as
            many lists of hits as questions are needed.
    """
    import pandas as pd

    from . import corpora
    from . import eval as evaluation
    from .stores import MemoryBackend

    asked = list(questions)
    names = list(dict.fromkeys(question.corpus for question in asked))
    if hits is not None and len(hits) != len(asked):
        raise ValueError(f"{len(asked)} questions and {len(hits)} lists of hits: give one for each")
    if docs is not None and store is not None:
        raise ValueError("docs and store are both given: a store holds its documents")
    if (docs is not None or store is not None) and len(names) > 1:
        raise ValueError(f"questions are of several corpora, {names}: run them one corpus at a time")
    rows: dict[int, dict[str, Any]] = {}
    for name in names:
        source = store
        if source is None:
            source = MemoryBackend(name or "corpus")
            pages = corpora.load_corpus(name) if docs is None else docs
            index(pages, store=source, client=client, chunker=strategy.chunker)
        for place, question in enumerate(asked):
            if question.corpus == name:
                trace = ask(
                    question.question,
                    store=source,
                    client=client,
                    strategy=strategy,
                    hits=None if hits is None else hits[place],
                    read=read,
                )
                rows[place] = {
                    **row(strategy, question, trace),
                    **evaluation.expansion_use(question, trace),
                    "trace": trace,
                }
    return pd.DataFrame([rows[place] for place in range(len(asked))])


def row(strategy: Strategy, question: Question, trace: Trace) -> dict[str, Any]:
    """What a table of many questions says of one: the columns that :func:`run` names, up to ``demand``."""
    from . import eval as evaluation

    return {
        "strategy": strategy.name,
        "corpus": question.corpus,
        **evaluation.scored(question, trace),
        "n_passages": len(trace.prompt.passages),
        "n_dropped": len(trace.prompt.dropped),
        "demand": trace.prompt.demand,
    }


def _strategy(
    name: str, chunker: Callable[..., Any], expander: Callable[..., list[Passage]], *, unit: str, top_k: int
) -> Strategy:
    return Strategy(
        name=name,
        chunker=partial(chunker, heading=True),
        retrieval="hybrid",
        order="rerank_expand",
        expander=expander,
        unit=unit,
        fetch=100,
        top_k=top_k,
        budget=4000,
    )


#: One strategy for each way of expanding; they search, rank and pack alike.
STRATEGIES: Mapping[str, Strategy] = {
    strategy.name: strategy
    for strategy in (
        _strategy(
            "window",
            chunkers.sentence_window,
            lambda hits, source: expanders.window(hits, documents=source.documents),
            unit="chunk_id",
            top_k=16,
        ),
        _strategy(
            "parent",
            chunkers.parent_child,
            lambda hits, source: expanders.parents(hits, documents=source.documents, parents=source.parents),
            unit="parent_id",
            top_k=8,
        ),
        _strategy(
            "section",
            chunkers.section_child,
            lambda hits, source: expanders.sections(hits, documents=source.documents),
            unit="section_id",
            top_k=12,
        ),
        _strategy(
            "page",
            chunkers.section_child,
            lambda hits, source: expanders.whole_page(hits, documents=source.documents),
            unit="section_id",
            top_k=16,
        ),
    )
}
