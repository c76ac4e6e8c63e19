# Every target sets up .venv first, on a machine where only Python, make and git are present.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
T ?= tests
# make sim SEED=7 replays one seed; SEEDS says how many to try otherwise.
SEED ?=
SEEDS ?= 1000

.PHONY: run test check lint fix types bench sim clean

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "dataward needs Python 3.11 or newer; try: make PYTHON=python3.11 $(MAKECMDGOALS)" >&2; exit 1; }
	@echo "setting up $(VENV) (once) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable . --group dev
	@touch $(READY)

run: $(READY)
	@mkdir -p build
	$(BIN)/dataward generate montage --tasks 100 --seed 1 -o build/montage.json
	$(BIN)/dataward inspect build/montage.json --nodes 8 --cores 2 --svg build/montage.svg
	$(BIN)/dataward simulate build/montage.json --nodes 8 --cores 2 --seed 1 --plot build/run.svg
	@echo "Drawings: build/montage.svg (the workflow) and build/run.svg (the run)"

test: $(READY)
	$(BIN)/pytest $(T)

check: lint types test

lint: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

fix: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

types: $(READY)
	$(BIN)/mypy

sim: $(READY)
	$(BIN)/dataward seeds --count $(SEEDS) --faults crashes $(if $(SEED),--seed $(SEED))
	$(BIN)/dataward seeds --count $(SEEDS) --faults chaos $(if $(SEED),--seed $(SEED))

bench: $(READY)
	$(BIN)/python -m bench

clean:
	rm -rf $(VENV) build .mypy_cache .ruff_cache .pytest_cache .hypothesis
