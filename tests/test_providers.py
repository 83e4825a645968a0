"""The client: who answers, what is refused before it is sent, and what comes back."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_server import completion, embeddings, serve

from cookbook import local, reader, tokens
from cookbook.errors import BadReplyError, MissingKeyError, ProviderError
from cookbook.passages import GAP
from cookbook.prompts import REFUSAL, pack
from cookbook.providers import PROVIDERS, LLMClient
from cookbook.types import Passage, Span

TEXT = "We sell kilns.\n\nShipping takes two days. Islands take a week."


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PROVIDER", raising=False)
    for name, row in PROVIDERS.items():
        for suffix in ("BASE_URL", "CHAT_MODEL", "EMBED_MODEL"):
            monkeypatch.delenv(f"{name.upper()}_{suffix}", raising=False)
        if row.key:
            monkeypatch.delenv(row.key, raising=False)


def client(url: str, **options: Any) -> LLMClient:
    settings: dict[str, Any] = {"api_key": "k", "chat_model": "c", "embed_model": "e", "max_retries": 0}
    return LLMClient("quanta", base_url=url, **settings | options)


def numbered(path: str, body: dict[str, Any]) -> tuple[int, Any]:
    """Vector [n, 1] for the text "tn ..."."""
    del path
    return 200, embeddings([[float(re.findall(r"\d+", text)[0]), 1.0] for text in body["input"]])


# --- who answers --------------------------------------------------------------------------------------


def test_without_settings_the_embedded_provider_answers() -> None:
    made = LLMClient()
    assert (made.provider, made.chat_model, made.embed_model) == (
        "local",
        reader.CHAT_MODEL,
        local.EMBED_MODEL,
    )
    question = "How long does shipping take?"
    assert made.chat(f"{TEXT}\nQ: {question}\nA:").startswith("Shipping takes two days.")
    assert np.array_equal(made.embed(["a", "b"]), local.embed(["a", "b"]))
    assert np.array_equal(made.rerank(question, [TEXT, "x"]), local.rerank(question, [TEXT, "x"]))


def test_an_argument_beats_the_variable_and_the_variable_beats_the_table(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PROVIDER", " OpenAI ")
    monkeypatch.setenv("OPENAI_API_KEY", "k\n")
    by_table = LLMClient()
    assert (by_table.provider, by_table.chat_model) == ("openai", PROVIDERS["openai"].chat_model)
    monkeypatch.setenv("OPENAI_CHAT_MODEL", "from-variable")
    monkeypatch.setenv("OPENAI_EMBED_MODEL", "from-variable-too")
    by_variable = LLMClient()
    assert (by_variable.chat_model, by_variable.embed_model) == ("from-variable", "from-variable-too")
    assert LLMClient(chat_model="from-argument").chat_model == "from-argument"
    assert LLMClient("local").provider == "local"


def test_the_address_follows_the_same_order(monkeypatch: pytest.MonkeyPatch) -> None:
    with serve(lambda *_: (200, completion("one"))) as one, serve(lambda *_: (200, completion("two"))) as two:
        monkeypatch.setenv("OLLAMA_BASE_URL", f"{one.url}/v1/")
        with LLMClient("ollama") as by_variable, LLMClient("ollama", base_url=two.url) as by_argument:
            assert by_variable.chat("Free?") == "one"
            assert by_argument.chat("Free?") == "two"


def test_an_unknown_provider_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"provider='chatty' must be one of local, openai, .*llamacpp"):
        LLMClient("chatty")


@pytest.mark.parametrize("name", [name for name, row in PROVIDERS.items() if row.key])
def test_a_missing_key_names_its_variable(name: str) -> None:
    with pytest.raises(MissingKeyError, match=f"set {PROVIDERS[name].key} or pass api_key="):
        LLMClient(name, base_url="http://127.0.0.1:9/v1")


@pytest.mark.parametrize("name", ["azure", "quanta"])
def test_an_address_that_no_page_states_comes_from_a_variable(name: str) -> None:
    with pytest.raises(MissingKeyError, match=f"set {name.upper()}_BASE_URL or pass base_url="):
        LLMClient(name, api_key="k")


def test_a_missing_model_names_its_variable() -> None:
    with LLMClient("quanta", base_url="http://127.0.0.1:9/v1", api_key="k") as made:
        with pytest.raises(MissingKeyError, match="set QUANTA_CHAT_MODEL or pass chat_model="):
            made.chat("Free?")
        with pytest.raises(MissingKeyError, match="set QUANTA_EMBED_MODEL or pass embed_model="):
            made.embed(["a"])


@pytest.mark.parametrize("name", ["groq", "anthropic"])
def test_a_provider_without_embeddings_says_who_has_them(name: str) -> None:
    made = LLMClient(name, api_key="k")
    with made, pytest.raises(ProviderError, match=f"{name} has no embeddings; .*local, openai") as caught:
        made.embed(["a"])
    assert "groq," not in str(caught.value).split("one of:")[1]


def test_every_row_of_the_table_says_where_its_address_stands() -> None:
    for name, row in PROVIDERS.items():
        assert re.fullmatch(r"\d{4}-\d{2}-\d{2}", row.checked), name
        if row.base_url:
            assert row.source.startswith("https://"), name
            local_server = row.base_url.startswith("http://localhost:")
            assert local_server == (row.key is None), name
            assert local_server or row.base_url.startswith("https://"), name


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("timeout_s", 0, "timeout_s=0 must be above 0"),
        ("max_retries", -1, "max_retries=-1 must be at least 0"),
        ("batch_size", 0, "batch_size=0 must be at least 1"),
        ("max_batch_tokens", 0, "max_batch_tokens=0 must be at least 1"),
        ("max_input_tokens", 0, "max_input_tokens=0 must be at least 1"),
        ("base_url", "h/v1", "base_url='h/v1' must start with"),
    ],
    ids=["timeout", "retries", "case-065-size", "batch-tokens", "input-tokens", "url"],
)
def test_a_bad_setting_is_refused(option: str, value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        LLMClient("quanta", **{"base_url": "http://127.0.0.1:9/v1", "api_key": "k", option: value})


# --- embeddings ---------------------------------------------------------------------------------------


def test_vectors_have_unit_length_and_follow_their_texts() -> None:
    with serve(numbered) as server, client(server.url) as made:
        vectors = made.embed([f"t{n}" for n in (3, 0, 4)])
    assert vectors.dtype == np.float32
    assert np.allclose(vectors, [[0.9486833, 0.3162278], [0.0, 1.0], [0.9701425, 0.2425356]])


@pytest.mark.parametrize("size", [1e300, 3e38, 1e-30, 1e-300])
def test_vectors_of_any_size_get_unit_length(size: float) -> None:
    def reply(*_: object) -> tuple[int, object]:
        return 200, {"object": "list", "data": [{"index": 0, "embedding": [size, size, 0.0]}]}

    with serve(reply) as server, client(server.url) as made:
        assert np.allclose(made.embed(["a"]), [[0.7071068, 0.7071068, 0.0]])


@pytest.mark.parametrize("provider", ["local", "quanta"], ids=["case-064-local", "case-064-server"])
def test_blank_texts_are_refused_before_any_request(provider: str) -> None:
    with serve(numbered) as server, client(server.url) if provider == "quanta" else LLMClient() as made:
        with pytest.raises(ValueError, match=r"positions \[1, 2, 3\] are blank"):
            made.embed(["a", "", "  ", "\n\n", "e"])
        with pytest.raises(ValueError, match=r"positions \[1\] hold a lone surrogate"):
            made.embed(["a", "\udcff"])
        assert made.embed([]).shape[0] == 0
        assert made.embed([]).dtype == np.float32
    assert server.requests == []


def test_no_texts_keep_the_known_size() -> None:
    with serve(numbered) as server, client(server.url) as made:
        assert made.embed([]).shape == (0, 0)
        made.embed(["t1"])
        assert made.embed([]).shape == (0, 2)
    assert LLMClient().embed([]).shape == (0, local.DIM)


@pytest.mark.parametrize(
    ("options", "sizes"),
    [
        ({"batch_size": 100, "max_batch_tokens": 8000}, [100, 100, 5]),
        ({"batch_size": 300}, [205]),
        ({"batch_size": 100, "max_batch_tokens": 400}, None),
    ],
    ids=["case-065", "one", "case-065-tokens"],
)
def test_batches_are_cut_by_count_and_by_tokens(options: dict[str, int], sizes: list[int] | None) -> None:
    texts = [f"t{n} kiln" for n in range(1, 206)]
    with serve(numbered) as server, client(server.url, **options) as made:
        vectors = made.embed(texts)
    requests = [body["input"] for _, body in server.requests]
    assert [text for request in requests for text in request] == texts
    assert np.allclose(vectors[:, 0] / vectors[:, 1], range(1, 206), rtol=1e-5)
    if sizes is not None:
        assert [len(request) for request in requests] == sizes
    else:
        totals = [sum(tokens.count(text) for text in request) for request in requests]
        assert len(totals) > 2
        assert max(totals) <= 400
        assert min(totals[:-1]) > 400 - 8  # no batch ends before it has to


def test_one_text_above_the_batch_limit_goes_alone() -> None:
    texts = ["t1", "t2 " + "kiln " * 50, "t3"]
    with serve(numbered) as server, client(server.url, max_batch_tokens=20) as made:
        made.embed(texts)
    assert [body["input"] for _, body in server.requests] == [[text] for text in texts]


def test_a_text_above_the_models_limit_is_refused_before_sending() -> None:
    long = " kiln" * 600
    n = tokens.count(long)
    with serve(numbered) as server, client(server.url, max_input_tokens=512) as made:
        with pytest.raises(ValueError, match=rf"max_input_tokens=512 tokens .*\{{1: {n}\}}"):
            made.embed(["t0", long])
        made.embed(["t0"])
    assert len(server.requests) == 1


def test_another_size_of_vectors_later_is_an_error_that_names_both() -> None:
    dims = [1024, 768]

    def answer(_: str, body: dict[str, Any]) -> tuple[int, Any]:
        return 200, embeddings([[1.0] * dims.pop(0) for _ in body["input"]])

    with serve(answer) as server, client(server.url) as made:
        assert made.embed(["a"]).shape == (1, 1024)
        with pytest.raises(BadReplyError, match="size 768 after size 1024"):
            made.embed(["b"])


def test_cached_vectors_are_not_asked_for_again(tmp_path: Path) -> None:
    path = tmp_path / "vectors.sqlite"
    with serve(numbered) as server:
        with client(server.url, cache=path) as made:
            first = made.embed(["t1", "t2"])
        with client(server.url, cache=path) as made:
            again = made.embed(["t2", "t3", "t1"])
        with client(server.url, cache=path, embed_model="another") as made:
            made.embed(["t1"])
    assert np.array_equal(again[[2, 0]], first)
    assert [body["input"] for _, body in server.requests] == [["t1", "t2"], ["t3"], ["t1"]]


def test_a_failure_half_way_keeps_what_came_before(tmp_path: Path) -> None:
    def answer(path: str, body: dict[str, Any]) -> tuple[int, Any]:
        return (500, {}) if "t3" in body["input"] else numbered(path, body)

    with serve(answer) as server, client(server.url, cache=tmp_path / "v", batch_size=1) as made:
        with pytest.raises(ProviderError, match="status 500"):
            made.embed(["t1", "t2", "t3"])
        made.embed(["t2", "t1"])
    assert [body["input"][0] for _, body in server.requests] == ["t1", "t2", "t3"]


# --- chat and answers ---------------------------------------------------------------------------------


def passage(*spans: tuple[int, int]) -> Passage:
    return Passage(
        doc_id="shop",
        spans=tuple(Span(doc_id="shop", start=start, end=end) for start, end in spans),
        heading="Shop",
        text="Shop\n" + GAP.join(TEXT[start:end] for start, end in spans),
        hits=(),
        score=1.0,
        expansion="window",
        n_tokens=9,
    )


def test_the_embedded_reader_answers_a_packed_prompt_with_exact_quotes() -> None:
    prompt = pack("How long does shipping take?", [passage((0, 14)), passage((16, len(TEXT)))])
    answer = LLMClient().answer(prompt)
    assert answer.text.splitlines()[0] == "Shipping takes two days. [2]"
    assert all(TEXT[quote.start : quote.end] == quote.quote for quote in answer.citations)
    assert answer.citations[0].quote == "Shipping takes two days."
    assert answer.prompt is prompt
    assert answer.usage == {"prompt_tokens": prompt.n_tokens, "completion_tokens": tokens.count(answer.text)}
    assert LLMClient().chat(prompt) == answer.text
    assert "Shipping takes two days." in LLMClient().chat(prompt.messages)
    unknown = LLMClient().answer(pack("Who invented the quantum computer?", [passage((0, 14))]))
    assert (unknown.text, unknown.citations) == (REFUSAL, ())


def test_a_hosted_answer_cites_the_passages_that_it_numbers() -> None:
    prompt = pack("How long does shipping take?", [passage((0, 14)), passage((16, 40), (41, len(TEXT)))])
    reply = "Two days [2], a week for islands [2]. Not [7] or [0]."
    with serve(lambda *_: (200, completion(reply))) as server, client(server.url) as made:
        answer = made.answer(prompt)
        assert made.chat(prompt) == reply
    assert [quote.quote for quote in answer.citations] == [TEXT[16:40], TEXT[41:]]
    assert [(quote.start, quote.end) for quote in answer.citations] == [(16, 40), (41, len(TEXT))]
    assert (answer.model, answer.text) == ("c", reply)
    assert answer.usage == {"prompt_tokens": 7, "completion_tokens": 3}
    path, body = server.requests[0]
    assert path == "/chat/completions"
    assert body == {"model": "c", "messages": [dict(message) for message in prompt.messages]}


def test_text_and_messages_reach_the_server() -> None:
    with serve(lambda *_: (200, completion("Yes."))) as server, client(server.url) as made:
        made.chat("Free?")
        made.chat([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Free?"}])
    sent = [body["messages"] for _, body in server.requests]
    assert sent[0] == [{"role": "user", "content": "Free?"}]
    assert [message["role"] for message in sent[1]] == ["system", "user"]


@pytest.mark.parametrize("prompt", ["", " \n", []])
def test_an_empty_prompt_is_refused(prompt: Any) -> None:
    with pytest.raises(ValueError, match="prompt is empty"):
        LLMClient().chat(prompt)
