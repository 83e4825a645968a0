"""The tree of sections: paths by level, bodies that tile the page, anchors that do not collide."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_blocks import TEXTS

from cookbook.blocks import blocks
from cookbook.sections import anchors, section_at, sections
from cookbook.tokens import TokenMap, count
from cookbook.types import Document, Section


def page(text: str) -> Document:
    return Document(doc_id="page", title="Page", text=text, corpus="wiki")


def body(document: Document, section: Section) -> str:
    return document.text[section.body.start : section.body.end]


@settings(max_examples=300, deadline=None)
@given(TEXTS)
def test_bodies_tile_any_page(text: str) -> None:
    document = page(text)
    found = sections(document)
    if not text.strip():
        assert found == []
        return
    assert "".join(body(document, section) for section in found) == text
    by_id = {section.section_id: section for section in found}
    assert len(by_id) == len(found)
    anchored = [section.heading_id for section in found if section.level]
    assert len(set(anchored)) == len(anchored)
    assert all(anchored)
    for section in found:
        assert section.span.contains(section.body)
        assert section.n_tokens == count(body(document, section))
        if section.parent_id is not None:
            parent = by_id[section.parent_id]
            assert parent.level < section.level
            assert parent.span.contains(section.span)
            assert section.path == (*parent.path, section.title)
    # The innermost section of every character, and the spans of unrelated sections, do not overlap.
    for offset in {0, len(text) // 2, len(text) - 1}:
        inner = section_at(found, offset)
        assert inner.body.start <= offset < inner.body.end
    assert sections(document, layout=blocks(text), tokens=TokenMap(text)) == found


def test_case_022() -> None:
    document = page(
        "Intro line\n\nOverview\n========\n\nText A.\n\nDetails\n-------\n\nText B.\n\n---\n\nTail.\n"
    )
    preamble, overview, details = sections(document)
    assert (preamble.path, preamble.level, preamble.heading_id) == ((), 0, "")
    assert body(document, preamble) == "Intro line\n\n"
    assert [overview.title, details.title] == ["Overview", "Details"]
    assert body(document, details).endswith("Tail.\n")


def test_case_019() -> None:
    text = "# Pump guide\n\nBefore.\n\n~~~sh\n# not a heading\n~~~~\n\n## Next\n\nAfter.\n"
    document = page(text)
    assert [section.title for section in sections(document)] == ["Pump guide", "Next"]
    assert "~~~sh\n# not a heading\n~~~~\n" in body(document, sections(document)[0])


def test_case_023() -> None:
    document = page("# A\nalpha\n### B\nbeta\n### C\ngamma\n## D\ndelta\n")
    found = sections(document)
    assert [section.path for section in found] == [("A",), ("A", "B"), ("A", "C"), ("A", "D")]
    hit = section_at(found, document.text.index("gamma"))
    assert hit.title == "C"
    assert "beta" not in body(document, hit)
    spans = [document.text[section.span.start : section.span.end] for section in found]
    assert spans == [document.text, "### B\nbeta\n", "### C\ngamma\n", "## D\ndelta\n"]


def test_case_025() -> None:
    document = page("---\ntitle: Loom\n# comment: old\nauthor: R\n---\n\n# Loom\n\nBody.\n")
    preamble, loom = sections(document)
    assert body(document, preamble).startswith("---\ntitle: Loom")
    assert (loom.title, document.text.index("Body.")) == ("Loom", 54)


def test_case_028() -> None:
    document = page("Preface text.\n\n# A\n## B\n\n### C\nBody.\n## D\n")
    found = sections(document)
    assert [section.path for section in found] == [(), ("A",), ("A", "B"), ("A", "B", "C"), ("A", "D")]
    assert body(document, found[0]) == "Preface text.\n\n"
    assert all(body(document, section).strip() for section in found)


def test_ids_and_records() -> None:
    document = page("# Use\n\nText.\n\n## Use\n\n# Use\n")
    found = sections(document)
    assert [section.section_id for section in found] == ["wiki/page#h000", "wiki/page#h001", "wiki/page#h002"]
    assert [section.heading_id for section in found] == ["use", "use-1", "use-2"]
    assert [section.parent_id for section in found] == [None, "wiki/page#h000", None]
    assert all(section.body.doc_id == section.span.doc_id == "page" for section in found)


@pytest.mark.parametrize("levels", [(3, 2, 1), (2, 4, 3, 4), (1, 6, 2, 6, 1)])
def test_a_deeper_first_heading_is_no_parent_of_a_higher_one(levels: tuple[int, ...]) -> None:
    document = page("".join(f"{'#' * level} T{i}\n" for i, level in enumerate(levels)))
    for section, level in zip(sections(document), levels, strict=True):
        assert section.level == level
        assert len(section.path) <= level


@pytest.mark.parametrize(
    ("titles", "expected"),
    [
        (["A", "A", "A-1", "A"], ["a", "a-1", "a-1-1", "a-2"]),
        (["A 1", "A", "A"], ["a-1", "a", "a-2"]),
        (["", "!?", "\U0001f389"], ["section", "section-1", "section-2"]),
        (["Caf\xe9 \u7a95", "snake_case", "Don\u2019t"], ["caf\xe9-\u7a95", "snake_case", "dont"]),
        (["\u0939\u093f\u0902\u0926\u0940"], ["\u0939\u093f\u0902\u0926\u0940"]),
    ],
)
def test_anchors(titles: list[str], expected: list[str]) -> None:
    assert anchors(titles) == expected


@given(st.lists(st.sampled_from(["A", "A 1", "A-1", "A 1 1", "B", "", "!"]), max_size=12))
def test_anchors_never_repeat(titles: list[str]) -> None:
    assert len(set(anchors(titles))) == len(titles)


@pytest.mark.parametrize("offset", [-1, 9, 100])
def test_an_offset_outside_the_page_is_refused(offset: int) -> None:
    found = sections(page("# A\ntext\n"))
    assert section_at(found, 8).title == "A"
    with pytest.raises(ValueError, match=f"offset={offset} must be"):
        section_at(found, offset)


def test_blank_pages_have_no_sections() -> None:
    assert sections(page("")) == sections(page(" \r\n\u2028")) == []
    with pytest.raises(ValueError, match="offset=0 must be"):
        section_at([], 0)
