"""The checkout's last commit -> the seconds from a fresh clone to a first answer, and to a second one.

The clone gets a new folder, a new HOME and no variable but PATH, so that nothing is installed or cached.
What ``make ask`` prints is shown as it comes::

    python benchmarks/first_answer.py
    python benchmarks/first_answer.py --keep HTTPS_PROXY --question "How do I read a CSV file in chunks?"
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIMIT_S = 60


def seconds(command: list[str], *, folder: Path, environment: dict[str, str]) -> float:
    """How long a command takes; its output goes to the terminal."""
    begun = time.perf_counter()
    status = subprocess.run(command, cwd=folder, env=environment).returncode
    if status:
        raise SystemExit(f"{' '.join(command)} ended with status {status}")
    return time.perf_counter() - begun


def main() -> None:
    """Clone, ask twice, print the seconds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--question", default="How do I drop duplicate rows?")
    parser.add_argument("--keep", nargs="*", default=[], metavar="NAME", help="variables that stay set")
    options = parser.parse_args()
    kept = {name: os.environ[name] for name in ("PATH", *options.keep) if name in os.environ}
    ask = ["make", "ask", f"Q={options.question}"]
    with tempfile.TemporaryDirectory(prefix="cookbook-") as folder:
        home, clone = Path(folder, "home"), Path(folder, "clone")
        home.mkdir()
        environment = {**kept, "HOME": str(home)}
        cloning = seconds(
            ["git", "clone", "--quiet", str(ROOT), str(clone)], folder=home, environment=environment
        )
        first = seconds(ask, folder=clone, environment=environment)
        second = seconds(ask, folder=clone, environment=environment)
        print(f"\nfirst answer, from the clone on: {cloning + first:.1f} s (at most {LIMIT_S})")
        print(f"second answer: {second:.1f} s", flush=True)  # deleting the clone takes a while


if __name__ == "__main__":
    main()
