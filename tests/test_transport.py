"""Addresses, replies and errors of the OpenAI protocol, against a server on loopback."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from fake_server import FakeServer, completion, embeddings, serve

from cookbook.errors import BadReplyError, ProviderError, TimeoutExceededError
from cookbook.transport import Transport, normalise_url


@contextmanager
def transport(base_url: str, **options: Any) -> Iterator[Transport]:
    settings: dict[str, Any] = {"timeout_s": 5.0, "max_retries": 0} | options
    made = Transport(
        provider="quanta",
        base_url=base_url,
        api_key="secret-key",
        key_variable="QUANTA_API_KEY",
        base_url_variable="QUANTA_BASE_URL",
        **settings,
    )
    try:
        yield made
    finally:
        made.close()


@contextmanager
def talk(answer: Callable[..., Any], **options: Any) -> Iterator[tuple[FakeServer, Transport]]:
    """A server that answers so, and a transport to it."""
    with serve(answer) as server, transport(server.url, **options) as sent:
        yield server, sent


@pytest.mark.parametrize(
    ("spelling", "path"),
    [
        ("{h}/v1", "/v1/chat/completions"),
        ("{h}/v1/", "/v1/chat/completions"),
        ("{h}/v1//", "/v1/chat/completions"),
        (" {h}/v1 ", "/v1/chat/completions"),
        ("{h}/api/v1/", "/api/v1/chat/completions"),
        ("{h}/v1/chat/completions", "/v1/chat/completions"),
        ("{h}/v1/embeddings/", "/v1/chat/completions"),
        ("{h}", "/chat/completions"),
    ],
    ids=[f"case-073-{n}" for n in range(8)],
)
def test_spellings_of_an_address(spelling: str, path: str) -> None:
    before, _, after = spelling.partition("{h}")
    reply = completion("Two days.")
    with serve(lambda *_: (200, reply)) as server, transport(before + server.url + after) as sent:
        text, usage = sent.chat([{"role": "user", "content": "How long?"}], model="m")
    assert text == "Two days."
    assert usage == {"prompt_tokens": 7, "completion_tokens": 3}
    assert [asked for asked, _ in server.requests] == [path]


@pytest.mark.parametrize("url", ["", "h/v1", "ftp://h/v1"])
def test_an_address_without_scheme_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="must start with http"):
        normalise_url(url)


@pytest.mark.parametrize(
    ("indexes", "expected"),
    [
        ([0, 1, 2], [0.0, 1.0, 2.0]),
        ([2, 1, 0], [2.0, 1.0, 0.0]),
        ([None, None, None], [0.0, 1.0, 2.0]),
        ([0, 0, 0], [0.0, 1.0, 2.0]),
    ],
    ids=[f"case-062-{n}" for n in range(4)],
)
def test_vectors_belong_to_their_texts(indexes: list[int | None], expected: list[float]) -> None:
    reply = embeddings([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]], indexes)
    with talk(lambda *_: (200, reply)) as (_server, sent):
        vectors = sent.embed(["t0", "t1", "t2"], model="m")
    assert vectors[:, 1].tolist() == expected


@pytest.mark.parametrize(
    ("indexes", "message"),
    [
        ([0, 1], "3 vectors expected, got 2"),
        ([0, 1, 5], r"indexes 0 to 2 expected, got \[0, 1, 5\]"),
        ([0, 1, 1], r"got \[0, 1, 1\]"),
        ([0, None, 2], r"got \[0, None, 2\]"),
        ([], "not what was asked for|3 vectors expected, got 0"),
    ],
    ids=["case-062-4", "case-062-5", "doubled", "half-numbered", "empty"],
)
def test_vectors_that_do_not_fit_the_texts(indexes: list[int | None], message: str) -> None:
    reply = embeddings([[1.0, float(n)] for n in range(len(indexes))], indexes)
    with talk(lambda *_: (200, reply)) as (_server, sent), pytest.raises(BadReplyError, match=message):
        sent.embed(["t0", "t1", "t2"], model="m")


@pytest.mark.parametrize(
    ("vectors", "message"),
    [
        ([[1.0], [1.0, 2.0]], r"sizes \[1, 2\]"),
        ([[], []], r"sizes \[0\]"),
        ([[0.0, 0.0], [1.0, 2.0]], "zero"),
        ([[float("nan"), 0.0], [1.0, 2.0]], "NaN"),
        ([[float("inf"), 0.0], [1.0, 2.0]], "infinity"),
        (["AACAPw==", "AACAPw=="], "not what was asked for"),
        ([None, None], "not what was asked for"),
        ([[[1.0, 2.0]], [[3.0, 4.0]]], "3 axes"),
    ],
)
def test_vectors_that_no_store_can_hold(vectors: Any, message: str) -> None:
    with (
        talk(lambda *_: (200, embeddings(vectors))) as (_server, sent),
        pytest.raises(BadReplyError, match=message),
    ):
        sent.embed(["a", "b"], model="m")


def test_vectors_are_asked_for_as_numbers() -> None:
    with talk(lambda *_: (200, embeddings([[1.0]]))) as (server, sent):
        sent.embed(["a"], model="m")
    assert server.requests == [("/embeddings", {"input": ["a"], "model": "m", "encoding_format": "float"})]


@pytest.mark.parametrize(
    "body",
    [
        "<html>Welcome</html>",
        {"choices": []},
        {"choices": None},
        {"choices": [{"message": None}]},
        completion(None),
        [],
    ],
    ids=["page", "no choice", "null choices", "null message", "null text", "list"],
)
def test_a_chat_reply_of_another_shape(body: Any) -> None:
    with (
        talk(lambda *_: (200, body)) as (_server, sent),
        pytest.raises(BadReplyError, match=r"quanta at http://127\.0\.0\.1"),
    ):
        sent.chat([{"role": "user", "content": "How long?"}], model="m")


@pytest.mark.parametrize("usage", ["unknown", {"total_tokens": 7}])
def test_token_counts_may_be_there_in_part(usage: Any) -> None:
    with talk(lambda *_: (200, completion("Yes.") | {"usage": usage})) as (_server, sent):
        assert sent.chat([{"role": "user", "content": "Free?"}], model="m") == ("Yes.", {})


def test_token_counts_may_be_missing() -> None:
    reply = {key: value for key, value in completion("Yes.").items() if key != "usage"}
    with talk(lambda *_: (200, reply)) as (_server, sent):
        assert sent.chat([{"role": "user", "content": "Free?"}], model="m") == ("Yes.", {})


@pytest.mark.parametrize(
    ("status", "advice"),
    [
        (400, "see its message"),
        (401, "QUANTA_API_KEY"),
        (403, "QUANTA_API_KEY"),
        (404, "QUANTA_BASE_URL"),
        (429, "max_retries"),
        (500, "try later"),
    ],
)
def test_an_error_says_who_where_what_and_what_to_do(status: int, advice: str) -> None:
    body = {"error": {"message": "no such kiln for secret-key"}}
    with talk(lambda *_: (status, body)) as (server, sent), pytest.raises(ProviderError) as caught:
        sent.chat([{"role": "user", "content": "How long?"}], model="m")
    message = str(caught.value)
    assert message.startswith(f"quanta at {server.url}/chat/completions: status {status}: ")
    assert advice in message
    assert "no such kiln" in message
    assert "secret-key" not in message


@pytest.mark.parametrize("status", [400, 401, 403, 404])
def test_what_cannot_pass_is_not_tried_again(status: int) -> None:
    with (
        talk(lambda *_: (status, {"error": {"message": "no"}}), max_retries=2) as (server, sent),
        pytest.raises(ProviderError),
    ):
        sent.chat([{"role": "user", "content": "How long?"}], model="m")
    assert len(server.requests) == 1


def test_a_passing_fault_is_tried_again() -> None:
    replies: list[Any] = [(503, {}, {"retry-after-ms": "1"}), (200, completion("Two days."))]
    with talk(lambda *_: replies.pop(0), max_retries=1) as (server, sent):
        assert sent.chat([{"role": "user", "content": "How long?"}], model="m")[0] == "Two days."
    assert len(server.requests) == 2


def test_no_retries_means_one_attempt() -> None:
    with (
        talk(lambda *_: (503, {}), max_retries=0) as (server, sent),
        pytest.raises(ProviderError, match="status 503"),
    ):
        sent.chat([{"role": "user", "content": "How long?"}], model="m")
    assert len(server.requests) == 1


def test_a_silent_server_costs_the_time_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"
        started = time.monotonic()
        with transport(url, timeout_s=0.3) as sent, pytest.raises(TimeoutExceededError) as caught:
            sent.chat([{"role": "user", "content": "How long?"}], model="m")
    assert time.monotonic() - started < 3
    assert f"{url}/chat/completions: no reply within 0.3 s" in str(caught.value)


def test_no_server_at_the_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    with transport(url) as sent, pytest.raises(ProviderError, match=r"no connection.*QUANTA_BASE_URL"):
        sent.chat([{"role": "user", "content": "How long?"}], model="m")
