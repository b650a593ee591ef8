# The two main targets are `make demo` and `make test`. They need Python 3.11+, make and a package index.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# A test that waits for what never comes fails by name; the longest takes 4 minutes.
PYTEST := $(BIN)/pytest --dist loadfile --no-loadscope-reorder --timeout 900
# Processes that tests start take what an earlier one compiled.
unexport PYTHONDONTWRITEBYTECODE
PIP := $(BIN)/python -m pip install --disable-pip-version-check --quiet

# Hashes without index addresses, so that the lock works with any mirror.
COMPILE := $(BIN)/uv pip compile --quiet --universal --upgrade --generate-hashes --no-header --no-emit-index-url --no-emit-package brokerage-feed --python-version 3.11

# From the lock instead of the environment: needs no network, and leaves out development tools.
SBOM := $(BIN)/cyclonedx-py requirements --pyproject pyproject.toml --output-reproducible

# What is repeated with several shards: kills, random faults, two loaders, swaps, orders of updates, moves.
SHARDED := tests/indexer/faults tests/indexer/indices/test_alias_swaps.py tests/indexer/rebuild/test_swaps_together.py \
	tests/indexer/updates tests/indexer/changes

.PHONY: help install develop demo test check lint redis promtool chromium peers mariadb podman image image-suite soak soak-troubles reso chaos chaos-machine chaos-shards deliver-soak chaos-soak disasters siege fuzz mutants openapi screenshots bench bench-quick bench-load guard wheels lock sbom clean

help:  ## List the targets.
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

install: $(VENV)/.product  ## Create .venv with the `brokerage` command.

develop: $(VENV)/.development  ## Create .venv with the development tools.

demo: install  ## Start the service with sample data and an embedded Elasticsearch.
	@$(BIN)/brokerage demo $(DEMO)

test: lint  ## Check style and types, and run the tests that need nothing but Python; about 5 minutes on two cores.
	@echo "Running the tests that need no other program: about 4 minutes on two cores."
	$(PYTEST) --numprocesses 4 --tier test
	@echo "\`make check\` runs the others, with Redis, Chromium, promtool, podman and npm: 18 to 30 minutes."

check: develop redis promtool chromium peers mariadb tests/clients/node_modules  ## Run all other tests; as root on Debian it installs Redis, Chromium, promtool, nginx, PostgreSQL, MariaDB and podman.
	@$(MAKE) --no-print-directory podman || echo "podman cannot be installed"
	@missing=; for tool in redis-server promtool chromium nginx psql mariadbd; do PATH="$(BIN):/usr/sbin:$$PATH" command -v $$tool > /dev/null || missing="$$missing $$tool"; done; \
	[ -z "$$missing" ] || { echo "\`make check\` needs:$$missing. Install them, or run it as root on Debian."; exit 1; }
	$(PYTEST) --numprocesses 3 --tier check

lint: develop  ## Check style and types.
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

redis:  # Tests of shared rate limits need a real Redis. Without root they fail and say what is missing.
	@command -v redis-server > /dev/null || [ "$$(id -u)" != 0 ] || ! command -v apt-get > /dev/null || \
	{ apt-get update -qq && apt-get install -y -qq --no-install-recommends redis-server; }

# The tests generate, compile and run a TypeScript client.
tests/clients/node_modules: tests/clients/package-lock.json tests/clients/package.json | develop
	@PATH="$(CURDIR)/$(BIN):$$PATH" npm ci --silent --ignore-scripts --prefix tests/clients && touch $@

promtool:  # Tests check alerts with promtool. This extracts one file of Debian's package without installing it.
	@command -v promtool > /dev/null || test -x $(BIN)/promtool || ! command -v apt-get > /dev/null || \
	{ made=$$(mktemp -d) && { [ "$$(id -u)" != 0 ] || apt-get update -qq; } && \
	(cd $$made && apt-get download -qq prometheus > /dev/null 2>&1) && dpkg-deb --extract $$made/prometheus_*.deb $$made && \
	cp $$made/usr/bin/promtool $(BIN)/promtool && rm -rf $$made; }

chromium:  # Tests of the site need a real browser. Without root they fail and say what is missing.
	@command -v chromium > /dev/null || [ "$$(id -u)" != 0 ] || ! command -v apt-get > /dev/null || \
	{ apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium; }

peers:  # The benchmark compares the service with nginx and PostgreSQL. Without root it leaves them out and says so.
	@{ PATH="/usr/sbin:$$PATH" command -v nginx && command -v psql; } > /dev/null || [ "$$(id -u)" != 0 ] || ! command -v apt-get > /dev/null || \
	{ apt-get update -qq && apt-get install -y -qq --no-install-recommends nginx-light postgresql; }

mariadb:  # Tests run the program that copies to MySQL. Without root they fail and say what is missing.
	@{ PATH="/usr/sbin:$$PATH" command -v mariadbd && command -v mariadb-install-db && command -v my_print_defaults; } > /dev/null || [ "$$(id -u)" != 0 ] || \
	! command -v apt-get > /dev/null || { apt-get update -qq && apt-get install -y -qq --no-install-recommends mariadb-server-core mariadb-client-core; }

podman:  # Tests of the image need podman. Without it `make check` leaves them out and says so.
	@{ command -v podman && command -v runc && command -v mmdebstrap && command -v iptables; } > /dev/null || [ "$$(id -u)" != 0 ] || \
	! command -v apt-get > /dev/null || { apt-get update -qq && apt-get install -y -qq --no-install-recommends \
	podman runc crun netavark aardvark-dns iptables mmdebstrap debian-archive-keyring; }

image: develop podman  ## Build the image, run it without rights, and start what compose.yaml describes; takes 3 to 7 minutes, as root.
	$(BIN)/pytest --image -s tests/image

image-suite: develop podman  ## Run the standard tests with the Python of the image, in a container, as root. SUITE="tests/mappings".
	@$(BIN)/python -m tests.image.suite $(SUITE)

soak: develop  ## Run the fault, history and consumer tests with all repetitions; takes about an hour.
	$(BIN)/pytest --soak -s tests/indexer tests/consumer

soak-troubles: develop  ## Break and heal 200 records at random in 100 runs with kills, three times; takes about 25 minutes.
	$(BIN)/pytest --soak -s tests/indexer/troubles/test_random_breaks.py

reso: develop  ## Run RESO's test tool: COMMANDER=DIR is a built checkout of web-api-commander; takes about 5 minutes.
	@$(BIN)/python -m tests.odata.commander $(COMMANDER)

chaos: develop  ## Kill, freeze and partition a cluster of three during reads; writes docs/reliability.md. CHAOS="--only kill freeze".
	@$(BIN)/python -m tests.chaos --write docs/reliability.md $(CHAOS)

siege: develop  ## Attack the service and its clients while honest keys read; takes 10 minutes. SIEGE="--minutes 2".
	@$(BIN)/python -m tests.siege --write docs/reliability.md $(SIEGE)

deliver-soak: develop  ## Kill what delivers 200 times, and deliver to 200 subscriptions; takes about 20 minutes and prints the figures.
	$(BIN)/pytest --soak -s tests/deliver

chaos-machine: develop  ## Run the state machine of the feed in full; takes about 30 minutes.
	$(BIN)/pytest --soak tests/chaos/test_feed_machine.py

chaos-shards: develop  ## Run the state machine, kills, faults and swaps with 3 and 7 shards; takes hours. SHARDS="7", RUNS="".
	@for shards in $(or $(SHARDS),3 7); do \
	$(BIN)/pytest $(or $(RUNS),--soak) -s --shards $$shards tests/chaos/test_feed_machine.py -k "[$$shards]" || exit 1; \
	$(BIN)/pytest $(or $(RUNS),--soak) -s --shards $$shards $(SHARDED) || exit 1; done

disasters: develop  ## Play 500 runs of disasters, and rehearse backup and restore; takes about an hour. RUNS=20 for fewer.
	DISASTER_RUNS=$(RUNS) $(BIN)/pytest --soak -s tests/disasters

chaos-soak: develop  ## Run updates, rebuilds and walks for 30 minutes; prints memory growth. SOAK="--minutes 5".
	@$(BIN)/python -m tests.chaos.soak --write docs/reliability.md $(SOAK)

fuzz: develop  ## Send at least 20,000 requests generated from the OpenAPI document, and fuzz the parser; prints the results.
	$(BIN)/pytest --soak -s tests/contract/test_openapi_fuzz.py tests/openapi/test_parameter_schemas.py

mutants: develop  ## Break a line at a time in a copy, and see that tests notice; takes about 45 minutes. MUTANTS="--only scope".
	@$(BIN)/python -m tests.mutants $(MUTANTS)

openapi: develop  ## Renew docs/openapi.json, its examples and docs/operating/settings.md.
	$(BIN)/python -m tests.openapi.regenerate

screenshots: develop chromium  ## Renew the pictures in docs/screenshots; the terminal needs sqlite3 and jq.
	$(BIN)/python -m tests.site.screenshots
	$(BIN)/python -m tests.site.terminal_cast

bench: develop peers  ## Measure the service on 1,000,000 listings; updates docs/performance.md. BENCH="--data DIR" keeps what is loaded.
	@$(BIN)/python -m bench $(BENCH)

bench-quick: develop peers  ## Benchmark on 30,000 listings in a few minutes; writes build/bench-quick.
	@$(BIN)/python -m bench --quick --docs build/bench-quick $(BENCH)

bench-load: develop  ## Compare the commands of the indexer with those of another checkout: LOAD="--before CHECKOUT"; prints ratios.
	@$(BIN)/python -m bench.load $(LOAD)

guard: develop  ## Compare processor time and memory of the service at HEAD with those at BASE, by default main, each with the packages that it locks; fails above 1.05.
	@rm -rf build/base build/head && mkdir -p build/base build/head
	@git archive $(or $(BASE),main) | tar --extract --directory build/base
	@git archive HEAD | tar --extract --directory build/head
	@$(MAKE) --silent --directory build/base install
	@$(MAKE) --silent --directory build/head install
	@$(BIN)/python -m bench.paired --before build/base --after build/head --limit 1.05 --rounds 25 --requests 60

wheels: develop  ## Build the wheels of the server and of the client in build/wheels.
	@$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir build/wheels . ./consumer

lock: develop  ## Update the pinned versions of all packages.
	$(COMPILE) --group build --extra object-store --extra redis --extra xlsx pyproject.toml -o locks/production.txt
	$(COMPILE) --group build --extra embedded --extra redis --extra xlsx pyproject.toml -o locks/product.txt
	$(COMPILE) --group build --extra embedded --extra object-store --extra redis --extra otel --extra xlsx --group dev pyproject.toml -o locks/development.txt

sbom: develop  ## Write a software bill of materials (CycloneDX) to build/sbom.json.
	@mkdir -p build
	$(SBOM) -o build/sbom.json locks/production.txt

clean:  ## Remove .venv.
	rm -rf $(VENV)

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is required, but this is " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	@echo "creating $(VENV)"
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.product: locks/product.txt pyproject.toml consumer/pyproject.toml | $(VENV)/bin/python
	@echo "installing packages into $(VENV); the first time this downloads about 150 MB"
	@$(PIP) --require-hashes -r locks/product.txt
	@$(PIP) --no-deps --no-build-isolation --editable consumer --editable .
	@touch $@

$(VENV)/.development: locks/development.txt $(VENV)/.product
	@echo "installing development tools"
	@$(PIP) --no-deps --require-hashes -r locks/development.txt
	@touch $@
