"""Prompt -> text, texts -> vectors, (question, texts) -> scores: one client, a table of providers.

Which provider answers is settled by the first of: the argument, the environment variable, the table.
The variables are ``PROVIDER`` (``local`` when unset) and, for a provider called NAME, its key variable
(column ``key`` of the table), ``NAME_BASE_URL``, ``NAME_CHAT_MODEL`` and ``NAME_EMBED_MODEL``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import numpy as np

from . import local, reader
from .cache import VectorCache
from .errors import BadReplyError, MissingKeyError, ProviderError
from .transport import Transport
from .types import Answer, Passage, Prompt, Quote

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """One row of the table; None means "from a variable, or the call is refused"."""

    base_url: str | None = None
    key: str | None = None  # variable that holds the key; None: the server asks for none
    chat_model: str | None = None
    embed_model: str | None = None
    embeddings: bool = True
    max_input_tokens: int | None = None  # of one text to embed; None: not known, not checked
    source: str  # page that states the address
    checked: str  # when it was read


PROVIDERS: Mapping[str, Provider] = {
    "local": Provider(
        chat_model=reader.CHAT_MODEL,
        embed_model=local.EMBED_MODEL,
        source="cookbook/local.py",
        checked="2026-11-29",
    ),
    "openai": Provider(
        base_url="https://api.openai.com/v1",
        key="OPENAI_API_KEY",
        chat_model="gpt-4o-mini",
        embed_model="text-embedding-3-small",
        max_input_tokens=8192,
        source="https://github.com/openai/openai-python",
        checked="2026-11-29",
    ),
    # AZURE_BASE_URL is https://RESOURCE.openai.azure.com/openai/v1; models are your deployments' names.
    "azure": Provider(
        key="AZURE_OPENAI_API_KEY",
        max_input_tokens=8192,
        source="https://learn.microsoft.com/azure/foundry/openai/api-version-lifecycle",
        checked="2026-11-29",
    ),
    "nebius": Provider(
        base_url="https://api.tokenfactory.nebius.com/v1",
        key="NEBIUS_API_KEY",
        chat_model="Qwen/Qwen3-235B-A22B-Instruct-2507",
        embed_model="Qwen/Qwen3-Embedding-8B",
        source="https://docs.tokenfactory.nebius.com/api-reference/introduction",
        checked="2026-11-29",
    ),
    "groq": Provider(
        base_url="https://api.groq.com/openai/v1",
        key="GROQ_API_KEY",
        chat_model="openai/gpt-oss-20b",
        embeddings=False,
        source="https://console.groq.com/docs/openai",
        checked="2026-11-29",
    ),
    "together": Provider(
        base_url="https://api.together.ai/v1",
        key="TOGETHER_API_KEY",
        chat_model="openai/gpt-oss-20b",
        source="https://docs.together.ai/docs/inference/openai-compatibility",
        checked="2026-11-29",
    ),
    "openrouter": Provider(
        base_url="https://openrouter.ai/api/v1",
        key="OPENROUTER_API_KEY",
        chat_model="openai/gpt-4o",
        embed_model="openai/text-embedding-3-small",
        source="https://openrouter.ai/docs/quickstart",
        checked="2026-11-29",
    ),
    "mistral": Provider(
        base_url="https://api.mistral.ai/v1",
        key="MISTRAL_API_KEY",
        chat_model="mistral-small-latest",
        embed_model="mistral-embed",
        source="https://docs.mistral.ai/api",
        checked="2026-11-29",
    ),
    "gemini": Provider(
        base_url="https://generativelanguage.googleapis.com/v1beta/openai",
        key="GEMINI_API_KEY",
        chat_model="gemini-3-flash-preview",
        embed_model="gemini-embedding-001",
        source="https://ai.google.dev/gemini-api/docs/openai",
        checked="2026-11-29",
    ),
    "anthropic": Provider(
        base_url="https://api.anthropic.com/v1",
        key="ANTHROPIC_API_KEY",
        chat_model="claude-sonnet-4-6",
        embeddings=False,
        source="https://platform.claude.com/docs/en/cli-sdks-libraries/libraries/openai-sdk",
        checked="2026-11-29",
    ),
    # No public page states an address: QUANTA_BASE_URL and the models come from your account.
    "quanta": Provider(key="QUANTA_API_KEY", source="none found", checked="2026-11-29"),
    "ollama": Provider(
        base_url="http://localhost:11434/v1",
        chat_model="gpt-oss:20b",
        embed_model="nomic-embed-text",
        source="https://docs.ollama.com/api/openai-compatibility",
        checked="2026-11-29",
    ),
    # The models are the ones that the server was started with.
    "vllm": Provider(
        base_url="http://localhost:8000/v1",
        source="https://docs.vllm.ai/en/v0.8.4/serving/openai_compatible_server.html",
        checked="2026-11-29",
    ),
    # The server holds one model and takes any name for it.
    "llamacpp": Provider(
        base_url="http://localhost:8080/v1",
        chat_model="default",
        embed_model="default",
        source="https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md",
        checked="2026-11-29",
    ),
}


class LLMClient:
    """Chat, embeddings and reranking from one provider.

    Args:
        provider: a name of ``PROVIDERS``; else the variable ``PROVIDER``, else ``local``.
        chat_model, embed_model, base_url, api_key: override the variables and the table.
        timeout_s: how long one attempt may stay silent.
        max_retries: attempts after the first, for faults that may pass.
        batch_size: texts in one embedding request at most.
        max_batch_tokens: tokens in one embedding request at most (one longer text goes alone).
        max_input_tokens: a longer text is refused before sending, since some servers cut it silently.
        cache: file that keeps vectors between runs.

    >>> client = LLMClient("local")
    >>> client.chat("Shipping takes two days.\\nQ: How long does shipping take?\\nA:")
    'Shipping takes two days.'
    """

    def __init__(
        self,
        provider: str | None = None,
        *,
        chat_model: str | None = None,
        embed_model: str | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout_s: float = 60.0,
        max_retries: int = 2,
        batch_size: int = 100,
        max_batch_tokens: int = 100_000,
        max_input_tokens: int | None = None,
        cache: str | Path | None = None,
    ) -> None:
        name = (provider or os.environ.get("PROVIDER") or "local").strip().lower()
        if name not in PROVIDERS:
            raise ValueError(f"provider={name!r} must be one of {', '.join(PROVIDERS)}")
        if not timeout_s > 0:
            raise ValueError(f"timeout_s={timeout_s} must be above 0")
        for parameter, value, least in (
            ("max_retries", max_retries, 0),
            ("batch_size", batch_size, 1),
            ("max_batch_tokens", max_batch_tokens, 1),
            ("max_input_tokens", max_input_tokens, 1),
        ):
            if value is not None and value < least:
                raise ValueError(f"{parameter}={value} must be at least {least}")
        row = PROVIDERS[name]
        self.provider = name
        self._chat_model = chat_model or _variable(name, "CHAT_MODEL") or row.chat_model
        self._embed_model = embed_model or _variable(name, "EMBED_MODEL") or row.embed_model
        self.max_input_tokens = max_input_tokens or row.max_input_tokens
        self._batch_size = batch_size
        self._max_batch_tokens = max_batch_tokens
        self._dim: int | None = None
        self._transport: Transport | None = None
        if name != "local":
            self._transport = Transport(
                provider=name,
                base_url=_needed(base_url, row.base_url, name, "BASE_URL", "address"),
                api_key=_key(api_key, row, name),
                key_variable=row.key or "api_key",
                base_url_variable=f"{name.upper()}_BASE_URL",
                timeout_s=timeout_s,
                max_retries=max_retries,
            )
        self._cache = VectorCache(cache) if cache is not None else None

    @property
    def chat_model(self) -> str:
        """The model that chats.

        Raises:
            MissingKeyError: none is set and the provider has no default.
        """
        return _needed(self._chat_model, None, self.provider, "CHAT_MODEL", "chat model")

    @property
    def embed_model(self) -> str:
        """The model that embeds.

        Raises:
            MissingKeyError: none is set and the provider has no default.
            ProviderError: the provider has no embeddings.
        """
        if not PROVIDERS[self.provider].embeddings and not self._embed_model:
            others = ", ".join(name for name, row in PROVIDERS.items() if row.embeddings)
            raise ProviderError(
                f"{self.provider} has no embeddings; embed with a second client, one of: {others}"
            )
        return _needed(self._embed_model, None, self.provider, "EMBED_MODEL", "embedding model")

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors of the texts, shape (n, d), rows of unit length, row i belongs to text i.

        Raises:
            ValueError: a text is blank, holds a lone surrogate or is too long; positions are given.
            BadReplyError: the server's vectors do not fit the texts or the vectors it gave before.
        """
        if not isinstance(texts, str):
            texts = list(texts)
        local.check_texts(texts)
        model = self.embed_model
        if not texts:
            known = local.DIM if self.provider == "local" else self._dim
            return np.zeros((0, known or 0), dtype=np.float32)
        rows = self._cache.get(self.provider, model, texts) if self._cache else [None] * len(texts)
        missing = [i for i, row in enumerate(rows) if row is None]
        for batch in self._batches(texts, missing):
            wanted = [texts[i] for i in batch]
            vectors = self._embed_batch(wanted, model)
            if self._cache:
                self._cache.put(self.provider, model, wanted, vectors)
            for i, vector in zip(batch, vectors, strict=True):
                rows[i] = vector
        found = [row for row in rows if row is not None]
        self._check_dim(len(row) for row in found)
        return np.stack(found)

    def _batches(self, texts: Sequence[str], positions: Sequence[int]) -> Iterator[list[int]]:
        """Positions in order, cut by count and by tokens; the embedded model takes all at once."""
        if self._transport is None:
            if positions:
                yield list(positions)
            return
        from . import tokens

        counts = [tokens.count(texts[i]) for i in positions]
        limit = self.max_input_tokens
        over = {i: n for i, n in zip(positions, counts, strict=True) if limit and n > limit}
        if over:
            raise ValueError(
                f"texts of more than max_input_tokens={limit} tokens (position: tokens): {over}; "
                "chunk them smaller, since a server may cut them silently"
            )
        batch: list[int] = []
        n_tokens = 0
        for i, n in zip(positions, counts, strict=True):
            if batch and (len(batch) == self._batch_size or n_tokens + n > self._max_batch_tokens):
                yield batch
                batch, n_tokens = [], 0
            batch.append(i)
            n_tokens += n
        if batch:
            yield batch

    def _embed_batch(self, texts: Sequence[str], model: str) -> NDArray[np.float32]:
        if self._transport is None:
            return local.embed(texts)
        vectors = self._transport.embed(texts, model=model)
        self._check_dim([vectors.shape[1]])
        vectors /= np.abs(vectors).max(axis=1, keepdims=True)  # first, so that no square overflows
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors.astype(np.float32)

    def _check_dim(self, dims: Sequence[int] | Iterator[int]) -> None:
        for dim in dims:
            if self._dim is None:
                self._dim = dim
            elif dim != self._dim:
                raise BadReplyError(
                    f"{self.provider}: model {self.embed_model!r} gave vectors of size {dim} after "
                    f"size {self._dim}; was the model behind the name changed? Index again with one model"
                )

    def rerank(self, question: str, texts: Sequence[str]) -> NDArray[np.float64]:
        """Scores of the texts for the question, shape (n,), higher is better.

        Always the embedded late-interaction reranker: the OpenAI protocol has no call for it.
        """
        return local.rerank(question, texts)

    def chat(self, prompt: str | Prompt | Sequence[Mapping[str, str]]) -> str:
        """The reply's text to a text, to a packed prompt or to messages (``role``, ``content``)."""
        if isinstance(prompt, Prompt):
            return self.answer(prompt).text
        messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else list(prompt)
        if not messages or not messages[-1]["content"].strip():
            raise ValueError("prompt is empty; end it with a question")
        if self._transport is None:
            return reader.chat(messages[-1]["content"])
        return self._transport.chat(messages, model=self.chat_model)[0]

    def answer(self, prompt: Prompt) -> Answer:
        """The reply to a packed prompt with the quotes that it stands on.

        The embedded reader cites its sentences. A hosted model cites passages by number (``[2]``); its
        citations are then the slices of those passages.
        """
        if self._transport is None:
            readings, text = reader.answer(prompt.question, prompt.passages)
            citations = tuple(reading.quote for reading in readings)
            return Answer(
                text=text,
                citations=citations,
                model=self.chat_model,
                usage=_usage(prompt, text),
                prompt=prompt,
            )
        text, usage = self._transport.chat(prompt.messages, model=self.chat_model)
        citations = tuple(_cited(text, prompt.passages))
        return Answer(text=text, citations=citations, model=self.chat_model, usage=usage, prompt=prompt)

    def close(self) -> None:
        """Close connections and cache."""
        if self._transport is not None:
            self._transport.close()
        if self._cache is not None:
            self._cache.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _variable(provider: str, suffix: str) -> str | None:
    return os.environ.get(f"{provider.upper()}_{suffix}") or None


def _needed(value: str | None, default: str | None, provider: str, suffix: str, what: str) -> str:
    found = value or _variable(provider, suffix) or default
    if not found:
        raise MissingKeyError(
            f"{provider} needs its {what}: set {provider.upper()}_{suffix} or pass {suffix.lower()}="
        )
    return found


def _key(api_key: str | None, row: Provider, provider: str) -> str:
    if row.key is None:  # the openai package insists on a key; such a server reads none
        return api_key or "none"
    found = (api_key or os.environ.get(row.key) or "").strip()
    if not found:
        raise MissingKeyError(
            f"{provider} needs a key: set {row.key} or pass api_key=; PROVIDER=local needs none"
        )
    return found


def _usage(prompt: Prompt, text: str) -> dict[str, int]:
    from . import tokens

    return {"prompt_tokens": prompt.n_tokens, "completion_tokens": tokens.count(text)}


def _cited(text: str, passages: Sequence[Passage]) -> Iterator[Quote]:
    numbers = dict.fromkeys(int(number) for number in re.findall(r"\[(\d{1,3})\]", text))
    for number in numbers:
        if 1 <= number <= len(passages):
            for piece in reader.quotable(passages[number - 1]):
                end = piece.start + len(piece.text)
                yield Quote(doc_id=piece.doc_id, start=piece.start, end=end, quote=piece.text)
