# Every target sets up what it needs; the environment is made once and again only when its inputs change.
PYTHON ?= python3
OUT ?= out
BIN := .venv/bin
INSTALLED := .venv/.installed
CHROMIUM := .venv/chromium/chromium

.PHONY: help setup demo test lint types layers unit browser bench clean

help:
	@echo "make demo    train MVI(2), M-DQN and DQN on CartPole-v1 (minutes), write a report"
	@echo "make test    lint, types, import layers and all tests"
	@echo "make bench   speed and accuracy, as ratios measured in one run"
	@echo "make clean   remove the environment and everything made"

setup: $(INSTALLED)

$(INSTALLED): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

# For the tests of pages. Without npm, or elsewhere than on Linux, they use a browser that is installed.
browser: setup $(CHROMIUM)

$(CHROMIUM): tests/chromium.py
	$(BIN)/python tests/chromium.py .venv/chromium

demo: setup
	$(BIN)/mviq study run examples/cartpole.yaml --out $(OUT)
	$(BIN)/mviq report $(OUT)/cartpole

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

bench: setup
	$(BIN)/python benchmarks/policy.py
	$(BIN)/python benchmarks/tabular.py
	$(BIN)/python benchmarks/throughput.py
	$(BIN)/python benchmarks/studies.py

clean:
	rm -rf .venv $(OUT) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
