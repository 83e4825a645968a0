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

from .errors import MissingDataError
from .types import Passage, Quote

if TYPE_CHECKING:
    from numpy.typing import NDArray

DIM = 256
EMBED_MODEL = "wordllama-l2-supercat-256"
CHAT_MODEL = "extractive-reader"
NOT_IN_PASSAGES = "The answer is not in the passages."

#: The reader refuses when its best sentence scores below this. The one number to tune.
THRESHOLD = 0.6
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
        TypeError: one string was given instead of a sequence of strings.
        ValueError: some texts are blank, or hold a lone surrogate; the message gives their positions.

    >>> check_texts(["a", "", "b", " "])
    Traceback (most recent call last):
        ...
    ValueError: texts at positions [1, 3] are blank; leave them out or fill them in before embedding
    """
    if isinstance(texts, str):
        raise TypeError("texts must be a sequence of strings, not one string: pass [text]")
    blank = [i for i, text in enumerate(texts) if not text.strip()]
    if blank:
        raise ValueError(
            f"texts at positions {blank} are blank; leave them out or fill them in before embedding"
        )
    broken = [i for i, text in enumerate(texts) if _has_surrogate(text)]
    if broken:
        raise ValueError(
            f"texts at positions {broken} hold a lone surrogate; "
            "replace it (text.encode('utf-8', 'replace').decode())"
        )


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
    model = _model()
    query = np.unique(_token_ids([question])[0])
    bags = [np.unique(ids) for ids in _token_ids(texts)]
    similar = _max_per_bag(model.unit[query], bags)  # (n, query tokens)
    n_with = np.asarray([np.isin(query, bag) for bag in bags]).sum(axis=0)
    weights = _idf(n_with, len(texts)) * model.norms[query]
    scores: NDArray[np.float64] = np.round(similar @ weights / weights.sum(), 6)
    return scores


def _max_per_bag(query: NDArray[Any], bags: Sequence[NDArray[np.int64]]) -> NDArray[Any]:
    """Best cosine of each query vector in each bag of token ids; shape (bags, query vectors)."""
    unit = _model().unit
    starts = np.cumsum([0, *(len(bag) for bag in bags[:-1])])
    return np.maximum.reduceat(unit[np.concatenate(bags)] @ query.T, starts, axis=0)


def _idf(n_with: NDArray[Any], n: int) -> NDArray[Any]:
    """Inverse document frequency in BM25's form, positive for every count."""
    return np.log1p((n - n_with + 0.5) / (n_with + 0.5))


# --- the reader ---------------------------------------------------------------------------------------


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


def score_sentences(
    question: str, sentences: Sequence[str], *, contexts: Sequence[str] | None = None
) -> NDArray[np.float64]:
    """How well each sentence answers the question, from 0 to 1; shape (n,). What the reader ranks by.

    Args:
        contexts: for each sentence the text that says what it is about (headings, page title); what it
            covers of the question counts a little less than what the sentence itself covers.

    >>> scores = score_sentences("How long is shipping?", ["Shipping takes two days.", "We sell kilns."])
    >>> bool(scores[0] > scores[1])
    True
    """
    if not sentences:
        return np.zeros(0)
    model = _model()
    query = np.unique(_token_ids([question])[0])
    bags = [np.unique(ids) for ids in _token_ids(sentences)]
    inside = _max_per_bag(model.unit[query], bags)
    n_with = np.asarray([np.isin(query, bag) for bag in bags]).sum(axis=0)
    weights = _idf(n_with, len(sentences)) * model.norms[query]
    if contexts is not None:
        around = _max_per_bag(
            model.unit[query], [np.unique(i) for i in _token_ids([c or "." for c in contexts])]
        )
        inside = np.maximum(inside, 0.8 * around)
    scores: NDArray[np.float64] = np.round(inside @ weights / weights.sum(), 6)
    return scores


_HEADING = re.compile(r"(#{1,6})[ \t]+(.*)")


def _candidates(source: Slice) -> Iterator[tuple[int, int, str]]:
    """(start, end, context) of each sentence of the slice, white space trimmed, headings as context."""
    from .sentences import sentence_spans

    path: list[tuple[int, str]] = []
    for start, end in sentence_spans(source.text):
        text = source.text[start:end]
        heading = _HEADING.match(text)
        if heading:
            level = len(heading.group(1))
            path = [(n, title) for n, title in path if n < level] + [(level, heading.group(2).strip())]
        elif any(character.isalnum() for character in text):
            start += len(text) - len(text.lstrip())
            context = " ".join([source.context, *(title for _, title in path)])
            yield start, start + len(text.strip()), context


def read(
    question: str,
    slices: Sequence[Slice],
    *,
    max_sentences: int = MAX_SENTENCES,
    threshold: float = THRESHOLD,
) -> list[Reading]:
    """The sentences that answer the question best, best first; none when the best is below the threshold.

    >>> page = Slice("shipping", 0, "We sell kilns. Shipping takes two days.")
    >>> [reading.quote.quote for reading in read("How long is shipping?", [page], max_sentences=1)]
    ['Shipping takes two days.']
    """
    found = [(n, *place) for n, source in enumerate(slices) for place in _candidates(source)]
    sentences = [slices[n].text[start:end] for n, start, end, _ in found]
    scores = score_sentences(question, sentences, contexts=[context for *_, context in found])
    best: list[Reading] = []
    seen: set[str] = set()
    for i in np.argsort(-scores, kind="stable"):
        if len(best) == max_sentences or scores[i] < threshold:
            break
        if sentences[i] in seen:
            continue
        seen.add(sentences[i])
        n, start, end, _ = found[i]
        source = slices[n]
        quote = Quote(
            doc_id=source.doc_id, start=source.start + start, end=source.start + end, quote=sentences[i]
        )
        best.append(Reading(quote, n, float(scores[i])))
    return best


_QUESTION = re.compile(r"^(?:Q|Question):[ \t]*", re.MULTILINE)
_ANSWER = re.compile(r"^(?:A|Answer):", re.MULTILINE)


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
    readings = read(question, [Slice("", 0, above)]) if above.strip() else []
    return "\n".join(reading.quote.quote for reading in readings) or NOT_IN_PASSAGES


def slices(passage: Passage) -> list[Slice]:
    """The passage's slices, each with its place; heading and page name are their context."""
    pieces: list[Slice] = []
    end = len(passage.text)
    for span in reversed(passage.spans):  # the text ends with the last slice
        start = end - len(span)
        pieces.append(Slice(span.doc_id, span.start, passage.text[start:end], passage.heading))
        end = start
    return pieces[::-1]


def answer(question: str, passages: Sequence[Passage]) -> tuple[list[Reading], str]:
    """The best sentences of the passages, and the reply that names each one's passage: ``... [2]``."""
    numbered = [(n, piece) for n, passage in enumerate(passages, start=1) for piece in slices(passage)]
    readings = read(question, [piece for _, piece in numbered])
    lines = [f"{reading.quote.quote} [{numbered[reading.slice_index][0]}]" for reading in readings]
    return readings, "\n".join(lines) or NOT_IN_PASSAGES
