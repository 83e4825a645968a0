"""Every test runs without a network, without keys, and without the user's Python settings."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import offline
import pytest

from cookbook import runner

OFFLINE = Path(offline.__file__).resolve()
# Where a test names a server or a data folder, it takes it from these on purpose.
KEPT = ("QDRANT_URL", "QDRANT_API_KEY", "COOKBOOK_DATA")


_configured: list[pytest.Config] = []


def pytest_configure(config: pytest.Config) -> None:
    """Once a process (a worker of xdist is one): the environment that tests and notebook kernels see."""
    if config in _configured:
        return
    _configured.append(config)
    for name in list(os.environ):
        if name.endswith(("_API_KEY", "_BASE_URL", "_API_BASE")) and name not in KEPT:
            del os.environ[name]
    shared = os.environ.get("COOKBOOK_TEST_FOLDER")
    if shared is None:
        folder = tempfile.TemporaryDirectory(prefix="cookbook-tests-", ignore_cleanup_errors=True)
        config.add_cleanup(folder.cleanup)
        shared = os.environ["COOKBOOK_TEST_FOLDER"] = folder.name
        config.add_cleanup(lambda: os.environ.pop("COOKBOOK_TEST_FOLDER", None))
    environment = runner.kernel_environment(Path(shared))
    for name in set(os.environ) - set(environment):
        del os.environ[name]
    os.environ.update(environment)
    # A kernel replaces this with the notebook's own backend; a test keeps it.
    (Path(shared) / "matplotlib" / "matplotlibrc").write_text("backend: agg\n", encoding="utf-8")
    startup = Path(shared) / "ipython" / "profile_default" / "startup"
    startup.mkdir(parents=True, exist_ok=True)
    (startup / "00-offline.py").write_text(
        f"import runpy\nrunpy.run_path({str(OFFLINE)!r})['block']()\ndel runpy\n", encoding="utf-8"
    )
    offline.block()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A notebook whose data are absent is skipped as a whole file, with the reason."""
    import nbformat

    reasons: dict[Path, str | None] = {}
    for item in items:
        if item.path.suffix != ".ipynb":
            continue
        if item.path not in reasons:
            reasons[item.path] = runner.missing_need(nbformat.read(item.path, as_version=4))
        if reason := reasons[item.path]:
            item.add_marker(pytest.mark.skip(reason=reason))
