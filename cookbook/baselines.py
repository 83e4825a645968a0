"""A question and a corpus -> the Trace of a flat pipeline, which everything is compared with.

Flat: windows of equal length, dense search, the best ``top_k`` chunks as they are.
"""

from __future__ import annotations

from functools import lru_cache, partial

from . import chunkers, corpora, expanders, pipeline
from .providers import LLMClient
from .stores import MemoryBackend
from .types import Strategy, Trace

CHUNK_TOKENS = 200
OVERLAP = 40


def flat(*, chunk_tokens: int = CHUNK_TOKENS, overlap: int = OVERLAP, top_k: int = 5) -> Strategy:
    """The flat strategy, with a budget that holds ``top_k`` whole chunks."""
    return Strategy(
        name=f"flat {chunk_tokens}",
        chunker=partial(chunkers.fixed_window, chunk_tokens=chunk_tokens, overlap=overlap),
        retrieval="dense",
        order="none",
        expander=lambda hits, source: expanders.children(hits, documents=source.documents),
        unit="chunk_id",
        fetch=top_k,
        top_k=top_k,
        budget=1000 + top_k * (chunk_tokens + 100),
    )


@lru_cache(maxsize=8)
def _indexed(corpus: str, provider: str) -> tuple[MemoryBackend, LLMClient]:
    client = LLMClient(provider)
    store = MemoryBackend(f"flat-{corpus}")
    pipeline.index(corpora.load_corpus(corpus), store=store, client=client, chunker=flat().chunker)
    return store, client


def vanilla_pipeline(question: str, *, corpus: str, top_k: int = 5) -> Trace:
    """Answer from the ``top_k`` best 200-token chunks of a corpus; ``.contexts`` holds their texts.

    The corpus is indexed in memory at the first call of a process and kept.

    Raises:
        ValueError: unknown corpus, ``top_k`` below 1, or a blank question.
        MissingDataError: the corpus needs files that are absent.
    """
    if top_k < 1:
        raise ValueError(f"top_k={top_k} must be at least 1")
    store, client = _indexed(corpus, LLMClient().provider)
    return pipeline.ask(question, store=store, client=client, strategy=flat(top_k=top_k))
