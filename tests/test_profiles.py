"""Lengths are those of the tokenizer, and the gate says which figure refuses windows."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cookbook import chunkers, expanders, pipeline, profiles
from cookbook.profiles import gate, lengths, summary
from cookbook.prompts import pack
from cookbook.providers import LLMClient
from cookbook.rankers import hits_of
from cookbook.stores import MemoryBackend
from cookbook.tokens import count
from cookbook.types import Document

PROSE = "# Kiln\n\n" + "The kiln holds nine trays of pots. " * 40 + "\n\n## Door\n\nIt opens to the left.\n"
LOG = "t=1 pv=20 sp=30 out=41 " * 400


def page(text, doc_id="kiln"):
    return Document(doc_id=doc_id, title="", text=text)


def test_every_unit_is_counted_alone():
    found = lengths([page(PROSE), page("Two words.", "b"), page(" \n", "blank")])
    assert found.page == (count(PROSE), count("Two words."))
    assert len(found.section) == 3 and sum(found.section[:2]) == pytest.approx(found.page[0], abs=2)
    assert found.sentence[1:40] == (count("The kiln holds nine trays of pots. "),) * 39
    assert found.n_characters == len(PROSE) + 10 and found.n_long == 0


def test_prose_passes_and_the_reason_says_so():
    found = gate(lengths([page(PROSE)]))
    assert found.passes and "below" in found.reason
    assert found.demand == summary(lengths([page(PROSE)]).sentence)["p95"] * 5 * 8


def test_a_log_fails_until_a_cap_is_on():
    assert not gate(lengths([page(LOG)])).passes
    assert "100% of the text" in gate(lengths([page(LOG)])).reason
    assert gate(lengths([page(LOG)], max_tokens=64)).passes


def test_long_sentences_fail_by_demand():
    found = gate(lengths([page(PROSE)]), radius=8, top_k=40)
    assert not found.passes and "p95 x 17 x 40" in found.reason


def test_bad_arguments():
    with pytest.raises(ValueError, match="radius=-1"):
        gate(lengths([page(PROSE)]), radius=-1)
    with pytest.raises(ValueError, match="empty"):
        summary([])


def test_the_interval_of_a_quantile_holds_it_as_often_as_it_says():
    """Over many samples of a known distribution: at least 95 %, and never far above for a skewed one."""
    rng = np.random.default_rng(0)
    truth = float(np.exp(2.3263478740408408))  # the 99th percentile of a lognormal
    held = [
        low <= truth and (high is None or truth <= high)
        for low, high in (profiles.quantile_interval(rng.lognormal(size=1000).tolist()) for _ in range(400))
    ]
    assert 0.93 <= np.mean(held) <= 0.995


def test_a_few_values_cannot_bound_the_99th_percentile():
    assert profiles.quantile_interval(range(367))[1] is None
    assert profiles.quantile_interval(range(368))[1] == 367


WORD = st.text(st.sampled_from("abcdeEF1 .,\n\t\u00e9\u732b\U0001f600-_"), min_size=1, max_size=40)


@pytest.fixture(scope="module")
def client():
    return LLMClient("local")


def test_a_prompt_of_the_size_of_the_budget_is_not_above_it():
    assert profiles.tail([900, 1000, 1001, 1200], budget=1000)["above"] == 0.5


@settings(max_examples=120, deadline=None)
@given(
    st.lists(WORD, min_size=1, max_size=60),
    st.integers(0, 3),
    st.integers(0, 3),
    st.integers(1, 6),
    st.integers(4, 30),
    st.data(),
)
def test_no_prompt_of_windows_is_above_its_bound(words, before, after, top_k, cap, data):
    document = Document(doc_id="drawn", title="", text=". ".join(words))
    chunks = chunkers.sentence_window([document], max_tokens=cap)
    picked = data.draw(st.lists(st.sampled_from(chunks), max_size=top_k, unique_by=id)) if chunks else []
    hits = hits_of(picked)
    for merge in (True, False):
        passages = expanders.window(
            hits,
            documents={"drawn": document},
            before=before,
            after=after,
            max_sentence_tokens=cap,
            merge=merge,
        )
        prompt = pack("How long?", passages, budget=10**6)
        bound = profiles.window_bound(
            "How long?",
            doc_ids=["drawn"],
            before=before,
            after=after,
            top_k=top_k,
            max_sentence_tokens=cap,
        )
        assert prompt.demand == prompt.n_tokens <= bound


def test_a_document_made_for_it_comes_close_to_the_bound():
    cap, radius, top_k = 128, 2, 8
    sentence = "Tall" + " cone" * (cap - 4) + "."  # and the space behind it
    assert count(sentence + " ") == cap
    n_sentences = top_k * (2 * radius + 2)
    document = Document(doc_id="made", title="", text=" ".join([sentence] * n_sentences))
    chunks = chunkers.sentence_window([document], max_tokens=cap)
    assert len(chunks) == n_sentences
    picked = chunks[radius :: 2 * radius + 2][:top_k]  # one sentence between windows, so that none merge
    hits = hits_of(picked)
    passages = expanders.window(hits, documents={"made": document}, max_sentence_tokens=cap)
    options = {"doc_ids": ["made"], "before": radius, "after": radius, "top_k": top_k}
    bound = profiles.window_bound("How long?", max_sentence_tokens=cap, **options)
    assert len(passages) == top_k
    assert 0.95 * bound <= pack("How long?", passages, budget=10**6).n_tokens <= bound


def test_what_a_space_in_front_adds_to_a_word():
    """Over every word of the vocabulary: what the bound allows where two sentences meet."""
    from cookbook.tokens import get_encoding

    encoding = get_encoding("cl100k_base")
    most = 0
    for token in range(100_256):
        word = encoding.decode_single_token_bytes(token).decode("utf-8", "replace")
        if not word[0].isspace() and "\ufffd" not in word:
            apart = 1 + len(encoding.encode_ordinary(word))
            most = max(most, len(encoding.encode_ordinary(" " + word)) - apart)
    assert most == profiles.SEAM_TOKENS


def test_the_causes_of_the_gap_add_up():
    parts = profiles.gap([5, 7, 90], [[7, 90], [90], [5, 5, 7]], [110, 100, 30], overhead=12)
    causes = ["k x median", "skew of units", "selection", "sharing", "overhead"]
    assert sum(parts[name] for name in causes) == pytest.approx(parts["mean prompt"], abs=0.01)
    assert parts["mean prompt"] + parts["skew of prompts"] == pytest.approx(parts["median prompt"], abs=0.01)


def test_the_unit_of_a_sentence_is_its_window_alone():
    documents = {"kiln": page(PROSE), "log": page(LOG, "log"), "blank": page(" \n", "blank")}
    chunks = chunkers.sentence_window(list(documents.values()))
    for before, after in ((0, 0), (2, 2), (1, 3), (60, 60)):
        options = {"documents": documents, "before": before, "after": after}
        alone = [expanders.window(hits_of([chunk]), **options)[0].n_tokens for chunk in chunks]
        assert profiles.window_units(chunks, **options) == alone


def test_the_causes_of_a_units_gap_add_up():
    document = page(PROSE)
    chunks = chunkers.sentence_window([document])
    units = profiles.window_units(chunks, documents={"kiln": document}, before=2, after=2)
    parts = profiles.unit_gap([[chunk.n_tokens for chunk in chunks]], units, before=2, after=2)
    causes = ["n x median", "skew of sentences", "clamping", "joining"]
    assert sum(parts[name] for name in causes) == pytest.approx(parts["mean unit"], abs=0.01)
    assert parts["mean unit"] == pytest.approx(np.mean(units), abs=0.01)
    assert parts["median unit"] == np.median(units) and parts["clamping"] < 0 and parts["joining"] < 0
    with pytest.raises(ValueError, match="43 sentences and 1 units"):
        profiles.unit_gap([[1] * 43], [5], before=2, after=2)


def test_prompt_sizes_are_what_was_asked_for_not_what_fitted(client):
    text = "# Kiln\n\nThe Heron reaches 1,280 degrees. It holds that for eight hours. Then it cools.\n"
    section = pipeline.STRATEGIES["section"]
    tight = dataclasses.replace(section, budget=100)
    with MemoryBackend("profiles") as store:
        pipeline.index(
            [Document(doc_id="kiln", title="Kiln", text=text)],
            store=store,
            client=client,
            chunker=section.chunker,
        )
        sizes = [
            profiles.prompt_sizes(strategy, ["How hot?"], store=store, client=client)
            for strategy in (section, tight)
        ]
    assert sizes[0] == sizes[1] and sizes[0][0] > tight.budget


def test_prompt_sizes_of_given_hits_are_those_of_a_search(client, monkeypatch):
    text = "# Kiln\n\nThe Heron reaches 1,280 degrees.\n\n# Oven\n\nIt bakes bread. It holds four loaves.\n"
    section, queries = pipeline.STRATEGIES["section"], ["How hot?", "How many loaves?"]
    with MemoryBackend("given") as store:
        documents = [Document(doc_id="kiln", title="Kiln", text=text)]
        pipeline.index(documents, store=store, client=client, chunker=section.chunker)
        searched = profiles.prompt_sizes(section, queries, store=store, client=client)
        hits = [
            pipeline.ask(query, store=store, client=client, strategy=section, read=False).hits
            for query in queries
        ]
        monkeypatch.setattr(store, "search", None)
        assert profiles.prompt_sizes(section, queries, store=store, client=client, hits=hits) == searched
        with pytest.raises(ValueError, match="shorter"):
            profiles.prompt_sizes(section, queries, store=store, client=client, hits=hits[:1])


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: profiles.quantile_interval([]), "values is empty"),
        (lambda: profiles.quantile_interval([1], quantile=99), "quantile=99 must lie between 0 and 1"),
        (lambda: profiles.gap([1], [[1]], [], overhead=0), "each question needs its prompt"),
        (lambda: profiles.gap([], [[1]], [1], overhead=0), "must not be empty"),
    ],
)
def test_what_cannot_be_computed_is_refused(call, says):
    with pytest.raises(ValueError, match=says):
        call()


def pages_of(n_sections, n_words, n_pages=4):
    section = "## Part {}\n\n" + "The kiln holds nine trays of pots and more. " * (n_words // 9) + "\n\n"
    return [
        page("".join(section.format(i) for i in range(n_sections)), f"p{number}") for number in range(n_pages)
    ]


@pytest.mark.parametrize(
    ("docs", "options", "expansion"),
    [
        (pages_of(3, 90), {"rarely_changes": True}, "whole corpus"),
        (pages_of(3, 90), {"rarely_changes": True, "budget": 900}, "page"),
        (pages_of(3, 90), {}, "page"),
        (pages_of(12, 300), {}, "section"),
        (pages_of(1, 2700), {}, "window"),
        ([*pages_of(5, 450), page(pages_of(1, 1800)[0].text, "large")], {}, "section"),
        ([*pages_of(5, 450), page(pages_of(1, 4500)[0].text, "large")], {}, "measure first"),
        ([page(LOG)], {}, "parent"),
    ],
)
def test_advice_follows_the_lengths(docs, options, expansion):
    advice = profiles.advise(lengths(docs), **options)
    assert (advice.expansion, bool(advice.reason)) == (expansion, True)


def test_no_advice_without_a_page():
    with pytest.raises(ValueError, match="holds no page"):
        profiles.advise(lengths([]))
