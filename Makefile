# The verbs are what CI runs. `make demo` and `make test` set everything up on a fresh machine.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable
READY := .venv/.ready
READY_FOR_DEMO := .venv/.ready-for-demo

.PHONY: setup demo check test bench docs format clean

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	@echo "setting up .venv with all extras: about 4 minutes and 7 GB the first time"
	$(PYTHON) -m venv .venv
	$(INSTALL) ".[all]"
	@touch $@ $(READY_FOR_DEMO)

# The demo needs no pretrained networks and no tools for development; `make setup` adds them to the same .venv.
$(READY_FOR_DEMO): pyproject.toml constraints.txt
	@echo "setting up .venv for the demo: about 3 minutes and 6 GB the first time, most of it PyTorch"
	$(PYTHON) -m venv .venv
	$(INSTALL) ".[viz]"
	@touch $@

demo: $(READY_FOR_DEMO)
	$(BIN)/unseen demo --out out/demo

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check --no-cache .
	$(BIN)/mypy
	$(BIN)/pytest -q tests/house -p no:cacheprovider

# One thread a process: two processes with two threads each would fight over two cores.
test: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/pytest -q -n 2 --dist worksteal

bench: $(READY)
	$(BIN)/python -m bench.head
	$(BIN)/python -m bench.losses
	$(BIN)/python -m bench.robust
	$(BIN)/python -m bench.evaluation --write
	$(BIN)/python -m bench.evaluation --scaling --write
	$(BIN)/python -m bench.kmeans --write
	$(BIN)/python -m bench.samplers
	$(BIN)/python -m bench.splits
	$(BIN)/python -m bench.embedding --write
	$(BIN)/python -m bench.pipeline

# The pages of losses, miners and uncertainty sets are written from their docstrings.
docs: $(READY)
	$(BIN)/python -m docs.generate
	$(BIN)/python -m docs.draw_robust_weights

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf out .pytest_cache .mypy_cache .ruff_cache .hypothesis
