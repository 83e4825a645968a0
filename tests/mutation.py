"""Planted faults -> which notebook turns red on each.

    python tests/mutation.py                 # until the first red notebook of each fault
    python tests/mutation.py --all           # every notebook on every fault
    python tests/mutation.py --fault radius  # one fault

Each fault is planted in a copy of the project, where the notebooks are run against their stored outputs.
A row without a fault comes first: it must stay green, or red would say nothing.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
COPIED = ("cookbook", "corpora", "notebooks", "tests")


class Fault(NamedTuple):
    """A name, what it does, the file, the code that stands there once, what takes its place.

    ``notebooks`` are tried first, by their numbers.
    """

    name: str
    does: str
    file: str
    old: str
    new: str
    notebooks: tuple[str, ...]


FAULTS = (
    Fault(
        "radius",
        "windows take one sentence more behind the hit",
        "expanders.py",
        "                place >= after\n",
        "                place > after\n",
        ("04", "05", "06"),
    ),
    Fault(
        "spaces",
        "the text of a passage is joined with single spaces",
        "passages.py",
        "GAP.join(slices)",
        'GAP.join(" ".join(text.split()) for text in slices)',
        ("04", "07", "08"),
    ),
    Fault(
        "dedup",
        "hits of one parent are not made one",
        "rankers.py",
        "groups.setdefault(key_of(hit, key), []).append(hit)",
        "groups[hit.chunk_id] = [hit]",
        ("07", "11", "12"),
    ),
    Fault(
        "cap",
        "a section above the cap is dropped",
        "expanders.py",
        "        for core in uncovered:\n",
        "        if max_tokens is not None and of_hit[0].n_tokens > max_tokens:\n"
        "            continue\n"
        "        for core in uncovered:\n",
        ("08", "12", "00"),
    ),
    Fault(
        "order",
        "reranking and expansion change places",
        "pipeline.py",
        "    spans: list[StageSpan] = []\n",
        '    swapped = {"rerank_expand": "expand_rerank", "expand_rerank": "rerank_expand"}\n'
        "    from dataclasses import replace\n"
        "    strategy = replace(strategy, order=swapped.get(strategy.order, strategy.order))\n"
        "    spans: list[StageSpan] = []\n",
        ("11", "12", "00"),
    ),
    Fault(
        "words",
        "tokens are counted as words",
        "tokens.py",
        "    return len(get_encoding(encoding).encode_ordinary(text))\n",
        "    return len(text.split())\n",
        ("13", "09", "10"),
    ),
)


def plant(fault: Fault, cookbook: Path) -> None:
    """Put the fault into a copy of the package.

    Raises:
        ValueError: its code does not stand in the file exactly once.
    """
    path = cookbook / fault.file
    text = path.read_text(encoding="utf-8")
    if text.count(fault.old) != 1:
        raise ValueError(
            f"fault {fault.name!r}: {fault.old!r} stands {text.count(fault.old)} times in {fault.file}"
        )
    path.write_text(text.replace(fault.old, fault.new), encoding="utf-8", newline="\n")


def first_red(project: Path, notebook: Path) -> str | None:
    """Where a notebook's run first differs from what is stored, or None."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", str(notebook)]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, encoding="utf-8")
    if done.returncode == 0:
        return None
    found = re.search(r"^FAILED .*::(Cell \d+)", done.stdout, re.MULTILINE)
    if done.returncode != 1 or found is None:
        raise RuntimeError(
            f"pytest ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        )
    return found[1].lower()


def run(fault: Fault | None, *, every: bool) -> list[str]:
    """The notebooks that turn red, each with the cell that does first."""
    red = []
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder)
        for name in COPIED:
            shutil.copytree(ROOT / name, project / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", project)
        paths = sorted((project / "notebooks").glob("*.ipynb"))
        if fault is not None:
            plant(fault, project / "cookbook")
            paths.sort(key=lambda path: (path.name[:2] not in fault.notebooks, path.name))
        # Two run side by side; those of a fault that only has to be seen once are asked for one by one.
        with ThreadPoolExecutor(max_workers=2 if every else 1) as pool:
            for path, cell in zip(paths, pool.map(lambda path: first_red(project, path), paths), strict=True):
                if cell:
                    red.append(f"{path.stem} ({cell})")
                    if not every:
                        pool.shutdown(cancel_futures=True)
                        break
    return red


def main() -> int:
    """Print a row a fault; 1 when a fault stays green, or when no fault is red."""
    parser = argparse.ArgumentParser(description="Plant faults, and see which notebooks turn red.")
    parser.add_argument("--all", action="store_true", help="every notebook on every fault")
    parser.add_argument("--fault", choices=[fault.name for fault in FAULTS], help="this one alone")
    options = parser.parse_args()
    wanted = [fault for fault in FAULTS if options.fault in (None, fault.name)]
    print(f"{'fault':<8} {'what it does':<52} red", flush=True)
    red = run(None, every=True)
    print(f"{'none':<8} {'nothing: all must be green':<52} {', '.join(red) or '-'}", flush=True)
    failed = bool(red)
    for fault in wanted:
        red = run(fault, every=options.all)
        failed = failed or not red
        print(f"{fault.name:<8} {fault.does:<52} {', '.join(red) or 'NONE'}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
