# make demo   find pictures again in noise; a report with pictures in demo/
# make test   the tests, with coverage
# make check  formatting, lint, types, import directions
# make bench  time the engine; a table of ratios, and JSON in results/
# make bench-peers  inference side by side with other libraries, which get an environment of their own, .venv-peers
# make bench-crfsuite  linear chains side by side with CRFsuite, which is put into .peers for it
# make stubs  rewrite src/blendfield/_core.pyi after the C++ bindings changed
# make format put ruff's and clang-format's layout into the files
# make clean  remove everything these targets made
#
# Each target first brings .venv up to date: it is made when missing, and the compiled core is built again
# when a C++ source changed. Python sources need nothing: the package is installed in editable mode.

PYTHON ?= python3
JOBS ?= 2
PYTEST_ARGS ?= -n 2
BENCH_ARGS ?=
VENV := .venv
BIN := $(VENV)/bin

CORE_SOURCES := CMakeLists.txt $(shell find core)
CLANG_FORMATTED = $(shell find core tests -name '*.h' -o -name '*.cpp' -o -name '*.cu')

export CMAKE_BUILD_PARALLEL_LEVEL := $(JOBS)
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: demo test check bench bench-peers bench-crfsuite stubs format build clean
.DELETE_ON_ERROR:

demo: build
	$(BIN)/blendfield denoise --quick --report demo

test: build
	$(BIN)/python -m pytest $(PYTEST_ARGS) --cov=blendfield --cov-report=term-missing:skip-covered --cov-fail-under=90

check: build
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/clang-format --dry-run --Werror $(CLANG_FORMATTED)

bench: build
	$(BIN)/python benchmarks/inference.py $(BENCH_ARGS)

bench-peers: build .venv-peers/.built
	$(BIN)/python benchmarks/peers.py $(BENCH_ARGS)

# What pgmax works with. pgmpy wants a torch, of which the smallest build does.
PINS := jax==0.4.30 jaxlib==0.4.30 'numpy<2' 'scipy<1.14'
.venv-peers/.built:
	$(PYTHON) -m venv .venv-peers
	.venv-peers/bin/python -m pip install -q $(PINS) pgmax==0.6.1
	.venv-peers/bin/python -m pip install -q $(PINS) torch==2.13.0 pgmpy pyAgrum pytoulbar2 inferlo
	touch $@

bench-crfsuite: build .peers/pycrfsuite
	PYTHONPATH=.peers $(BIN)/python benchmarks/crfsuite.py $(BENCH_ARGS)

.peers/pycrfsuite:
	$(BIN)/python -m pip install -q --target .peers python-crfsuite

stubs: build
	$(BIN)/python -m nanobind.stubgen -q -m blendfield._core -o src/blendfield/_core.pyi

format: build
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(CLANG_FORMATTED)

build: $(VENV)/.built

# The build tools live in the environment itself (no build isolation), so that a second build is incremental.
$(VENV)/.tools: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	    echo "blendfield needs Python 3.11 or newer, but '$(PYTHON)' is: $$($(PYTHON) --version 2>&1)."; \
	    echo "Name another one: make PYTHON=/path/to/python3.12"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { \
	    echo "'$(PYTHON)' lacks the modules venv and ensurepip (on Debian and Ubuntu: apt install python3-venv)."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"], sep="\n")' \
	    > $(VENV)/build-requirements.txt
	$(BIN)/python -m pip install -q -r $(VENV)/build-requirements.txt "cmake>=3.20" ninja
	touch $@

$(VENV)/.built: $(VENV)/.tools pyproject.toml $(CORE_SOURCES)
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pip install -q --no-build-isolation -e '.[plot,images,networkx,ray,partition,test,check]'
	touch $@

clean:
	rm -rf $(VENV) .venv-peers .peers build dist results demo .coverage .coverage.* htmlcov \
	    .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests examples benchmarks -name __pycache__ -prune -exec rm -rf {} +
