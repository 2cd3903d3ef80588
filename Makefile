# Every target sets up what it needs: a fresh machine with Python 3.11 or newer, git and make is enough.

PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
CODE := src tests benchmarks docs

.DEFAULT_GOAL := help
.PHONY: help setup run test lint types contracts format docs bench soak lock clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) ## Create .venv with every extra and the development tools

$(READY): requirements.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer was not found; install it or set PYTHON=/path/to/python3." >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

run: $(READY) ## Run the demo in this terminal
	@$(BIN)/onto demo

test: lint types contracts ## Run every check, then the tests in parallel
	$(BIN)/pytest -n auto

lint: $(READY) ## Check style and formatting (ruff)
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)

types: $(READY) ## Check types (pyright, strict)
	$(BIN)/basedpyright

contracts: $(READY) ## Check who imports whom (import-linter)
	$(BIN)/lint-imports --no-logo

format: $(READY) ## Rewrite the code in the project's format
	$(BIN)/ruff check --fix $(CODE)
	$(BIN)/ruff format $(CODE)

docs: $(READY) ## Write the reference pages from the code
	$(BIN)/python docs/build_reference.py

bench: $(READY) ## Measure the store against raw sqlite3, bare S3 requests and raw DuckDB
	$(BIN)/python benchmarks/store.py
	$(BIN)/python benchmarks/objects.py

soak: $(READY) ## Run the slow tests, with many more examples
	HYPOTHESIS_PROFILE=soak $(BIN)/pytest -n auto -m soak

lock: ## Resolve requirements.lock again from pyproject.toml
	@test -x build/lock/bin/uv || { $(PYTHON) -m venv build/lock && build/lock/bin/python -m pip install --quiet uv; }
	build/lock/bin/uv pip compile pyproject.toml --all-extras --group dev --universal --python-version 3.11 \
		--upgrade --generate-hashes --no-annotate --no-header --no-emit-index-url --quiet --output-file requirements.lock

clean: ## Remove everything that can be made again
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
