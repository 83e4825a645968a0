"""The embedded provider: vectors and the reranker."""

from __future__ import annotations

import hashlib
import logging
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cookbook import local
from cookbook.errors import MissingDataError

# --- vectors ------------------------------------------------------------------------------------------


def test_vectors_are_what_wordllama_gives() -> None:
    import wordllama

    texts = ["A kiln.", "Shipping takes two days. " * 40, "<|endoftext|>", "東京 🏺"]
    peer = wordllama.WordLlama.load(
        dim=local.DIM, cache_dir=Path(wordllama.__file__).parent, disable_download=True
    )
    vectors = local.embed(texts)
    assert vectors.dtype == np.float32
    assert vectors.shape == (4, local.DIM)
    assert np.array_equal(vectors, peer.embed(texts, norm=True))


def test_a_vector_does_not_depend_on_its_batch() -> None:
    texts = [f"Sentence {n} about kilns and their glazes." for n in range(300)]
    together = local.embed(texts)
    assert np.array_equal(together[299], local.embed([texts[299]])[0])
    assert np.allclose(np.linalg.norm(together, axis=1), 1, atol=1e-6)


def test_vectors_are_the_same_bytes_in_another_process() -> None:
    run = python(
        "import hashlib; from cookbook import local; "
        "print(hashlib.sha256(local.embed(['A kiln.', 'Two days.']).tobytes()).hexdigest())"
    )
    here = hashlib.sha256(local.embed(["A kiln.", "Two days."]).tobytes()).hexdigest()
    assert run.stdout.strip() == here
    assert run.stderr == ""  # nothing is logged or printed while the model loads


def python(code: str) -> subprocess.CompletedProcess[str]:
    folder = Path(__file__).parents[1]
    return subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, encoding="utf-8", check=True
    )


def test_loading_leaves_the_callers_logging_alone() -> None:
    local.token_vectors.cache_clear()
    before = (logging.getLogger().handlers[:], logging.getLogger().level)
    local.embed(["A kiln."])
    assert (logging.getLogger().handlers[:], logging.getLogger().level) == before


def test_a_missing_file_of_the_embedder_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    place = SimpleNamespace(origin=str(tmp_path / "__init__.py"))
    monkeypatch.setattr(local, "find_spec", lambda _: place)
    local.token_vectors.cache_clear()
    with pytest.raises(MissingDataError, match=r"l2_supercat_256\.safetensors is missing; install"):
        local.embed(["A kiln."])


def test_importing_loads_nothing_heavy() -> None:
    run = python(
        "import sys, cookbook.local, cookbook.providers; "
        "print([name for name in ('pandas', 'matplotlib', 'openai', 'qdrant_client', 'wordllama', "
        "'tiktoken') if name in sys.modules])"
    )
    assert run.stdout == "[]\n"


def test_no_texts_give_no_vectors() -> None:
    assert local.embed([]).shape == (0, local.DIM)
    assert local.rerank("How long?", []).shape == (0,)


def test_an_embedder_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "find_spec", lambda _: None)
    local.token_vectors.cache_clear()
    with pytest.raises(MissingDataError, match="install its package again: pip install"):
        local.embed(["A kiln."])


@pytest.mark.parametrize("blank", ["", " ", "\n\n", "\u3000", "\x85"])
def test_blank_texts_are_refused_with_their_positions(blank: str) -> None:
    with pytest.raises(ValueError, match=r"positions \[1, 3\] are blank"):
        local.embed(["a", blank, "b", blank])
    with pytest.raises(ValueError, match="blank"):
        local.rerank(blank, ["a"])


def test_lone_surrogates_and_other_types_are_refused_with_their_positions() -> None:
    with pytest.raises(ValueError, match=r"positions \[1\] hold a lone surrogate"):
        local.embed(["a", "b\ud800"])
    with pytest.raises(ValueError, match=r"positions \[0\] are no strings"):
        local.embed([None])  # type: ignore[list-item]
    with pytest.raises(ValueError, match=r"pass \[text\]"):
        local.embed("one text")


@settings(max_examples=60, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(str.strip))
def test_every_text_has_a_vector(text: str) -> None:
    vector = local.embed([text])[0]
    assert np.isfinite(vector).all()
    assert abs(float(vector @ vector) - 1) < 1e-5


PIECES = [" ", "  ", "a ", "the", "\u2581", "<s>", "</s>", "<unk>", "\n", "\t", "kiln", "\U0001f3fa"]


@settings(max_examples=500, deadline=None)
@example(["\u2581 0", "a \u2581", " \u2581 <s> "])
@given(st.lists(st.lists(st.sampled_from(PIECES) | st.characters(exclude_categories=["Cs"])).map("".join)))
def test_token_ids_are_those_of_the_tokenizer(texts: list[str]) -> None:
    tokenizer = local.token_vectors().tokenizer
    peer = [encoding.ids for encoding in tokenizer.encode_batch(texts, add_special_tokens=False)]
    for _ in range(2):  # the second time the words are looked up
        assert [ids.tolist() for ids in local._token_ids(texts)] == peer


def test_no_token_holds_a_space_behind_another_character() -> None:
    # What lets words be looked up one by one.
    vocabulary = local.token_vectors().tokenizer.get_vocab()
    assert len(vocabulary) == 32_000
    assert not [token for token in vocabulary if "\u2581" in token.lstrip("\u2581")]


def test_the_words_that_are_remembered_stay_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "_MAX_WORDS", 100)
    texts = [f"word{n} word{n + 1} {'x' * 99}" for n in range(400)]
    before = [local.embed([text])[0] for text in texts]
    assert len(local._WORDS) <= 100
    assert max(map(len, local._WORDS)) <= local._LONG_WORD
    assert np.array_equal(local.embed(texts), before)


# --- the reranker -------------------------------------------------------------------------------------


def test_the_text_with_the_questions_rare_word_comes_first() -> None:
    texts = [
        "Parcels inside the country arrive within two days.",
        "Parcels to Norway take a week and cost twelve euro.",
        "Parcels are packed by hand.",
    ]
    scores = local.rerank("How long do parcels to Norway take?", texts)
    assert scores.argmax() == 1
    assert np.array_equal(scores, np.round(scores, 6))
    assert (scores <= 1).all()


def test_a_text_that_holds_every_word_scores_one() -> None:
    question = "How long do parcels to Norway take?"
    assert local.rerank(question, [question, "We sell kilns."])[0] == pytest.approx(1, abs=1e-5)


def test_scores_follow_their_texts() -> None:
    texts = [f"Glaze number {n} is fired at {900 + n} degrees." for n in range(20)] + ["We sell kilns."]
    scores = local.rerank("At how many degrees is glaze 7 fired?", texts)
    backwards = local.rerank("At how many degrees is glaze 7 fired?", texts[::-1])
    assert np.allclose(scores, backwards[::-1], atol=2e-6)
    assert scores.argmin() == 20
