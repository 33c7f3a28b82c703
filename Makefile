# The commands of the house; `make` alone lists them. Everything but help and clean sets up .venv first (tools/setup.sh).
.DEFAULT_GOAL := help
.PHONY: help setup demo test long bench check wheel sanitize fuzz clean
unexport PYTHONPATH PYTHONHOME

PYTHON := .venv/bin/python
PYTEST_ARGS ?=
BENCH_ARGS ?=
FUZZ_SECONDS ?= 20

help:  ## list the commands
	@sed -n 's/^\([a-z]*\):.*  ## \(.*\)/  make \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 20

setup:  ## make .venv with treecast built and installed in it
	@bash tools/setup.sh

demo:  ## match the embedded sample; results/ holds what came out
	@bash tools/setup.sh java
	@bash tools/demo.sh

test:  ## the test suite, and the native part of it under the sanitizers: what CI runs
	@bash tools/setup.sh maybe-java maybe-nats
	@bash tools/test.sh $(PYTEST_ARGS)

check: setup  ## the linters and the type checker
	@$(PYTHON) -m ruff check .
	@$(PYTHON) -m ruff format --check .
	@$(PYTHON) -m mypy

long:  ## the full-size checks: hours of CPU, results for bench/record/
	@bash tools/setup.sh java maybe-nats
	@$(PYTHON) -m pytest -m long $(PYTEST_ARGS)
	@$(PYTHON) tools/mutants.py
	@$(PYTHON) tools/mutants_python.py
	@FUZZ_SECONDS=600 bash tools/fuzz.sh
	@bash tools/minimal_debian.sh

bench: setup  ## the measurements, peers beside us; BENCH_ARGS passes arguments on
	@$(PYTHON) -m bench $(BENCH_ARGS)

wheel: setup  ## a wheel and a source distribution in dist/
	@$(PYTHON) tools/build_dist.py dist

sanitize: setup  ## build with the address and undefined-behaviour sanitizers, run the native tests under them
	@bash tools/sanitize.sh

fuzz: setup  ## coverage-guided fuzzing with clang, FUZZ_SECONDS=20 each
	@FUZZ_SECONDS=$(FUZZ_SECONDS) bash tools/fuzz.sh

clean:  ## remove everything that make made
	@rm -rf .venv build dist results src/treecast/_native .mypy_cache .pytest_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
