# make run    every notebook, executed offline into build/ (HTML pages with an index)
# make test   unit tests, doctests, every notebook's stored output, the notebook guard
# make lint   ruff and mypy
# make lab    the notebooks in JupyterLab
# make ask Q="How do I ...?"   one answer from a corpus (CORPUS=pandas unless told)
# make mutation   planted faults, and the notebooks that each turns red (some minutes)
# make claims the verdicts on the sources' claims, as the notebooks stored them
# make notebooks   refresh the stored outputs in place; make bench   the speed comparison
#
# Each builds .venv first when it is missing. Another interpreter: make run PYTHON=/path/to/python3.12

VENV = .venv
PY = $(VENV)/bin/python
CORPUS = pandas
# What stands after Q= reaches the program as it was typed, dollar signs and quotes included.
export COOKBOOK_QUESTION := $(value Q)
# Certificates of the system, so that uv works behind a proxy that pip works behind.
export UV_SYSTEM_CERTS = 1
export PIP_DISABLE_PIP_VERSION_CHECK = 1
# In .venv compiled code is kept, or each of some twenty processes compiles pandas and the rest anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run test lint lab ask claims mutation notebooks bench lock clean
.DELETE_ON_ERROR:

run: $(VENV)/.full
	$(PY) -m cookbook run

test: $(VENV)/.full
	$(PY) -m pytest -n auto --maxprocesses 4 --dist loadfile

lint: $(VENV)/.full
	$(PY) -m ruff check
	$(PY) -m ruff format --check
	$(PY) -m mypy

lab: $(VENV)/.full
	$(PY) -m jupyter lab notebooks

ask: $(VENV)/.ask
	@test -n "$$COOKBOOK_QUESTION" || { echo 'Give a question: make ask Q="How do I ...?"' >&2; exit 2; }
	@$(PY) -m cookbook ask "$$COOKBOOK_QUESTION" --corpus "$(CORPUS)"

mutation: $(VENV)/.full
	$(PY) tests/mutation.py

claims: $(VENV)/.full
	@$(PY) -m cookbook claims

notebooks: $(VENV)/.full
	$(PY) -c "from cookbook.runner import run; raise SystemExit(run(in_place=True))"

bench: $(VENV)/.bench
	$(PY) benchmarks/chunking.py

# Pins for every system and Python at once; no address of an index is written. pyproject.toml says why the
# extra ragas is not among them.
LOCKED = notebooks test bench lock
lock: $(VENV)/.python
	$(PY) -m pip install --quiet 'uv>=0.9'
	$(PY) -m uv pip compile --quiet --universal --fork-strategy fewest --python-version 3.11 \
	  $(LOCKED:%=--extra %) --no-annotate --no-emit-index-url --no-emit-find-links \
	  --custom-compile-command 'make lock' --output-file requirements.lock pyproject.toml

clean:
	rm -rf $(VENV) build

# The first Python 3.11, 3.12 or 3.13 that can build an environment.
$(VENV)/.python:
	@for python in $(or $(PYTHON),python3 python3.13 python3.12 python3.11 python); do \
	  "$$python" -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' \
	    2>/dev/null || continue; \
	  echo "Building $(VENV) with $$("$$python" --version)"; \
	  "$$python" -m venv --clear $(VENV) || exit 1; \
	  touch $@; exit 0; \
	done; \
	echo "Python 3.11, 3.12 or 3.13 with its venv module is needed, and none was found." >&2; \
	echo "$(or $(PYTHON),python3) here: $$($(or $(PYTHON),python3) --version 2>&1)" >&2; \
	echo "Install one, or name it: make run PYTHON=/path/to/python3.12" >&2; \
	exit 1

# Installs $(WHAT) at the versions of the lock: uv takes a third of pip's time. Bytecode is compiled at
# the first import: of 8,900 files a whole test run imports 2,200.
define install
	@$(PY) -m uv --version >/dev/null 2>&1 || $(PY) -m pip install --quiet -c requirements.lock uv \
	  || echo "uv is not to be had here: pip installs, which takes longer" >&2
	@echo "Installing $(WHAT) at the versions of requirements.lock"
	@$(PY) -m uv pip install --python $(PY) --link-mode copy -c requirements.lock -e '$(WHAT)' \
	  || $(PY) -m pip install -c requirements.lock -e '$(WHAT)'
	@touch $@
endef

$(VENV)/.ask: WHAT = .
$(VENV)/.ask: $(VENV)/.python pyproject.toml requirements.lock
	$(install)

$(VENV)/.full: WHAT = .[notebooks,test]
$(VENV)/.full: $(VENV)/.python pyproject.toml requirements.lock
	$(install)

$(VENV)/.bench: WHAT = .[bench]
$(VENV)/.bench: $(VENV)/.python pyproject.toml requirements.lock
	$(install)
