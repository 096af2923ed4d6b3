# Two commands for a newcomer: `make demo` and `make test`. Everything lives in .venv.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: demo test fuzz mlflow engines check check-style check-types check-imports check-docs format bench audit docs clean

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "discreet needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(BIN)/python pyproject.toml constraints.txt
	$(BIN)/pip install -q -c constraints.txt -e .
	touch $@

$(VENV)/.dev: $(VENV)/.installed
	$(BIN)/pip install -q -c constraints.txt -e '.[dev]'
	touch $@

demo: $(VENV)/.installed  ## fit a private model on real bundled data
	$(BIN)/discreet demo

$(VENV)/.system: $(VENV)/.dev  ## PostgreSQL and Chromium, for the tests of the ledger on a server and of its pages
	command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || \
	  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends postgresql; } || \
	  { echo 'Install PostgreSQL (initdb and pg_ctl) for the tests of the ledger on a server.' && false; }
	command -v chromium >/dev/null && command -v chromedriver >/dev/null || \
	  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium chromium-driver; } || \
	  { echo 'Install chromium and chromedriver for the tests of the pages of a ledger.' && false; }
	touch $@

# Two processes: threads of their libraries would wait for each other on two processors.
test: $(VENV)/.dev $(VENV)/.system  ## all tests
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal

FUZZ ?= 1500
fuzz: $(VENV)/.dev  ## malformed files, paths, options and requests, FUZZ cases of each of eight kinds
	FUZZ=$(FUZZ) $(BIN)/python -m pytest tests/security/test_fuzz_ledger.py

mlflow: $(BIN)/python  ## the tests of MLflow, which needs other versions than ours, in an environment of its own
	$(PYTHON) -m venv .venv-mlflow
	.venv-mlflow/bin/pip install -q -e '.[mlflow]' pytest hypothesis
	.venv-mlflow/bin/python -m pytest tests/report/test_mlflow.py

engines: $(BIN)/python  ## the tests of what Spark (with Java 17) and Ray hand over, in an environment of its own
	command -v java >/dev/null || { echo 'Install Java 17 for the tests of Spark.' && false; }
	$(PYTHON) -m venv .venv-engines
	.venv-engines/bin/pip install -q -c constraints.txt -e '.[dask]' hypothesis pandas pytest 'pyspark>=4' 'ray[data]>=2.9'
	.venv-engines/bin/python -m pytest tests/data/test_spark_files.py tests/data/test_ray_files.py

check: $(VENV)/.dev  ## style, types, import rules, docs: two at a time
	$(MAKE) --no-print-directory -j 2 --output-sync=target check-types check-docs check-imports check-style

check-style:
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

check-types:
	$(BIN)/mypy

check-imports:
	$(BIN)/lint-imports

check-docs:
	$(BIN)/mkdocs build --strict --quiet --site-dir .site-check && rm -rf .site-check

format: $(VENV)/.dev  ## rewrite style in place
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.dev  ## every benchmark, peers in environments of their own
	for script in $$(grep -l __main__ bench/*.py); do $(BIN)/python $$script || exit 1; done

EVENTS ?= 100000
SEED   ?= $(shell date +%Y%m%d)
audit: $(VENV)/.dev  ## attack the mechanisms: impossible outputs, worst-case neighbours, planted bugs; doubt the accountants
	$(BIN)/python -m pytest tests/security tests/test_known_bugs.py
	$(BIN)/python -m pytest tests/solvers tests/mechanisms tests/measurements tests/estimators -k "attack"
	PYTHONPATH=src $(BIN)/python -m tests.accounting.reference.audit --events $(EVENTS) --seed $(SEED)

docs: $(VENV)/.dev  ## the documentation, as a site in site/
	$(BIN)/mkdocs build --strict

clean:
	rm -rf $(VENV) .venv-* site demo
