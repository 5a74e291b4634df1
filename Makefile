# `make run` and `make test` do everything from a fresh clone; a second call starts at once.
# PYTHON: the interpreter to build the environment with (3.11 or newer).
# PIP_ARGS: passed to pip, for example --extra-index-url with an index that offers CPU builds of torch.

PYTHON ?= python3
PIP_ARGS ?=
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
WORKERS ?= 2
PYTEST_ARGS ?=

.PHONY: run test test-slow pytest lint types install clean

run: $(STAMP)
	$(BIN)/python -m prescope.demo

test: lint types pytest

pytest: $(STAMP)
	$(BIN)/pytest -n $(WORKERS) --dist worksteal -m "not slow" $(PYTEST_ARGS)

test-slow: $(STAMP)
	$(BIN)/pytest -m slow --timeout 1800 $(PYTEST_ARGS)

lint: $(STAMP)
	$(BIN)/ruff check .

types: $(STAMP)
	$(BIN)/python tools/typecheck.py

install: $(STAMP)

# The build needs setuptools only, pinned with the rest, so no isolated second download of it.
$(STAMP): pyproject.toml setup.py constraints.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(v < (3, 11) and \
	    f"expected Python >= 3.11, got {v.major}.{v.minor}; name another with: make PYTHON=python3.11")'
	@echo "Installing into $(VENV): about 1.8 GB, a minute or more."
	test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt $(PIP_ARGS) setuptools
	$(BIN)/pip install --quiet --constraint constraints.txt $(PIP_ARGS) --no-build-isolation --editable '.[hf,plot,bench,dask,dev]'
	touch $@

clean:
	rm -rf build dist *.egg-info .pytest_cache .ruff_cache .hypothesis .mypy_cache
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +
