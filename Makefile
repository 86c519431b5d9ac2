# Targets for people. `make` lists them; everything happens in .venv, nothing outside the project.
# PYTHON=/path/to/python3.x picks the interpreter; pip takes its index, proxy and cache from your
# own settings.

PYTHON   ?=
SCENARIO ?= examples/quickstart.yaml
PYTEST_ARGS ?=

VENV := .venv
BIN  := $(VENV)/bin
# what needs a Docker Engine or a browser is asked for by name: pytest -m docker
HERE := not docker and not browser
# live tests mostly wait, for processes of their own and on ports of their own
PYTEST = $(BIN)/pytest -n 4 --dist worksteal
# compiling the simulator's kernel takes longer than all that the fast tests play in it
UNCOMPILED = NUMBA_DISABLE_JIT=1

.DEFAULT_GOAL := help
.PHONY: help run test test-slow test-docker test-browser search test-all lint format types contracts audit coverage docs-test dist site figures benchmarks clean
.DELETE_ON_ERROR:

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: $(VENV)/.installed ## a live farm plays an afternoon of continuous integration, in half a minute
	@n=1; while [ -e runs/quickstart-$$n ]; do n=$$((n + 1)); done; \
	$(BIN)/farm run $(SCENARIO) --out runs/quickstart-$$n

test: $(VENV)/.installed-dev ## the fast tests, some on a live farm (PYTEST_ARGS='-k queue' for a few)
	@$(UNCOMPILED) $(PYTEST) -q -m "not slow and $(HERE)" $(PYTEST_ARGS)

test-slow: $(VENV)/.installed-dev ## the tests that take minutes
	@$(PYTEST) -q -m "slow and $(HERE)" $(PYTEST_ARGS)

test-docker: $(VENV)/.installed-dev ## the deployed farm, on a Docker Engine
	@$(BIN)/pytest -q -m docker $(PYTEST_ARGS)

test-browser: $(VENV)/.installed-dev ## the pages that commands write, in Chromium
	@$(BIN)/pytest -q -m browser $(PYTEST_ARGS)

search: $(VENV)/.installed-dev ## the property tests, on examples that no run has tried before
	@FARM_SEARCH=1 $(PYTEST) -q -m "hypothesis and $(HERE)" $(PYTEST_ARGS)

test-all: $(VENV)/.installed-dev ## fast and slow tests in one go
	@$(PYTEST) -m "$(HERE)" $(PYTEST_ARGS)

lint: $(VENV)/.installed-dev ## style, and whether the code is formatted
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check

format: $(VENV)/.installed-dev ## format the code and mend what can be mended without thought
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format

types: $(VENV)/.installed-dev ## strict types
	@$(BIN)/mypy

coverage: $(VENV)/.installed-dev ## lines and branches that the fast tests reach, with a floor
	@$(UNCOMPILED) $(PYTEST) -q -m "not slow and $(HERE)" --cov --cov-report=term:skip-covered $(PYTEST_ARGS)

contracts: $(VENV)/.installed-dev ## which part may import which (pyproject.toml)
	@$(BIN)/lint-imports

audit: $(VENV)/.installed-dev ## known vulnerabilities of the pinned dependencies (asks the package index)
	@.ci/audit $(VENV)

docs-test: $(VENV)/.installed-dev ## run every example of README.md, docs/ and examples/
	@$(PYTEST) -q tests/docs $(PYTEST_ARGS)

dist: $(VENV)/.installed-dev ## a wheel and an sdist, in dist/
	@$(BIN)/python -m build --quiet

site: $(VENV)/.installed-dev ## the documentation as a site: build/site/index.html, which needs no server
	@$(BIN)/sphinx-build -q -W --keep-going -c docs -d build/doctrees . build/site

figures: $(VENV)/.installed-dev ## draw the tutorials' pictures anew, by the code that they show
	@FARM_FIGURES=1 $(BIN)/pytest -q tests/docs/test_tutorials.py -m "not live"

benchmarks: $(VENV)/.installed-dev ## how fast it is; numbers and what they mean: benchmarks/README.md
	@set -e; for file in benchmarks/[a-z]*.py; do echo "== $$file"; $(BIN)/python $$file; done

clean: ## remove .venv, caches and build leftovers; runs/ stays
	@rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis \
	        .import_linter_cache .benchmarks
	@find farm workers provisioner tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

# --- the environment ----------------------------------------------------------------------------

PIP_INSTALL = $(BIN)/python -m pip --disable-pip-version-check install -qq -c constraints.txt

$(VENV)/.installed: pyproject.toml setup.py constraints.txt
	@.ci/make-venv $(VENV) "$(PYTHON)"
	@echo "Installing what the farm needs into $(VENV) (the first time this takes a minute) …"
	@$(PIP_INSTALL) -e '.[report]'
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	@echo "Installing what the tests need …"
	@$(PIP_INSTALL) -e '.[dev]'
	@touch $@
