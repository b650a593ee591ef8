# Two commands matter: `make demo` and `make test`. Python 3.11+, make and the package index are all they need.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --disable-pip-version-check --quiet

# Hashes without index addresses: the lock works against any mirror.
COMPILE := $(BIN)/uv pip compile --quiet --universal --upgrade --generate-hashes --no-header --no-emit-index-url --python-version 3.11

# From the lock, not from what is installed: it needs no network, and names no tool of the checks.
SBOM := $(BIN)/cyclonedx-py requirements --pyproject pyproject.toml --output-reproducible

.PHONY: help install develop demo test lint unit redis promtool chromium soak chaos chaos-machine chaos-soak fuzz openapi screenshots pages bench bench-quick bench-load lock sbom clean

help:  ## List the targets.
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

install: $(VENV)/.product  ## Make .venv with the `brokerage` command in it.

develop: $(VENV)/.development  ## The same, with what the checks need.

demo: install  ## Start the service on sample data with an embedded Elasticsearch.
	@$(BIN)/brokerage demo $(DEMO)

test: lint unit  ## Run every check.

lint: develop  ## Style and types.
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

unit: develop redis promtool chromium tests/clients/node_modules  ## The tests, each process on an Elasticsearch of its own.
	$(BIN)/pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder

redis:  # The limits that processes share are tested on a real one. Without root its tests fail and say what is missing.
	@command -v redis-server > /dev/null || [ "$$(id -u)" != 0 ] || ! command -v apt-get > /dev/null || \
	{ apt-get update -qq && apt-get install -y -qq --no-install-recommends redis-server; }

# The TypeScript client is generated, compiled and run by the tests.
tests/clients/node_modules: tests/clients/package-lock.json tests/clients/package.json | develop
	@PATH="$(CURDIR)/$(BIN):$$PATH" npm ci --silent --ignore-scripts --prefix tests/clients && touch $@

promtool:  # Alerts are tried by Prometheus's own tool: that one file of Debian's package, nothing is installed or started.
	@command -v promtool > /dev/null || test -x $(BIN)/promtool || ! command -v apt-get > /dev/null || \
	{ made=$$(mktemp -d) && { [ "$$(id -u)" != 0 ] || apt-get update -qq; } && \
	(cd $$made && apt-get download -qq prometheus > /dev/null 2>&1) && dpkg-deb --extract $$made/prometheus_*.deb $$made && \
	cp $$made/usr/bin/promtool $(BIN)/promtool && rm -rf $$made; }

chromium:  # The site is looked at in a real one. Without root its tests fail and say what is missing.
	@command -v chromium > /dev/null || [ "$$(id -u)" != 0 ] || ! command -v apt-get > /dev/null || \
	{ apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium; }

soak: develop  ## The fault, history and following tests with the full number of repetitions; takes about three quarters of an hour.
	$(BIN)/pytest --soak -s tests/indexer tests/consumer

chaos: develop  ## Kill, freeze and cut a cluster of three under readers; writes docs/reliability.md. CHAOS="--only kill freeze".
	@$(BIN)/python -m tests.chaos --write docs/reliability.md $(CHAOS)

chaos-machine: develop  ## The state machine of the feed with all its runs; takes about half an hour.
	$(BIN)/pytest --soak tests/chaos/test_machine.py

chaos-soak: develop  ## 30 minutes of updates, rebuilds and walks; prints how memory grows. SOAK="--minutes 5".
	@$(BIN)/python -m tests.chaos.soak --write docs/reliability.md $(SOAK)

fuzz: develop  ## At least 20,000 requests made up from the OpenAPI document, and the parser's own; prints what came of them.
	$(BIN)/pytest --soak -s tests/contract/test_openapi_fuzz.py tests/openapi/test_parameters.py

openapi: develop  ## Renew docs/openapi.json and its examples.
	$(BIN)/python -m tests.openapi.renew

screenshots: develop chromium  ## Take the pictures of the pages anew; writes docs/screenshots.
	$(BIN)/python -m tests.site.screenshots

pages: develop  ## Renew the picture in docs/architecture.md, and the tables of docs/sizing.md after `make bench`.
	$(BIN)/python -m tests.diagram
	$(BIN)/python -m bench.sizing_page

bench: develop  ## Measure the service on 1,000,000 listings; writes docs/performance. BENCH="--data DIR" keeps what is loaded.
	@$(BIN)/python -m bench $(BENCH)

bench-quick: develop  ## The same on 30,000 listings in a few minutes; writes build/bench-quick.
	@$(BIN)/python -m bench --quick --docs build/bench-quick $(BENCH)

bench-load: develop  ## Measure the indexer against ready-made bulk bodies; prints ratios. LOAD="--listings 1000000".
	@$(BIN)/python -m bench.load $(LOAD)

lock: develop  ## Renew the locked versions of all packages.
	$(COMPILE) --group build pyproject.toml -o locks/production.txt
	$(COMPILE) --group build --extra embedded pyproject.toml -o locks/product.txt
	$(COMPILE) --group build --extra embedded --extra otel --group bench --group dev pyproject.toml -o locks/development.txt

sbom: develop  ## List what the product is made of, as it is locked, in CycloneDX: build/sbom.json.
	@mkdir -p build
	$(SBOM) -o build/sbom.json locks/production.txt

clean:  ## Remove what install made.
	rm -rf $(VENV)

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed, this is " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	@echo "making $(VENV)"
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.product: locks/product.txt pyproject.toml | $(VENV)/bin/python
	@echo "installing packages into $(VENV); the first time this downloads about 150 MB"
	@$(PIP) --require-hashes -r locks/product.txt
	@$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.development: locks/development.txt $(VENV)/.product
	@echo "installing what the checks need"
	@$(PIP) --require-hashes -r locks/development.txt
	@touch $@
