"""Text in -> BM25 term weights out, and an in-memory index that ranks them.

The weights are those of ``qdrant_edge.Bm25``; a document's weights hold term frequency and length, and
the store multiplies them by the inverse document frequency when it searches. Qdrant's engine does that
itself; the store in memory uses ``Postings``, which computes the same scores.
"""

from __future__ import annotations

from collections.abc import Container
from functools import cache
from typing import Any, Protocol

import numpy as np


class Terms(Protocol):
    """Term ids and their weights, as ``qdrant_edge.SparseVector`` holds them."""

    @property
    def indices(self) -> list[int]: ...

    @property
    def values(self) -> list[float]: ...


@cache
def _bm25() -> Any:
    from qdrant_edge import Bm25, Bm25Config, TokenizerType

    # The default tokenizer finds no word at all in Chinese or Japanese.
    return Bm25(Bm25Config(tokenizer=TokenizerType.Multilingual))


def document_terms(text: str) -> Terms:
    """Weights of a text that is stored.

    >>> len(document_terms("The fox saw another fox.").indices)
    3
    """
    terms: Terms = _bm25().embed_document(text)
    return terms


def query_terms(text: str) -> Terms:
    """Weights of a text that is searched for: 1 for each distinct term.

    >>> query_terms("foxes, foxes").values
    [1.0]
    """
    terms: Terms = _bm25().embed_query(text)
    return terms


class Postings:
    """An inverted index over term weights, rebuilt at the first search after a change.

    >>> postings = Postings()
    >>> postings.put("a", document_terms("a red fox"))
    >>> postings.put("b", document_terms("a red dog"))
    >>> [key for key, score in postings.search(query_terms("dog"), limit=5)]
    ['b']
    """

    def __init__(self) -> None:
        self._terms: dict[str, Terms] = {}
        self._built: tuple[list[str], dict[int, tuple[np.ndarray, np.ndarray]]] | None = None

    def put(self, key: str, terms: Terms) -> None:
        """Store or replace the weights of one text."""
        self._terms[key] = terms
        self._built = None

    def remove(self, key: str) -> None:
        """Forget one text; nothing happens when it is not there."""
        self._terms.pop(key, None)
        self._built = None

    def search(
        self, terms: Terms, *, limit: int, allowed: Container[str] | None = None
    ) -> list[tuple[str, float]]:
        """The best ``limit`` keys that share a term with the query, each with its BM25 score."""
        keys, lists = self._built or self._build()
        scores = np.zeros(len(keys))
        for index, weight in zip(terms.indices, terms.values, strict=True):
            if index in lists:
                rows, weights = lists[index]
                # The formula of Qdrant's IDF modifier.
                idf = np.log((len(keys) - len(rows) + 0.5) / (len(rows) + 0.5) + 1)
                scores[rows] += weight * idf * weights
        found = np.flatnonzero(scores)
        if allowed is not None:
            found = np.array([row for row in found if keys[row] in allowed], dtype=np.intp)
        best = found[np.argsort(-scores[found], kind="stable")][:limit]
        return [(keys[row], float(scores[row])) for row in best]

    def _build(self) -> tuple[list[str], dict[int, tuple[np.ndarray, np.ndarray]]]:
        # Texts without any term are left out: Qdrant does not count them either.
        entries = [(key, terms.indices, terms.values) for key, terms in self._terms.items()]
        entries = [entry for entry in entries if entry[1]]
        keys = [key for key, _, _ in entries]
        lists: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        if entries:
            n_terms = [len(indices) for _, indices, _ in entries]
            rows = np.repeat(np.arange(len(entries)), n_terms)
            columns = np.concatenate([np.asarray(indices, dtype=np.int64) for _, indices, _ in entries])
            weights = np.concatenate([np.asarray(values, dtype=np.float64) for _, _, values in entries])
            order = np.argsort(columns, kind="stable")
            rows, columns, weights = rows[order], columns[order], weights[order]
            indices, starts = np.unique(columns, return_index=True)
            row_lists, weight_lists = np.split(rows, starts[1:]), np.split(weights, starts[1:])
            lists = {
                int(index): (row_list, weight_list)
                for index, row_list, weight_list in zip(indices, row_lists, weight_lists, strict=True)
            }
        self._built = keys, lists
        return self._built
