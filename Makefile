# Two commands from a bare checkout: `make demo` and `make test`. Both need only Python >= 3.11.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test lint fmt wheel clean

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

demo: $(VENV)/.installed
	$(BIN)/gtp demo

test: lint
	JAX_PLATFORMS=cpu MUJOCO_GL=disable OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadgroup

lint: $(VENV)/.installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/ty check --python $(VENV)

fmt: $(VENV)/.installed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

wheel: $(VENV)/.installed
	$(BIN)/python -m build --wheel

clean:
	rm -rf $(VENV) dist build demo runs .pytest_cache .ruff_cache
