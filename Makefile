# `make` alone lists the commands. All except help and clean set up .venv first (tools/setup.sh).
.DEFAULT_GOAL := help
.PHONY: help setup demo test long bench check wheel wheels try docs sanitize fuzz clean
unexport PYTHONPATH PYTHONHOME

PYTHON := .venv/bin/python
PYTEST_ARGS ?=
BENCH_ARGS ?=
FUZZ_SECONDS ?= 20

help:  ## list the commands
	@sed -n 's/^\([a-z]*\):.*  ## \(.*\)/  make \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 20

setup:  ## create .venv, with treecast built and installed
	@bash tools/setup.sh

demo:  ## match the embedded sample and a firehose, and write to results/
	@bash tools/setup.sh java
	@bash tools/demo.sh

test:  ## run the tests, and the native ones again under the sanitizers
	@bash tools/setup.sh maybe-java maybe-nats maybe-chromium maybe-xmlsec1 maybe-npm maybe-maven
	@bash tools/test.sh $(PYTEST_ARGS)

check: setup  ## run the linters and the type checker
	@$(PYTHON) -m ruff check .
	@$(PYTHON) -m ruff format --check .
	@$(PYTHON) -m mypy

long:  ## run the full-size checks: hours of CPU time
	@bash tools/setup.sh java maybe-nats maybe-chromium maybe-xmlsec1 maybe-npm maybe-maven
	@$(PYTHON) -m pytest -m long $(PYTEST_ARGS)
	@TREECAST_SANITIZER=thread bash tools/sanitize.sh
	@$(PYTHON) tools/mutants.py
	@$(PYTHON) tools/mutants_python.py
	@FUZZ_SECONDS=600 bash tools/fuzz.sh
	@bash tools/wheels.sh
	@bash tools/minimal_debian.sh wheel
	@bash tools/minimal_debian.sh

bench: setup  ## measure treecast and its peers; BENCH_ARGS are arguments
	@$(PYTHON) -m bench $(BENCH_ARGS)

wheel: setup  ## build a wheel and a source distribution in dist/
	@$(PYTHON) tools/build_dist.py dist

wheels: setup  ## build wheels for any recent Linux in dist/, one per Python found, and try each in a clean venv
	@bash tools/wheels.sh

try: setup  ## install a wheel into clean venvs, with extras and without, and try every command
	@rm -rf build/dist
	@$(PYTHON) tools/build_dist.py build/dist
	@$(PYTHON) tools/try_wheel.py build/dist/*.whl

docs: setup  ## build the documentation site in build/site
	@bash tools/docs.sh

sanitize: setup  ## run the native tests under the address and undefined-behaviour sanitizers
	@bash tools/sanitize.sh

fuzz: setup  ## fuzz each target with clang for FUZZ_SECONDS=20
	@FUZZ_SECONDS=$(FUZZ_SECONDS) bash tools/fuzz.sh

clean:  ## remove everything that make created
	@rm -rf .venv build dist results src/treecast/_native src/treecast/_native.pyi .mypy_cache .pytest_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
