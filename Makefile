# The one task runner. `make test` is the README's second command; `make check` is what CI runs.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: test check lint types wheel golden bench docs clean

$(VENV)/ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $@

test: $(VENV)/ready          ## all tests
	$(BIN)/python -m pytest -n 2

lint: $(VENV)/ready          ## ruff
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/ready         ## mypy, strict
	$(BIN)/mypy

wheel: $(VENV)/ready         ## build the wheel, install it into a clean environment, use it from an empty folder
	$(BIN)/python tools/try_wheel.py

check: lint types test wheel

golden: $(VENV)/ready        ## rewrite golden files; review them as a diff
	$(BIN)/python -m pytest -q tests --rewrite-goldens

docs: $(VENV)/ready          ## rewrite the generated pages
	$(BIN)/python tools/cli_reference.py
	$(BIN)/python tools/two_cards.py
	$(BIN)/calc calibration --write-docs docs/accuracy.md

bench: $(VENV)/ready         ## start-up ratio and predictions a second
	$(BIN)/python benchmarks/cold_start.py
	$(BIN)/python benchmarks/predictions_per_second.py

clean:
	rm -rf $(VENV) dist .mypy_cache .ruff_cache .pytest_cache
