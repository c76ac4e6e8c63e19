# Every target sets up .venv first, on a machine where only Python, make and git are present.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
T ?= tests
# make sim SEED=7 replays one seed; SEEDS says how many to try otherwise.
SEED ?=
SEEDS ?= 1000
# make bench B=peers runs one bench; B="peers --quick" a small one.
B ?=
# make mutants M="--rooms stores --count 20" tries some of them.
M ?=

# Half again as many test workers as cores: many tests wait for processes of their own.
export PYTEST_XDIST_AUTO_NUM_WORKERS ?= $(shell n=$$(nproc) && echo $$((n + (n + 1) / 2)))

# What runs as root is run once more as somebody who is not: the rooms that read, write and remove
# what tasks have made, and the file with the one other test that root cannot run. Left out are long
# tests that compute or compare contents, and are the same for every user.
U ?= tests/live tests/runs tests/calls tests/cli tests/formats/test_content.py \
	$(addprefix --ignore=tests/, runs/test_kill_campaign.py runs/test_power_cuts.py \
	runs/test_applications.py runs/test_outcomes.py runs/test_both_worlds.py \
	calls/test_bundles.py live/test_orders.py cli/test_bound.py cli/test_generate.py \
	cli/test_inspect.py cli/test_seeds.py cli/test_simulate.py \
	cli/test_written_commands.py)

.PHONY: run test test-unprivileged check lint fix types bench mutants sim clean

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "dataward needs Python 3.11 or newer; try: make PYTHON=python3.11 $(MAKECMDGOALS)" >&2; exit 1; }
	@echo "setting up $(VENV) (once) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable . --group dev
	@touch $(READY)

# The tasks of a runnable workflow are started with python3: the one in .venv is surely there.
run: export PATH := $(abspath $(BIN)):$(PATH)
run: $(READY)
	@mkdir -p build
	@rm -rf build/montage.run
	dataward generate montage --tasks 300 --seed 1 --runnable --scale-time 0.005 \
		--scale-data 0.01 -o build/montage.json
	dataward run build/montage.json --out build/montage.run

test: $(READY)
	$(BIN)/pytest $(T)

# Only where that can be, and the user is root; else it says so.
test-unprivileged: $(READY)
	@.ci/unprivileged $(BIN)/python $(U)

check: lint types test test-unprivileged

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
	$(BIN)/python -m bench $(B)

mutants: $(READY)
	@$(BIN)/python -c 'import coverage' 2> /dev/null || \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check --group mutants
	$(BIN)/python -m bench mutants $(M)

clean:
	rm -rf $(VENV) .venv-peers build .mypy_cache .ruff_cache .pytest_cache .hypothesis
