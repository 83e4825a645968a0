"""Hits -> Hits: fuse rankings, rerank, group and dedup by a key, widen a search until it holds enough.

A *key* is what makes two hits the same thing: ``chunk_id``, ``doc_id`` or ``text`` of the hit itself, or
a field of its metadata such as ``parent_id`` or ``section_id``. A hit that lacks the field counts for
itself alone, so grouping loses nothing. No function changes a hit; those that give new scores return
new hits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Protocol, SupportsFloat

from .errors import BadReplyError
from .names import spelled, titled
from .types import Chunk, Hit, Passage

#: Constant of reciprocal rank fusion, from Cormack, Clarke and Buettcher, SIGIR 2009.
RRF_K = 60
# The keys that are no metadata.
_OWN_KEYS = frozenset({"chunk_id", "doc_id", "text"})


class Reranker(Protocol):
    """Scores texts against a question, higher is better; ``LLMClient`` is one."""

    def rerank(self, question: str, texts: Sequence[str], /) -> Iterable[SupportsFloat]: ...


def hits_of(chunks: Iterable[Chunk]) -> list[Hit]:
    """Chunks as hits that nobody ranked, all with a score of 1: what a perfect search would return, say.

    >>> from cookbook.types import Span
    >>> chunk = Chunk(chunk_id="kiln#s0", doc_id="kiln", span=Span(doc_id="kiln", start=0, end=5),
    ...     text="Heat.", kind="sentence", position=0, parent_id=None, section_id="kiln#h000", heading_id="",
    ...     para_index=0, n_tokens=2)
    >>> [(hit.rank, hit.retriever, hit.span == chunk.span) for hit in hits_of([chunk])]
    [(1, 'given', True)]
    """
    fields = "kind", "position", "parent_id", "section_id", "heading_id", "para_index", "n_tokens", "heading"
    return [
        Hit(
            chunk_id=chunk.chunk_id,
            doc_id=chunk.doc_id,
            text=chunk.text,
            score=1.0,
            rank=rank,
            retriever="given",
            metadata={name: getattr(chunk, name) for name in fields}
            | {"start": chunk.span.start, "end": chunk.span.end},
        )
        for rank, chunk in enumerate(chunks, start=1)
    ]


def best_first(hits: Iterable[Hit]) -> list[Hit]:
    """Hits by falling score; equal scores keep their order, a missing score (None or NaN) comes last.

    >>> def hit(name, score):
    ...     return Hit(chunk_id=name, doc_id="d", text="", score=score, rank=1, retriever="dense")
    >>> [h.chunk_id for h in best_first([hit("a", None), hit("b", 0.41), hit("c", 0.88), hit("d", 0.41)])]
    ['c', 'b', 'd', 'a']
    """
    return sorted(hits, key=_falling)


def _falling(hit: Hit) -> tuple[bool, float]:
    # Stores may leave a score out although the record promises one.
    score: float | None = hit.score
    missing = score is None or score != score
    return missing, 0.0 if score is None or missing else -round(score, 6)


def fuse(*rankings: Sequence[Hit], k: int = RRF_K) -> list[Hit]:
    """Merge rankings by the places in them: a hit scores the sum of ``1 / (k + place)`` over rankings.

    Scores of different retrievers are never compared, so cosines and BM25 scores can be fused. The
    ``retriever`` of a fused hit names those that found it, such as ``dense+lexical``. The first place of
    a chunk in a ranking counts.

    >>> def hit(name, retriever):
    ...     return Hit(chunk_id=name, doc_id="d", text="", score=1.0, rank=1, retriever=retriever)
    >>> dense, lexical = [hit("a", "dense"), hit("b", "dense")], [hit("b", "lexical")]
    >>> [(h.chunk_id, round(h.score, 4), h.retriever) for h in fuse(dense, lexical)]
    [('b', 0.0325, 'dense+lexical'), ('a', 0.0164, 'dense')]
    """
    fused = fuse_ids(*([hit.chunk_id for hit in ranking] for ranking in rankings), k=k)
    found: dict[str, list[Hit]] = {}
    for ranking in rankings:
        for hit in {hit.chunk_id: hit for hit in reversed(ranking)}.values():
            found.setdefault(hit.chunk_id, []).append(hit)
    return [
        _scored(
            found[chunk_id][0],
            score,
            rank,
            "+".join(dict.fromkeys([hit.retriever for hit in found[chunk_id]])),
        )
        for rank, (chunk_id, score) in enumerate(fused, start=1)
    ]


def fuse_ids(*rankings: Iterable[str], k: int = RRF_K) -> list[tuple[str, float]]:
    """The same for bare ids: each id of the rankings with its score, best first, equal scores by id.

    >>> [(name, round(score, 4)) for name, score in fuse_ids(["a", "b"], ["b"])]
    [('b', 0.0325), ('a', 0.0164)]
    """
    if k < 0:
        raise ValueError(f"k={k} must be at least 0")
    scores: dict[str, float] = {}
    for ranking in rankings:
        seen = set[str]()
        for place, name in enumerate(ranking, start=1):
            if name not in seen:
                seen.add(name)
                scores[name] = scores.get(name, 0.0) + 1 / (k + place)
    return sorted(scores.items(), key=lambda item: (-round(item[1], 6), item[0]))


def _scored(hit: Hit, score: float, rank: int, retriever: str) -> Hit:
    # (``dataclasses.replace`` takes four times as long, for hundreds of hits a question.)
    return Hit(
        chunk_id=hit.chunk_id,
        doc_id=hit.doc_id,
        text=hit.text,
        score=score,
        rank=rank,
        retriever=retriever,
        metadata=hit.metadata,
    )


def rerank(hits: Sequence[Hit], *, question: str, client: Reranker, top_k: int | None = None) -> list[Hit]:
    """New hits by the client's scores; the former retriever stays readable (``dense>rerank``).

    Args:
        top_k: how many to return; all by default.

    Raises:
        BadReplyError: the client gave another number of scores than texts, or a score that is no number.
    """
    check_at_least(1, top_k=top_k)
    scored = zip(_scores([hit.search_text for hit in hits], question, client), hits, strict=True)
    ordered = sorted(scored, key=lambda pair: (-round(pair[0], 6), pair[1].chunk_id))
    return [
        _scored(hit, score, rank, f"{hit.retriever}>rerank")
        for rank, (score, hit) in enumerate(ordered[:top_k], start=1)
    ]


def rerank_passages(
    passages: Sequence[Passage], *, question: str, client: Reranker, top_k: int | None = None
) -> list[Passage]:
    """New passages by the client's scores of what the model would read; for expanding before reranking.

    The hits inside a passage keep the scores that earned it.

    Raises:
        BadReplyError: the client gave another number of scores than texts, or a score that is no number.
    """
    check_at_least(1, top_k=top_k)
    scored = zip(_scores([passage.text for passage in passages], question, client), passages, strict=True)
    ordered = sorted(
        scored, key=lambda pair: (-round(pair[0], 6), pair[1].doc_id, [span.start for span in pair[1].spans])
    )
    return [replace(passage, score=score) for score, passage in ordered[:top_k]]


class Fused:
    """A reranker whose scores are fused with the places that the texts have: what sorted them keeps its say.

    :func:`rerank_passages` sorts by the reranker alone, which forgets what the search knew. With
    ``client=Fused(client)`` both count alike, as in :func:`fuse`.

    >>> class Longest:
    ...     def rerank(self, question, texts):
    ...         return [len(text) for text in texts]
    >>> [round(score, 4) for score in Fused(Longest()).rerank("q", ["bb", "a", "dddd"])]
    [0.0325, 0.032, 0.0323]
    """

    def __init__(self, client: Reranker, *, k: int = RRF_K) -> None:
        check_at_least(0, k=k)
        self._client = client
        self._k = k

    def rerank(self, question: str, texts: Sequence[str], /) -> list[float]:
        """Scores of texts that come best first; equal scores of the reranker keep their places."""
        scores = _scores(texts, question, self._client)
        falling = sorted(range(len(texts)), key=lambda i: -round(scores[i], 6))
        fused = [1 / (self._k + place) for place in range(1, len(texts) + 1)]
        for place, i in enumerate(falling, start=1):
            fused[i] += 1 / (self._k + place)
        return fused


def named(hits: Iterable[Hit], *, question: str) -> list[Hit]:
    """The hits under a heading that is a name which the question spells as code, in their order.

    Who asks about ``to_timedelta`` wants its page, though others use the same words more often. It is a
    ranking for :func:`fuse`; a question without such a name gives an empty one, which changes nothing.

    >>> def hit(name, heading):
    ...     return Hit(chunk_id=name, doc_id="d", text="", score=1.0, rank=1, retriever="dense",
    ...                metadata={"heading": heading})
    >>> hits = [hit("a", "Series > Series.map > Notes"), hit("b", "Plots"), hit("c", "Series > Series.mask")]
    >>> [[h.chunk_id for h in named(hits, question=q)] for q in ("Does s.map() skip NaN?", "Where is a map?")]
    [['a'], []]
    """
    names = spelled(question)
    return [hit for hit in hits if names & titled(str(hit.metadata.get("heading") or ""))]


def _scores(texts: Sequence[str], question: str, client: Reranker) -> list[float]:
    if not texts:
        return []
    scores = [float(score) for score in client.rerank(question, texts)]
    if len(scores) != len(texts):
        raise BadReplyError(f"the reranker gave {len(scores)} scores for {len(texts)} texts")
    bad = [position for position, score in enumerate(scores) if score != score]
    if bad:
        raise BadReplyError(f"the reranker gave no number for the texts at positions {bad}")
    return scores


def key_of(hit: Hit, key: str) -> str:
    """The hit's value under a key, or its ``chunk_id`` when it has none.

    >>> hit = Hit(chunk_id="c1", doc_id="d", text="", score=1.0, rank=1, retriever="dense",
    ...           metadata={"parent_id": "p1", "section_id": None})
    >>> key_of(hit, "doc_id"), key_of(hit, "parent_id"), key_of(hit, "section_id")
    ('d', 'p1', 'c1')
    """
    value = getattr(hit, key) if key in _OWN_KEYS else hit.metadata.get(key)
    return hit.chunk_id if value is None else str(value)


def group(hits: Iterable[Hit], *, key: str) -> list[tuple[Hit, ...]]:
    """Hits that share a key, best first inside a group; groups ordered by their best hit.

    >>> def hit(name, parent, score):
    ...     return Hit(chunk_id=name, doc_id="d", text="", score=score, rank=1, retriever="dense",
    ...                metadata={"parent_id": parent})
    >>> hits = [hit("a", "p1", 0.41), hit("b", "p2", 0.87), hit("c", "p1", 0.88)]
    >>> [[h.chunk_id for h in g] for g in group(hits, key="parent_id")]
    [['c', 'a'], ['b']]
    """
    groups: dict[str, list[Hit]] = {}
    for hit in best_first(hits):
        groups.setdefault(key_of(hit, key), []).append(hit)
    return [tuple(members) for members in groups.values()]


def dedup(hits: Iterable[Hit], *, key: str = "chunk_id") -> list[Hit]:
    """The best hit of each key, best first. Ranks stay what they were in the search.

    ``key="parent_id"`` leaves one child a parent, ``key="text"`` drops boilerplate that stands on many
    pages.

    >>> def hit(name, text, score):
    ...     return Hit(chunk_id=name, doc_id="d", text=text, score=score, rank=1, retriever="dense")
    >>> [h.chunk_id for h in dedup([hit("a", "Legal.", 0.5), hit("b", "Legal.", 0.7)], key="text")]
    ['b']
    """
    given = list(hits)
    if len(given) < 2:  # as most passages have them
        return given
    return [members[0] for members in group(given, key=key)]


def first_units(hits: Iterable[Hit], *, top_k: int, key: str = "parent_id") -> list[Hit]:
    """The hits of the ``top_k`` best values of a key, best first: every hit of a unit that stays, stays.

    >>> def hit(name, parent, score):
    ...     return Hit(chunk_id=name, doc_id="d", text="", score=score, rank=1, retriever="dense",
    ...                metadata={"parent_id": parent})
    >>> hits = [hit("a", "p1", 0.9), hit("b", "p2", 0.8), hit("c", "p1", 0.7)]
    >>> [h.chunk_id for h in first_units(hits, top_k=1)]
    ['a', 'c']
    """
    check_at_least(1, top_k=top_k)
    return best_first(hit for members in group(hits, key=key)[:top_k] for hit in members)


def widen(
    search: Callable[[int], list[Hit]], *, top_k: int, key: str = "parent_id", fetch: int | None = None
) -> list[Hit]:
    """Search for more and more hits until they hold ``top_k`` distinct values of a key.

    The search stops early when the store is exhausted: it returns fewer hits than asked for, or none
    that are new. All hits of the last search come back; :func:`first_units` keeps those of the best
    ``top_k`` units. A filter belongs inside ``search``: it then holds for every round, and for whatever
    expands the hits.

    Args:
        search: how many hits -> the best hits; ``lambda n: store.search(vector, top_k=n, where=where)``.
        fetch: hits of the first round, ``3 * top_k`` by default; each round doubles it.
    """
    check_at_least(1, top_k=top_k, fetch=fetch)
    n_wanted = fetch or 3 * top_k
    n_known = 0
    while True:
        hits = search(n_wanted)
        n_distinct = len({hit.chunk_id for hit in hits})
        exhausted = len(hits) < n_wanted or n_distinct <= n_known
        if exhausted or len({key_of(hit, key) for hit in hits}) >= top_k:
            return hits
        n_known = n_distinct
        n_wanted *= 2


def check_at_least(least: int, **parameters: int | None) -> None:
    """Refuse parameters below the least value they may have; None means not given."""
    for name, value in parameters.items():
        if value is not None and value < least:
            raise ValueError(f"{name}={value} must be at least {least}")
