"""Notebooks -> executed copies, HTML pages and a table of results; or the notebooks themselves, refreshed.

Every notebook runs in a kernel of its own, with the embedded provider and without the settings of the
user's Python, IPython and matplotlib, so that a notebook prints the same on every machine.
"""

from __future__ import annotations

import html
import importlib.util
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

from .errors import MissingDataError, MissingExtraError
from .tables import table

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = ROOT / "notebooks"
BUILD = ROOT / "build"
CELL_TIMEOUT_S = 120
KERNELSPEC = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}

# Variables that would change what a notebook prints. Those that say where data lie stay.
_UNSET = ("MPLBACKEND", "MATPLOTLIBRC", "COOKBOOK_TRACING", "PYTHONWARNINGS", "PYTHONSTARTUP")


# What a kernel runs first. A notebook keeps most of what it makes to its end, so that looking for garbage
# after every 700 new objects, as Python does, takes a tenth of its time.
_STARTUP = "import gc\n\ngc.set_threshold(50_000, 20, 10)\ndel gc\n"


class NotebookResult(NamedTuple):
    """What became of one notebook; ``result`` is ``ok``, ``skipped: reason`` or ``failed: reason``.

    ``seconds`` are those of the kernel, from its start to its end.
    """

    notebook: str
    seconds: float
    result: str


def kernel_environment(build: Path = BUILD) -> dict[str, str]:
    """Variables for a kernel: embedded provider, this checkout first, own IPython and matplotlib folders.

    Where Python is told to write no bytecode beside the sources, it goes into a folder of its own there.

    Builds matplotlib's font cache there once, because the first import would warn on stderr, which is
    part of a notebook's output.
    """
    ipython, matplotlib = build / "ipython", build / "matplotlib"
    startup = ipython / "profile_default" / "startup" / "00-collector.py"
    for folder in (startup.parent, matplotlib):
        folder.mkdir(parents=True, exist_ok=True)
    if not startup.exists() or startup.read_text(encoding="utf-8") != _STARTUP:
        _write(startup, _STARTUP)
    environment = {name: value for name, value in os.environ.items() if name not in _UNSET}
    environment |= {
        "PROVIDER": "local",
        "IPYTHONDIR": str(ipython.resolve()),
        "MPLCONFIGDIR": str(matplotlib.resolve()),
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
        "PYTHONUTF8": "1",
        # Threads for small matrices cost more than they save, most of all beside another notebook.
        "OPENBLAS_NUM_THREADS": "1",
    }
    if environment.pop("PYTHONDONTWRITEBYTECODE", None):
        # Else every kernel compiles pandas and the rest anew, which takes 4 s of processor time.
        environment["PYTHONPYCACHEPREFIX"] = str((build / "bytecode").resolve())
    installed = importlib.util.find_spec("matplotlib") and importlib.util.find_spec("ipykernel")
    if installed and not any(matplotlib.glob("fontlist-*.json")):
        # Python compiles here what every notebook imports, which kernels side by side would each do.
        first = "import matplotlib.font_manager, matplotlib.pyplot, ipykernel.kernelapp, pandas"
        subprocess.run([sys.executable, "-c", first], env=environment, check=True, capture_output=True)
    return environment


def missing_need(notebook: Any) -> str | None:
    """Why a notebook cannot run here, or None.

    A notebook states its needs in its metadata, ``{"cookbook": {"needs": [...]}}``: ``corpus:NAME`` (can
    be loaded), ``package:NAME`` (is installed), ``variable:NAME`` (is set).

    >>> missing_need({"metadata": {"cookbook": {"needs": ["package:json", "package:no_such_thing"]}}})
    'needs the package no_such_thing'

    Raises:
        ValueError: a need of another kind.
    """
    for need in notebook["metadata"].get("cookbook", {}).get("needs", []):
        kind, _, name = need.partition(":")
        if kind == "package":
            if importlib.util.find_spec(name) is None:
                return f"needs the package {name}"
        elif kind == "variable":
            if not os.environ.get(name):
                return f"needs the variable {name}"
        elif kind == "corpus":
            from .corpora import load_corpus

            try:
                load_corpus(name)
            except MissingDataError as error:
                return f"needs the corpus {name}: {error}"
        else:
            raise ValueError(f"needs={need!r} must start with corpus:, package: or variable:")
    return None


def execute(
    notebook: Any, *, folder: Path, build: Path = BUILD, timeout_s: int = CELL_TIMEOUT_S
) -> str | None:
    """Run all cells in a fresh kernel, outputs into ``notebook``; return what failed, or None."""
    try:
        from nbclient import NotebookClient
        from nbclient.exceptions import CellControlSignal, CellTimeoutError, DeadKernelError
    except ImportError:
        raise MissingExtraError("notebooks need an extra: pip install -e '.[notebooks]'") from None

    client = NotebookClient(
        notebook,
        timeout=timeout_s,
        kernel_name=KERNELSPEC["name"],
        resources={"metadata": {"path": str(folder)}},
        record_timing=False,
        coalesce_streams=True,  # otherwise their number depends on timing
        extra_arguments=["--log-level=ERROR"],  # of the kernel itself, not of what runs in it
        shutdown_kernel="immediate",  # with all that it holds, a kernel takes half a second to end by itself
    )
    try:
        client.execute(env=kernel_environment(build))
    except CellTimeoutError:
        return f"a cell ran for more than {timeout_s} s"
    except DeadKernelError:
        return "the kernel died"
    except CellControlSignal:
        for number, cell in enumerate(notebook.cells):
            for output in cell.get("outputs", []):
                if output.output_type == "error":
                    return f"cell {number}: {output.ename}: {output.evalue}"
        raise
    return None


def normalize(notebook: Any) -> None:
    """Take out of a notebook what differs between two runs or two machines; ids and counts stay."""
    notebook.metadata["kernelspec"] = dict(KERNELSPEC)
    notebook.metadata.get("language_info", {}).pop("version", None)
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)


#: Notebooks that run side by side, each in a kernel of its own, where there are as many cores.
AT_ONCE = 2


def run(
    *,
    only: Sequence[str] = (),
    in_place: bool = False,
    notebooks: Path = NOTEBOOKS,
    build: Path = BUILD,
    timeout_s: int = CELL_TIMEOUT_S,
    write: Callable[[str], None] = print,
) -> int:
    """Execute the notebooks into ``build``, or ``in_place``; return the exit code: 1 when one failed.

    Args:
        only: starts of file names; empty for every notebook.
        in_place: refresh the stored outputs instead. A notebook that fails stays as it was, and one
            whose bytes do not change is not written.
        write: takes each line of progress and, last, the table.

    Raises:
        ValueError: no notebook has such a name.
    """
    paths = sorted(notebooks.glob("*.ipynb"))
    if only:
        paths = [path for path in paths if path.name.startswith(tuple(only))]
    if not paths:
        named = f"only={list(only)} must start names of notebooks" if only else "there must be notebooks"
        raise ValueError(f"{named} in {notebooks}, and none was found")
    if not in_place:
        (build / "notebooks").mkdir(parents=True, exist_ok=True)
    kernel_environment(build)  # builds the font cache once, before kernels start side by side

    one = partial(_one, in_place=in_place, build=build, timeout_s=timeout_s)
    results = []
    # Processes, not threads: Python 3.11 parses code in one thread at a time only.
    at_once = min(AT_ONCE, os.cpu_count() or 1, len(paths))
    with ProcessPoolExecutor(max_workers=at_once, mp_context=get_context("spawn")) as pool:
        for number, result in enumerate(pool.map(one, paths), start=1):
            results.append(result)
            write(f"[{number}/{len(paths)}] {result.notebook}: {result.seconds:.1f} s, {result.result}")
    rows = [{"notebook": r.notebook, "seconds": f"{r.seconds:.1f}", "result": r.result} for r in results]
    write("\n" + table(rows))
    if not in_place:
        _write(build / "index.html", index_page(results))
        write(f"\nRead them: {build / 'index.html'}")
    return int(any(result.result.startswith("failed") for result in results))


def _one(path: Path, *, in_place: bool, build: Path, timeout_s: int) -> NotebookResult:
    import nbformat

    stored = path.read_text(encoding="utf-8")
    notebook = nbformat.reads(stored, as_version=4)
    reason = missing_need(notebook)
    begun = time.perf_counter()
    failure = None if reason else execute(notebook, folder=path.parent, build=build, timeout_s=timeout_s)
    seconds = time.perf_counter() - begun  # without the page, which no reader of a notebook waits for
    normalize(notebook)
    text = nbformat.writes(notebook) + "\n"
    if in_place:
        if not reason and not failure and text != stored:
            _write(path, text)
    else:
        _write(build / "notebooks" / path.name, text)
        _write(build / f"{path.stem}.html", page(notebook, title=path.stem))
    result = f"skipped: {reason}" if reason else f"failed: {failure}" if failure else "ok"
    return NotebookResult(path.stem, seconds, result)


def _write(path: Path, text: str) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.write(text)


_STYLE = """
:root { color-scheme: light; }
body { margin: 0 auto; max-width: 62rem; padding: 1.5rem; font: 1rem/1.55 system-ui, sans-serif;
  color: #1f2328; background: #fff; }
h1, h2, h3 { line-height: 1.25; }
a { color: #0550ae; }
a.anchor-link { visibility: hidden; padding-left: .4rem; text-decoration: none; }
:is(h1, h2, h3, h4):hover a.anchor-link { visibility: visible; }
pre, code { font: .875rem/1.45 ui-monospace, Consolas, Menlo, monospace; }
pre { margin: 0; white-space: pre-wrap; overflow-wrap: anywhere; }
.text_cell { max-width: 46rem; }
.output_text pre { font-size: .8125rem; }
:not(pre) > code { background: #eff1f3; padding: .1rem .3rem; border-radius: 4px; }
.input { margin-top: 1rem; padding: .6rem .8rem; background: #f6f8fa; border-left: 3px solid #0072b2; }
.output_wrapper { padding: .4rem .8rem; border-left: 3px solid #d0d7de; }
.output_error, .output_stderr { color: #a40e26; }
.prompt { display: none; }
img { max-width: 100%; height: auto; }
table { border-collapse: collapse; }
th, td { padding: .3rem .7rem; border-bottom: 1px solid #d0d7de; text-align: left; }
"""


def page(notebook: Any, *, title: str) -> str:
    """One executed notebook as a page that needs no network; its cell's ``alt`` describes a figure."""
    try:
        from nbconvert import HTMLExporter
        from pygments.formatters import HtmlFormatter
    except ImportError:
        raise MissingExtraError("pages need an extra: pip install -e '.[notebooks]'") from None

    # The basic template is the notebook's body without scripts and style sheets from elsewhere; it reads
    # the cell's `alt`, which the default template does not.
    body, _ = HTMLExporter(template_name="basic").from_notebook_node(notebook)
    return _frame(
        title,
        '<p><a href="index.html">All notebooks</a></p>\n' + body,
        HtmlFormatter().get_style_defs(".highlight"),
    )


def index_page(results: Iterable[NotebookResult]) -> str:
    """The table of results as a page that links to each notebook's."""
    rows = "\n".join(
        f'<tr><td><a href="{html.escape(result.notebook)}.html">{html.escape(result.notebook)}</a></td>'
        f"<td>{result.seconds:.1f}</td><td>{html.escape(result.result)}</td></tr>"
        for result in results
    )
    head = '<tr><th scope="col">notebook</th><th scope="col">seconds</th><th scope="col">result</th></tr>'
    return _frame(
        "The small-to-big cookbook", f"<h1>The small-to-big cookbook</h1>\n<table>\n{head}\n{rows}\n</table>"
    )


def _frame(title: str, body: str, style: str = "") -> str:
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>{_STYLE}{style}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )
