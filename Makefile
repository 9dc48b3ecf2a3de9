# make repro: install, then run whatever of the pipeline is out of date
# make test:  install with the test extras, then run the tests
# make lint:  formatter, linter, type checker, house rules (docstrings, shapes, layers)

PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := $(CURDIR)/.venv/bin
export PATH := $(BIN):$(PATH)
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: repro test lint clean

repro: .venv/installed
	dvc repro

test: .venv/installed-test
	python -m pytest

lint: .venv/installed-test
	ruff check .
	ruff format --check .
	mypy
	python -m pytest tests/test_house.py

clean:
	rm -rf .venv

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(INSTALL) -e .
	touch $@

.venv/installed-test: .venv/installed
	$(INSTALL) -e ".[test]"
	touch $@
