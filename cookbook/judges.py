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

#: The share of the reference's content words that an answer must hold for the rule to agree.
MIN_SHARE = 0.5
#: What the judge is called on the embedded provider: no model judges there.
RULE = "rule: numbers and content words"

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
        "no",
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
_NUMBERS = {
    name: str(value)
    for value, name in enumerate(
        [
            "zero",
            "one",
            "two",
            "three",
            "four",
            "five",
            "six",
            "seven",
            "eight",
            "nine",
            "ten",
            "eleven",
            "twelve",
        ]
    )
}
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
    judgement says so: every number of the reference stands in the answer, and at least half of its
    content words. A reference that refuses wants a refusal.

    Raises:
        BadReplyError: the model's reply begins with neither yes nor no.
    """
    if client.provider == "local":
        return by_rule(sample)
    text = client.chat(
        _PROMPT.format(question=sample.question, reference=sample.reference, answer=sample.answer)
    )
    verdict, _, reason = text.strip().partition(":")
    word = verdict.strip(" \"'*.\n").lower()
    if word not in ("yes", "no"):
        raise BadReplyError(f"the judge {client.chat_model!r} said neither yes nor no first: {text[:80]!r}")
    return Judgement(agrees=word == "yes", reason=reason.strip(), judge=client.chat_model)


def by_rule(sample: EvalSample) -> Judgement:
    """The judgement of the rule alone.

    >>> sample = EvalSample(question="How long?", answer="It takes 2 working days.", contexts=(),
    ...                     reference="Two working days.")
    >>> by_rule(sample).agrees, by_rule(sample).reason
    (True, '2 of 2 content words, every number')
    """
    refuses, should_refuse = (REFUSED in text.lower() for text in (sample.answer, sample.reference))
    if refuses or should_refuse:
        said = "the answer refuses" if refuses else "the answer does not refuse"
        return Judgement(agrees=refuses and should_refuse, reason=said, judge=RULE)
    wanted, found = _numbers(sample.reference), _numbers(sample.answer)
    if missing := sorted(wanted - found):
        return Judgement(agrees=False, reason=f"the answer lacks {', '.join(missing)}", judge=RULE)
    words, said_words = _stems(sample.reference), _stems(sample.answer)
    shared = len(words & said_words)
    reason = f"{shared} of {len(words)} content words, every number"
    return Judgement(agrees=shared >= MIN_SHARE * len(words), reason=reason, judge=RULE)


def _numbers(text: str) -> set[str]:
    words = {_NUMBERS[word] for word in re.findall(r"[a-z]+", text.lower()) if word in _NUMBERS}
    return words | {number.replace(",", "").rstrip(".") for number in _NUMBER.findall(text)}


def _stems(text: str) -> set[str]:
    """Content words by their first five letters, so that inflected forms meet."""
    words = _WORD.findall(text.lower())
    return {word[:5] for word in words if word not in _STOP and word not in _NUMBERS}


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
