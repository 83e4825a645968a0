"""Texts -> vectors, (question, texts) -> scores; offline.

The embedded provider's half that computes, from wordllama's token vectors (they come inside its wheel) and
nothing else. It needs no key, no network and no GPU, and it gives the same answer each time.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Sequence
from functools import lru_cache
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .errors import MissingDataError
from .recent import keep

if TYPE_CHECKING:
    from numpy.typing import NDArray

DIM = 256
EMBED_MODEL = "wordllama-l2-supercat-256"


# --- token vectors ------------------------------------------------------------------------------------


class TokenVectors(NamedTuple):
    """The embedder: its tokenizer and a vector a token."""

    tokenizer: Any
    table: NDArray[np.float32]  # (vocabulary, DIM) token vectors
    norms: NDArray[np.float32]  # (vocabulary,) lengths: near 2 for "the", above 20 for "merge"


@lru_cache(maxsize=1)
def token_vectors() -> TokenVectors:
    """The embedder, loaded at the first call.

    Raises:
        MissingDataError: a file of its is not inside its package.
    """
    from safetensors.numpy import load_file
    from tokenizers import Tokenizer

    # Its files are read without its own loader: to import that takes 0.2 s, and it configures the root
    # logger, so that every request of every library would be printed.
    package = find_spec("wordllama")
    folder = Path(package.origin).parent if package and package.origin else Path("wordllama")
    weights = folder / "weights" / f"l2_supercat_{DIM}.safetensors"
    vocabulary = folder / "tokenizers" / "l2_supercat_tokenizer_config.json"
    for path in (weights, vocabulary):
        if not path.exists():
            raise MissingDataError(
                f"the embedder's file {path} is missing; "
                "install its package again: pip install --force-reinstall wordllama"
            )
    table = load_file(weights)["embedding.weight"].astype(np.float32)
    tokenizer = Tokenizer.from_file(str(vocabulary))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    # (In parts: to fill one more array as large as the table takes ten times as long.)
    norms = np.concatenate([np.linalg.norm(part, axis=1) for part in np.array_split(table, 32)])
    return TokenVectors(tokenizer, table, norms)


#: Token ids of the words that were seen last, by the word with the spaces before it.
_WORDS: dict[str, list[int]] = {}
_MAX_WORDS = 65_536
_LONG_WORD = 64  # characters; longer ones seldom come twice
_WORD = re.compile(r" +[^ ]*(?: +\Z)?")
# What follows a special token is cut like the beginning of a text; the last one is how the tokenizer writes a
# space, so that the words beside it are not apart.
_SPECIAL = re.compile("<unk>|</?s>|\u2581")


def _token_ids(texts: Sequence[str]) -> list[NDArray[np.int64]]:
    """Token ids of each text; none of an empty one.

    Looked up word by word, since texts share most of their words: the tokenizer puts a space before every
    text, and no token of its vocabulary holds a space behind another character.
    """
    words = [[f" {text}"] if _SPECIAL.search(text) else _WORD.findall(f" {text}") for text in texts]
    distinct = dict.fromkeys(chain.from_iterable(words))
    ids = {word: known for word in distinct if (known := _WORDS.get(word)) is not None}
    missing = [word for word in distinct if word not in ids]
    if missing:
        tokenizer = token_vectors().tokenizer
        # (Without offsets, which nobody needs, it takes a third less.)
        encodings = tokenizer.encode_batch_fast([word[1:] for word in missing], add_special_tokens=False)
        ids |= {word: encoding.ids for word, encoding in zip(missing, encodings, strict=True)}
        if len(_WORDS) + len(missing) > _MAX_WORDS:
            _WORDS.clear()
        _WORDS.update((word, ids[word]) for word in missing if len(word) <= _LONG_WORD)
    return [np.fromiter(chain.from_iterable(map(ids.__getitem__, w)), dtype=np.int64) for w in words]


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
    table = token_vectors().table
    vectors = np.empty((len(texts), DIM), dtype=np.float32)
    n_tokens = np.empty((len(texts), 1), dtype=np.float32)
    for start in range(0, len(texts), 256):  # a batch bounds the tokenizer's memory
        for row, ids in enumerate(_token_ids(texts[start : start + 256]), start=start):
            np.add.reduce(table.take(ids, axis=0), axis=0, out=vectors[row])
            n_tokens[row] = len(ids)
    vectors /= n_tokens
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors


def count_tokens(texts: Sequence[str]) -> list[int]:
    """Tokens of each text in the embedder's own vocabulary, which is not the one that limits are counted in.

    >>> from cookbook.tokens import count
    >>> count_tokens(["Heat slowly.", ""]), count("Heat slowly.")
    ([4, 0], 3)
    """
    return [len(ids) for ids in _token_ids(texts)]


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
    query = bags_of([question])[0]
    weights = weights_of(query, texts)
    similar = cover(query, texts).astype(np.float64)
    scores: NDArray[np.float64] = np.round(similar @ weights / weights.sum(), 6)
    return scores


#: Distinct token ids of the texts that were reranked last: a chunk is a candidate for many questions.
_BAGS: OrderedDict[str, NDArray[np.int64]] = OrderedDict()
_MAX_BAGS = 32_768


def bags_of(texts: Sequence[str]) -> list[NDArray[np.int64]]:
    """Distinct token ids of each text, ascending."""
    found = [_BAGS.get(text) for text in texts]
    missing = [text for text, bag in zip(texts, found, strict=True) if bag is None]
    if not missing:
        return [bag for bag in found if bag is not None]
    new = {text: _remember(text, ids) for text, ids in zip(missing, _token_ids(missing), strict=True)}
    return [new[text] if bag is None else bag for text, bag in zip(texts, found, strict=True)]


def _remember(text: str, ids: NDArray[np.int64]) -> NDArray[np.int64]:
    bag = np.array(sorted(set(ids.tolist())), dtype=np.int64)  # np.unique takes ten times as long for a few
    return keep(_BAGS, text, bag, limit=_MAX_BAGS)


def cover(query: NDArray[np.int64], texts: Sequence[str]) -> NDArray[np.float32]:
    """Best cosine of each query token in each text; shape (texts, query tokens)."""
    model = token_vectors()

    def unit(tokens: NDArray[np.int64]) -> NDArray[np.float32]:
        vectors: NDArray[np.float32] = model.table[tokens]
        vectors /= np.maximum(model.norms[tokens], 1e-12)[:, None]
        return vectors

    bags = bags_of(texts)
    # Each distinct token is compared once: texts about one subject share most of theirs.
    tokens = np.concatenate(bags)
    distinct, place = distinct_of(tokens)
    starts = np.cumsum([0, *(len(bag) for bag in bags[:-1])])
    cosines: NDArray[np.float32] = unit(distinct) @ unit(query).T
    return np.maximum.reduceat(cosines[place[tokens]], starts, axis=0)


def distinct_of(tokens: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The distinct token ids, ascending, and for every id of the vocabulary its place among them.

    The place of an id that is not among them means nothing.
    """
    seen = np.zeros(len(token_vectors().norms), dtype=np.bool_)
    seen[tokens] = True
    distinct = np.flatnonzero(seen)
    place = np.empty(len(seen), dtype=np.int64)
    place[distinct] = np.arange(len(distinct))
    return distinct, place


def weights_of(query: NDArray[np.int64], texts: Sequence[str]) -> NDArray[np.float64]:
    """What each query token counts: its vector's length times its idf (BM25's form) among the texts."""
    model = token_vectors()
    # A bag holds each token once, so counting tokens counts texts.
    n_with = np.bincount(np.concatenate(bags_of(texts)), minlength=len(model.norms))[query]
    idf = np.log1p((len(texts) - n_with + 0.5) / (n_with + 0.5))
    weights: NDArray[np.float64] = idf * model.norms[query]
    return weights
