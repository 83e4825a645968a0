"""A question and Passages -> a Prompt whose messages fit a budget in tokens, and a record of what did not.

The user message holds the passages, numbered from 1 with the id of their document, and ends with the
line ``Question: ...``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .errors import BudgetError
from .passages import count as count_kept
from .passages import shorten
from .tokens import DEFAULT_ENCODING, count, parts_at_line_ends
from .types import Passage, Prompt

#: What a reader says when the passages do not answer the question.
REFUSAL = "The answer is not in the passages."
#: The words by which a reply is known to refuse.
REFUSED = "not in the passages"
SYSTEM = (
    "Answer the question from the passages alone. Cite each passage that you use by its number, like [1]. "
    "Give the conditions and limits that the passages put on the answer. If the passages do not hold the "
    f"answer, reply: {REFUSAL}"
)

#: What a chat model adds to each message besides role and content, and to the whole for its reply.
#: Source: OpenAI Cookbook, "How to count tokens with tiktoken". Others differ by a few: use ``margin``.
TOKENS_PER_MESSAGE = 3
TOKENS_PER_REPLY = 3


def count_messages(messages: Sequence[Mapping[str, str]], *, encoding: str = DEFAULT_ENCODING) -> int:
    """Tokens of a chat request: role and content of each message, and the marks of the chat format.

    >>> count_messages([{"role": "user", "content": "How long does shipping take?"}])
    13
    """
    return TOKENS_PER_REPLY + sum(
        TOKENS_PER_MESSAGE + count_kept(message["role"], encoding) + count_kept(message["content"], encoding)
        for message in messages
    )


def pack(
    question: str,
    passages: Sequence[Passage],
    *,
    budget: int = 2000,
    margin: int = 0,
    system: str = SYSTEM,
    history: Sequence[Mapping[str, str]] = (),
    encoding: str = DEFAULT_ENCODING,
) -> Prompt:
    """As many passages as fit, in their order, with everything else that the model is sent.

    A passage that does not fit is dropped, and a later, smaller one may still be kept. Only the first is
    never dropped for its size alone: it is cut at sentence borders around its best hit, and then
    ``prompt.cut`` is True and ``prompt.dropped`` holds it as it came. So each passage given is either in
    ``passages`` or in ``dropped``. ``prompt.demand`` is what all of them would have taken.

    Args:
        budget: the largest ``n_tokens``: system text, history, question, passages and the chat format.
        margin: tokens of the budget to leave free, for models that count otherwise.
        system: the system message; ``""`` sends none.
        history: earlier messages of the conversation, each with ``role`` and ``content``.
        encoding: the tokenizer that counts.

    Raises:
        BudgetError: system text, history and question alone exceed the budget.
    """
    if not question.strip():
        raise ValueError("question is blank: ask something")
    if margin < 0:
        raise ValueError(f"margin={margin} must be at least 0")
    if budget <= margin:
        raise ValueError(f"budget={budget} must be above margin={margin}")
    for position, message in enumerate(history):
        if not all(isinstance(message.get(key), str) for key in ("role", "content")):
            raise ValueError(f"history[{position}] must hold the strings 'role' and 'content'")
    limit = budget - margin

    def messages_with(kept: Sequence[Passage]) -> tuple[Mapping[str, str], ...]:
        entries = "".join(_entry(number, passage) for number, passage in enumerate(kept, start=1))
        first = [{"role": "system", "content": system}] if system else []
        user = {"role": "user", "content": f"Passages:\n\n{entries}Question: {question}"}
        return (*first, *history, user)

    n_tokens = count_messages(messages_with([]), encoding=encoding)
    if n_tokens > limit:
        parts = {"system": system, "question": question}
        parts["history"] = "".join(message["content"] for message in history)
        sizes = ", ".join(f"{name} {count(text, encoding=encoding)}" for name, text in parts.items())
        raise BudgetError(
            f"{n_tokens} tokens are needed before any passage ({sizes}, the rest is format), but "
            f"budget={budget} less margin={margin} leaves {limit}; raise the budget or shorten these parts"
        )
    kept: dict[int, Passage] = {}
    demand = n_tokens
    for place, passage in enumerate(passages):
        # Entries end with a line end and start with "[": a token ends there, so their counts add up.
        n_entry = _n_entry(len(kept) + 1, passage, encoding)
        demand += n_entry
        if n_tokens + n_entry > limit:
            shorter = _shorter(passage, limit - n_tokens, encoding) if place == 0 else None
            if shorter is None:
                continue
            passage, n_entry = shorter
        kept[place] = passage
        n_tokens += n_entry
    messages = messages_with(list(kept.values()))
    if not parts_at_line_ends(encoding):  # older encodings: the counts did not add up
        while (n_tokens := count_messages(messages, encoding=encoding)) > limit:
            kept.popitem()
            messages = messages_with(list(kept.values()))
    return Prompt(
        question=question,
        messages=messages,
        passages=tuple(kept.values()),
        dropped=tuple(passage for place, passage in enumerate(passages) if kept.get(place) is not passage),
        n_tokens=n_tokens,
        budget=budget,
        demand=demand,
        cut=0 in kept and kept[0] is not passages[0],
    )


def _entry(number: int, passage: Passage) -> str:
    return f"{_label(number, passage)}{passage.text.rstrip()}\n\n"


def _n_entry(number: int, passage: Passage, encoding: str) -> int:
    """Tokens of an entry; the passage was counted when it was made, so only its two ends are counted."""
    text = passage.text
    seam = text.rfind(" ", 0, len(text.rstrip()))
    while seam > 0 and text[seam - 1].isspace():
        seam = text.rfind(" ", 0, seam)
    lead = text[: len(text) - len(text.lstrip())]  # a line end in it would join that of the label
    if seam < 1 or text[0] == "/" or "\n" in lead or "\r" in lead or not parts_at_line_ends(encoding):
        return count(_entry(number, passage), encoding=encoding)
    # A token ends behind the label's line end, and one before a space that follows a word.
    end = text[seam:]
    n_more = count_kept(f"{end.rstrip()}\n\n", encoding) - count_kept(end, encoding)
    return count_kept(_label(number, passage), encoding) + count_kept(text, encoding) + n_more


def _label(number: int, passage: Passage) -> str:
    return f"[{number}] {passage.doc_id}\n"


def _shorter(passage: Passage, room: int, encoding: str) -> tuple[Passage, int] | None:
    """The passage cut so that its entry takes at most ``room`` tokens, and how many it takes."""
    max_tokens = room - count(_label(1, passage), encoding=encoding)
    while (shorter := shorten(passage, max_tokens=max_tokens, encoding=encoding)) is not None:
        n_entry = count(_entry(1, shorter), encoding=encoding)
        if n_entry <= room:
            return shorter, n_entry
        max_tokens = min(max_tokens, shorter.n_tokens) - 1
    return None
