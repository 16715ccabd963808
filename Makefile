# setup, check, test, demo: the four words. `make help` lists the rest.
.DEFAULT_GOAL := help
SHELL := bash
.SHELLFLAGS := -o pipefail -c
PY ?= python3
BIN := .venv/bin
REAL := $(BIN)/python -m pytest --override-ini addopts="--import-mode=importlib -q --strict-markers" --durations=8
KAFKA := $(REAL) tests/kafka
# One more than there are cores: a part of the tests' time is waiting.
WORKERS = $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
LOCKING := --quiet --universal --generate-hashes --no-emit-index-url --no-header --python-version 3.11
SETUP := .venv/.setup-$(shell cat requirements.lock pyproject.toml | cksum | cut -d' ' -f1)
# What the demo needs, and every command of README: a part of the lock. An environment that has all of it is as good.
PART := .venv/.demo-$(shell cat requirements-demo.lock pyproject.toml | cksum | cut -d' ' -f1)
DEMO := $(or $(wildcard $(SETUP)),$(PART))
# Nothing is compiled that nobody imports; a line for every tenth package, so that a slow network looks like one.
FETCH = $(BIN)/python -m pip install --disable-pip-version-check --progress-bar off --no-compile --require-hashes
SHOWN = awk '/^ *(Collecting|Requirement already)/ && ++n % 10 == 0 {print "  " n " of $(1) packages"} /^Installing/ {print "  unpacking them ..."} /^(ERROR|WARNING)/ {print} {fflush()}'
COUNT = $(shell grep -c == $(1))

.PHONY: help setup check test golden manifests docs test-slow test-kafka test-kafka-slow test-torture test-controlplane demo figures sizing up bench torture images lock clean

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-16s %s\n", $$1, $$2}'

setup: $(SETUP) ## the whole environment in .venv, from the lock with hashes

$(SETUP): requirements.lock pyproject.toml | $(PART)
	@echo "fetching what tests and checks need into .venv (once, about a minute) ..."
	@$(FETCH) -r requirements.lock | $(call SHOWN,$(call COUNT,requirements.lock))
	@PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest --collect-only -q >/dev/null 2>&1 || true # compiles all once, for what runs in parallel later
	@rm -f .venv/.setup-* && touch $@

.venv/.demo-%: requirements-demo.lock pyproject.toml
	@$(PY) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 15))' || { echo "Ullage needs Python 3.11 to 3.14, and $(PY) is $$($(PY) -V 2>&1); try: make PY=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@echo "fetching what the demo needs into .venv (once, 100 MB, about half a minute) ..."
	@test -x $(BIN)/python || $(PY) -m venv .venv
	@sed -n '/^pip==/,/[^\\]$$/p' requirements-demo.lock > .venv/pip.lock && $(FETCH) --quiet -r .venv/pip.lock # half the CPU of Python 3.11's own pip
	@$(FETCH) -r requirements-demo.lock | $(call SHOWN,$(call COUNT,requirements-demo.lock))
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --no-deps --no-build-isolation -e .
	@PYTHONDONTWRITEBYTECODE= $(BIN)/python -c "import agents.app.worker, agents.demo.day_on_kafka, agents.processes.consumer, agents.processes.source_simulated" # compiles once what five processes import at the same time
	@rm -f .venv/.demo-* && touch $@

check: setup ## lint, types and the import law: all of them, also when one fails
	@failed=; for tool in "ruff format --check ." "ruff check ." mypy "lint-imports"; do echo "$$tool"; $(BIN)/$$tool || failed="$$failed '$$tool'"; done; test -z "$$failed" || { echo "failed:$$failed"; exit 1; }

test: setup ## the tests that need no broker
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile -m "not slow" -o faulthandler_timeout=1000

golden: setup ## adds the golden files that are missing; an existing one is never changed
	$(BIN)/python -m tests.support.golden_wire

manifests: setup ## writes deploy/kustomize/base from the chart
	$(BIN)/python tests/controlplane/build.py helm
	$(BIN)/python -m tests.controlplane.plain_manifests

test-slow: setup ## the longer ones of these: a whole real trace, eight days of samples
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m slow --durations=8

test-kafka: setup ## the tests on a real Apache Kafka (three at a time, for they mostly wait; each with a broker that it starts)
	$(KAFKA) -n 3 --dist loadfile --no-loadscope-reorder -m "not slow"

test-torture: setup ## the torture in short, by itself, for it has its times
	$(KAFKA)/test_torture.py -m slow

test-kafka-slow: setup ## the longer ones: real traces, every way to stop the demo, every kind of log
	$(KAFKA) -m slow -n 2 --dist worksteal --ignore tests/kafka/test_torture.py

test-controlplane: setup ## the tests on a real Kubernetes control plane (built once, with Go 1.26; three planes at a time)
	$(BIN)/python tests/controlplane/build.py
	$(BIN)/python tests/controlplane/build.py helm
	$(REAL) tests/controlplane -n 3 --dist loadfile --no-loadscope-reorder

docs: setup ## writes what follows from settings and commands: docs/cli.md, docs/migration, the chart's schema and rights
	$(BIN)/python -m agents.cli.generate_manual > build.cli.md && mv build.cli.md docs/cli.md
	$(BIN)/python -m tests.support.migration_pages
	$(BIN)/python -m tests.support.chart_settings
	$(BIN)/python -m tests.support.chart_rights

demo: $(DEMO) ## a simulated day in about two minutes, on real Kafka
	$(BIN)/ullage demo

sizing: setup ## writes the figures of docs/sizing.md from those of docs/lab/bench.md
	$(BIN)/python -m tests.support.sizing_page

figures: setup ## writes README's tables and picture: the demo's day in memory, and a recorded trace
	$(BIN)/python -m tests.support.readme_figures

up: $(DEMO) ## broker, clock, workers and consumers until Ctrl-C
	$(BIN)/ullage demo --forever

bench: setup ## measurements, as a table and in bench.json
	$(BIN)/python -m tests.bench

torture: setup ## kills, zombies and torn checkpoints for some minutes; then all is recomputed from the log
	$(BIN)/python -m tests.torture
	$(BIN)/python -m tests.torture --nodes
	$(BIN)/python -m tests.torture --replicas

images: ## the image for amd64 and arm64, with Docker's buildx; PUSH=--push publishes it, IMAGE names it
	docker buildx build --platform linux/amd64,linux/arm64 --file deploy/Dockerfile --tag $(or $(IMAGE),ullage:0.1.0) $(PUSH) .

lock: setup ## resolve the dependencies anew (needs uv: pip install uv)
	uv pip compile pyproject.toml --all-extras $(LOCKING) -o requirements.lock
	echo 'pip>=26' | uv pip compile pyproject.toml deploy/build-requirements.in - --extra broker -c requirements.lock $(LOCKING) -o requirements-demo.lock
	uv pip compile deploy/sbom.in $(LOCKING) -o deploy/sbom.lock
	uv pip compile pyproject.toml deploy/build-requirements.in --extra aws --extra msk --extra receive --extra expander -c requirements.lock $(LOCKING) -o deploy/requirements.lock

clean: ## remove what was generated
	rm -rf .venv .run build bench.json .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
