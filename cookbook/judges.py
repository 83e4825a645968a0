"""A question, an answer and a reference -> whether they agree, and why; samples -> what evaluators take."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .errors import BadReplyError
from .prompts import REFUSED
from .types import EvalSample

if TYPE_CHECKING:
    from .providers import LLMClient

#: The share of the reference's numbers and content words that an answer must hold for the rule to agree.
MIN_SHARE = 0.5
#: What the judge is called on the embedded provider: no model judges there.
RULE = "rule: numbers and content words"

# Models put marks around the word that they were asked for: **No**, "yes", Yes.
_VERDICT = re.compile(r"\W*(yes|no)\b\W*", re.IGNORECASE)
_CITATION = re.compile(r"\[\d+\]")
# 43,200 and 43 200, the latter with one of the two spaces that do not break.
_SEPARATOR = re.compile(r"(?<=\d)[,\u00a0\u202f](?=\d{3}(?!\d))")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_WORD = re.compile(r"[^\W\d_]{2,}")
_STOP = frozenset(
    [
        "a",
        "an",
        "and",
        "are",
        "as",
        "at",
        "be",
        "been",
        "but",
        "by",
        "can",
        "could",
        "did",
        "do",
        "does",
        "for",
        "from",
        "had",
        "has",
        "have",
        "how",
        "if",
        "in",
        "into",
        "is",
        "it",
        "its",
        "may",
        "might",
        "more",
        "most",
        "must",
        "nor",
        "not",
        "of",
        "on",
        "only",
        "or",
        "other",
        "our",
        "should",
        "so",
        "some",
        "such",
        "than",
        "that",
        "the",
        "their",
        "them",
        "then",
        "there",
        "these",
        "they",
        "this",
        "those",
        "to",
        "up",
        "was",
        "we",
        "were",
        "what",
        "when",
        "where",
        "which",
        "while",
        "who",
        "will",
        "with",
        "would",
        "you",
        "your",
    ]
)
_ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen"
)
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_FIGURES = {word: value for value, word in enumerate(_ONES.split())}
_FIGURES |= {word: 10 * value for value, word in enumerate(_TENS.split(), start=2)}
_FIGURES |= {
    f"{ten}-{one}": _FIGURES[ten] + _FIGURES[one] for ten in _TENS.split() for one in _ONES.split()[1:10]
}
_IN_WORDS = re.compile(rf"\b({'|'.join(sorted(_FIGURES, key=len, reverse=True))})\b")
_SIDES = {"yes": True, "no": False, "not": False}
_PROMPT = """Does the answer say the same as the reference? A missing condition or another figure is a no.
Reply with one line: "yes" or "no", a colon, and the reason.

Question: {question}
Reference: {reference}
Answer: {answer}"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """Whether an answer agrees with its reference, the reason, and who judged."""

    agrees: bool
    reason: str
    judge: str


def judge(sample: EvalSample, *, client: LLMClient) -> Judgement:
    """Whether the sample's answer agrees with its reference.

    A hosted or local chat model judges; on the embedded provider, which has none, a rule does, and the
    judgement says so: every number of the reference stands in the answer, and so does half of what it
    says at least, numbers and content words together; a yes is not a no. A reference that refuses wants
    a refusal. Of units, of negations further on and of contradictions the rule knows nothing.

    Raises:
        BadReplyError: the model's reply begins with neither yes nor no.
    """
    if client.provider == "local":
        return by_rule(sample)
    text = client.chat(
        _PROMPT.format(question=sample.question, reference=sample.reference, answer=sample.answer)
    )
    verdict = _VERDICT.match(text)
    if verdict is None:
        raise BadReplyError(f"the judge {client.chat_model!r} said neither yes nor no first: {text[:80]!r}")
    return Judgement(
        agrees=verdict[1].lower() == "yes", reason=text[verdict.end() :].strip(), judge=client.chat_model
    )


def by_rule(sample: EvalSample) -> Judgement:
    """The judgement of the rule alone.

    >>> sample = EvalSample(question="How long?", answer="It takes 2 working days.", contexts=(),
    ...                     reference="Two working days.")
    >>> by_rule(sample).agrees, by_rule(sample).reason
    (True, '3 of 3 numbers and content words')
    """
    refuses, should_refuse = (REFUSED in text.lower() for text in (sample.answer, sample.reference))
    if refuses or should_refuse:
        said = "the answer refuses" if refuses else "the answer does not refuse"
        return Judgement(agrees=refuses and should_refuse, reason=said, judge=RULE)
    reference, answer = _plain(sample.reference), _plain(sample.answer)
    if {_side(reference), _side(answer)} == {True, False}:
        return Judgement(agrees=False, reason="one says yes and the other no", judge=RULE)
    numbers, said_numbers = _numbers(reference), _numbers(answer)
    if missing := sorted(numbers - said_numbers):
        return Judgement(agrees=False, reason=f"the answer lacks {', '.join(missing)}", judge=RULE)
    terms, said_terms = numbers | _stems(reference), said_numbers | _stems(answer)
    n_said = len(terms & said_terms)
    return Judgement(
        agrees=n_said >= MIN_SHARE * len(terms),
        reason=f"{n_said} of {len(terms)} numbers and content words",
        judge=RULE,
    )


def _plain(text: str) -> str:
    """Lower case, without citations, every number in figures and without separators."""
    text = _SEPARATOR.sub("", _CITATION.sub("", text.lower()))
    return _IN_WORDS.sub(lambda match: str(_FIGURES[match[0]]), text).strip()


def _side(text: str) -> bool | None:
    """Whether the first word of a plain text is a yes, or a no or not."""
    first = _WORD.search(text)
    return _SIDES.get(first[0]) if first else None


def _numbers(text: str) -> set[str]:
    """The numbers of a plain text; 0.80 and 0.8 are the same one."""
    found = _NUMBER.findall(text)
    return {n.rstrip("0").rstrip(".") if n.count(".") == 1 else n for n in found}


def _stems(text: str) -> set[str]:
    """Content words by their first five letters without a plural s, so that inflected forms meet."""
    return {word.rstrip("s")[:5] for word in _WORD.findall(text) if word not in _STOP}


def to_ragas(sample: EvalSample) -> dict[str, Any]:
    """The fields of RAGAS's ``SingleTurnSample``: ``SingleTurnSample(**to_ragas(sample))``.

    >>> to_ragas(EvalSample(question="q", answer="a", contexts=["c"], reference="r"))
    {'user_input': 'q', 'response': 'a', 'retrieved_contexts': ['c'], 'reference': 'r'}
    """
    return {
        "user_input": sample.question,
        "response": sample.answer,
        "retrieved_contexts": list(sample.contexts),
        "reference": sample.reference,
    }


def from_ragas(row: Mapping[str, Any]) -> EvalSample:
    """The sample of a RAGAS row (``SingleTurnSample.model_dump()``, or a row of its dataset).

    Raises:
        ValueError: a field is missing.

    >>> row = {"user_input": "q", "response": "a", "retrieved_contexts": ["c"], "reference": "r"}
    >>> from_ragas(row).contexts
    ('c',)
    """
    missing = [
        name
        for name in ("user_input", "response", "retrieved_contexts", "reference")
        if row.get(name) is None
    ]
    if missing:
        raise ValueError(f"row lacks {', '.join(missing)}: a sample needs all four fields")
    return EvalSample(
        question=row["user_input"],
        answer=row["response"],
        contexts=tuple(row["retrieved_contexts"]),
        reference=row["reference"],
    )
