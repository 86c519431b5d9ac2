# Targets for people. `make` lists them; everything happens in .venv, nothing outside the project.
# PYTHON=/path/to/python3.x picks the interpreter; pip takes its index, proxy and cache from your
# own settings.

PYTHON   ?=
SCENARIO ?= examples/quickstart.yaml
PYTEST_ARGS ?=

VENV := .venv
BIN  := $(VENV)/bin
# tests that need a Docker Engine, a browser, or the machine to themselves, and where they are: the
# other folders are not even read
HERE := not timed and not docker and not browser
# live tests mostly wait, for their own processes and on their own ports; each process would compile
# all tests anew where bytecode is not kept; what a test wrote goes with it, unless it failed
PYTEST = PYTHONDONTWRITEBYTECODE= $(BIN)/pytest -n 4 --dist worksteal -o tmp_path_retention_policy=failed
# of the examples of a property test the fast tests try a fifth
EVERY_EXAMPLE := --hypothesis-profile=all

.DEFAULT_GOAL := help
.PHONY: help run kernel test check-record record test-slow test-timed test-docker test-browser search test-all lint format types contracts audit coverage docs-test dist site figures pages benchmarks clean image
.DELETE_ON_ERROR:

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: $(VENV)/.installed ## a live farm plays an afternoon of continuous integration, in half a minute
	@$(BIN)/farm run $(SCENARIO)

kernel: $(VENV)/.installed ## compile the loop of simulations, in some seconds: they become ten times as fast
	@$(BIN)/python -m farm.sim.fast.compiler --fetch

test: $(VENV)/.installed-dev ## the fast tests, some on a live farm, in two minutes (PYTEST_ARGS='-k queue': a selection)
	@$(PYTEST) -q -m "not slow and $(HERE)" $(PYTEST_ARGS)

test-slow: $(VENV)/.installed-dev kernel ## the other tests: they take minutes
	@$(PYTEST) -q $(EVERY_EXAMPLE) -m "slow and $(HERE)" $(PYTEST_ARGS)

test-timed: $(VENV)/.installed-dev ## the tests that compare times of a live farm, two at once and with nothing else beside them
	@$(BIN)/pytest -n 2 --dist worksteal -q -m timed tests/live tests/parity $(PYTEST_ARGS)

check-record: $(VENV)/.installed-dev ## what commands cost, beside the last line of benchmarks/record.jsonl: fails if one became dearer
	@$(BIN)/python -m benchmarks.record --check

record: $(VENV)/.installed-dev ## the same, and a line more in that record (CHANGE='what the change does')
	@$(BIN)/python -m benchmarks.record "$(CHANGE)"

test-docker: $(VENV)/.installed-dev kernel ## the deployed farm, on a Docker Engine
	@$(BIN)/pytest -q -m docker tests/docker $(PYTEST_ARGS)

test-browser: $(VENV)/.installed-dev ## the pages that commands write, in Chromium
	@$(BIN)/pytest -q -m browser tests/browser tests/docs/test_site.py $(PYTEST_ARGS)

search: $(VENV)/.installed-dev ## the property tests, on new examples
	@$(PYTEST) -q --hypothesis-profile=search -m "hypothesis and $(HERE)" $(PYTEST_ARGS)

test-all: $(VENV)/.installed-dev kernel ## fast, slow and browser's tests together
	@$(PYTEST) -q $(EVERY_EXAMPLE) -m "not timed and not docker" $(PYTEST_ARGS)

lint: $(VENV)/.installed-dev ## style and formatting
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check

format: $(VENV)/.installed-dev ## format the code and apply automatic fixes
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format

types: $(VENV)/.installed-dev ## types (mypy, strict)
	@$(BIN)/mypy

coverage: $(VENV)/.installed-dev ## line and branch coverage of the fast tests, with a floor
	@$(PYTEST) -q -m "not slow and $(HERE)" --cov --cov-report=term:skip-covered $(PYTEST_ARGS)

contracts: $(VENV)/.installed-dev ## import rules between the parts (pyproject.toml)
	@$(BIN)/lint-imports

audit: $(VENV)/.installed-dev ## known vulnerabilities of the pinned dependencies (from the package index)
	@.ci/audit $(VENV)

docs-test: $(VENV)/.installed-dev ## run every example of README.md, docs/ and examples/
	@$(PYTEST) -q tests/docs $(PYTEST_ARGS)

dist: $(VENV)/.installed-dev ## a wheel and an sdist, with the compiled loop for all systems, in dist/
	@$(BIN)/python -m farm.sim.fast.compiler --all
	@$(BIN)/python -m build --quiet --sdist --wheel

site: $(VENV)/.installed-dev ## the documentation as a site: build/site/index.html, works without a server
	@$(BIN)/sphinx-build -q -W --keep-going -c docs -d build/doctrees . build/site

figures: $(VENV)/.installed-dev ## redraw the tutorials' pictures, with the code that they show
	@FARM_FIGURES=1 $(BIN)/pytest -q tests/docs/test_tutorials.py -m "not live"

pages: $(VENV)/.installed-dev ## renew the tables that pages have from the code
	@$(BIN)/python -m docs.generated

benchmarks: $(VENV)/.installed-dev kernel ## performance; the numbers are explained in benchmarks/README.md
	@set -e; for file in benchmarks/[a-z]*.py; do echo "== $$file"; $(BIN)/python -m benchmarks.$$(basename $$file .py); done

clean: ## remove .venv, caches and build leftovers; runs/ stays
	@rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis \
	        .import_linter_cache .benchmarks
	@find farm farm_* workers provisioner tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

# --- the environment ----------------------------------------------------------------------------

# the number is that of the packages, about
PIP_INSTALL = $(BIN)/python .ci/install.py

$(VENV)/.installed: pyproject.toml setup.py build_backend.py constraints.txt
	@echo "Installing what the farm needs into $(VENV) (the first time this takes a minute) …"
	@.ci/make-venv $(VENV) "$(PYTHON)"
	@$(PIP_INSTALL) 45 -e .
	@$(BIN)/python -m farm.sim.fast.compiler --fetch >/dev/null || true
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	@echo "Installing what the tests need …"
	@$(PIP_INSTALL) 100 -e '.[dev]'
	@touch $@

# --- publishing ---------------------------------------------------------------------------------

IMAGE ?= build-farm

image: $(VENV)/.installed kernel ## an image to publish (IMAGE=name), labelled and tagged, and its bill of materials in dist/
	@PATH="$(CURDIR)/$(BIN):$$PATH" deploy/make-image $(IMAGE)
