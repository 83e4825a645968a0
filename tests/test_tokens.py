"""Token counts are those of the tokenizer alone on the slice, and every cut keeps its limit."""

from __future__ import annotations

import random
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest
import tiktoken
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cookbook import tokens
from cookbook.errors import MissingDataError
from cookbook.tokens import TokenMap, build, count, counts, encoding_for, get_encoding, grapheme_border

PIECES = [
    "kiln", "Ton", "é", "Ünï", "🧑🏽‍🚀", "🦜", "🇩🇪", "👍🏿", "猫", "你好世界", "。", "กำ", "ก็", "한국",
    "\u1100\u1161", "ne\u0301", "\u0301", "\u200d", "\r\n", "\n", "\n\n", "\r", " ", "   ", " " * 30, "\t",
    "\xa0", "\u3000", "\u2028", "\x85", "\x0b", "\x0c", "\x1c", "12345", "'s", "'S", "'ll", "don't",
    "<|endoftext|>", "^^^^", "...", "!?", "/", "//", "}\n", "  \n  ", "_", "a_b", "The ", " and", "1.",
]  # fmt: skip
hostile = st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=60).map("".join)


def alone(text: str) -> int:
    """The oracle: the slice encoded by itself."""
    return len(get_encoding("cl100k_base").encode_ordinary(text))


@pytest.mark.parametrize(
    ("text", "n_tokens"),
    [
        pytest.param("Stop at <|endoftext|> then <|fim_prefix|> and <|im_start|>.", 21, id="case-031"),
        pytest.param("bad \ud83d tail.", 4, id="case-040"),
        pytest.param(" kiln" * 799, 1598, id="case-041-kiln"),
        pytest.param("猫" * 267, 801, id="case-041-cjk"),
        pytest.param("", 0, id="empty"),
    ],
)
def test_counts(text: str, n_tokens: int) -> None:
    assert count(text) == n_tokens


def test_a_control_token_is_ordinary_text() -> None:
    text = "<|endoftext|> " * 50
    assert TokenMap(text).count(0, len(text)) == alone(text) > 100


def test_case_037_a_million_times_one_character() -> None:
    text = "^" * 1_000_000
    started = time.perf_counter()
    assert count(text) == 250_000
    assert time.perf_counter() - started < 5
    token_map = TokenMap(text)
    end = token_map.cut(333, len(text), 180)
    assert alone(text[333:end]) <= 180
    assert end - 333 > 180 * 3
    assert token_map.count(5, 300_005) == 75_000


@pytest.mark.parametrize(
    ("model", "encoding"),
    [
        ("gpt-4o", "o200k_base"),
        ("text-embedding-3-small", "cl100k_base"),
        ("gpt-4o-2099-01-01", "o200k_base"),
    ],
    ids=["case-038-a", "case-038-b", "prefix"],
)
def test_known_models(model: str, encoding: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert encoding_for(model) == encoding


@pytest.mark.parametrize(
    "model", ["qwen3-8b", "nomic-embed-text", "my-azure-deployment", ""], ids=lambda name: f"case-038-{name}"
)
def test_unknown_models_warn_once(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "_WARNED", set())
    with pytest.warns(UserWarning, match=f"model {model!r} is not known"):
        encoding = encoding_for(model)
    assert encoding == tokens.DEFAULT_ENCODING
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert encoding_for(model) == tokens.DEFAULT_ENCODING


def test_unknown_encoding_names_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"encoding='cl200k' must be one of .*cl100k_base"):
        get_encoding("cl200k")


def _unreachable() -> dict[str, object]:
    raise ConnectionError("no network")


def _silent() -> dict[str, object]:
    time.sleep(5)
    return {}


@pytest.mark.parametrize(
    ("constructor", "reason"),
    [(_unreachable, "ConnectionError: no network"), (_silent, "no reply in 0.05 s")],
)
def test_a_vocabulary_that_cannot_be_fetched(
    constructor: object, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tiktoken
    import tiktoken.registry

    tiktoken.list_encoding_names()
    assert tiktoken.registry.ENCODING_CONSTRUCTORS is not None
    monkeypatch.setitem(tiktoken.registry.ENCODING_CONSTRUCTORS, "far_base", constructor)
    monkeypatch.setattr(tokens, "DOWNLOAD_TIMEOUT_S", 0.05)
    with pytest.raises(MissingDataError, match="TIKTOKEN_CACHE_DIR") as caught:
        get_encoding("far_base")
    assert reason in str(caught.value)


@settings(max_examples=500, deadline=None)
@given(text=hostile, data=st.data())
@example(text="", data=None)
def test_a_slice_counts_as_if_alone(text: str, data: st.DataObject | None) -> None:
    token_map = TokenMap(text)
    assert len(token_map) == token_map.count(0, len(text)) == alone(text)
    if data is not None:
        places = st.integers(0, len(text))
        for _ in range(5):
            start, end = sorted((data.draw(places), data.draw(places)))
            assert token_map.count(start, end) == alone(text[start:end])


@pytest.mark.parametrize("segment", [40, 300, 1 << 18])
def test_random_slices_of_hostile_text(segment: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "_SEGMENT", segment)  # texts are encoded in segments: any size must do
    chance = random.Random(segment)
    for _ in range(150):
        text = "".join(chance.choice(PIECES) for _ in range(chance.randint(1, 120)))
        token_map = TokenMap(text)
        for _ in range(20):
            start, end = sorted(chance.choices(range(len(text) + 1), k=2))
            assert token_map.count(start, end) == alone(text[start:end]), (text, start, end)


@settings(max_examples=500, deadline=None)
@given(text=hostile.filter(bool), limit=st.integers(4, 30), data=st.data())
def test_a_cut_keeps_the_limit_and_moves_on(text: str, limit: int, data: st.DataObject) -> None:
    token_map = TokenMap(text)
    start = data.draw(st.integers(0, len(text) - 1))
    end = token_map.cut(start, len(text), limit)
    assert start < end <= len(text)
    assert alone(text[start:end]) <= limit
    if alone(text[start:]) <= limit:
        assert end == len(text)


def test_a_cut_is_full_in_plain_text() -> None:
    text = "The kiln holds nine trays, and each of the trays holds two pots. " * 40
    token_map = TokenMap(text)
    start, sizes = 0, []
    while start < len(text):
        end = token_map.cut(start, len(text), 50)
        sizes.append(alone(text[start:end]))
        start = end
    assert all(size == 50 for size in sizes[:-1])


@pytest.mark.parametrize(
    "cluster",
    ["🧑🏽‍🚀", "🇩🇪", "👍🏿", "e\u0301", "กำ", "ก็", "\u1100\u1161\u11a8", "\r\n", "क्षि"],
    ids=ascii,
)
def test_a_cut_keeps_clusters_whole(cluster: str) -> None:
    text = cluster * 60
    token_map = TokenMap(text)
    borders = set(range(0, len(text) + 1, len(cluster)))
    import regex

    borders = {match.end() for match in regex.finditer(r"\X", text)} | {0}
    start = 0
    for limit in [17, 18, 20, 31] * 100:
        if start == len(text):
            break
        start = token_map.cut(start, len(text), limit)
        assert start in borders
    assert start == len(text)


def test_a_cluster_above_the_limit_is_cut_between_code_points() -> None:
    text = "🧑🏽‍🚀" * 3
    token_map = TokenMap(text)
    start, pieces = 0, []
    while start < len(text):
        end = token_map.cut(start, len(text), 5)
        pieces.append(text[start:end])
        start = end
    assert "".join(pieces) == text
    assert all(alone(piece) <= 5 for piece in pieces)


def test_grapheme_border() -> None:
    assert grapheme_border("a🇩🇪🇩🇪", 0, 2) == 1
    assert grapheme_border("a🇩🇪🇩🇪", 0, 3) == 3
    assert grapheme_border("a🇩🇪🇩🇪", 0, 4) == 3
    assert grapheme_border("猫空", 0, 1) == 1
    assert grapheme_border("x\r\ny", 0, 2) == 1


@pytest.mark.parametrize("limit", [3, 0, -1])
def test_a_limit_below_one_code_point(limit: int) -> None:
    with pytest.raises(ValueError, match=rf"max_tokens={limit} must be at least 4"):
        TokenMap("kiln").cut(0, 4, limit)


@pytest.mark.parametrize(("start", "end"), [(-1, 2), (3, 2), (0, 5)])
def test_a_slice_outside_the_text(start: int, end: int) -> None:
    with pytest.raises(ValueError, match=f"start={start}, end={end}"):
        TokenMap("kiln").count(start, end)
    with pytest.raises(ValueError, match=f"start={start}, end={end}"):
        TokenMap("kiln").cut(start, end, 9)


@given(st.lists(hostile, max_size=6), st.integers(1, 60))
@example(["a <|endoftext|>", "|>", "<|endoftext", "b"], 9)
@example(["bad \ud83d tail.", "good"], 9)
def test_counts_of_many_texts_are_those_of_each(texts: list[str], group: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokens, "_GROUP", group)
        assert counts(texts) == [alone(text) for text in texts]


@given(st.lists(hostile, max_size=6), st.integers(1, 60))
def test_maps_built_together_are_those_built_alone(texts: list[str], group: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokens, "_GROUP", group)
        together = [TokenMap(text) for text in texts]
        build(together)
    for text, token_map in zip(texts, together, strict=True):
        separate = TokenMap(text)
        assert [token_map.offset(n) for n in range(len(token_map) + 1)] == [
            separate.offset(n) for n in range(len(separate) + 1)
        ]
        assert len(token_map) == alone(text)


@pytest.mark.parametrize("control", [0, 256, 0x050005, None], ids=["zeros", "one byte", "ends alike", "none"])
def test_other_encodings_part_texts_too(control: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    first = 1 if control == 0 else 0 if control is None else control + 1
    ranks = {bytes([octet]): first + octet for octet in range(256)}
    special = {} if control is None else {"<|endoftext|>": control}
    made = tiktoken.Encoding("made", pat_str=r"\w+|\W", mergeable_ranks=ranks, special_tokens=special)
    monkeypatch.setitem(tokens._ENCODINGS, "made", made)
    texts = ["a", "", "b c", "<|endoftext|>x", "\x00\x04\x05\xff"]
    assert counts(texts, encoding="made") == [len(text.encode()) for text in texts]
    assert counts(texts[:3], encoding="made") == [1, 0, 3]


def test_a_map_may_be_built_twice_and_by_several_threads() -> None:
    text = "The kiln holds nine trays. " * 4_000
    wanted = alone(text)
    twice = TokenMap(text)
    build([twice, twice])
    build([twice])
    assert len(twice) == wanted
    for _ in range(5):
        shared = TokenMap(text)
        with ThreadPoolExecutor(4) as pool:
            assert (
                list(pool.map(lambda _, shared=shared: shared.count(0, len(text)), range(4))) == [wanted] * 4
            )
        assert len(shared) == wanted


def test_a_map_that_was_interrupted_is_built_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "The kiln holds nine trays. " * 4_000
    wanted, calls, encode = alone(text), [0], tokens._encode_apart

    def interrupted(texts: list[str], encoding: str) -> object:
        calls[0] += 1
        if calls[0] == 2:
            raise KeyboardInterrupt
        return encode(texts, encoding)

    monkeypatch.setattr(tokens, "_SEGMENT", 20_000)
    monkeypatch.setattr(tokens, "_GROUP", 20_000)
    monkeypatch.setattr(tokens, "_encode_apart", interrupted)
    token_map = TokenMap(text)
    with pytest.raises(KeyboardInterrupt):
        len(token_map)
    assert len(token_map) == token_map.count(0, len(text)) == wanted
