"""Texts -> vectors, (question, texts) -> scores, (question, passages) -> verbatim sentences; offline.

The embedded provider: wordllama's token vectors (they come inside its wheel) and nothing else. It needs
no key, no network and no GPU, and it gives the same answer each time.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .blocks import blocks
from .errors import MissingDataError
from .passages import slices as slices_of
from .prompts import REFUSAL
from .sentences import split_block
from .types import Passage, Quote

if TYPE_CHECKING:
    from numpy.typing import NDArray

DIM = 256
EMBED_MODEL = "wordllama-l2-supercat-256"
CHAT_MODEL = "extractive-reader"

#: The reader refuses when its best sentence scores below this, and returns none that does.
THRESHOLD = 0.62
#: Sentences that the reader returns at most.
MAX_SENTENCES = 3


# --- token vectors ------------------------------------------------------------------------------------


class _Model(NamedTuple):
    tokenizer: Any
    table: NDArray[np.float32]  # (vocabulary, DIM) token vectors
    unit: NDArray[np.float32]  # the same, unit length
    norms: NDArray[np.float32]  # (vocabulary,) lengths: near 2 for "the", above 20 for "merge"


@lru_cache(maxsize=1)
def _model() -> _Model:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    import wordllama

    # Importing wordllama configures the root logger, so that every request of every library would be
    # printed; what the caller had set up is put back.
    root.handlers[:] = handlers
    root.setLevel(level)
    try:
        loaded = wordllama.WordLlama.load(
            dim=DIM, cache_dir=Path(wordllama.__file__).parent, disable_download=True
        )
    except FileNotFoundError as error:
        raise MissingDataError(
            f"wordllama's weights are not inside its package ({error}); "
            "install it again: pip install --force-reinstall wordllama"
        ) from error
    tokenizer, table = loaded.tokenizer, loaded.embedding
    tokenizer.no_padding()
    norms = np.linalg.norm(table, axis=1)
    return _Model(tokenizer, table, table / np.maximum(norms, 1e-12)[:, None], norms)


def _token_ids(texts: Sequence[str]) -> list[NDArray[np.int64]]:
    """Token ids of each text (at least one each: blank texts are refused before)."""
    encodings = _model().tokenizer.encode_batch(list(texts), add_special_tokens=False)
    return [np.asarray(encoding.ids, dtype=np.int64) for encoding in encodings]


def check_texts(texts: Sequence[str]) -> None:
    """Refuse what no embedder can take, before any work is done.

    Raises:
        ValueError: texts is one string, or some are blank, no strings, or hold a lone surrogate; the
            message gives their positions.

    >>> check_texts(["a", "", "b", " "])
    Traceback (most recent call last):
        ...
    ValueError: texts at positions [1, 3] are blank; leave them out or fill them in
    """
    if isinstance(texts, str):
        raise ValueError(f"texts={texts[:40]!r} must be a sequence of strings, not one: pass [text]")
    for is_bad, complaint in (
        (lambda text: not isinstance(text, str), "are no strings; convert them"),
        (lambda text: not text.strip(), "are blank; leave them out or fill them in"),
        (_has_surrogate, "hold a lone surrogate; replace it (text.encode('utf-8', 'replace').decode())"),
    ):
        positions = [i for i, text in enumerate(texts) if is_bad(text)]
        if positions:
            raise ValueError(f"texts at positions {positions} {complaint}")


def _has_surrogate(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False


def embed(texts: Sequence[str]) -> NDArray[np.float32]:
    """Vectors of the texts, shape (n, 256), rows of unit length: the mean of the token vectors.

    The bytes are the same in every process and batch.

    >>> vectors = embed(["A short text.", "Another one."])
    >>> vectors.shape, [round(float(row @ row), 3) for row in vectors]
    ((2, 256), [1.0, 1.0])
    """
    check_texts(texts)
    table = _model().table
    vectors = np.empty((len(texts), DIM), dtype=np.float32)
    for start in range(0, len(texts), 256):  # a batch bounds the tokenizer's memory
        for row, ids in enumerate(_token_ids(texts[start : start + 256]), start=start):
            vectors[row] = table[ids].mean(axis=0, dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors


# --- the reranker -------------------------------------------------------------------------------------


def rerank(question: str, texts: Sequence[str]) -> NDArray[np.float64]:
    """Scores of the texts for the question, higher is better, at most 1; shape (n,).

    Late interaction (MaxSim, arXiv 2004.12832): each token of the question takes its best cosine in
    the text; the mean is weighted with the length of the token's vector, which training made small for
    words that say little, times the token's idf among the texts at hand.

    >>> scores = rerank("How long is shipping?", ["Shipping takes two days.", "We sell kilns."])
    >>> bool(scores[0] > scores[1])
    True
    """
    check_texts([question, *texts])
    if not texts:
        return np.zeros(0)
    query = _bag(question)
    n_with = np.sum([np.isin(query, _bag(text), assume_unique=True) for text in texts], axis=0)
    weights = _idf(n_with, len(texts)) * _model().norms[query]
    similar = _cover(query, texts).astype(np.float64)
    scores: NDArray[np.float64] = np.round(similar @ weights / weights.sum(), 6)
    return scores


@lru_cache(maxsize=32_768)
def _bag(text: str) -> NDArray[np.int64]:
    """Distinct token ids of a text, ascending; kept, since the same chunks answer many questions."""
    ids = _model().tokenizer.encode(text, add_special_tokens=False).ids
    return np.unique(np.asarray(ids, dtype=np.int64))


def _cover(query: NDArray[np.int64], texts: Sequence[str]) -> NDArray[np.float32]:
    """Best cosine of each query token in each text; shape (texts, query tokens)."""
    unit = _model().unit
    bags = [_bag(text) for text in texts]
    # Each distinct token is compared once: texts about one subject share most of theirs.
    distinct, place = np.unique(np.concatenate(bags), return_inverse=True)
    starts = np.cumsum([0, *(len(bag) for bag in bags[:-1])])
    cosines: NDArray[np.float32] = unit[distinct] @ unit[query].T
    return np.maximum.reduceat(cosines[place], starts, axis=0)


def _idf(n_with: NDArray[Any], n: int) -> NDArray[Any]:
    """Inverse document frequency in BM25's form, positive for every count."""
    return np.log1p((n - n_with + 0.5) / (n_with + 0.5))


# --- the reader ---------------------------------------------------------------------------------------

# Chosen on questions about API pages: what a sentence's context covers counts less than what it covers
# itself; half of the score is what its neighbours cover; code and pointers rarely answer a question.
_CONTEXT_WEIGHT = 0.7
_N_NEIGHBOURS = 8
_WEAK_WEIGHT = 0.8
_POINTER_TITLES = frozenset({"see also", "references", "further reading"})
_TOO_ALIKE = 0.7


class Slice(NamedTuple):
    """A piece of a document that the reader may quote, with text that says what it is about."""

    doc_id: str
    start: int
    text: str
    context: str = ""


class Reading(NamedTuple):
    """A sentence that the reader returns: its place, its words, and how well it fits."""

    quote: Quote
    slice_index: int
    score: float


class _Candidate(NamedTuple):
    slice_index: int
    start: int
    end: int
    context: tuple[str, ...]
    weight: float


def score_sentences(
    question: str,
    sentences: Sequence[str],
    *,
    contexts: Sequence[Sequence[str]] | None = None,
    sources: Sequence[int] | None = None,
) -> NDArray[np.float64]:
    """How well each sentence answers the question, at most 1; shape (n,). What the reader ranks by.

    Each token of the question takes its best cosine in the sentence, and again in the sentence with its
    neighbours; the score is the mean of both, weighted so that words that say much count most. A word
    of the question that nothing nearby covers therefore keeps the score low.

    Args:
        contexts: for each sentence the texts that say what it is about (page, headings, lead-in).
        sources: for each sentence the number of the text that it stands in; neighbours share it.

    >>> scores = score_sentences("How long is shipping?", ["Shipping takes two days.", "We sell kilns."])
    >>> bool(scores[0] > scores[1])
    True
    """
    check_texts([question, *sentences])
    if not sentences:
        return np.zeros(0)
    query = _bag(question)
    weights = _model().norms[query] ** 1.5
    own = _cover(query, sentences)  # (n, query tokens)
    around = np.zeros_like(own)
    if contexts is not None:
        parts = [text for texts in contexts for text in texts if text.strip()]
        rows = dict(zip(parts, _cover(query, parts), strict=True)) if parts else {}
        for i, texts in enumerate(contexts):
            for text in texts:
                if text in rows:
                    np.maximum(around[i], rows[text], out=around[i])
    source = np.zeros(len(sentences), dtype=int) if sources is None else np.asarray(sources)
    near = np.maximum(own, around)
    for step in range(1, _N_NEIGHBOURS + 1):
        same = (source[step:] == source[:-step])[:, None]
        near[step:] = np.where(same, np.maximum(near[step:], own[:-step]), near[step:])
        near[:-step] = np.where(same, np.maximum(near[:-step], own[step:]), near[:-step])
    covered = (np.maximum(own, _CONTEXT_WEIGHT * around) + near) / 2
    scores: NDArray[np.float64] = np.round(covered.astype(np.float64) @ weights / weights.sum(), 6)
    return scores


def _candidates(index: int, source: Slice) -> Iterator[_Candidate]:
    """The sentences of a slice, white space trimmed, each with what says what it is about.

    That is the page's name, the headings above, the row of titles of a table, the item that a nested
    item belongs to, and the first sentence of the sentence's own block.
    """
    path: list[tuple[int, str]] = []
    leads: list[tuple[int, str]] = []  # (indent, sentence) of the items that the block is nested in
    for block in blocks(source.text):
        raw = source.text[block.start : block.end]
        if block.kind == "heading":
            path = [*(entry for entry in path if entry[0] < block.level), (block.level, block.title)]
            leads = []
            continue
        if block.kind == "table_head":
            leads = [(-1, raw)]
            continue
        indent = len(raw) - len(raw.lstrip())
        if block.kind != "table_row":
            leads = [lead for lead in leads if 0 <= lead[0] < indent]
        weak = block.kind == "code" or (path and path[-1][1].strip().lower() in _POINTER_TITLES)
        about = [source.doc_id, source.context, *(title for _, title in path), *(lead for _, lead in leads)]
        first = ""
        for start, end in split_block(source.text, block):
            sentence = source.text[start:end].strip()
            if not any(character.isalnum() for character in sentence):
                continue
            start += len(source.text[start:end]) - len(source.text[start:end].lstrip())
            yield _Candidate(
                index, start, start + len(sentence), (*about, first), _WEAK_WEIGHT if weak else 1.0
            )
            first = first or sentence
        if block.kind == "item":
            leads.append((indent, first))


def read(
    question: str,
    slices: Sequence[Slice],
    *,
    max_sentences: int = MAX_SENTENCES,
    threshold: float = THRESHOLD,
) -> list[Reading]:
    """The sentences that answer the question best, best first; none when the best is below the threshold.

    Sentences that say nearly the same are returned once.

    >>> page = Slice("shipping", 0, "We sell kilns. Shipping takes two days.")
    >>> [reading.quote.quote for reading in read("How long is shipping?", [page], max_sentences=1)]
    ['Shipping takes two days.']
    """
    if max_sentences < 1:
        raise ValueError(f"max_sentences={max_sentences} must be at least 1")
    found = [candidate for n, source in enumerate(slices) for candidate in _candidates(n, source)]
    sentences = [slices[c.slice_index].text[c.start : c.end] for c in found]
    scores = score_sentences(
        question,
        sentences,
        contexts=[c.context for c in found],
        sources=[c.slice_index for c in found],
    ) * np.asarray([c.weight for c in found])
    best: list[Reading] = []
    kept: list[set[str]] = []
    for i in np.argsort(-scores, kind="stable"):
        if len(best) == max_sentences or scores[i] < threshold:
            break
        words = set(re.findall(r"\w+", sentences[i].lower()))
        if any(len(words & other) >= _TOO_ALIKE * len(words | other) for other in kept):
            continue
        kept.append(words)
        candidate = found[i]
        source = slices[candidate.slice_index]
        quote = Quote(
            doc_id=source.doc_id,
            start=source.start + candidate.start,
            end=source.start + candidate.end,
            quote=sentences[i],
        )
        best.append(Reading(quote, candidate.slice_index, round(float(scores[i]), 6)))
    return best


_QUESTION = re.compile(r"^(?:Q|Question):[ \t]*", re.MULTILINE)
_ANSWER = re.compile(r"^(?:A|Answer):", re.MULTILINE)
# A line like "[2] shipping" begins a passage: it is its title, not a sentence of it.
_PASSAGE = re.compile(r"^\[\d+\][ \t]*(.*)$", re.MULTILINE)


def split_prompt(text: str) -> tuple[str, str]:
    """Passages and question of a prompt written as text.

    The question follows the last line that starts with ``Q:`` or ``Question:`` and ends before a line
    that starts with ``A:`` or ``Answer:``; without such a line it is the last line that is not blank.

    >>> split_prompt("Two days.\\n\\nQ: How long?\\nA:")
    ('Two days.\\n\\n', 'How long?')
    """
    marks = list(_QUESTION.finditer(text))
    if marks:
        question = text[marks[-1].end() :]
        answer = _ANSWER.search(question)
        return text[: marks[-1].start()], question[: answer.start() if answer else None].strip()
    above, _, last = text.rstrip().rpartition("\n")
    return above, last.strip()


def chat(text: str) -> str:
    """The reader's reply to a prompt written as text: at most three sentences of it, or a refusal.

    >>> chat("We sell kilns. Shipping takes two days.\\nQ: How long does shipping take?\\nA:")
    'Shipping takes two days.'
    """
    above, question = split_prompt(text)
    if not question:
        raise ValueError("prompt holds no question; end it with a line 'Q: ...'")
    marks = list(_PASSAGE.finditer(above))
    starts, ends = [0, *(mark.end() for mark in marks)], [*(mark.start() for mark in marks), len(above)]
    titles = ["", *(mark.group(1) for mark in marks)]
    slices = [Slice("", 0, above[i:j], title) for i, j, title in zip(starts, ends, titles, strict=True)]
    readings = read(question, slices)
    return "\n".join(reading.quote.quote for reading in readings) or REFUSAL


def quotable(passage: Passage) -> list[Slice]:
    """The passage's slices, each with its place and the passage's heading."""
    return [
        Slice(span.doc_id, span.start, text, passage.heading)
        for span, text in zip(passage.spans, slices_of(passage), strict=True)
    ]


def answer(question: str, passages: Sequence[Passage]) -> tuple[list[Reading], str]:
    """The best sentences of the passages, and the reply that names each one's passage: ``... [2]``."""
    numbered = [(n, piece) for n, passage in enumerate(passages, start=1) for piece in quotable(passage)]
    readings = read(question, [piece for _, piece in numbered])
    lines = [f"{reading.quote.quote} [{numbered[reading.slice_index][0]}]" for reading in readings]
    return readings, "\n".join(lines) or REFUSAL
