# Every target makes the virtual environment it needs; nothing outside this folder is touched.
PYTHON ?= python3
VENV   := .venv
PY     := $(VENV)/bin/python
WORKERS := -n 2 --dist worksteal
LOOPS   := $(wildcard tests/*/test_loops_*.py)
SOLVERS := $(wildcard tests/*/test_solver_*.py)
PIP    := $(PY) -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo test test-loops test-bounds test-paper docs lint format bench clean

demo: $(VENV)/.core
	$(VENV)/bin/comargin demo

test: $(VENV)/.dev
	$(PY) -m tests.compile_loops
	$(PY) -m pytest $(WORKERS)
	$(MAKE) --no-print-directory test-loops

# The loops twice more: with every array index checked (its own cache: the flag changes the code), and as plain Python.
test-loops: $(VENV)/.dev
	NUMBA_BOUNDSCHECK=1 $(PY) -m pytest -q $(WORKERS) $(LOOPS)
	NUMBA_DISABLE_JIT=1 $(PY) -m pytest -q $(WORKERS) $(LOOPS)

# The solvers with every array index checked, too: before a release, and after work on loops.
test-bounds: $(VENV)/.dev
	NUMBA_BOUNDSCHECK=1 $(PY) -m pytest -q $(WORKERS) $(LOOPS) $(SOLVERS)

test-paper: $(VENV)/.dev
	$(PY) -m pytest -m slow -s

docs: $(VENV)/.docs
	$(PY) -m sphinx --quiet --fail-on-warning --keep-going docs build/docs
	@echo "open build/docs/index.html"

lint: $(VENV)/.dev
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy

format: $(VENV)/.dev
	$(VENV)/bin/ruff format .
	$(VENV)/bin/ruff check --fix .

bench: $(VENV)/.bench
	$(PY) benchmarks/run.py

clean:
	rm -rf $(VENV) build/docs .pytest_cache .mypy_cache .ruff_cache

$(VENV)/.core: pyproject.toml constraints.txt
	test -x $(PY) || $(PYTHON) -m venv $(VENV)
	$(PIP) -e '.[report]'
	touch $@

$(VENV)/.dev: $(VENV)/.core
	$(PIP) -e '.[test,lint]'
	touch $@

$(VENV)/.bench: $(VENV)/.core
	$(PIP) -e '.[bench]'
	touch $@

$(VENV)/.docs: $(VENV)/.core
	$(PIP) -e '.[docs]'
	touch $@
