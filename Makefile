# make repro: install, then run whatever of the pipeline is out of date
# make test:  install with the test extras, then run the tests but for the slow ones
# make test-all: run every test, as CI does, and those of numbers with other vector instructions
# make coverage: run every test and print which lines of geonode/ and stages/ none of them runs
# make ablation: what every part of the learning buys, on the series in data/series (eight minutes on two cores)
# make benchmark: the pipeline against the sequential way of the publication (metrics/sequential.json)
# make prior: learn the weights of the default predictor again, from simulated series (hours on a CPU,
#             five minutes on a GPU and half an hour of calibration); look at make ablation before it is kept
# make mutants: small faults in every room, and the share that no test notices, by Cosmic Ray in a clone of
#               the last commit; DRAW="--each 8 --seed 1 spectra" for other faults
# make docs:  the documentation as a site in site/, without network; a warning is an error
# make hooks: check every commit as `make lint` does, but for house rules (pre-commit)
# make lint:  formatter, linter, type checker, layers (import-linter), house rules (docstrings, shapes)

# The first that starts; a name alone may be the shim of a version that is not installed.
PYTHON ?= $(shell for one in python3.11 python3.12 python3.13 python3; do \
	$$one -c '' 2>/dev/null && echo $$one && break; done)
export PATH := $(CURDIR)/.venv/bin:$(PATH)
# A relative path, because that of the project may hold a space.
INSTALL := .venv/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: repro test test-all coverage ablation benchmark prior mutants \
	docs hooks lint clean

repro: .venv/installed
	dvc repro

# One process a core, each with one thread; modules are compiled once and kept.
PYTEST = env -u PYTHONDONTWRITEBYTECODE OMP_NUM_THREADS=1 python -m pytest -n auto \
	--dist loadfile --no-loadscope-reorder
# Checks the annotations of every call, which takes a quarter more time.
TYPED = --jaxtyping-packages=geonode,research,tests.checked

test: .venv/installed-test
	$(PYTEST) -m "not slow"

# The rooms of numbers once more, by the instructions of an old processor: they round otherwise.
OLD = ATEN_CPU_CAPABILITY=default MKL_ENABLE_INSTRUCTIONS=SSE4_2 OPENBLAS_CORETYPE=Nehalem
NUMBERS = tests/posterior tests/prediction tests/estimation tests/mixtures \
	$(addprefix tests/calibration/test_,invariances.py methods.py verdict.py intervals.py limits.py)

test-all: .venv/installed-test
	$(PYTEST) $(TYPED)
	$(OLD) $(PYTEST) -m "not slow" $(NUMBERS)

# Lines by coverage.py, of the processes that run tests; what they start themselves is not counted.
coverage: .venv/installed-test
	$(PYTEST) --cov=geonode --cov=stages --cov-report=term:skip-covered --cov-fail-under=90

ablation: repro
	python -m research.ablation

benchmark: repro
	python -m research.sequential

prior: .venv/installed
	python -m research.prior

mutants: .venv/installed-dev
	copy=$$(mktemp -d) && trap "rm -rf $$copy" EXIT && git clone --quiet . $$copy && cd $$copy && \
	export PYTHONPATH=$$copy OMP_NUM_THREADS=1 && \
	$(PYTEST) -m "not slow" && \
	cosmic-ray init research/mutants.toml faults.sqlite && \
	python -m research.mutants faults.sqlite $(DRAW) && \
	cosmic-ray exec research/mutants.toml faults.sqlite && \
	cr-report --surviving-only --show-diff faults.sqlite

docs: .venv/installed-docs
	NO_MKDOCS_2_WARNING=1 mkdocs build --strict

hooks: .venv/installed-dev
	pre-commit install

lint: .venv/installed-test
	ruff check .
	ruff format --check .
	mypy
	lint-imports
	python -m pytest tests/test_house.py

clean:
	rm -rf .venv

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(INSTALL) -e ".[pipeline]"
	touch $@

.venv/installed-test: .venv/installed
	$(INSTALL) -e ".[test]"
	touch $@

.venv/installed-dev: .venv/installed
	$(INSTALL) -e ".[dev]"
	touch $@

.venv/installed-docs: .venv/installed
	$(INSTALL) -e ".[docs]"
	touch $@
