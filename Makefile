# Two commands for a newcomer: `make run` and `make test`. Each needs Debian 12, Python 3.11 and g++.
# The first Python that is new enough; bare Debian packages may bring python3.11 without python3.
PYTHON ?= $(or $(shell for python in python3 python3.11 python3.12 python3.13 python3.14; do \
  $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
  && echo $$python && break; done),python3)
VENV := .venv
BIN := $(VENV)/bin
DESIGN ?= examples/superpod-h100-4su.yaml
OUT ?= out/$(basename $(notdir $(DESIGN)))
SOURCES := pyproject.toml CMakeLists.txt README.md $(shell find src native -type f -not -name '*.pyc')
JOBS ?= 2

.PHONY: run test lint sanitize bench bench-simgrid docs screenshots dev clean

run: $(VENV)/.installed
	$(BIN)/railweave run $(DESIGN) --out $(OUT)
	@echo "The report lies at $(OUT)/report.html"

test: $(VENV)/.installed-test
	tools/system-packages
	$(BIN)/python -m pytest -n $(JOBS)

lint: $(VENV)/.installed-lint
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

# The engine tests once more, on a native core built with AddressSanitizer and UBSan.
sanitize: $(VENV)/.installed-test
	tools/sanitize $(BIN)

bench: $(VENV)/.installed-test
	$(BIN)/python -m pytest benchmarks -o python_files='bench_*.py' --benchmark-only

# The same runs in SimGrid and here, side by side; the first time it builds SimGrid.
bench-simgrid: $(VENV)/.installed-test
	tools/simgrid-env .venv-simgrid
	$(BIN)/python benchmarks/simgrid_compare.py --all --python .venv-simgrid/bin/python

docs: $(VENV)/.installed
	$(BIN)/python tools/extra-requirements docs | $(BIN)/pip install -q -r /dev/stdin
	$(BIN)/mkdocs build --strict

# Pictures of the README and the docs, made by the product.
screenshots: $(VENV)/.installed-test
	tools/system-packages
	$(BIN)/python tools/screenshots.py
	$(BIN)/python tools/studio_screenshots.py

# For work on the code: Python edits are live at once, `make dev` again after native ones.
dev: $(VENV)/bin/python
	$(BIN)/pip install -q 'scikit-build-core>=0.10' 'nanobind>=2.4' cmake ninja
	$(BIN)/pip install -q --no-build-isolation -e '.[all,test,lint,docs]'

$(VENV)/bin/python:
	tools/make-venv $(PYTHON) $(VENV)

$(VENV)/.installed: $(VENV)/bin/python $(SOURCES)
	$(BIN)/pip install -q '.[all]'
	@touch $@

$(VENV)/.installed-test: $(VENV)/.installed
	$(BIN)/python tools/extra-requirements test | $(BIN)/pip install -q -r /dev/stdin
	@touch $@

$(VENV)/.installed-lint: $(VENV)/.installed-test
	$(BIN)/python tools/extra-requirements lint | $(BIN)/pip install -q -r /dev/stdin
	@touch $@

clean:
	rm -rf $(VENV) build out site .pytest_cache .mypy_cache .ruff_cache .hypothesis
