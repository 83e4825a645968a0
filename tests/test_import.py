"""Importing the package is cheap."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = {"pandas", "matplotlib", "openai", "qdrant_client", "qdrant_edge", "wordllama", "tiktoken"}
MODULES = sorted(
    path.stem for path in (Path(__file__).parent.parent / "cookbook").glob("*.py") if path.stem != "__init__"
)


def loaded_by(statement):
    script = f"import sys, json; {statement}; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


def test_import_loads_nothing_heavy():
    assert not loaded_by("import cookbook") & HEAVY


def test_no_module_loads_anything_heavy():
    names = ", ".join(f"cookbook.{name}" for name in MODULES)
    assert not loaded_by(f"import {names}") & HEAVY


def test_the_modules_are_found():
    assert {"chunkers", "stores", "expanders"} <= set(MODULES)


@pytest.mark.parametrize("name", MODULES)
def test_first_docstring_line_says_what_goes_in_and_comes_out(name):
    if name in ("errors", "types"):
        pytest.skip("records and errors: nothing goes in")
    text = (Path(__file__).parent.parent / "cookbook" / f"{name}.py").read_text(encoding="utf-8")
    assert "->" in text.split("\n")[0], name
