"""Vocabularies of real models with what independent tokenizers make of texts.

Some are in `tests/data/tokenizer`, compressed; the others are found beside the repository, or skip
the calling test.
"""

from __future__ import annotations

import json
import lzma
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from ggufc.compiler.gguf import GGUFFile
from ggufc.compiler.tokenizer_import import import_tokenizer
from ggufc.tokenizer import Tokenizer, create_tokenizer
from tests.support.shared import ROOT, require_shared

DATA = ROOT / "tests" / "data" / "tokenizer"

LOCAL = ("smollm2", "gemma3", "qwen3", "llama3.1", "gemma-4", "phi-3", "mistral-v1", "falcon")
VOCABULARIES = (
    *LOCAL,
    "deepseek-llm",
    "deepseek-v3",
    "gpt-2",
    "gpt-oss",
    "llama-bpe",
    "llama-spm",
    "qwen2",
    "qwen35",
    "refact",
    "starcoder",
)


def packed(name: str) -> Path:
    """The compressed vocabulary file of one model."""
    local = DATA / f"{name}.gguf.xz"
    return local if local.exists() else require_shared(f"prompt/vocabs/{name}.gguf.xz")


def unpack(name: str, folder: Path) -> Path:
    """The vocabulary file of one model, written into a folder."""
    path = folder / f"{name}.gguf"
    path.write_bytes(lzma.decompress(packed(name).read_bytes()))
    return path


def vocabulary(name: str) -> Tokenizer:
    """The tokenizer of one model; made once a run."""
    return _vocabulary(str(packed(name)), name)


@cache
def _vocabulary(_path: str, name: str) -> Tokenizer:
    with tempfile.TemporaryDirectory() as folder:
        with GGUFFile.open(unpack(name, Path(folder))) as file:
            return create_tokenizer(import_tokenizer(file.metadata))


def expectations(name: str) -> Any:
    """The cases of one vocabulary: texts and ids, tokens, sequences, streams."""
    return read_json(f"cases/{name}.json.xz", f"prompt/tokenizer/{name}.json")


def read_json(local: str, shared: str) -> Any:
    """A JSON file of `tests/data/tokenizer`, or the one beside the repository."""
    path = DATA / local
    if path.exists():
        return json.loads(lzma.decompress(path.read_bytes()))
    return json.loads(require_shared(shared).read_text(encoding="utf-8"))
