# Every target sets up what it needs; the environment is made once and again only when its inputs change.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed
RUNNABLE := .venv/.runnable
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable
CHROMIUM := .venv/chromium/chromium
OUT := out

.PHONY: help setup demo quick test lint types layers unit fuzz browser docs package bench clean

help:
	@echo "make demo    train MVI(2), M-DQN and DQN on MinAtar's Asterix (7 minutes), write a report"
	@echo "make quick   the same on CartPole-v1, shorter: a minute"
	@echo "make test    lint, types, import layers and all tests"
	@echo "make docs    build the documentation site, $(OUT)/docs/index.html"
	@echo "make package build a wheel and try it without extras in an environment of its own"
	@echo "make fuzz    damaged files and odd arguments, thousands of times (FUZZ_SEED=N: others)"
	@echo "make bench   speed and accuracy, as ratios measured in one run"
	@echo "make clean   remove the environment and all caches; runs and studies stay"

setup: $(INSTALLED)

# A set-up that was interrupted has no stamp and is repeated; venv and pip complete what is there.
$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(INSTALL) '.[dev]'
	@touch $@ $(RUNNABLE)

# What the demo and the commands of the README need, a third of the size: no tools of developers.
$(RUNNABLE): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(INSTALL) '.[minatar,video]'
	@touch $@

# For the tests of pages. Without npm, or elsewhere than on Linux, they use a browser that is installed.
browser: setup $(CHROMIUM)

$(CHROMIUM): tests/chromium.py
	$(BIN)/python tests/chromium.py .venv/chromium

demo: STUDY := asterix
quick: STUDY := cartpole
demo quick: $(RUNNABLE)
	$(BIN)/mviq study run examples/$(STUDY).yaml
	$(BIN)/mviq report studies/$(STUDY)

test: lint types layers unit

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

layers: setup
	$(BIN)/lint-imports

unit: setup browser
	$(BIN)/pytest --numprocesses 2 --dist loadfile

docs: setup
	$(BIN)/sphinx-build -W --keep-going -q -b html docs $(OUT)/docs
	@echo "$(OUT)/docs/index.html"

# A wheel, installed without extras into an environment of its own: PYTHON=python3.12 tries another Python.
package:
	rm -rf $(OUT)/package
	$(PYTHON) -m venv $(OUT)/package
	$(OUT)/package/bin/pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir $(OUT)/package/dist .
	$(OUT)/package/bin/pip install --quiet --disable-pip-version-check --constraint constraints.txt $(OUT)/package/dist/*.whl
	$(OUT)/package/bin/python tests/clean_install.py

fuzz: setup
	FUZZ=$${FUZZ:-300} $(BIN)/pytest --numprocesses 2 tests/fuzz

bench: setup
	$(BIN)/python benchmarks/policy.py
	$(BIN)/python benchmarks/tabular.py
	$(BIN)/python benchmarks/throughput.py
	$(BIN)/python benchmarks/studies.py

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
