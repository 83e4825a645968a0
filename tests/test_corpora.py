"""Corpora: pages from docstrings, the Rust book and folders; gold questions at their places."""

from __future__ import annotations

import hashlib
import importlib
import os
import re
import sys
import types
from collections import Counter
from pathlib import Path

import pandas
import pytest

from cookbook import corpora, docstrings, rust_book
from cookbook.blocks import blocks
from cookbook.errors import CorpusError, MissingDataError, MissingExtraError
from cookbook.rst import to_markdown
from cookbook.types import Document, Question, Quote

PANDAS_VERSION = "3.1.1"  # what the lock pins and the gold spans count in
PANDAS_PAGES = "8c3bb3916dff771d56326e3f32b7ec48816ce61df6f5fb5ed76248f390c55ee4"
RUST_PAGES = "3f222b0412bfb21cd39ac66bf1a1f03fd721410a07026ed9333c788182b6b8b4"

needs_pinned_pandas = pytest.mark.skipif(
    pandas.__version__ != PANDAS_VERSION,
    reason=f"gold spans count in the docstrings of pandas {PANDAS_VERSION}, not {pandas.__version__}",
)
needs_rust_book = pytest.mark.skipif(
    not (Path(os.environ.get("COOKBOOK_DATA", "")) / "rust-book" / "SUMMARY.md").is_file(),
    reason="the Rust book is not in COOKBOOK_DATA/rust-book",
)


def digest(documents: list[Document]) -> str:
    """One hash over names and texts, in order."""
    sha = hashlib.sha256()
    for document in documents:
        sha.update(f"{document.doc_id}\0{document.text}\0".encode())
    return sha.hexdigest()


@pytest.fixture(scope="module")
def pandas_pages() -> dict[str, Document]:
    return {page.doc_id: page for page in corpora.load_docstrings("pandas")}


@pytest.fixture(scope="module")
def rust_pages() -> dict[str, Document]:
    return {page.doc_id: page for page in corpora.load_rust_book()}


# Docstrings as Markdown


@pytest.mark.parametrize(
    ("rst", "markdown"),
    [
        ("Sum.\n\nReturns\n-------\nint\n    The sum.", "Sum.\n\n## Returns\n\n- int: The sum."),
        (
            "A.\n\nParameters\n----------\nx, y : int, default 0\n    First.\n\n    More.\n*args\n    Rest.",
            "A.\n\n## Parameters\n\n- `x, y` (int, default 0): First.\n\n  More.\n- *args: Rest.",
        ),
        (
            "A.\n\nSee Also\n--------\nb.c : Does it.\nd : Wraps\n    around.",
            "A.\n\n## See Also\n\n- `b.c`: Does it.\n- `d`: Wraps around.",
        ),
        ("A.\n\nAttributes\n----------\nNone", "A."),
        ("Two\nlines.\n\n>>> 1\n1\n\nText.", "Two lines.\n\n```python\n>>> 1\n1\n```\n\nText."),
        (">>> print()\n<BLANKLINE>\n", "```python\n>>> print()\n\n```"),
        ("Like so::\n\n    a = 1\n\nDone.", "Like so:\n\n```\na = 1\n```\n\nDone."),
        ("A.\n\nLike so. ::\n\n    a = 1", "A.\n\nLike so.\n\n```\na = 1\n```"),
        (".. versionadded:: 1.2", "Added in version 1.2."),
        (
            "A.\n\n.. versionchanged:: 1.2\n\n   Now\n   faster.",
            "A.\n\n**Changed in version 1.2:** Now faster.",
        ),
        (".. deprecated:: 3.0 Use ``b``.", "**Deprecated since version 3.0:** Use `b`."),
        ("A.\n\n.. warning::\n\n    Hot.", "A.\n\n**Warning:** Hot."),
        ("A.\n\n.. plot::\n   :context: close-figs\n\n   >>> f()", "A.\n\n```python\n>>> f()\n```"),
        (
            "See :class:`~pandas.Series`, :func:`a.b`, :ref:`the guide <guide>`.",
            "See `Series`, `a.b`, the guide.",
        ),
        (
            "`text\n<https://x.y/\nz>`__ and `w`_.\n\n.. _w: https://w",
            "[text](https://x.y/z) and [w](https://w).",
        ),
        ("don`t use ``a`` but `c`.", "don`t use `a` but `c`."),
        ("``a`b``", "`` a`b ``"),
        ("- one\n  more\n\n  * sub\n- two", "- one more\n\n  - sub\n- two"),
        ("1. a\n#. b", "1. a\n- b"),
        ("A.\n\nTerm\n    What it is.", "A.\n\n- Term: What it is."),
        (
            "== ====\nk  v\n== ====\na  ``1``\n   more\nb  2\n== ====",
            "| k | v |\n| --- | --- |\n| a | `1` more |\n| b | 2 |",
        ),
        (
            "+---+---+\n| k | v |\n+===+===+\n| a | b |\n|   | c |\n+---+---+\n| d | e |\n+---+---+",
            "| k | v |\n| --- | --- |\n| a | b c |\n| d | e |",
        ),
        ("", ""),
        ("   \n  ", ""),
    ],
)
def test_to_markdown(rst: str, markdown: str) -> None:
    assert to_markdown(rst) == markdown


def test_an_underline_inside_a_doctest_makes_no_heading() -> None:
    text = to_markdown("A.\n\nExamples\n--------\n>>> show()\n--------\nINSTALLED\n---------\nb")
    assert text == "A.\n\n## Examples\n\n```python\n>>> show()\n--------\nINSTALLED\n---------\nb\n```"


def make_module(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """A package with every kind of member that decides where a text stands."""
    module = types.ModuleType("toypkg")
    source = '''
import collections

class Accessor:
    """Text tools."""
    def upper(self):
        """Make it loud."""

class Cached:
    def __get__(self, obj, cls):
        return Accessor

class _Base:
    """Not public."""
    def head(self):
        """First rows."""
    def silent(self):
        pass

class Big(_Base):
    """A table."""
    text = Cached()
    size = 3
    def tail(self):
        """Last rows."""
    last = tail

class Small(Big):
    """A column."""
    @property
    def name(self):
        """Its name."""
    @classmethod
    def make(cls):
        """Make one."""

class Names(collections.OrderedDict):
    """Names in order."""
    def silent(self):
        pass

class Alone(_Base):
    pass

def read(path):
    """Read a file."""

load = read
sqrt = __import__("math").sqrt
VERSION = 3
'''
    exec(source, module.__dict__)
    for value in vars(module).values():
        if isinstance(value, type | types.FunctionType):
            value.__module__ = "toypkg"
    module.OrderedDict = module.collections.OrderedDict  # type: ignore[attr-defined]
    module.__all__ = [  # type: ignore[attr-defined]
        "read", "load", "Small", "Big", "Names", "Alone", "sqrt", "VERSION", "OrderedDict", "gone",
    ]  # fmt: skip
    module.__version__ = "1.0"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "toypkg", module)
    return module


def test_load_docstrings_places_every_text_once(monkeypatch: pytest.MonkeyPatch) -> None:
    make_module(monkeypatch)
    pages = {page.doc_id: page for page in corpora.load_docstrings("toypkg")}
    assert list(pages) == ["Alone", "Big", "Big.text", "Names", "Small", "load"]
    assert pages["Big.text"].text == (
        "# Big.text\n\nAlso available as `Small.text`.\n\nText tools.\n\n## Big.text.upper\n\nMake it loud.\n"
    )
    # Big and Alone inherit the text from a class without a page: Alone comes first among equals
    assert pages["Alone"].text == "# Alone\n\n## Alone.head\n\nFirst rows.\n"
    assert pages["Big"].text == (
        "# Big\n\nA table.\n\n## Big.last\n\nLast rows.\n\n## Members described on other pages\n\n"
        "- `head`: see `Alone`.\n- `tail` (as `last`): see `Big`.\n"
    )
    # what a public class defines stands there, and subclasses name it
    assert pages["Small"].text == (
        "# Small\n\nA column.\n\n## Small.make\n\nMake one.\n\n## Small.name\n\nIts name.\n\n"
        "## Members described on other pages\n\n- `head`: see `Alone`.\n"
        "- `last`, `tail` (as `last`): see `Big`.\n"
    )
    assert pages["Names"].text == "# Names\n\nNames in order.\n"  # nothing of the standard library
    assert pages["load"].text == "# load\n\nAlso available as `read`.\n\nRead a file.\n"
    assert pages["load"].corpus == "toypkg"
    assert pages["load"].source == "toypkg 1.0 docstrings"


def test_load_docstrings_says_what_is_wrong() -> None:
    with pytest.raises(
        MissingExtraError, match=r"'no_such_package' cannot be imported .*pip install no_such"
    ):
        corpora.load_docstrings("no_such_package")
    for name in ("", "..", "a b"):
        with pytest.raises(ValueError, match=r"package=.* must be a module's name"):
            corpora.load_docstrings(name)
    with pytest.raises(CorpusError, match="'cookbook' has no class or function of its own"):
        corpora.load_docstrings("cookbook")


def test_what_can_be_called_is_a_page_though_it_is_no_routine() -> None:
    """NumPy's ufuncs are instances of a class."""
    pages = docstrings._pages(importlib.import_module("numpy"), "numpy")
    assert {"add", "where", "ndarray"} <= set(pages)
    assert "pi" not in pages


def test_another_package_loads_too() -> None:
    pages = corpora.load_docstrings("json")
    assert "## JSONEncoder.iterencode" in next(page.text for page in pages if page.doc_id == "JSONEncoder")


@needs_pinned_pandas
def test_pandas_pages_are_the_same_bytes_on_every_python(pandas_pages: dict[str, Document]) -> None:
    assert digest(list(pandas_pages.values())) == PANDAS_PAGES


def test_pandas_pages_read_as_markdown(pandas_pages: dict[str, Document]) -> None:
    assert list(pandas_pages) == sorted(pandas_pages)
    assert {"DataFrame", "Series", "Series.str", "Series.dt", "Series.plot", "read_csv"} <= set(pandas_pages)
    kinds = Counter(
        (block.kind, page.text[block.start :].lstrip()[:3] == "```")
        for page in pandas_pages.values()
        for block in blocks(page.text)
    )
    assert kinds["code", False] == 0  # no text turned into code by its indentation
    assert kinds["html", False] == 0
    assert kinds["heading", False] > 4000
    prose = re.sub(
        r"(?ms)^ *```.*?^ *```$|`` .*? ``|`[^`\n]*`", "", "\n".join(p.text for p in pandas_pages.values())
    )
    assert not re.findall(r"^\.\. \w+::|:(?:class|meth|func|attr|ref):`", prose, re.M)


def test_no_text_stands_on_two_pandas_pages(pandas_pages: dict[str, Document]) -> None:
    sections = Counter(
        body
        for page in pandas_pages.values()
        for body in re.split(r"(?m)^##? .*\n", page.text)
        if len(body) > 200 and "see `" not in body
    )
    whole_members = [body for body, n in sections.items() if n > 1 and "### Examples" in body]
    assert whole_members == []


# The Rust book


@pytest.mark.parametrize(
    ("raw", "cleaned"),
    [
        (
            '# A\n\n<!-- Old headings. Do not remove or links may break. -->\n\n<a id="b"></a>\n\nC\n',
            "# A\n\nC\n",
        ),
        ("a <!-- ignore --> b [c][d]<!--\nignore -->.\n", "a  b [c][d].\n"),
        ("```rust\n{{#rustdoc_include ../x.rs:here}}\n```\n\nT\n", "T\n"),
        ("```rust\nfn a() {}\n{{#include b.rs}}\n```\n", "```rust\nfn a() {}\n\n```\n"),
        (
            '<Listing number="4-1" file-name="a.rs" caption="Moves `x`">\n\nT\n\n</Listing>\n',
            "Listing 4-1 (a.rs): Moves `x`\n\nT\n",
        ),
        ('<Listing file-name="a.rs">\n\nT\n\n</Listing>\n', "File a.rs\n\nT\n"),
        ('<span class="filename">Filename: a.rs</span>\n', "Filename: a.rs\n"),
        ("> ```rust\n> {{#include a.rs}}\n> ```\n>\n> T\n", ">\n> T\n"),
        ("`Vec<T>` and <kbd>x</kbd>\n", "`Vec<T>` and <kbd>x</kbd>\n"),
        ("<!-- all -->\n\n", ""),
        ("", ""),
    ],
)
def test_clean(raw: str, cleaned: str) -> None:
    assert rust_book.clean(raw) == cleaned
    assert rust_book.clean(cleaned) == cleaned


@needs_rust_book
def test_the_cleaned_book_is_what_the_spans_count_in(rust_pages: dict[str, Document]) -> None:
    assert len(rust_pages) == 111
    assert next(iter(rust_pages)) == "title-page"
    assert digest(list(rust_pages.values())) == RUST_PAGES, (
        "raise CLEANER_VERSION and place the questions anew"
    )
    text = "".join(page.text for page in rust_pages.values())
    assert not re.search(r"\{\{#|<!--|</?Listing|<a id=|```\w*\n```", text)


def test_a_missing_file_of_the_book_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pooch

    def no_network(*_: object, **__: object) -> None:
        raise OSError("no network")

    monkeypatch.setenv("COOKBOOK_DATA", str(tmp_path))
    monkeypatch.setattr(pooch, "retrieve", no_network)
    with pytest.raises(MissingDataError) as caught:
        corpora.load_rust_book()
    for part in ("SUMMARY.md", str(tmp_path / "rust-book"), "COOKBOOK_DATA", rust_book.COMMIT):
        assert part in str(caught.value)


def small_book(folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """A book of three files, registered as the pinned ones, under ``folder``."""
    files = {
        "SUMMARY.md": b"# B\n\n[Two](two.md)\n\n- [One](one.md)\n- [Blank](blank.md)\n",
        "one.md": b"## One\n\nText.\n",
        "two.md": "No heading, “quotes”.\n".encode(),
        "blank.md": b"<!-- nothing -->\n",
    }
    hashes = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    monkeypatch.setenv("COOKBOOK_DATA", str(folder))
    monkeypatch.setattr(rust_book, "_hashes", lambda: hashes)
    return files


def test_the_book_is_read_in_the_order_of_its_summary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rust-book").mkdir()
    for name, content in small_book(tmp_path, monkeypatch).items():
        (tmp_path / "rust-book" / name).write_bytes(content)
    pages = corpora.load_rust_book()
    assert [(page.key, page.title) for page in pages] == [("rust-book/two", "two"), ("rust-book/one", "One")]
    assert pages[0].text == "No heading, “quotes”.\n"
    (tmp_path / "rust-book" / "one.md").write_bytes(b"## One\n\nChanged.\n")
    with pytest.raises(CorpusError, match=r"one\.md is not the file of rust-lang/book"):
        corpora.load_rust_book()


def test_missing_files_are_downloaded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pooch

    files = small_book(tmp_path, monkeypatch)
    fetched: list[str] = []

    def download(url: str, *, known_hash: str, fname: str, path: Path, **_: object) -> None:
        assert url == rust_book.BASE_URL + fname
        assert known_hash == "sha256:" + hashlib.sha256(files[fname]).hexdigest()
        Path(path).mkdir(exist_ok=True)
        (Path(path) / fname).write_bytes(files[fname])
        fetched.append(fname)

    monkeypatch.setattr(pooch, "retrieve", download)
    assert corpora.load_rust_book() == corpora.load_rust_book()
    assert sorted(fetched) == sorted(files)


def test_every_file_of_the_book_has_a_hash() -> None:
    hashes = rust_book._hashes()
    assert len(hashes) == 112
    assert all(re.fullmatch("[0-9a-f]{64}", value) for value in hashes.values())
    assert {"SUMMARY.md", "ch04-01-what-is-ownership.md"} <= set(hashes)


# Folders


def test_load_folder(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / ".hidden").mkdir()
    (tmp_path / "b.md").write_bytes("\ufeffIntro\r\n\r\n# The *title*\r\n".encode())
    (tmp_path / "a.TXT").write_bytes(b"plain")
    (tmp_path / "sub" / "c.v2.markdown").write_bytes(b"")
    (tmp_path / ".hidden" / "d.md").write_bytes(b"x")
    (tmp_path / "e.py").write_bytes(b"x")
    pages = corpora.load_folder(tmp_path)
    assert [page.doc_id for page in pages] == ["a", "b", "sub/c.v2"]
    assert [page.title for page in pages] == ["a", "The title", "c.v2"]
    assert [page.source for page in pages] == ["a.TXT", "b.md", "sub/c.v2.markdown"]
    assert pages[1].text == "Intro\r\n\r\n# The *title*\r\n"
    assert pages[1].key == f"{tmp_path.name}/b"
    assert corpora.load_folder(str(tmp_path), corpus="mine")[2].key == "mine/sub/c.v2"


def test_load_folder_says_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(MissingDataError, match="nowhere' does not exist"):
        corpora.load_folder(tmp_path / "nowhere")
    with pytest.raises(MissingDataError, match=r"holds no file that ends in \.md"):
        corpora.load_folder(tmp_path)
    (tmp_path / "a.md").write_bytes(b"ok")
    with pytest.raises(MissingDataError, match="is a file, not a folder"):
        corpora.load_folder(tmp_path / "a.md")
    (tmp_path / "a.txt").write_bytes(b"ok")
    with pytest.raises(CorpusError, match=r"'a\.md' and 'a\.txt' .* document 'a'"):
        corpora.load_folder(tmp_path)
    (tmp_path / "a.txt").unlink()
    (tmp_path / "latin.md").write_bytes("na\xefve".encode("latin-1"))
    with pytest.raises(CorpusError, match=r"latin\.md' is not UTF-8: byte 0xef at offset 2"):
        corpora.load_folder(tmp_path)


def test_load_corpus() -> None:
    wiki = corpora.load_corpus("wiki")
    assert {page.corpus for page in wiki} == {"wiki"}
    assert {"pandas", "rust-book", "wiki"} <= set(corpora.corpus_names())
    with pytest.raises(ValueError, match=r"corpus='wikis' must be one of .*pandas, .*rust-book, .*wiki"):
        corpora.load_corpus("wikis")


def test_corpora_are_looked_for_beside_the_package_then_in_the_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpora, "__file__", str(tmp_path / "site" / "cookbook" / "corpora.py"))
    monkeypatch.delenv("COOKBOOK_DATA", raising=False)
    with pytest.raises(MissingDataError, match="COOKBOOK_DATA"):
        corpora.load_eval_questions()
    assert corpora.corpus_names() == ["pandas", "rust-book"]
    (tmp_path / "corpora" / "own" / "pages").mkdir(parents=True)
    (tmp_path / "corpora" / "own" / "pages" / "a.md").write_bytes(b"# A")
    monkeypatch.setenv("COOKBOOK_DATA", str(tmp_path))
    assert [page.key for page in corpora.load_corpus("own")] == ["own/a"]


# Questions


def check_places(questions: list[Question], pages: dict[str, Document]) -> None:
    """Every quote stands at its offsets, once in its page."""
    for question in questions:
        for quote in (*question.evidence, *question.qualifiers, *question.forbidden):
            assert pages[quote.doc_id].text[quote.start : quote.end] == quote.quote, question.question_id
        assert corpora.place(question, pages.values()) == question


@needs_pinned_pandas
def test_pandas_quotes_stand_where_they_say(pandas_pages: dict[str, Document]) -> None:
    asked = corpora.load_eval_questions("pandas")
    aside = corpora.read_questions(corpora.corpora_folder() / "pandas" / "set_aside.jsonl")
    check_places([*asked, *aside], pandas_pages)
    names = [question.question_id for question in (*asked, *aside)]
    assert len(aside) == 288 and len(set(names)) == len(names)


@needs_rust_book
def test_rust_book_quotes_stand_where_they_say(rust_pages: dict[str, Document]) -> None:
    check_places(corpora.load_eval_questions("rust-book"), rust_pages)


def test_own_quotes_stand_where_they_say() -> None:
    own = {question.corpus for question in corpora.load_eval_questions()} - set(corpora.LOADERS)
    assert "wiki" in own
    for name in own:
        pages = {page.doc_id: page for page in corpora.load_corpus(name)}
        check_places(corpora.load_eval_questions(name), pages)


@pytest.mark.parametrize(("name", "at_least"), [("pandas", 60), ("rust-book", 30)])
def test_there_are_enough_questions_of_each_kind(name: str, at_least: int) -> None:
    questions = corpora.load_eval_questions(name)
    kinds = Counter(question.kind for question in questions)
    dev = [question for question in questions if question.part == "dev"]
    test = [question for question in questions if question.part == "test"]
    assert len(questions) >= at_least
    assert kinds["unanswerable"] >= 10
    assert set(kinds) == set(corpora.KINDS)
    assert dev + test == questions  # test was written later, as a whole
    assert 0.3 < len(test) / len(questions) < 0.4
    assert {question.kind for question in test} == set(corpora.KINDS)
    assert [q.question_id for q in questions] == [f"{name}-{n:03d}" for n in range(1, len(questions) + 1)]
    assert len({q.question for q in questions}) == len(questions)
    assert all(q["corpus"] == name and q["answer"] for q in questions)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "hard"}, "kind='hard' must be one of"),
        ({"part": "train"}, "part='train' must be one of dev, test"),
        ({"kind": "unanswerable"}, "'unanswerable' has 1 evidence"),
        ({"evidence": []}, "'one sentence' has 0 evidence"),
        ({"note": "x"}, "unexpected keyword"),
        ({"corpus": "other"}, "stands twice or elsewhere"),
        ({}, ""),
    ],
)
def test_a_bad_line_of_questions_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, object], message: str
) -> None:
    import json

    row: dict[str, object] = {
        "question_id": "own-001", "corpus": "own", "question": "Q?", "answer": "A.",
        "evidence": [{"doc_id": "a", "start": 0, "end": 1, "quote": "A"}],
        "kind": "one sentence", "part": "dev",
    }  # fmt: skip
    (tmp_path / "own").mkdir()
    monkeypatch.setattr(corpora, "corpora_folder", lambda: tmp_path)
    (tmp_path / "own" / "questions.jsonl").write_text(json.dumps(row | change) + "\n", encoding="utf-8")
    if not message:
        assert corpora.load_eval_questions()[0].evidence == (Quote(doc_id="a", start=0, end=1, quote="A"),)
        with pytest.raises(ValueError, match="corpus='pandas' has no questions; these have: own"):
            corpora.load_eval_questions("pandas")
        return
    with pytest.raises(CorpusError, match=re.escape(message)) as caught:
        corpora.load_eval_questions()
    assert "own/questions.jsonl line 1" in str(caught.value)


def test_find_quote_and_place() -> None:
    page = Document(doc_id="a", title="A", text="x. Yes. No. x. Yes, sir. aa a", corpus="own")
    assert corpora.find_quote(page, "No.") == Quote(doc_id="a", start=8, end=11, quote="No.")
    with pytest.raises(CorpusError, match="at 0 and at 12: quote more"):
        corpora.find_quote(page, "x.")
    with pytest.raises(CorpusError, match="at 24 and at 25"):
        corpora.find_quote(Document(doc_id="a", title="A", text=" " * 24 + "aaa"), "aa")
    for absent in ("Maybe", "", "  "):
        with pytest.raises(CorpusError, match="does not hold the quote"):
            corpora.find_quote(page, absent)
    question = Question(
        question_id="own-001", corpus="own", question="Q?", answer="No.", kind="one sentence", part="dev",
        evidence=(Quote(doc_id="a", start=0, end=0, quote="No."),),
    )  # fmt: skip
    assert corpora.place(question, [page]).evidence[0].start == 8
    with pytest.raises(CorpusError, match="'own-001': no document 'a'"):
        corpora.place(question, [])
