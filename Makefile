# One virtual environment, made on first use from the pinned versions in constraints.txt. Everything else is Python.
PYTHON ?= $(firstword $(foreach p,python3.11 python3.12 python3.13,$(shell command -v $(p) 2>/dev/null)))
BIN := .venv/bin
# Beam's modules are compiled once, not in each process that a test or a runner starts (five seconds each)
unexport PYTHONDONTWRITEBYTECODE
# pip where uv meets something that it cannot do, such as an index that only pip's settings name
define INSTALL
$(BIN)/uv pip install --quiet --python $(BIN)/python --constraint constraints.txt --editable '$(1)' || \
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '$(1)'
endef

PYTEST := $(BIN)/python -m pytest
# a test that hangs where no signal reaches it ends its process, and is named
GATE := $(PYTEST) --hypothesis-profile=gate -o faulthandler_timeout=400 -o faulthandler_exit_on_timeout=true --durations=120

.DEFAULT_GOAL := help

help:  ## Show what can be made
	@sed -n 's/^\([a-z-]*\):.*##\(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST)

.venv/bin/uv:
	@test -n "$(PYTHON)" || { echo "No Python found: install Python 3.11, 3.12 or 3.13, or say make PYTHON=/path/to/python3.11" >&2; exit 2; }
	@echo "Setting up .venv (a minute, once) ..." >&2
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt uv

.venv/installed: setup.py constraints.txt | .venv/bin/uv
	$(call INSTALL,.)
	@touch $@

# first all pinned versions as they are: to resolve them takes four times as long as to install them
.venv/tested: setup.py constraints.txt | .venv/bin/uv
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --requirement constraints.txt 2>/dev/null || true
	$(call INSTALL,.[test])
	@touch .venv/installed $@

orders: .venv/installed  ## Enrich the sample orders with their customers, on Spark
	$(BIN)/python -m pipelines.orders --runner=SparkRunner

test: lint  ## Check what a change must pass: lint, the quick tests, and a few on Spark and Flink, one at a time (ten minutes)
	$(GATE) -n 2 --dist loadgroup -m "quick or gate and not sweep"

test-quick: .venv/tested  ## Run the tests of kernels, coders, transforms, formats and commands, but for slow ones and those with programs or servers (five minutes)
	$(GATE) -n 2 --dist worksteal -m "quick and not slow" beam_joins tests/beam_joins tests/coders tests/transforms tests/pipelines

test-all: .venv/tested  ## Run everything: also sweeps, random examples, faults, PostgreSQL, Kafka, Prism, a browser (hours)
	$(BIN)/python -m tests.all_stages

test-postgres: .venv/tested  ## Run the tests on a real PostgreSQL with 100,000 transactions, installed from the system's packages where it is missing
	$(BIN)/python -m tests.prepare
	BEAM_JOINS_TRANSACTIONS=100000 $(PYTEST) -m postgres

test-faults: .venv/tested  ## Kill processes of runs, fill their disks and interrupt them (five minutes)
	$(PYTEST) -m faults -n 2

test-versions: .venv/tested  ## Install the package for each Python that is there, pinned and with the oldest Beam, and run it (half an hour)
	$(PYTEST) -m versions

lint: .venv/tested  ## Check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

.venv/benched: .venv/installed
	$(call INSTALL,.[bench])
	@touch $@

bench: .venv/benched  ## Measure next to PySpark SQL, DuckDB, Flink SQL, Pathway and plain Beam (about an hour)
	$(BIN)/python -m benchmarks

bench-settings: .venv/benched  ## Search the settings with which each contestant of the benchmarks takes the least time (hours)
	$(BIN)/python -m benchmarks.settings --publish

bench-small: .venv/benched  ## A part of it at a twentieth of the size (three minutes): shows that it runs, not how fast it is
	$(BIN)/python -m benchmarks --small

bench-resumed: .venv/benched  ## Measure what runs that go on cost, next to a run over everything: tables, commands, TPC-H's queries as views (an hour)
	$(BIN)/python -m benchmarks.resumed
	$(BIN)/python -m benchmarks.resumed --of command --rounds 2
	$(BIN)/python -m benchmarks.follow
	$(BIN)/python -m benchmarks.tpch

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

.PHONY: help orders test test-quick test-all test-faults test-postgres test-versions site lint conformance bench bench-settings bench-small bench-resumed bench-unbounded proofs growth load lock clean
