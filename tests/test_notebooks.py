"""The notebooks keep the house style; the guard that says so finds every way to break it.

Their outputs are compared by nbval, which the same call of pytest runs over notebooks/.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import notebook_guard as guard
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

ROOT = Path(__file__).parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def test_there_are_notebooks_to_guard():
    assert NOTEBOOKS


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_house_style(path):
    text = path.read_text(encoding="utf-8")
    notebook = nbformat.reads(text, as_version=4)
    nbformat.validate(notebook)
    assert guard.problems(notebook, n_bytes=len(text.encode())) == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_stored_as_the_refresh_writes_it(path):
    text = path.read_text(encoding="utf-8")
    assert nbformat.writes(nbformat.reads(text, as_version=4)) + "\n" == text, "refresh with make notebooks"


def code(source, printed="", *, count=None, **metadata):
    outputs = [new_output("stream", name="stdout", text=printed)] if printed else []
    return new_code_cell(source, outputs=outputs, execution_count=count, metadata=metadata)


def figure(source="plt.plot(x)\nplt.show()", alt="Bars of three lengths; the middle one is the longest."):
    cell = code(source, **({"alt": alt} if alt else {}))
    plain = "<Figure size 560x240 with 1 Axes>"
    cell.outputs = [new_output("display_data", {"image/png": PNG, "text/plain": plain})]
    return cell


def good(*cells, kernel="python3", n_cells=30):
    """A notebook without a problem, with further cells and as much prose as keeps the shape."""
    cells = [
        new_markdown_cell("# Windows hold what the sentence lacks"),
        code("recall = 0.81\nprint(recall)\nassert recall > 0.5", "0.81\n"),
        figure(),
        figure(),
        *cells,
    ]
    cells += [new_markdown_cell("A sentence.") for _ in range(n_cells - len(cells))]
    notebook = new_notebook(cells=cells)
    for number, cell in enumerate(guard.code_cells(notebook), start=1):
        cell.execution_count = cell.execution_count or number
    notebook.metadata["kernelspec"] = {"name": kernel, "display_name": "Python 3", "language": "python"}
    if kernel is None:
        del notebook.metadata["kernelspec"]
    nbformat.validate(notebook)
    return notebook


def test_a_good_notebook_has_no_problem():
    assert guard.problems(good()) == []


@pytest.mark.parametrize(
    ("notebook", "told"),
    [
        (good(kernel="rag-env-37"), "kernelspec names 'rag-env-37'"),
        (good(kernel=None), "kernelspec names None"),
        (good(code("x = 1", count=9)), "execution counts are [1, 2, 3, 9]"),
        (good(code("print(1)")), "In [4] prints, but stores no output"),
        (good(code("x = 1", tags=["raises-exception"])), "tags ['raises-exception']"),
        (good(code("x = 1", tags=["nbval-ignore-output"])), "tags"),
        (good(code("# NBVAL_IGNORE_OUTPUT\nx = 1")), "exempts itself"),
        (good(code("x = 1", jupyter={"source_hidden": True})), "hidden"),
        (good(code("x = 1", collapsed=True)), "hidden"),
        (good(code("x = 1", execution={"iopub.execute_input": "2025-01-01"})), "timing records"),
        (good(code("!ls")), "not plain Python"),
        (good(code("%matplotlib inline")), "not plain Python"),
        (good(code("%%bash\nls")), "not plain Python"),
        (good(code("try:\n    x = 1\nexcept ValueError:\n    x = 2")), "try/except"),
        (good(code("path = '/home/ada/data'")), "path of a machine: '/home/a'"),
        (good(code("p", "PosixPath('/tmp/x1')\n")), "path of a machine"),
        (good(code("p", r"C:\Users\ada")), "path of a machine"),
        (good(code("client = LLMClient(api_key=key)")), "passes a key"),
        (good(code("key = os.environ['OPENAI_API_KEY']")), "names a key"),
        (good(code("\n".join("x = 1" for _ in range(21)))), "In [4] has 21 lines"),
        (
            good(code("x = 1\n" * 7), code("x = 1\n" * 7), code("x = 1\n" * 7), code("x = 1\n" * 7)),
            "median of 7",
        ),
        (good(code("")), "In [4] is empty"),
        (good(n_cells=29), "29 cells"),
        (good(n_cells=46), "46 cells"),
        (good(*[code("x = 1") for _ in range(13)]), "16 of 30 cells are code"),
        (good(figure(), figure(), figure()), "5 figures"),
        (good(figure(alt="")), "'alt' does not say what is seen"),
        (good(figure("plt.plot(x);")), "does not end with plt.show()"),
        (good(new_markdown_cell("Recall is 0.82.")), "cell 4: 0.82 stands in the prose"),
        (good(new_markdown_cell("Recall is 82 %.")), "cell 4: 82 % stands in the prose"),
        (good(new_markdown_cell("It costs 1,400 tokens.")), "1,400 stands in the prose"),
    ],
)
def test_each_problem_is_found_alone(notebook, told):
    found = guard.problems(notebook)
    assert len(found) == 1, found
    assert told in found[0]


def test_a_notebook_that_asserts_nothing():
    notebook = good()
    notebook.cells[1].source = "recall = 0.81\nprint(recall)"
    assert guard.problems(notebook) == ["nothing is asserted"]


def test_a_notebook_without_outputs_and_counts():
    """Strict nbval passes it: there is nothing to compare."""
    notebook = good()
    for cell in guard.code_cells(notebook):
        cell.outputs, cell.execution_count = [], None
    told = " ".join(guard.problems(notebook))
    assert "no output is stored" in told
    assert "execution counts are [None, None, None]" in told


def test_ids_and_size_and_title():
    notebook = good()
    notebook.cells[1].id = notebook.cells[2].id
    notebook.cells[0].source = "Windows"
    assert guard.problems(notebook, n_bytes=410_000) == [
        "cell ids are missing or repeated",
        "the first cell is not a title",
        "the file has 410,000 bytes, more than 409,600",
    ]


@pytest.mark.parametrize(
    "prose",
    [
        "Recall is 0.81, or 81 %, or 81%.",
        "Chunks of 900/180/24 tokens; a 900-token parent; `top_k=5`.",
        "It holds 10,000 pages; 1.50 of them a question; it is lower by 0.25.",
        "See [a page](https://example.org/2024/77) and `04_sentence_window`, cl100k, h003, llama-3, 3.11.2.",
        "1. First.\n2. Second.\n\n```python\nx = 77\n```",
        "## Exercises\nTry a radius of 77.",
        "## Further reading\nOkabe and Ito, 2008.",
    ],
)
def test_numbers_that_stand_in_the_notebook(prose):
    cells = [
        code("sizes = (900, 180, 24)\nhits = search(top_k=5)"),
        code("print(n)", "10000 pages, 1.5 a question, a change of -0.25\n"),
        new_markdown_cell(prose),
    ]
    assert guard.problems(good(*cells)) == []


def test_numbers_are_checked_again_after_the_exercises():
    cells = [
        new_markdown_cell("## Exercises"),
        new_markdown_cell("Try 77."),
        new_markdown_cell("## Summary\n\n78"),
    ]
    assert guard.problems(good(*cells)) == ["cell 6: 78 stands in the prose, but in no output and no code"]


CASES = {
    "case-076-timestamp": (
        [code("import datetime\nprint(datetime.datetime.now().isoformat())", "2025-03-01T10:11:12.131415\n")],
        ["reads a clock: datetime", "reads a clock: now()"],
    ),
    "case-076-address": ([code("object()", "<object object at 0x7f3a5c1d2b40>\n")], ["a memory address"]),
    "case-076-time-us": (
        [code("%time f()", "CPU times: user 3 µs, total: 3 µs\n")],
        ["a timing", "not plain"],
    ),
    "case-076-time-ms": ([code("f()", "Wall time: 12.4 ms\n")], ["a timing"]),
    "case-076-time-s": ([code("f()", "1.02 s ± 3.1 ms per loop\n")], ["a timing"]),
    "case-076-time-min": ([code("f()", "Wall time: 1min 2s\n")], ["a timing"]),
    "case-076-perf-counter": ([code("begun = time.perf_counter()")], ["reads a clock: perf_counter()"]),
    "case-076-trace": ([code("seconds = trace.seconds")], ["reads a clock: .seconds"]),
    "case-077-progress": (
        [code("from tqdm import tqdm\nfor i in tqdm(range(3)): pass\nprint('done')", "done\n")],
        ["shows a progress bar"],
    ),
    "case-079-conda": (good(kernel="conda-env-rag-py"), ["kernelspec names 'conda-env-rag-py'"]),
    "case-079-env": (good(kernel="rag-env-37"), ["kernelspec names 'rag-env-37'"]),
    "case-079-none": (good(kernel=None), ["kernelspec names None"]),
    "case-079-python3": (good(kernel="python3"), []),
    "case-080": (
        [code("print(total)", "3\n", count=5), code("total = 3", count=4)],
        ["execution counts are [1, 2, 3, 5, 4], not 1 to 5"],
    ),
    "case-082-text": ([code('ax.set_xlabel("n")', "Text(0.5, 0, 'n')")], ["value of a plot call"]),
    "case-082-axes": ([code("ax", "<Axes: xlabel='n'>")], ["value of a plot call"]),
    "case-082-lines": ([code("ax.plot(x)", "[<matplotlib.lines.Line2D>]")], ["value of a plot call"]),
    "case-082-figure": ([figure()], []),
    "case-082-semicolon": ([figure('ax.set_xlabel("n");')], ["does not end with plt.show()"]),
}


@pytest.mark.parametrize("name", CASES)
def test_reported_case(name):
    cells, told = CASES[name]
    found = guard.problems(good(*cells) if isinstance(cells, list) else cells)
    assert len(found) == len(told), found
    assert all(any(part in problem for problem in found) for part in told), found


def test_case_077_stderr():
    """A warning and a progress bar both come as stderr; stdout beside them is compared exactly."""
    bar, warning = code("work()", "done\n"), code("print('ok')", "ok\n")
    bar.outputs.append(new_output("stream", name="stderr", text="100%|####| 3/3 [00:00<00:00]\n"))
    warning.outputs.append(new_output("stream", name="stderr", text="UserWarning: old\n"))
    found = guard.problems(good(bar, warning))
    assert [problem[:41] for problem in found] == [
        "In [4] wrote to stderr (a warning or a pr",
        "In [5] wrote to stderr (a warning or a pr",
    ]


def test_a_widget_and_an_error_are_found():
    widget, failed = code("bar"), code("total")
    widget.outputs = [new_output("display_data", {"application/vnd.jupyter.widget-view+json": {}})]
    failed.outputs = [new_output("error", ename="NameError", evalue="total", traceback=[])]
    assert guard.problems(good(widget, failed)) == [
        "In [4] stores a widget (a progress bar?)",
        "In [5] ended with NameError: total",
    ]


def test_comparison_is_strict_and_absent_data_skip_the_whole_file(tmp_path):
    """The project's own settings, over cells that differ, warn or reach out, and over absent data."""
    online = code("import urllib.request\nurllib.request.urlopen('http://192.0.2.1')")
    warns = code("import warnings\nwarnings.warn('old')\nprint('ok')", "ok\n")
    stored = {
        "absent": good(code("print(2)", "3\n")),
        "mixed": good(code("print(2)", "3\n"), code("print(2)", "2\n"), warns, online),
    }
    stored["absent"].metadata["cookbook"] = {"needs": ["package:no_such_package"]}
    for name, notebook in stored.items():
        del notebook.cells[2:4]  # the figures, which need matplotlib
        (tmp_path / f"{name}.ipynb").write_text(nbformat.writes(notebook), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), "-p", "no:cacheprovider"]
    # A test of the suite brings its conftest with it.
    command += ["--color=no", str(ROOT / "tests" / "test_setup.py::test_loopback_is_open"), str(tmp_path)]
    environment = {k: v for k, v in os.environ.items() if "proxy" not in k.lower() and "PYTEST" not in k}
    ended = subprocess.run(
        command, capture_output=True, text=True, encoding="utf-8", env=environment, cwd=ROOT
    )
    failed = re.findall(r"^FAILED \S*mixed\S* (\d)", ended.stdout, re.MULTILINE)
    assert failed == ["1", "3", "4"], ended.stdout
    assert "tests reach no network" in ended.stdout
    assert re.search(r"^SKIPPED \[2\] .*needs the package no_such_package", ended.stdout, re.MULTILINE)
    assert "3 failed, 3 passed, 2 skipped" in ended.stdout
