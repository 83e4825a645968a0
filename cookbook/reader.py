"""(question, passages) -> the sentences of theirs that answer it, verbatim, or a refusal; offline.

The embedded provider's half that reads: a stand-in for a model that costs nothing, gives the same answer each
time and can only say what stands in what it was sent.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .blocks import blocks
from .local import bags_of, check_texts, cover, distinct_of, token_vectors, weights_of
from .names import spelled, titled
from .passages import slices as slices_of
from .prompts import REFUSAL
from .sentences import splitter
from .types import Passage, Quote

if TYPE_CHECKING:
    from numpy.typing import NDArray

CHAT_MODEL = "extractive-reader"

#: The reader refuses below this :func:`confidence`.
THRESHOLD = 1.08
#: Sentences that the reader returns at most.
MAX_SENTENCES = 3

# Chosen on the development questions about API pages. Page and headings count as the sentence itself, the
# lead-in of its block less; what only neighbours cover counts least; code, pointers and what is said of an
# example rarely answer; what stands under a heading that the question names answers more often.
_LEAD_WEIGHT = 0.7
_NEIGHBOUR_WEIGHT = 0.2
_N_NEIGHBOURS = 4
_WEAK_WEIGHT = 0.8
_NAMED_WEIGHT = 1.2
_WEAK_TITLES = frozenset({"see also", "references", "further reading", "examples"})
# What adds to that mean: words held exactly, the cosine of the whole, the form of an answer. Rounded from a
# conditional logistic regression (ridge 3) on the 252 development questions of seven corpora whose evidence
# was sent; the pandas pages counted most. _ABOUT, _NAMED_WEIGHT and that examples are weak come from another
# on 146 questions over the pandas pages.
_EXACT = 0.3
_ABOUT = 0.3
_CUED = 0.1
_TOO_ALIKE = 0.7
_MUCH_WORSE = 0.7
# A rare word of the question that stands nowhere in what was sent.
_MISSING = 0.05
_CLAUSE = re.compile(r"[,;:?.!]\s|\b(?:and|but|if|when)\b")
_MIN_CLAUSE = 4  # words
# What counts for an answer: the best support; what the texts know; how far the best sentence stands above
# others; names. Rounded from a logistic regression (ridge 1) on 283 questions over the pandas pages in four
# sets by different authors; a fifth, of 80, moved THRESHOLD. It refuses three in four of the 137 questions
# without an answer and cites evidence for six in ten of the 226 that have one.
_KNOWN = 0.3
_STANDS_OUT = 2.0
_N_OTHERS = 20
_NAMED = 0.3
_NO_NAMES = 0.8


# Words that only hold a question together.
_GLUE = re.compile(
    r"a|about|after|also|an|and|any|are|as|at|be|been|before|but|by|can|could|did|do|does|doing|done|for"
    r"|from|get|gets|give|given|gives|had|has|have|how|if|in|into|is|it|its|just|let|make|makes|may|me"
    r"|might|my|need|no|not|of|on|one|only|or|our|say|says|should|so|some|such|take|tell|than|that|the"
    r"|their|them|then|there|these|they|thing|this|those|to|too|up|us|use|used|using|was|we|were|what|when"
    r"|where|which|while|who|whom|whose|why|will|with|would|you|your"
)
# What a kind of question asks with, and what answers to it often hold.
_CUES = [
    (re.compile(asks, re.IGNORECASE), re.compile(answers, re.IGNORECASE))
    for asks, answers in (
        (
            r"\bwhy\b|\bhow come\b|\breason\b",
            r"\b(because|due to|since|as a result|therefore|so that|reason)\b",
        ),
        (
            r"\bhow (many|much|long|old|far|often|large|big|few)\b|\b(minimum|maximum|at (most|least))\b",
            r"\d|\b(one|two|three|four|five|ten|twice|single|number of|maximum|minimum)\b",
        ),
        (
            r"\b(errors?|fails?|raises?|allowed|legal|happens?|becomes? of)\b",
            r"\b(rais\w*|error\w*|exception|ignored|dropped|invalid|not (allowed|supported))\b",
        ),
        (
            r"\b(default|unless|if i (don't|do not)|without (naming|saying|giving))\b",
            r"\b(default|none|if not|otherwise|omitted|unspecified)\b",
        ),
        (
            r"(^|[,.?!] )(can|could|does|do|did|is|are|will|would|may|must|should)\b",
            r"\b(not|no|only|never|always|must|cannot|can't|supported|required?|will|may|unless|both|either)\b",
        ),
        (
            r"\b(instead|alternatives?|better|recommended|avoid|safe)\b",
            r"\b(instead|recommend\w*|use|avoid|consider|should|better|warning|prefer\w*|ensure)\b",
        ),
    )
]


class Slice(NamedTuple):
    """A piece of a document that the reader may quote, with text that says what it is about."""

    doc_id: str
    start: int
    text: str
    context: str = ""


class Reading(NamedTuple):
    """A sentence that the reader returns: its place and words, and how well it fits among the others."""

    quote: Quote
    slice_index: int
    score: float


class Candidate(NamedTuple):
    """A sentence that may answer, with what says what it is about."""

    text: str
    slice_index: int = 0
    start: int = 0
    headings: tuple[str, ...] = ()
    lead: tuple[str, ...] = ()
    weight: float = 1.0


def score_sentences(question: str, candidates: Sequence[Candidate]) -> NDArray[np.float64]:
    """How well each sentence answers the question among the others, at most 1; shape (n,).

    Each token of the question takes its best cosine in the sentence, its headings and (for less) its
    lead-in and neighbours; the mean is weighted as in :func:`cookbook.local.rerank`.

    >>> scores = score_sentences(
    ...     "How long is shipping?", [Candidate("Shipping takes two days."), Candidate("We sell kilns.")]
    ... )
    >>> bool(scores[0] > scores[1])
    True
    """
    sentences = [candidate.text for candidate in candidates]
    check_texts([question, *sentences])
    if not sentences:
        return np.zeros(0)
    query = bags_of([question])[0]
    own, titles, leads = _covered(question, tuple(candidates))
    covered = np.maximum(np.maximum(own, titles), _LEAD_WEIGHT * leads)
    source = np.asarray([candidate.slice_index for candidate in candidates])
    near = np.maximum(covered, leads)
    for step in range(1, min(_N_NEIGHBOURS, len(own) - 1) + 1):
        same = (source[step:] == source[:-step])[:, None]
        near[step:] = np.where(same, np.maximum(near[step:], own[:-step]), near[step:])
        near[:-step] = np.where(same, np.maximum(near[:-step], own[step:]), near[:-step])
    covered = (1 - _NEIGHBOUR_WEIGHT) * covered + _NEIGHBOUR_WEIGHT * near
    weights = weights_of(query, sentences)
    scores = covered.astype(np.float64) @ weights / weights.sum()
    scores += _EXACT * _exact(question, candidates) + _ABOUT * _about(query, candidates)
    scores += _CUED * _cued(question, sentences)
    scores /= 1 + _EXACT + _ABOUT + _CUED
    words = _words(question)
    for place, candidate in enumerate(candidates):
        is_named = any(words & titled(path) for path in candidate.headings)
        scores[place] *= candidate.weight * (_NAMED_WEIGHT if is_named else 1)
    rounded: NDArray[np.float64] = np.round(scores, 6)
    return rounded


def _exact(question: str, candidates: Sequence[Candidate]) -> NDArray[np.float64]:
    """Share of the question's words that each sentence, its headings or its lead-in hold, by their idf."""
    asked = sorted(_stems(question))
    around = [(*c.headings, *c.lead) for c in candidates]
    # Sentences under one heading share what stands around them.
    in_group = {
        group: [any(stem in _stems(text) for text in group) for stem in asked]
        for group in dict.fromkeys(around)
    }
    own = np.array([[stem in _stems(c.text) for stem in asked] for c in candidates], dtype=np.bool_)
    n_with = own.sum(axis=0)
    idf = np.log1p((len(own) - n_with + 0.5) / (n_with + 0.5))
    held = (own | np.array([in_group[group] for group in around], dtype=np.bool_)).astype(np.float64)
    shares: NDArray[np.float64] = held @ idf / idf.sum() if asked else np.zeros(len(own))
    return shares


@lru_cache(maxsize=16_384)
def _stems(text: str) -> frozenset[str]:
    """The stems of a text's words, without those that only hold a question together."""
    return frozenset(
        _stem(word) for word in re.findall(r"[^\W_]{2,}", text.lower()) if not _GLUE.fullmatch(word)
    )


def _about(query: NDArray[np.int64], candidates: Sequence[Candidate]) -> NDArray[np.float64]:
    """Cosine of the question and each sentence with headings and lead-in, tokens weighted by their idf."""
    model = token_vectors()
    own = bags_of([candidate.text for candidate in candidates])
    texts = [[t for t in (c.text, *c.headings, *c.lead) if t.strip()] for c in candidates]
    bags = bags_of([text for several in texts for text in several])
    row = np.repeat(np.repeat(np.arange(len(texts)), [len(t) for t in texts]), [len(bag) for bag in bags])
    token = np.concatenate(bags)
    distinct, column = distinct_of(np.concatenate([token, query]))
    n_with = np.bincount(np.concatenate(own), minlength=len(model.norms))[distinct]
    idf = np.log1p((len(own) - n_with + 0.5) / (n_with + 0.5))
    holds = np.zeros((len(texts) + 1, len(distinct)), dtype=np.float32)
    holds[row, column[token]] = 1
    holds[-1, column[query]] = 1
    vectors = holds @ (model.table[distinct] * np.sqrt(idf).astype(np.float32)[:, None])
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    cosines: NDArray[np.float64] = (vectors[:-1] @ vectors[-1]).astype(np.float64)
    return cosines


def _cued(question: str, sentences: Sequence[str]) -> NDArray[np.float64]:
    """Share of the question's kinds (why, how many, ...) whose answers read like each sentence."""
    kinds = [answers for asks, answers in _CUES if asks.search(question)]
    return np.array(
        [sum(kind.search(s) is not None for kind in kinds) / (len(kinds) or 1) for s in sentences]
    )


def _words(text: str) -> frozenset[str]:
    """Words of a text that are long enough for a name; of a dotted name the last part."""
    found = re.findall(r"\w+(?:\.\w+)*", text.lower())
    return frozenset(word.rpartition(".")[2] for word in found if len(word) > 2)


@lru_cache(maxsize=1)  # a reading asks twice: for the scores, and for how sure they are
def _covered(question: str, candidates: tuple[Candidate, ...]) -> tuple[NDArray[np.float32], ...]:
    """Best cosine of each token of the question in the sentences, their headings and their lead-ins.

    Returns:
        Three arrays of shape (n, query tokens); a sentence without headings or a lead-in has zeros there.
    """
    query = bags_of([question])[0]
    texts = _texts(candidates)
    rows = dict(zip(texts, cover(query, texts), strict=True))
    nothing = np.zeros(len(query), dtype=np.float32)

    def best_of(groups: list[tuple[str, ...]]) -> NDArray[np.float32]:
        best = {  # sentences under one heading share it
            group: np.maximum.reduce([nothing, *(rows[text] for text in group if text in rows)])
            for group in dict.fromkeys(groups)
        }
        return np.array([best[group] for group in groups])

    own = np.array([rows[candidate.text] for candidate in candidates])
    return own, best_of([c.headings for c in candidates]), best_of([c.lead for c in candidates])


def _texts(candidates: Iterable[Candidate]) -> list[str]:
    """The sentences, headings and lead-ins that are not blank, each once."""
    said = dict.fromkeys(text for c in candidates for text in (c.text, *c.headings, *c.lead))
    return [text for text in said if text.strip()]


def candidates(index: int, source: Slice) -> Iterator[Candidate]:
    """The sentences of a slice, white space trimmed, each with what says what it is about.

    That is the page's name and the headings above; and, as the lead-in, the head of a table, the items
    that a nested item belongs to, and the first sentence of the sentence's own block.
    """
    return (candidate._replace(slice_index=index) for candidate in _candidates(source))


@lru_cache(maxsize=1024)
def _candidates(source: Slice) -> tuple[Candidate, ...]:
    return tuple(_sentences_of(source))  # kept, since many questions are sent the same sections


def _sentences_of(source: Slice) -> Iterator[Candidate]:
    split = splitter(source.text)  # looks once through the text
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
        weak = block.kind == "code" or (path and path[-1][1].strip().lower() in _WEAK_TITLES)
        headings = (source.doc_id, source.context, *(title for _, title in path))
        first = ""
        for start, end in split(block):
            sentence = source.text[start:end].strip()
            if not any(character.isalnum() for character in sentence):
                continue
            yield Candidate(
                sentence,
                start=start + source.text[start:end].index(sentence),
                headings=headings,
                lead=(*(lead for _, lead in leads), first),
                weight=_WEAK_WEIGHT if weak else 1.0,
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
    """The sentences that answer the question best, best first; none where confidence is below the threshold.

    Sentences that say nearly the same are returned once, and none that scores far below the best.

    >>> page = Slice("shipping", 0, "We sell kilns. Shipping takes two days.")
    >>> [reading.quote.quote for reading in read("How long is shipping?", [page], max_sentences=1)]
    ['Shipping takes two days.']
    """
    if max_sentences < 1:
        raise ValueError(f"max_sentences={max_sentences} must be at least 1")
    found = [candidate for n, source in enumerate(slices) for candidate in candidates(n, source)]
    scores = score_sentences(question, found)
    best: list[int] = []
    words: dict[int, set[str]] = {}
    for i in np.argsort(-scores, kind="stable").tolist():
        if scores[i] < _MUCH_WORSE * scores.max():
            break
        words[i] = set(re.findall(r"\w+", found[i].text.lower()))
        if all(len(words[i] & words[j]) < _TOO_ALIKE * len(words[i] | words[j]) for j in best):
            best.append(i)
        if len(best) == max_sentences:
            break
    if not best or confidence(question, found, scores) < threshold:
        return []
    return [Reading(_quote(found[i], slices), found[i].slice_index, float(scores[i])) for i in best]


def confidence(question: str, candidates: Sequence[Candidate], scores: NDArray[np.float64]) -> float:
    """How surely the best sentences answer the question; most of it comes from four observations.

    A sentence covers what is asked about; all texts together speak of it; the best sentence stands out
    among the others, while to a question without an answer many fit alike; and where headings are names,
    as on the pages of an API, the question spells one of them. Unlike a score, it compares across questions.

    Args:
        scores: of the candidates, by :func:`score_sentences`; shape (n,).

    >>> def confident(question):
    ...     given = [Candidate("Shipping takes two days."), Candidate("We sell kilns.")]
    ...     return confidence(question, given, score_sentences(question, given))
    >>> confident("How long is shipping?") > THRESHOLD > confident("Who painted the Mona Lisa?")
    True
    """
    known = knows(question, _texts(candidates))
    about = (1 - _KNOWN) * supports(question, candidates).max() + _KNOWN * known
    best, *others = np.sort(scores)[::-1].tolist()
    # Where there are fewer to compare with, the one that is missing counts as much worse.
    other = others[_N_OTHERS - 1] if len(others) >= _N_OTHERS else _MUCH_WORSE * best
    return float(about + _STANDS_OUT * (best - other) + _NAMED * _named(question, candidates))


def _named(question: str, candidates: Sequence[Candidate]) -> float:
    """1 when the question spells a name that is a heading, 0 when none though headings are names."""
    paths = dict.fromkeys(path for candidate in candidates for path in candidate.headings[1:])
    if spelled(question) & frozenset().union(*(titled(path) for path in paths)):
        return 1.0
    titles = [title for path in paths for title in path.split(" > ")]
    return 0.0 if any(" " not in title and spelled(title) for title in titles) else _NO_NAMES


def supports(question: str, candidates: Sequence[Candidate]) -> NDArray[np.float64]:
    """How surely each sentence, read with its headings and lead-in, is about the question; shape (n,).

    It is the share of the question's words that the text covers, each counted by how much it says; of a
    question of several clauses, that of the clause that is covered best, since a sentence seldom answers
    all. Unlike the score, it compares across questions.

    >>> knows, guesses = supports(
    ...     "How long is shipping?", [Candidate("Shipping takes two days."), Candidate("We sell kilns.")]
    ... )
    >>> bool(knows > 0.6 > 0.2 > guesses)
    True
    """
    if not candidates:
        return np.zeros(0)
    query = bags_of([question])[0]
    covered = np.maximum.reduce(_covered(question, tuple(candidates))).astype(np.float64)
    weights = token_vectors().norms[query].astype(np.float64) ** 1.5
    clauses = [part for part in _CLAUSE.split(question) if len(re.findall(r"\w+", part)) >= _MIN_CLAUSE]
    tokens = [np.isin(query, bag) for bag in bags_of(clauses or [question])]
    shares = [covered[:, held] @ weights[held] / weights[held].sum() for held in tokens if held.any()]
    support: NDArray[np.float64] = np.round(np.max(shares or [covered @ weights / weights.sum()], axis=0), 6)
    return support


def knows(question: str, texts: Sequence[str]) -> float:
    """How far the texts together speak of what the question asks about, at most 1.

    The mean over the question's words of what covers each best, weighted so that the words that say most
    decide. A word that the tokenizer has to cut, as it does names and rare words, and that no text
    contains costs a little more.

    >>> page = ["Shipping takes two days. We sell kilns."]
    >>> knows("How long is shipping?", page) > knows("Who painted the Mona Lisa?", page)
    True
    """
    words = list(dict.fromkeys(re.findall(r"[^\W\d]\w{2,}", question.lower())))
    if not words or not texts:
        return 0.0
    norms = token_vectors().norms
    bags = bags_of(words)
    tokens = np.unique(np.concatenate(bags))
    best = dict(zip(tokens.tolist(), cover(tokens, texts).max(axis=0).tolist(), strict=True))
    covered = [sum(norms[t] * best[t] for t in bag.tolist()) / norms[bag].sum() for bag in bags]
    weights = [float(norms[bag].max()) ** 3 for bag in bags]
    share = float(np.dot(covered, weights)) / sum(weights)
    everything = "\n".join(texts).lower()
    missing = any(
        len(bag) > 1 and _stem(word) not in everything for word, bag in zip(words, bags, strict=True)
    )
    return round(share - _MISSING * missing, 6)


def _stem(word: str) -> str:
    """A word without the end that its other forms may lack."""
    return word if len(word) < 6 else word[: max(4, len(word) - 3)]


def _quote(candidate: Candidate, slices: Sequence[Slice]) -> Quote:
    source = slices[candidate.slice_index]
    start = source.start + candidate.start
    return Quote(doc_id=source.doc_id, start=start, end=start + len(candidate.text), quote=candidate.text)


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
