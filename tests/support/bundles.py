"""Bundles of tiny models, compiled for this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ggufc.backends.base import CompiledObject
from ggufc.backends.llvm import compile_module
from ggufc.compiler.driver import compile_model
from ggufc.compiler.options import CompileOptions
from ggufc.ir import Module, print_module
from tests.support.tiny_gguf import CHARACTERS, CONTROL, TinyModel, chain_model, tiny_model

CHAIN_CONTEXT = 64
# Tokens of `tests.support.tiny_gguf.vocabulary`.
END = 2
FIRST_LETTER = len(CONTROL) + CHARACTERS.index("a")


_CODE: dict[tuple[str, str], CompiledObject] = {}


def code_of(module: Module, isa_name: str) -> CompiledObject:
    """`compile_module`, which remembers what it made of each program."""
    key = (print_module(module), isa_name)
    if key not in _CODE:
        _CODE[key] = compile_module(module, isa_name)
    return _CODE[key]


def bundle_of(model: TinyModel, folder: Path, **options: Any) -> Path:
    """Write and compile a model; returns its bundle."""
    folder.mkdir(parents=True, exist_ok=True)
    source = model.write(folder / "tiny.gguf")
    destination = folder / "tiny.ggufc"
    compile_model(source, destination, CompileOptions(**{"kv_type": "f32", **options}))
    return destination


def tiny_bundle(folder: Path, **options: Any) -> Path:
    """A model with random weights: vocabulary 64, context 128."""
    return bundle_of(tiny_model(), folder, **options)


def alphabet_model(context: int = CHAIN_CONTEXT) -> TinyModel:
    """A model that says the alphabet: after each letter the next, after z the end token, and after
    anything else an a."""
    following = [FIRST_LETTER] * 64
    for letter in range(FIRST_LETTER, FIRST_LETTER + 25):
        following[letter] = letter + 1
    following[FIRST_LETTER + 25] = END
    return chain_model(following, context=context)


def alphabet_bundle(folder: Path) -> Path:
    """The model that says the alphabet, with a context of 64."""
    return bundle_of(alphabet_model(), folder)


def letters(text: str) -> list[int]:
    """The tokens of a text of small letters."""
    return [FIRST_LETTER + ord(c) - ord("a") for c in text]
