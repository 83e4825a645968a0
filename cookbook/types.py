"""Nothing in -> the records that flow through the pipeline, in the order in which they appear.

All are frozen, slotted and keyword-only. Offsets are half-open character offsets into
``Document.text``; for documents, sections and chunks ``text == document.text[start:end]``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .errors import CorpusError


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A half-open range of characters ``[start, end)`` in one document.

    >>> Span(doc_id="shipping", start=3, end=8).overlap(Span(doc_id="shipping", start=6, end=20))
    2
    """

    doc_id: str
    start: int
    end: int

    def __len__(self) -> int:
        return self.end - self.start

    def overlap(self, other: Span) -> int:
        """Number of characters that both spans hold (0 in different documents)."""
        if self.doc_id != other.doc_id:
            return 0
        return max(0, min(self.end, other.end) - max(self.start, other.start))

    def contains(self, other: Span) -> bool:
        """Whether the other span lies wholly inside this one."""
        return self.doc_id == other.doc_id and self.start <= other.start and other.end <= self.end


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """A span with the text that stands there: gold evidence, or a citation of an answer."""

    doc_id: str
    start: int
    end: int
    quote: str

    @property
    def span(self) -> Span:
        """The quote's place."""
        return Span(doc_id=self.doc_id, start=self.start, end=self.end)


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One page of a corpus; every offset in the package counts in its ``text``.

    Raises:
        CorpusError: the text holds a lone surrogate, which no encoder, store or server takes.

    >>> Document(doc_id="shipping", title="Shipping", text="Free.", corpus="marketing").key
    'marketing/shipping'
    """

    doc_id: str
    title: str
    text: str
    corpus: str = ""
    source: str = ""

    def __post_init__(self) -> None:
        try:
            self.text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise CorpusError(
                f"document {self.doc_id!r} holds a lone surrogate "
                f"{self.text[error.start]!a} at offset {error.start}; "
                "replace it before loading (text.encode('utf-8', 'replace').decode())"
            ) from None

    @property
    def key(self) -> str:
        """Prefix of the ids made from this document: ``corpus/doc_id``."""
        return f"{self.corpus}/{self.doc_id}" if self.corpus else self.doc_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A heading with the text under it.

    ``span`` covers the heading, its own text and every subsection; ``body`` covers the heading and
    its own text up to the first subsection. The bodies of a page's sections tile the page.
    ``heading_id`` is the title as an anchor (``shipping-times-1`` for the second of that name),
    empty for the preamble, whose ``path`` is empty and whose ``level`` is 0.
    """

    section_id: str
    heading_id: str
    title: str
    path: tuple[str, ...]
    level: int
    span: Span
    body: Span
    n_tokens: int
    parent_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A slice of a document: what is embedded (a child) or what is read (a parent).

    ``n_tokens`` counts ``text`` itself. ``position`` numbers the chunks of one document (or the
    children of one parent) from 0; ``para_index`` numbers the blocks of the section from 0. ``heading``
    is the path of headings above the chunk where the chunker was asked for it (``Guide > Shipping``).
    """

    chunk_id: str
    doc_id: str
    span: Span
    text: str
    kind: str
    position: int
    parent_id: str | None = None
    section_id: str | None = None
    heading_id: str | None = None
    para_index: int | None = None
    n_tokens: int
    heading: str = ""

    @property
    def search_text(self) -> str:
        """What is embedded, searched and reranked: the heading, if there is one, and the text."""
        return search_text(self.heading, self.text)


def search_text(heading: str, text: str) -> str:
    """A text below its heading, if it has one.

    >>> search_text("Guide > Shipping", "Two days."), search_text("", "Two days.")
    ('Guide > Shipping\\nTwo days.', 'Two days.')
    """
    return f"{heading}\n{text}" if heading else text


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A chunk that a retriever found. A higher ``score`` is better in every store; ranks start at 1.

    ``metadata`` holds the chunk's other fields: ``start``, ``end``, ``kind``, ``position``,
    ``parent_id``, ``section_id``, ``heading_id``, ``para_index``, ``n_tokens``, ``heading``, ``corpus``.
    It is empty when the store was given bare ids.
    """

    chunk_id: str
    doc_id: str
    text: str
    score: float
    rank: int
    retriever: str
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def span(self) -> Span:
        """Where the chunk lies in its document.

        Raises:
            ValueError: the store was given bare ids, so the place is unknown.
        """
        if "start" not in self.metadata:
            raise ValueError(
                f"hit {self.chunk_id!r} has no offsets: it was stored as a bare id; "
                "add Chunk records to the store instead"
            )
        return Span(doc_id=self.doc_id, start=self.metadata["start"], end=self.metadata["end"])

    @property
    def search_text(self) -> str:
        """The chunk's heading, if it has one, and its text: what the hit was found by."""
        return search_text(self.metadata.get("heading", ""), self.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """What the model reads for one or more hits: exact slices of one document under a heading.

    ``heading`` is text added by a rule (heading path, table header); it is counted in ``n_tokens`` and
    is never evidence. ``text`` is the heading and the slices as the model reads them. ``score`` is the
    best hit's.
    """

    doc_id: str
    spans: tuple[Span, ...]
    heading: str
    text: str
    hits: tuple[Hit, ...]
    score: float
    expansion: str
    n_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """Messages that fit the budget, and what did not.

    ``n_tokens`` counts all of it: system text, history, question, passages and separators; ``demand`` is
    the same with every passage that was asked for, whole: what the budget met.
    ``cut`` tells whether the first passage had to be shortened at a sentence border.
    """

    question: str
    messages: tuple[Mapping[str, str], ...]
    passages: tuple[Passage, ...]
    dropped: tuple[Passage, ...]
    n_tokens: int
    budget: int
    demand: int
    cut: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A reply with the quotes that it stands on. ``usage`` counts tokens in and out."""

    text: str
    citations: tuple[Quote, ...]
    model: str
    usage: Mapping[str, int]
    prompt: Prompt | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """Every intermediate result of one question, in the order in which it was made."""

    question: str
    hits: tuple[Hit, ...]
    ranked: tuple[Hit, ...]
    passages: tuple[Passage, ...]
    prompt: Prompt
    answer: Answer | None
    seconds: Mapping[str, float]

    @property
    def contexts(self) -> list[str]:
        """The passages that reached the prompt, as the model reads them."""
        return [passage.text for passage in self.prompt.passages]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question with gold spans; it reads like a row too (``question["answer"]``).

    ``evidence`` is empty when the corpus does not hold the answer. ``qualifiers`` limit the claim,
    ``forbidden`` spans belong to something else and mislead. ``part`` is ``dev`` or ``test``.
    """

    question_id: str
    corpus: str
    question: str
    answer: str
    evidence: tuple[Quote, ...]
    qualifiers: tuple[Quote, ...] = ()
    forbidden: tuple[Quote, ...] = ()
    kind: str
    part: str

    def __getitem__(self, name: str) -> Any:
        if name not in self.__slots__:
            raise KeyError(name)
        return getattr(self, name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """A named bundle: how to cut, how to search, in which order to rerank and expand, how much to read.

    ``chunker`` maps documents to chunks (or to children, parents and their mapping); ``retrieval`` is
    ``dense`` or ``hybrid``; ``order`` is ``none`` (no reranking), ``rerank_expand`` (which also brings
    what the question names to the front) or ``expand_rerank``; ``expander`` maps hits and the store they
    came from to passages. ``fetch`` hits are searched, or more, until they hold ``top_k`` distinct values of
    ``unit`` (``chunk_id``, ``parent_id``, ``section_id`` or ``doc_id``). ``budget`` is the prompt's size in
    tokens.
    """

    name: str
    chunker: Callable[..., Any]
    retrieval: str
    order: str
    expander: Callable[..., list[Passage]]
    unit: str
    fetch: int
    top_k: int
    budget: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalSample:
    """One answered question in the shape that answer-level evaluators take."""

    question: str
    answer: str
    contexts: Sequence[str]
    reference: str
