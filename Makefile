# One virtual environment, made on first use from the pinned versions in constraints.txt. Everything else is Python.
PYTHON ?= $(firstword $(foreach p,python3.11 python3.12 python3.13,$(shell command -v $(p) 2>/dev/null)))
BIN := .venv/bin
# what is used is compiled when it is first imported: that is a small part of what is installed
INSTALL := $(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check --constraint constraints.txt

IN_PARALLEL := -n 3 --dist loadfile --no-loadscope-reorder

.DEFAULT_GOAL := help

help:  ## Show what can be made
	@sed -n 's/^\([a-z-]*\):.*##\(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST)

.venv/bin/python:
	@test -n "$(PYTHON)" || { echo "No Python found: install Python 3.11, 3.12 or 3.13, or say make PYTHON=/path/to/python3.11" >&2; exit 2; }
	@echo "Setting up .venv (a minute or two, once) ..." >&2
	$(PYTHON) -m venv .venv

.venv/installed: setup.py constraints.txt | .venv/bin/python
	$(INSTALL) --editable .
	@touch $@

.venv/tested: setup.py constraints.txt | .venv/bin/python
	$(INSTALL) --editable '.[test]'
	@touch .venv/installed $@

orders: .venv/installed  ## Enrich the sample orders with their customers, on Spark
	$(BIN)/python -m pipelines.orders --runner=SparkRunner

# Root on Debian gets PostgreSQL and Chromium from its packages, and all get Prism; with BEAM_JOINS_INSTALL=0 their tests are skipped.
test test-all: export BEAM_JOINS_INSTALL ?= 1
test: .venv/tested  ## Run all tests, on the direct runner, on Spark and on Flink
	$(MAKE) --jobs=2 lint run-tests
	$(BIN)/python -m pytest -m faults -n 3 tests/faults

run-tests: .venv/tested
	$(BIN)/python -m pytest $(IN_PARALLEL) --durations=25

test-all: lint .venv/tested  ## Run these and the sweeps (an hour)
	$(BIN)/python -m pytest $(IN_PARALLEL) -m "sweep or not sweep"
	$(BIN)/python -m pytest -m "faults and (sweep or not sweep)" -n 3 tests/faults

test-postgres: .venv/tested  ## Run the tests on a real PostgreSQL with 100,000 transactions, installed from the system's packages where it is missing
	BEAM_JOINS_INSTALL=1 BEAM_JOINS_TRANSACTIONS=100000 $(BIN)/python -m pytest tests/postgres

test-quick: .venv/tested  ## Run the tests that need neither Spark nor Flink
	$(BIN)/python -m pytest -m "not spark and not flink"

test-faults: .venv/tested  ## Kill processes of runs, fill their disks and interrupt them (three minutes)
	$(BIN)/python -m pytest -m "faults and (sweep or not sweep)" -n 3 tests/faults

test-versions: .venv/tested  ## Install the package for each Python that is there, pinned and with the oldest Beam, and run it (half an hour)
	$(BIN)/python -m pytest -m versions tests/packaging

lint: .venv/tested  ## Check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

.venv/benched: .venv/installed
	$(INSTALL) --editable '.[bench]'
	@touch $@

bench: .venv/benched  ## Measure next to PySpark SQL, DuckDB, Flink SQL, Pathway and plain Beam (some hours)
	$(BIN)/python -m benchmarks

bench-small: .venv/benched  ## A part of it at a twentieth of the size (three minutes): shows that it runs, not how fast it is
	$(BIN)/python -m benchmarks --small

bench-resumed: .venv/benched  ## Measure what runs that go on with --beam_joins_state cost, next to a run over everything (minutes)
	$(BIN)/python -m benchmarks.resumed
	$(BIN)/python -m benchmarks.resumed --of command --rounds 2

bench-unbounded: .venv/benched  ## Measure an endless foreign-key join on Flink: changes a second, seconds until results, memory (minutes)
	$(BIN)/python -m benchmarks.unbounded --changes 3000000
	$(BIN)/python -m benchmarks.unbounded --changes 1500000 --live

proofs: .venv/benched  ## Rebuild tests of record with a million rows: bank transfers beside Flink SQL, one row that all refer to (ten minutes)
	$(BIN)/python -m benchmarks.proofs bank
	$(BIN)/python -m benchmarks.proofs amplification

growth: .venv/benched  ## Measure time and memory as the input grows, and plot them
	$(BIN)/python -m benchmarks.growth

load: .venv/benched  ## Measure hard cases: 50 million changes, hot keys, large values, many columns and files (an hour)
	$(BIN)/python -m benchmarks.load

site: .venv/tested  ## Build the documentation as a site, into build/site
	$(BIN)/python -m mkdocs build --strict

conformance: .venv/tested  ## Hold all recorded scenarios against the direct runner, as Python objects and in typed columns
	$(BIN)/python -m tests.conformance --runner DirectRunner --values opaque --mutate
	$(BIN)/python -m tests.conformance --runner DirectRunner --values typed

lock: .venv/installed  ## Find anew which jars Beam's runners need (slow)
	$(BIN)/python -m tests.pipelines.lock_jars

clean:  ## Remove the virtual environment and what runs have left
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist *.egg-info orders-out sample-data benchmark-data growth.png growth.svg

.PHONY: help orders test run-tests test-all test-quick test-faults test-postgres test-versions site lint conformance bench bench-small bench-resumed bench-unbounded proofs growth load lock clean
