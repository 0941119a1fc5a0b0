# Two commands: `make demo` scores the shipped example, `make test` runs the tests. Both install what they need.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PINS := .ci/constraints.txt
EXAMPLE := bertscore_metric/example
export HF_HUB_OFFLINE ?= 1

# The lowest versions that pyproject.toml allows. TORCH may name another one, with pip's options.
TORCH ?= $$(grep '^torch==' $(PINS) | cut -d= -f3)
LOWEST := pyyaml==6.0.1 safetensors==0.4.5 tqdm==4.66.6 transformers==4.57.1 typer==0.16.0

.PHONY: demo test test-all test-lowest lint docs bench space chromium clean

demo: $(VENV)/.offline
	$(BIN)/bertscore-metric score --config offline --segments \
		--candidates $(EXAMPLE)/candidates.txt --references $(EXAMPLE)/references.1.txt $(EXAMPLE)/references.2.txt

test: $(VENV)/.dev lint chromium
	$(BIN)/python -m pytest -q -n auto --dist loadscope

test-all: test docs test-lowest
	$(BIN)/python -m pytest -q -m "slow and not hub"

test-lowest:
	test -d $(VENV)-lowest || $(PYTHON) -m venv $(VENV)-lowest
	$(VENV)-lowest/bin/python -m pip install -q "pip>=25.1"
	$(VENV)-lowest/bin/python -m pip install -q torch==$(TORCH)
	$(VENV)-lowest/bin/python -m pip install -q $(LOWEST) -e '.[all]' --group dev
	$(VENV)-lowest/bin/python -m pytest -q -n auto --dist loadscope -m "not hub and not slow"

lint: $(VENV)/.dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

# The pages of docs/ as a site in build/docs; every warning is an error.
docs: $(VENV)/.dev
	$(BIN)/python -m sphinx -q -W --keep-going -d build/doctrees docs build/docs

bench: $(VENV)/.dev
	$(BIN)/python -m tests.benchmarks

# The folder to upload as a Space.
space:
	$(PYTHON) .ci/space.py build/space/bertscore

# The tests of the page need Debian's browser and skip without it: it is installed where that is possible, else left.
chromium:
	@if ! command -v chromium >/dev/null && command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
		(apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -yq chromium) >/dev/null 2>&1 \
		|| echo "chromium could not be installed; tests of the page skip"; fi

clean:
	rm -rf $(VENV) build dist

# torch first and by its exact version: pip then finds the CPU build instead of several GB of CUDA libraries.
$(VENV)/.torch: $(PINS)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q "$$(grep '^torch==' $(PINS))"
	touch $@

$(VENV)/.offline: $(VENV)/.torch pyproject.toml
	$(BIN)/python -m pip install -q -c $(PINS) -e '.[offline]'
	touch $@

$(VENV)/.dev: $(VENV)/.torch pyproject.toml
	$(BIN)/python -m pip install -q -c $(PINS) "pip>=25.1"
	$(BIN)/python -m pip install -q -c $(PINS) -e '.[all]' --group dev
	touch $@ $(VENV)/.offline
