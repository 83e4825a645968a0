"""A stored notebook -> what breaks the house style, one line a problem.

Strict nbval compares outputs; it passes a notebook without outputs, ignores the order of counts and
never looks at prose or figures. That is what stands here.
"""

from __future__ import annotations

import ast
import re
import statistics
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

MIN_CELLS, MAX_CELLS = 30, 45
MEDIAN_LINES, MAX_LINES = 6, 20
MIN_FIGURES, MAX_FIGURES = 2, 4
MAX_BYTES = 400 * 1024
MIN_ALT_CHARACTERS = 30


def problems(notebook: Any, *, n_bytes: int = 0) -> list[str]:
    """Everything that is wrong with a notebook that is to be committed."""
    checks = (metadata, counts, outputs, code, shape, figures, numbers)
    found = [problem for check in checks for problem in check(notebook)]
    if n_bytes > MAX_BYTES:
        found.append(f"the file has {n_bytes:,} bytes, more than {MAX_BYTES:,}")
    return found


def metadata(notebook: Any) -> Iterator[str]:
    """The kernel by its general name, an id a cell, nothing of the author's machine or of one run."""
    name = notebook.metadata.get("kernelspec", {}).get("name")
    if name != "python3":
        yield f"kernelspec names {name!r}, not 'python3'"
    if "version" in notebook.metadata.get("language_info", {}):
        yield "language_info.version is stored: refresh with make notebooks"
    ids = [cell.get("id") for cell in notebook.cells]
    if None in ids or len(set(ids)) != len(ids):
        yield "cell ids are missing or repeated"
    for number, cell in enumerate(notebook.cells):
        if "execution" in cell.metadata:
            yield f"cell {number}: timing records are stored"
        jupyter = cell.metadata.get("jupyter", {})
        if jupyter.get("source_hidden") or jupyter.get("outputs_hidden") or cell.metadata.get("collapsed"):
            yield f"cell {number}: hidden"
        if tags := cell.metadata.get("tags"):
            yield f"cell {number}: tags {tags} could hide it or exempt it from comparison"


def counts(notebook: Any) -> Iterator[str]:
    """Execution counts 1 to n from top to bottom: one clean run of the whole notebook."""
    found = [cell.execution_count for cell in code_cells(notebook)]
    if found != list(range(1, len(found) + 1)):
        yield f"execution counts are {found}, not 1 to {len(found)}: run it from top to bottom"


# What differs from run to run or from machine to machine, in text that a cell left.
UNSTABLE = {
    "memory address": re.compile(r"\b(?:at|object) 0x[0-9a-fA-F]{6,}"),
    "path of a machine": re.compile(
        r"(?<![\w.])/(?:home|Users|root|tmp|private|var/folders|mnt)/[\w.]"
        r"|\b[A-Za-z]:\\{1,2}(?:Users|Windows|Temp)\b|[/\\]site-packages[/\\]"
    ),
    "value of a plot call": re.compile(r"\A(?:Text\(|<Axes|\[?<matplotlib\.|<BarContainer|\(array\()"),
    "timing": re.compile(r"\b(?:CPU times|Wall time|per loop)\b"),
}


def outputs(notebook: Any) -> Iterator[str]:
    """Stored, free of errors, of stderr and of what no second run gives."""
    cells = code_cells(notebook)
    if not any(cell.outputs for cell in cells):
        yield "no output is stored, so that a comparison passes whatever happens"
    for number, cell in enumerate(cells, start=1):
        if prints(cell.source) and not cell.outputs:
            yield f"In [{number}] prints, but stores no output"
        for output in cell.outputs:
            if output.output_type == "error":
                yield f"In [{number}] ended with {output.ename}: {output.evalue}"
            elif output.output_type == "stream" and output.name == "stderr":
                yield f"In [{number}] wrote to stderr (a warning or a progress bar): {output.text[:60]!r}"
            elif any("widget" in mime for mime in output.get("data", {})):
                yield f"In [{number}] stores a widget (a progress bar?)"
        for what, pattern in UNSTABLE.items():
            for text in output_texts(cell):
                if match := pattern.search(text):
                    yield f"In [{number}] stores a {what}: {match.group()!r}"


CLOCK_MODULES = {"time", "timeit", "datetime"}
CLOCK_CALLS = {"now", "today", "utcnow", "perf_counter", "monotonic", "process_time"}


def code(notebook: Any) -> Iterator[str]:
    """Plain Python that asserts something: no shell, no magics, no try, no clock, no key, no progress bar."""
    asserts = False
    for number, cell in enumerate(code_cells(notebook), start=1):
        where = f"In [{number}]"
        if re.search(r"^\s*#\s*(?:NBVAL|PYTEST_VALIDATE)_\w+", cell.source, re.MULTILINE):
            yield f"{where} exempts itself from comparison"
        if match := UNSTABLE["path of a machine"].search(cell.source):
            yield f"{where} holds a path of a machine: {match.group()!r}"
        try:
            tree = ast.parse(cell.source)
        except SyntaxError as error:
            yield f"{where} is not plain Python (a shell line or a magic?): line {error.lineno}"
            continue
        for node in ast.walk(tree):
            asserts = asserts or isinstance(node, ast.Assert)
            if isinstance(node, ast.Try | ast.TryStar):
                yield f"{where} has try/except: show an error through a helper"
            if modules := imported(node) & CLOCK_MODULES:
                yield f"{where} reads a clock: {', '.join(sorted(modules))}"
            if "tqdm" in imported(node):
                yield f"{where} shows a progress bar"
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in CLOCK_CALLS
            ):
                yield f"{where} reads a clock: {node.func.attr}()"
            if isinstance(node, ast.Attribute) and node.attr == "seconds":
                yield f"{where} reads a clock: .seconds"
            if isinstance(node, ast.keyword) and node.arg == "api_key":
                yield f"{where} passes a key"
            if isinstance(node, ast.Constant) and re.fullmatch(r"\w+_API_KEY|sk-\w{8,}", str(node.value)):
                yield f"{where} names a key"
    if not asserts:
        yield "nothing is asserted"


def shape(notebook: Any) -> Iterator[str]:
    """Small cells, enough prose, a title first."""
    cells, codes = notebook.cells, code_cells(notebook)
    if not MIN_CELLS <= len(cells) <= MAX_CELLS:
        yield f"{len(cells)} cells, not {MIN_CELLS} to {MAX_CELLS}"
    if 2 * len(codes) > len(cells):
        yield f"{len(codes)} of {len(cells)} cells are code, more than half"
    sizes = [sum(bool(line.strip()) for line in cell.source.splitlines()) for cell in codes]
    if sizes and statistics.median(sizes) > MEDIAN_LINES:
        yield f"code cells have a median of {statistics.median(sizes):g} lines, more than {MEDIAN_LINES}"
    for number, size in enumerate(sizes, start=1):
        if size > MAX_LINES:
            yield f"In [{number}] has {size} lines, more than {MAX_LINES}"
        if not size:
            yield f"In [{number}] is empty"
    if not cells or cells[0].cell_type != "markdown" or not cells[0].source.startswith("# "):
        yield "the first cell is not a title"


def figures(notebook: Any) -> Iterator[str]:
    """Two to four, each described in its cell's ``alt`` metadata, each ended by ``plt.show()``."""
    n_figures = 0
    for number, cell in enumerate(code_cells(notebook), start=1):
        images = [o for o in cell.outputs if any(m.startswith("image/") for m in o.get("data", {}))]
        n_figures += len(images)
        if not images:
            continue
        if cell.source.rstrip().splitlines()[-1].strip() != "plt.show()":
            yield f"In [{number}] draws, but does not end with plt.show()"
        if len(str(cell.metadata.get("alt", "")).strip()) < MIN_ALT_CHARACTERS:
            yield f"In [{number}] draws, but its cell metadata 'alt' does not say what is seen"
        if len(images) > 1:
            yield f"In [{number}] draws {len(images)} figures with one alternative text"
    if not MIN_FIGURES <= n_figures <= MAX_FIGURES:
        yield f"{n_figures} figures, not {MIN_FIGURES} to {MAX_FIGURES}"


# 12, 1,400, 0.81, 62 %, 62%, and each of 900/180/24; not the digits of a name (cl100k, 04_sentence_window,
# h003, llama-3, #12) or of a version (3.11.2). A sign is not part of the number.
NUMBER = re.compile(
    r"(?<![\w.#])(?<![A-Za-z]-)(\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?)(\s?%)?(?!\w|\.\d|,\d{3})"
)
UNCHECKED = re.compile(r"^#+ (?:exercises?|further reading)\b", re.IGNORECASE | re.MULTILINE)


def numbers(notebook: Any) -> Iterator[str]:
    """Each number of the prose stands in an output or in the code of the same notebook.

    Exercises and further reading are left out: they propose values and cite years.
    """
    known: set[Decimal] = set()
    for cell in code_cells(notebook):
        known |= {number for number, _, _ in found_numbers(cell.source.replace("_", ""))}
        for text in output_texts(cell):
            for number, percent, _ in found_numbers(text):
                known |= {number, number / 100} if percent else {number}
    checked = True
    for index, cell in enumerate(notebook.cells):
        if cell.cell_type != "markdown":
            continue
        if re.search(r"^#+ ", cell.source, re.MULTILINE):
            checked = not UNCHECKED.search(cell.source)
        if not checked:
            continue
        for number, percent, shown in found_numbers(prose(cell.source)):
            if number not in known and not (percent and number / 100 in known):
                yield f"cell {index}: {shown} stands in the prose, but in no output and no code"


def prose(markdown: str) -> str:
    """Markdown without links' targets, code blocks and the numbers of numbered lists."""
    text = re.sub(r"^(```|~~~).*?^\1", "", markdown, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"\]\([^)]*\)|<https?://[^>]*>|https?://\S+", "]", text)
    return re.sub(r"^\s*\d+[.)]\s", "", text, flags=re.MULTILINE)


def found_numbers(text: str) -> Iterator[tuple[Decimal, bool, str]]:
    """Numbers of a text: the value, whether a percent sign follows, and how it stands there."""
    for match in NUMBER.finditer(text):
        yield Decimal(match[1].replace(",", "")), bool(match[2]), match[0]


def code_cells(notebook: Any) -> list[Any]:
    """The code cells in order; In [n] of a problem counts these."""
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def output_texts(cell: Any) -> Iterator[str]:
    """The text of a cell's outputs, as nbval compares it."""
    for output in cell.outputs:
        if output.output_type == "stream":
            yield output.text
        yield from (text for mime, text in output.get("data", {}).items() if mime.startswith("text/"))


def imported(node: ast.AST) -> set[str]:
    """Top-level modules that a statement imports.

    >>> sorted(imported(ast.parse("from tqdm.auto import tqdm").body[0]))
    ['tqdm']
    """
    if isinstance(node, ast.Import):
        return {alias.name.partition(".")[0] for alias in node.names}
    if isinstance(node, ast.ImportFrom) and node.module:
        return {node.module.partition(".")[0]}
    return set()


def prints(source: str) -> bool:
    """Whether a cell calls print on its top level, outside functions and branches."""
    try:
        body = ast.parse(source).body
    except SyntaxError:
        return False
    return any(
        isinstance(line, ast.Expr)
        and isinstance(line.value, ast.Call)
        and isinstance(line.value.func, ast.Name)
        and line.value.func.id == "print"
        for line in body
    )
