"""The README names what there is: every file, notebook, provider, variable and target, and no other."""

from __future__ import annotations

import re
from pathlib import Path

from cookbook import corpora
from cookbook.pipeline import STRATEGIES
from cookbook.providers import PROVIDERS

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_file_map_holds_every_file_once():
    listed = re.findall(
        r"`(\w+\.py)`", README[README.index("### The files of") : README.index("## The corpora")]
    )
    assert sorted(listed) == sorted(
        path.name for path in (ROOT / "cookbook").glob("*.py") if path.name != "__init__.py"
    )


def test_the_links_lead_to_files():
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", README)
    assert links
    assert [link for link in links if not (ROOT / link).is_file()] == []


def test_every_notebook_is_listed():
    listed = re.findall(r"\(notebooks/(\w+)\.ipynb\)", README)
    assert sorted(listed) == sorted(path.stem for path in (ROOT / "notebooks").glob("*.ipynb"))


def test_the_table_of_providers_is_the_table():
    rows = re.findall(r"^\| `(\w+)`[^|]*\| (?:`(\w+)`|no key) \| ([^|]*)\| ([^|]*)\|$", README, re.M)
    assert [name for name, *_ in rows] == list(PROVIDERS)
    for name, key, models, address in rows:
        row = PROVIDERS[name]
        assert (key or None) == row.key, name
        missing = [] if row.chat_model else ["both"]
        if row.chat_model and not row.embed_model:
            missing = [f"`{name.upper()}_EMBED_MODEL`" if row.embeddings else "has no embeddings"]
        assert models.split(":")[0].strip() == "".join(missing), name
        if row.base_url is None and name != "local":
            assert address.strip() == f"`{name.upper()}_BASE_URL`"


def test_every_target_is_a_target():
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    fenced = re.findall(r"^ *```.*?^ *```", README, re.M | re.S)
    prose = re.sub(r"^ *```.*?^ *```", "", README, flags=re.M | re.S)
    code = "\n".join([*fenced, *re.findall(r"`([^`]+)`", prose)])
    named = set(re.findall(r"\bmake ([a-z]+)\b", code))
    assert {"run", "test", "ask", "lab", "bench", "notebooks"} <= named <= set(targets)


def test_corpora_and_strategies_have_the_names_of_the_readme():
    table = README[README.index("## The corpora") :]
    listed = re.findall(r"^\| `([\w-]+)` \| \d+ \|", table, re.M)
    assert sorted(listed) == corpora.corpus_names()
    assert all(f"`{name}`" in README or f'"{name}"' in README for name in STRATEGIES)


def test_the_lines_for_windows_are_the_workflow_s():
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    windows = workflow[workflow.index("  windows:") : workflow.index("  qdrant-server:")]
    lines = re.findall(r"- run: (.+)", windows)
    assert lines
    assert [line for line in lines if f"\n{line}\n" not in README] == []
