"""Requests -> replies over the ``openai`` package, with time-outs, retries and errors that say what to do."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import BadReplyError, MissingExtraError, ProviderError, TimeoutExceededError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ENDPOINT = re.compile(r"/(?:chat/completions|completions|embeddings|responses|models)$")

_ADVICE = {
    400: "the server refused the request as it stands; see its message",
    401: "the key is wrong or expired: set {key}",
    402: "the account has no credit left",
    403: "the key may not use this model: check the account or set {key}",
    404: "no such address or model: check the model's name and {base_url}",
    413: "the request is too long: send fewer or shorter texts (batch_size, max_batch_tokens)",
    422: "the server refused the request as it stands; see its message",
    429: "too many requests or no quota left: wait, or raise max_retries",
}


def normalise_url(url: str) -> str:
    """The base address of a server: white space, trailing slashes and an endpoint's path removed.

    Nothing is added: without ``/v1`` the address is used as given.

    >>> normalise_url(" http://h/v1// "), normalise_url("http://h/v1/chat/completions")
    ('http://h/v1', 'http://h/v1')
    >>> normalise_url("h/v1")
    Traceback (most recent call last):
        ...
    ValueError: base_url='h/v1' must start with http:// or https://
    """
    trimmed = _ENDPOINT.sub("", url.strip().rstrip("/")).rstrip("/")
    if not trimmed.startswith(("http://", "https://")):
        raise ValueError(f"base_url={url!r} must start with http:// or https://")
    return trimmed


class Transport:
    """One server that speaks the OpenAI protocol.

    An attempt fails when nothing arrives for ``timeout_s``; time-outs, broken connections and the
    statuses 408, 409, 429 and 5xx are tried again ``max_retries`` times with growing pauses.

    Args:
        key_variable: the environment variable that errors name when the key does not work.
        base_url_variable: the one they name when the address does not.
    """

    def __init__(
        self,
        *,
        provider: str,
        base_url: str,
        api_key: str,
        key_variable: str,
        base_url_variable: str,
        timeout_s: float,
        max_retries: int,
    ) -> None:
        self.provider = provider
        self.base_url = normalise_url(base_url)
        self._names = {"key": key_variable, "base_url": base_url_variable}
        self._timeout_s = timeout_s
        try:
            import openai
        except ImportError as error:
            raise MissingExtraError(
                f"provider {provider!r} needs the openai package: pip install openai"
            ) from error
        self._client = openai.OpenAI(
            base_url=self.base_url, api_key=api_key, timeout=timeout_s, max_retries=max_retries
        )

    def embed(self, texts: Sequence[str], *, model: str) -> NDArray[np.float64]:
        """Vectors of one batch as the server gave them, shape (n, d), row i belongs to text i.

        Raises:
            BadReplyError: vectors are missing, doubled, of different sizes or not finite.
        """
        with self._translated("/embeddings"):
            # base64 is the package's default, and not every server takes it
            reply: Any = self._client.embeddings.create(
                model=model, input=list(texts), encoding_format="float"
            )
            return self._ordered(list(reply.data), len(texts))

    def _ordered(self, data: Sequence[Any], n_expected: int) -> NDArray[np.float64]:
        where = f"{self.provider} at {self.base_url}/embeddings"
        if len(data) != n_expected:
            raise BadReplyError(f"{where}: {n_expected} vectors expected, got {len(data)}")
        indexes: list[Any] = [item.index for item in data]
        # Servers that do not number their vectors send None, or 0 for each, in the order of the texts.
        if all(index in (None, 0) for index in indexes):
            order = list(range(n_expected))
        elif all(isinstance(i, int) for i in indexes) and sorted(indexes) == list(range(n_expected)):
            order = np.argsort(indexes).tolist()
        else:
            raise BadReplyError(f"{where}: indexes 0 to {n_expected - 1} expected, got {indexes}")
        sizes = sorted({len(item.embedding) for item in data})
        if len(sizes) > 1 or sizes[:1] == [0]:
            raise BadReplyError(f"{where}: vectors of one size expected, got sizes {sizes}")
        vectors = np.asarray([data[i].embedding for i in order], dtype=np.float64)
        if vectors.ndim != 2:
            raise BadReplyError(f"{where}: lists of numbers expected, got an array of {vectors.ndim} axes")
        if not np.isfinite(vectors).all() or not vectors.any(axis=1).all():
            raise BadReplyError(f"{where}: a vector is zero or holds NaN or infinity")
        return vectors

    def chat(self, messages: Sequence[Mapping[str, str]], *, model: str) -> tuple[str, dict[str, int]]:
        """The reply's text and its token counts (empty when the server gives none)."""
        with self._translated("/chat/completions"):
            reply: Any = self._client.chat.completions.create(
                model=model,
                messages=[dict(message) for message in messages],  # type: ignore[misc]
            )
            text = reply.choices[0].message.content
            if not isinstance(text, str):
                raise TypeError(f"content is {text!r}")
        # Servers leave usage out, or give it in part.
        counts = {name: getattr(reply.usage, name, None) for name in ("prompt_tokens", "completion_tokens")}
        return text, {name: n for name, n in counts.items() if isinstance(n, int)}

    @contextmanager
    def _translated(self, path: str) -> Iterator[None]:
        """Turn the openai package's errors into the project's, with provider, address and remedy."""
        import openai

        where = f"{self.provider} at {self.base_url}{path}"
        try:
            yield
        except openai.APITimeoutError as error:
            raise TimeoutExceededError(
                f"{where}: no reply within {self._timeout_s:g} s; raise timeout_s or try later"
            ) from error
        except openai.APIStatusError as error:
            advice = _ADVICE.get(error.status_code, "the server failed: try later").format(**self._names)
            raise ProviderError(
                f"{where}: status {error.status_code}: {advice} ({self._redacted(error.message)})"
            ) from error
        except openai.APIConnectionError as error:
            raise ProviderError(
                f"{where}: no connection ({error.__cause__ or error}); "
                f"is the server running, and is {self._names['base_url']} right?"
            ) from error
        except (
            openai.APIResponseValidationError,
            AttributeError,
            IndexError,
            TypeError,
            ValueError,
        ) as error:
            # Another server answered, or one that speaks the protocol in part: a web page, a null, a list.
            raise BadReplyError(f"{where}: the reply is not what was asked for ({error})") from error

    def _redacted(self, message: str) -> str:
        return message.replace(self._client.api_key, "***")

    def close(self) -> None:
        """Close the connections."""
        self._client.close()
