# `make demo` shows the package, `make test-quick` runs the fast tests, `make test` runs all tests. Each command creates
# its own environment.
PYTHON ?= python3
VENV := .venv
PEERS := .venv-peers
LOWEST := .venv-lowest
DIST := .venv-dist
BIN := $(VENV)/bin
PIP_FLAGS := --quiet --disable-pip-version-check
.DEFAULT_GOAL := help

.PHONY: help venv demo test test-quick test-core test-lowest coverage mutants fuzz lint bench trace peers paper docs dist clean

help: ## Show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

# A stamp is newer than what it was made from, so a second run costs nothing.
$(VENV)/.core: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install $(PIP_FLAGS) -c constraints.txt -e .
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install $(PIP_FLAGS) -c constraints.txt -e '.[dev]'
	@touch $(VENV)/.core $@

venv: $(VENV)/.dev ## Create the development environment, with all extras

demo: $(VENV)/.core ## Label real data with seven rules and no gold labels
	@$(BIN)/flyingsquid demo

# One worker per core: with threads of their own, BLAS and OpenMP would take more than twice the time.
test test-quick coverage: export OPENBLAS_NUM_THREADS := 1
test test-quick coverage: export OMP_NUM_THREADS := 1

test-quick: venv ## Run the fast tests of every package, in about a minute on two cores
	$(BIN)/python -m pytest -n logical --timeout=600 --dist worksteal -m 'not slow and not system' --hypothesis-profile=quick \
		--ignore=tests/distributed --ignore=tests/benchmarks

test: venv ## Run the whole test suite, one worker per core
	$(BIN)/python -m pytest -n logical --timeout=600 --dist loadfile

test-core: $(VENV)/.core ## Run the tests that need no extra
	$(BIN)/python -m pip install $(PIP_FLAGS) 'pytest>=8.0' 'hypothesis>=6.100'
	$(BIN)/python -m pytest -m 'not extra'

$(LOWEST)/.done: pyproject.toml constraints-lowest.txt
	$(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python -m pip install $(PIP_FLAGS) -c constraints-lowest.txt -e '.[plot,files,fast,dask]' \
		pandas polars networkx psutil 'pytest>=8.0' 'hypothesis>=6.100'
	@touch $@

test-lowest: $(LOWEST)/.done ## Run the tests with the oldest packages allowed
	$(LOWEST)/bin/python -m pytest -m 'not slow'

coverage: venv ## Run the tests and show lines and branches that no test reaches
	$(BIN)/python -m pytest -n logical --timeout=600 --dist loadfile --cov --cov-report=term
	$(BIN)/python -m tests.reach

mutants: venv ## Change 300 places of the mathematics, one at a time, and check that a test fails
	$(BIN)/python -m tests.mutants --sample 300 --seed 2

fuzz: venv ## Test damaged files and unusual values in every call for twenty minutes
	$(BIN)/python -m tests.fuzz --minutes 20

lint: venv ## Check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: venv ## Measure speed as ratios to named baselines
	$(BIN)/python -m benchmarks.bench_label_model
	$(BIN)/python -m benchmarks.speed
	$(BIN)/python -m benchmarks.bench_sequences
	$(BIN)/python -m benchmarks.bench_graphs
	$(BIN)/python -m benchmarks.bench_structure
	$(BIN)/python -m benchmarks.bench_many
	$(BIN)/python -m benchmarks.bench_online
	$(BIN)/python -m benchmarks.bench_stream
	$(BIN)/python -m benchmarks.bench_files
	$(BIN)/python -m benchmarks.bench_label_file
	$(BIN)/python -m benchmarks.bench_dataset
	$(BIN)/python -m benchmarks.bench_clusters
	$(BIN)/python -m benchmarks.bench_apply
	$(BIN)/python -m benchmarks.bench_torch
	$(BIN)/python -m benchmarks.scale

trace: venv ## Count the functions and files that a call runs through, next to the recorded counts
	$(BIN)/python -m benchmarks.trace_calls --check

$(PEERS)/.done: benchmarks/quality/peers-requirements.txt benchmarks/quality/peers-runtime.txt constraints.txt
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install $(PIP_FLAGS) -c constraints.txt -r benchmarks/quality/peers-runtime.txt
	$(PEERS)/bin/python -m pip install $(PIP_FLAGS) --no-deps -r benchmarks/quality/peers-requirements.txt
	@touch $@

peers: $(PEERS)/.done ## Create the environment of the label models for comparison

paper: venv peers ## Measure the paper's tables and figures again (FLYINGSQUID_DATA names the real votes)
	$(BIN)/python -m benchmarks.paper --peers $(PEERS)/bin/python

docs: venv ## Build the documentation into build/docs; warnings are errors
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs build/docs

dist: ## Build the wheel and the sdist, check them, and run the wheel's demo
	rm -rf dist $(DIST)
	$(PYTHON) -m venv $(DIST)
	$(DIST)/bin/python -m pip install $(PIP_FLAGS) 'build>=1.2' 'twine>=6.1'
	$(DIST)/bin/python -m build --outdir dist
	$(DIST)/bin/python -m twine check --strict dist/*
	$(DIST)/bin/python -m pip install $(PIP_FLAGS) dist/*.whl
	cd dist && ../$(DIST)/bin/flyingsquid demo

clean: ## Remove environments and caches
	rm -rf $(VENV) $(PEERS) $(LOWEST) $(DIST) .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
