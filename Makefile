# Everything runs from .venv, which each target sets up if it is missing.
SHELL := /bin/bash
VENV := .venv
BENCH_VENV := .venv-bench
DEPLOY_VENV := .venv-deploy
SPARK4_VENV := .venv-spark4
DOCS_VENV := .venv-docs
BIN := $(VENV)/bin
# The three packages, each with its pyproject.toml.
PACKAGES := glue_jobs cli devkit
CODE := glue_jobs:cli:devkit
# Compiled files stay: without them, each process of the tests compiles every module again, which takes half of collection.
unexport PYTHONDONTWRITEBYTECODE
PYTEST := $(BIN)/python -m pytest --dist loadfile --no-loadscope-reorder
PYTHON ?=
# pip would also compile each module that it installs, most of which nobody imports. That takes a minute.
PIP := -m pip install --quiet --disable-pip-version-check --no-compile
PIP_INSTALL := $(BIN)/python $(PIP)
JOB_LOCKS := infra/cdclake_infra/locks
PY39_CODE := glue_jobs/controller.py glue_jobs/process_table.py lambdas \
	$(addprefix glue_jobs/cdclake/,concurrency.py errors.py hash_secret.py ports.py printable.py raw_listing.py run_ports.py logs.py signals.py model commit control adapters)

.DEFAULT_GOAL := help
.PHONY: $(shell sed -n 's/^\([a-z0-9-]*\):.*/\1/p' Makefile)

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.demo-ready ## Run the whole pipeline on this machine: a sample shop, its full load, changes, and a comparison
	@$(BIN)/cdclake demo

sample-db: $(VENV)/.demo-ready ## Run the same with private MariaDB and PostgreSQL servers as sources (three minutes each)
	@$(BIN)/cdclake local sample-db $(if $(ORDERS),--orders $(ORDERS)) $(if $(ENGINE),--engine $(ENGINE))

quick: $(VENV)/.test-ready ## Lint, check types, and run the tests that start no Spark, AWS or server (under 75 seconds)
	@$(MAKE) --no-print-directory --jobs=4 check tests-quick

test: $(VENV)/.test-ready ## Run these checks, and also tests with Spark, the embedded AWS and whole sessions (under 5 minutes)
	@$(MAKE) --no-print-directory --jobs=4 check tests-test

test-all: ## Run what CI runs: also browser, databases, long tests, documents, stacks and local deployment (under 15 minutes)
	@$(MAKE) --no-print-directory --jobs=2 $(VENV)/.test-ready $(addsuffix /.ready,$(SPARK4_VENV) $(DOCS_VENV) $(DEPLOY_VENV))
	@$(MAKE) --no-print-directory --jobs=2 tests-all beside-tests-all

# One after the other, beside the tests: these often wait for processes that they started. Left to `make thorough`: the other
# database, as tests of both follow their logs and compare rows; and on Glue 6.0's Python the tests that start no Spark.
beside-tests-all:
	@for target in check docs sample-db deploy-local test-spark4; do $(MAKE) --no-print-directory $$target ORDERS=5000 ENGINE=postgres MARKED=spark || exit; done

thorough: $(VENV)/.test-ready $(BENCH_VENV)/.ready ## Run what a release needs: all tests with new and many more examples, faults at every call, and put into the product; both databases; Spark 4.1 (hours)
	@CDCLAKE_TESTS=thorough $(BIN)/python -m pytest -v -n 2 --dist loadgroup --hypothesis-show-statistics -p tests.cdclake_devkit.strict_aws.summary
	@PYTHONPATH=$(CODE):lambdas $(BIN)/python -m cdclake_devkit.simulate --seeds 1000-999999 --minutes 120 --json $(VENV)/simulated.json
	@$(MAKE) --no-print-directory simulate-mutants JSON=$(VENV)/mutants.json
	@$(BIN)/python -m tests.simulated $(VENV)/simulated.json $(VENV)/mutants.json
	@$(MAKE) --no-print-directory reference mutation-check test-spark4 sample-db

# Tests of the first tier are short and keep both cores busy. Later ones often wait for processes that they started.
tests-quick: $(VENV)/.test-ready
	@CDCLAKE_TESTS=quick $(PYTEST) -q -n 2

tests-test: $(VENV)/.test-ready
	@CDCLAKE_TESTS=test $(PYTEST) -q -n 3

tests-all: $(VENV)/.test-ready
	@CDCLAKE_TESTS=all $(PYTEST) -n 4

mutation-check: $(VENV)/.test-ready ## Put over eighty faults into the product, one at a time: each time a test of `make test` must fail (ten minutes)
	@$(BIN)/python -m tests.mutations

# SEEDS: how many, or a range as 100-299; HOURS: simulated hours of steps and faults; JSON: a file for the results.
simulate: $(VENV)/.test-ready ## Simulate hours of an installation from 200 seeds, with faults at every call: SEEDS=100-299 HOURS=24 (two minutes)
	@PYTHONPATH=$(CODE):lambdas $(BIN)/python -m cdclake_devkit.simulate $(if $(SEEDS),--seeds $(SEEDS)) $(if $(HOURS),--hours $(HOURS)) $(if $(JSON),--json $(JSON))

simulate-mutants: $(VENV)/.test-ready ## Put faults of the protocol in, one at a time, and print after how many seeds the simulator finds each
	@PYTHONPATH=$(CODE):lambdas $(BIN)/python -m cdclake_devkit.simulate --mutants --seeds $(or $(SEEDS),2000) --hours 2 $(if $(JSON),--json $(JSON))

# Branches of `commit`, `control/plan` and `lake/merge` that their own tests take.
branches: $(VENV)/.test-ready
	@$(PIP_INSTALL) coverage==7.17.5
	@$(BIN)/python -m tests.branches --record

# The tests of the lake as on Glue 6.0, with MARKED=spark only those that start Spark. Without Java they are skipped; CI skips nothing.
test-spark4: $(SPARK4_VENV)/.ready
	@if command -v java > /dev/null || [ -n "$$CDCLAKE_NEEDS_JAVA" ]; then \
		CDCLAKE_RECORD= CDCLAKE_TESTS=test $(SPARK4_VENV)/bin/python -m pytest -q -n 2 $(if $(MARKED),-m $(MARKED)) tests/cdclake/lake; \
	else echo "Skipped the tests on Spark 4.1: they need Java, such as apt-get install default-jre-headless"; fi

# What talks to AWS, against a local one as strict as AWS, with faults and expiring credentials.
test-aws: $(VENV)/.test-ready
	@$(PYTEST) -q -n 3 -p tests.cdclake_devkit.strict_aws.summary -m "aws and not (spark or deployment)" tests/cdclake_devkit/strict_aws tests/cdclake/adapters tests/cdclake/control

# A file of 40 lines configures 1,000 tables: prints requests and seconds.
test-fleet: $(VENV)/.test-ready
	@CDCLAKE_TESTS=thorough $(BIN)/python -m pytest -q -n 0 tests/e2e/test_fleet_file.py

# Faults at every call of every run on a folder, and at some of each on buckets.
crash: $(VENV)/.test-ready
	@CDCLAKE_TESTS=thorough $(BIN)/python -m pytest tests/crash tests/cdclake/lake/iceberg/test_erase.py -n 3 --dist worksteal

# The pictures of the console in docs/images. Needs chromium.
screenshots: $(VENV)/.test-ready
	@CDCLAKE_SCREENSHOTS=1 CDCLAKE_NEEDS_BROWSER=1 $(BIN)/python -m pytest -q tests/cdclake_cli/console/test_in_chromium.py

bench: $(BENCH_VENV)/.ready ## Measure the engine beside its alternatives, 8 million rows (about an hour and a half; needs an idle machine)
	@$(BENCH_VENV)/bin/python -m benchmarks --growth --results benchmarks/results.json --plot docs/performance.png
	@$(BENCH_VENV)/bin/python -m benchmarks.document
	@PYTHONPATH=$(CODE) $(BENCH_VENV)/bin/python -m benchmarks.metadata

bench-quick: $(BENCH_VENV)/.ready ## Measure the same with one million rows (under five minutes)
	@$(BENCH_VENV)/bin/python -m benchmarks --rows 1000000 --rounds 1 --workloads spread newest initial tenant partitions \
		--contestants cdclake walkthrough delta-rs duckdb limit

bench-controller: $(VENV)/.test-ready ## Measure planning of 10,000 tables, a backlog, and the savings of packing (four minutes)
	@PYTHONPATH=$(CODE):. $(BIN)/python -m benchmarks.controller

bench-events: $(VENV)/.test-ready ## Measure what a raw file costs and how soon its rows are visible, by the function for small changes (ten minutes)
	@PYTHONPATH=$(CODE):lambdas:. $(BIN)/python -m benchmarks.events

synth: $(VENV)/.test-ready ## Synthesize what `cdk deploy` deploys, with cdk-nag and cfn-lint; needs no AWS account
	@PYTHONPATH=infra $(BIN)/python -m cdclake_infra.gate

deploy-local: $(VENV)/.test-ready $(DEPLOY_VENV)/.ready $(SPARK4_VENV)/.ready ## Deploy to a local CloudFormation and run the deployed code; needs no AWS account (five minutes)
	@PYTHONPATH=$(CODE):infra:. $(BIN)/python -m deploy_local

smoke-aws: $(VENV)/.test-ready ## Deploy to the AWS account of this shell for an hour, run, measure, and remove everything (about a dollar)
	@PYTHONPATH=$(CODE):infra:. $(BIN)/python -m smoke_aws

costs: $(VENV)/.test-ready ## Record hours of a table on a local AWS, simulate a month, and estimate what deployments cost (ten minutes)
	@PYTHONPATH=$(CODE):lambdas:. $(BIN)/python -m costs

docs: $(DOCS_VENV)/.ready ## Build the documents as a site into build/docs; a broken link or anchor is an error
	@NO_MKDOCS_2_WARNING=1 PYTHONPATH=. $(DOCS_VENV)/bin/mkdocs build --strict --quiet
	@echo "Open build/docs/index.html"

# The policies of the local AWS, from the stacks.
local-roles: $(VENV)/.test-ready
	@CDCLAKE_WRITE_LOCAL_ROLES=1 $(BIN)/python -m pytest -q tests/infra/test_local_roles.py

reference: $(VENV)/.test-ready ## Write docs/reference from the code
	@PYTHONPATH=$(CODE):. $(BIN)/python -m docs_build.reference

check: lint types check-39

lint: $(VENV)/.test-ready
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --quiet .

types: $(VENV)/.test-ready
	@$(BIN)/mypy

# What Glue's Python shell runs is Python 3.9.
check-39: $(VENV)/.test-ready
	@$(BIN)/vermin --quiet --target=3.9- --no-tips --violations --eval-annotations $(PY39_CODE)

OWN := --no-emit-package cdclake --no-emit-package cdclake-cli
lock: $(VENV)/.test-ready ## Pin all dependencies again, from pyproject.toml, those of the deployed jobs with hashes
	@$(PIP_INSTALL) uv==0.9.18
	@$(BIN)/uv pip compile --quiet --python-version 3.11 --no-header devkit/pyproject.toml \
		$(OWN) -o requirements.txt
	@$(BIN)/uv pip compile --quiet --python-version 3.11 --no-header devkit/pyproject.toml \
		$(OWN) --group pyproject.toml:infra --group pyproject.toml:dev -c requirements.txt -o requirements-dev.txt
	@sed -i "s/^awsgluedataplanepython==.*/& ; python_version < '3.12'/" requirements-dev.txt # uv drops the marker
	@$(BIN)/uv pip compile --quiet --python-version 3.9 --python-platform x86_64-manylinux2014 --no-header \
		--generate-hashes glue_jobs/pyproject.toml -o $(JOB_LOCKS)/python-shell.txt
	@$(BIN)/uv pip compile --quiet --python-version 3.11 --python-platform x86_64-manylinux_2_34 --no-header \
		--generate-hashes $(JOB_LOCKS)/spark.in -c requirements.txt -o $(JOB_LOCKS)/spark.txt

clean: ## Remove the virtual environment and caches
	@rm -rf $(VENV) $(BENCH_VENV) $(DEPLOY_VENV) $(DOCS_VENV) $(SPARK4_VENV) .bench .mypy_cache .ruff_cache .pytest_cache .hypothesis build cdk.out dist $(addsuffix /*.egg-info,$(PACKAGES)) $(addsuffix /build,$(PACKAGES))

$(VENV)/bin/python:
	@python=$$(tools/find-python.sh $(PYTHON)) && $$python -m venv $(VENV)

$(VENV)/.demo-ready: requirements.txt $(addsuffix /pyproject.toml,$(PACKAGES)) | $(VENV)/bin/python
	@echo "Setting up $(VENV) (once; about a minute or two) ..."
	@begin=$$(date +%s) && $(PIP_INSTALL) -r requirements.txt && $(PIP_INSTALL) --no-deps $(addprefix --editable ./,$(PACKAGES)) && \
		$(BIN)/python -c 'from cdclake_cli.aws.java_classes import class_archive_option; class_archive_option()' && \
		echo "$$($(BIN)/python --version) in $(VENV): ready after $$(( $$(date +%s) - begin )) seconds."
	@touch $@

$(VENV)/.test-ready: requirements-dev.txt $(VENV)/.demo-ready
	@echo "Adding the test tools to $(VENV) ..."
	@$(PIP_INSTALL) -r requirements-dev.txt
	@touch $@

$(BENCH_VENV)/.ready: benchmarks/requirements.txt requirements.txt | $(VENV)/bin/python
	@test -x $(BENCH_VENV)/bin/python || $(BIN)/python -m venv $(BENCH_VENV)
	@echo "Setting up $(BENCH_VENV) (once; about a minute or two) ..."
	@pinned=$$(sed -n 's/==.*//p' benchmarks/requirements.txt | paste -s -d '|' -) && \
		grep -Ev "^($$pinned)==" requirements.txt > $(BENCH_VENV)/constraints.txt
	@$(BENCH_VENV)/bin/python $(PIP) -r benchmarks/requirements.txt -c $(BENCH_VENV)/constraints.txt
	@touch $@

$(DEPLOY_VENV)/.ready: deploy_local/requirements.txt | $(VENV)/bin/python
	@test -x $(DEPLOY_VENV)/bin/python || $(BIN)/python -m venv $(DEPLOY_VENV)
	@echo "Setting up $(DEPLOY_VENV) (once; seconds) ..."
	@$(DEPLOY_VENV)/bin/python $(PIP) -r $<
	@touch $@

# Glue 6.0 has Python 3.13. The other libraries are those of the tests on Spark 3.5.
$(SPARK4_VENV)/.libraries: requirements-dev.txt
	@test -x $(SPARK4_VENV)/bin/python || { python=$$(tools/find-python.sh python3.13 python3.12 python3.11) && $$python -m venv $(SPARK4_VENV); }
	@echo "Setting up $(SPARK4_VENV) (once; about two minutes) ..."
	@grep -Ev '^(pyspark|py4j)==' $< > $(SPARK4_VENV)/requirements.txt
	@$(SPARK4_VENV)/bin/python $(PIP) -r $(SPARK4_VENV)/requirements.txt pyspark==4.1.1
	@touch $@

# Two installations of one package at once would write the same files into its folder.
$(SPARK4_VENV)/.ready: $(SPARK4_VENV)/.libraries $(VENV)/.demo-ready
	@$(SPARK4_VENV)/bin/python $(PIP) --no-deps $(addprefix --editable ./,$(PACKAGES))
	@touch $@

$(DOCS_VENV)/.ready: docs/requirements.txt | $(VENV)/bin/python
	@test -x $(DOCS_VENV)/bin/python || $(BIN)/python -m venv $(DOCS_VENV)
	@echo "Setting up $(DOCS_VENV) (once; seconds) ..."
	@$(DOCS_VENV)/bin/python $(PIP) -r $<
	@touch $@
