"""Architectures: from a GGUF file to the program of its model, stage `graph`.

`build` finds the file of this folder that is named after `general.architecture` and calls its
`forward` for both functions. To add an architecture, add its file; nothing else lists them.
"""

import re
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Protocol, cast

from ggufc.compiler.errors import ModelError, quoted
from ggufc.compiler.gguf import GGUFFile, Metadata
from ggufc.compiler.gguf.purpose import check_purpose
from ggufc.compiler.gguf.vocabulary import check_vocabulary
from ggufc.compiler.hparams import HParams, architecture_data, read_hparams
from ggufc.compiler.models.network import Network, add_cache
from ggufc.compiler.models.tensors import ModelTensors
from ggufc.ir import DECODE, EMBED, GRAPH, PREFILL, GraphBuilder, Module, Symbol, Value, verify

SHARED = frozenset({"blocks", "network", "rope", "tensors"})


@dataclass(frozen=True)
class GraphOptions:
    """What bounds a program: tokens of one prefill call, sequences, positions of a sequence
    (None: as many as the model was made for), and the element type of the KV cache."""

    max_tokens: int = 512
    max_batch: int = 8
    max_context: int | None = None
    kv_type: str = "bf16"


class Architecture(Protocol):
    """What the file of an architecture offers."""

    def forward(self, net: Network) -> Value:
        """Append the network to the function that `net` builds and return the logits, or in the
        function `embed` the embeddings of the tokens."""


@cache
def architectures() -> dict[str, str]:
    """The names that `general.architecture` may have, and for each the module of this package."""
    modules = {module.name for module in iter_modules(__path__)} - SHARED
    return dict(
        sorted({**{name: name for name in modules}, **architecture_data()["aliases"]}.items())
    )


def architecture_of(metadata: Metadata) -> Architecture:
    """The architecture that `metadata` names; a ModelError lists the known ones, or says what a
    file without a model holds instead."""
    check_purpose(metadata)
    name = metadata.get_str("general.architecture")
    known = architectures()
    if name not in known:
        raise ModelError(
            f"{metadata.label}: architecture {quoted(name)} is not supported;"
            f" supported are {', '.join(known)}"
        )
    return cast(Architecture, import_module(f"{__name__}.{known[name]}"))


def build(gguf: GGUFFile, options: GraphOptions) -> Module:
    """The program of the model in `gguf`: functions `prefill`, `decode` and `embed` with the
    contract of docs/architecture.md, or `embed` alone where the model is not causal. GGUFError or
    ModelError says in one line why there can be none."""
    architecture = architecture_of(gguf.metadata)
    if not gguf.tensors:
        raise ModelError(f"{gguf.label}: the file has no tensors, only metadata")
    check_vocabulary(gguf.metadata)
    hparams = read_hparams(gguf.metadata)
    module = Module(model_name(gguf.metadata), {"arch": hparams.architecture})
    tensors = ModelTensors(gguf, module)
    context, most = context_of(hparams, options), max_tokens(hparams, options)
    for name in (PREFILL, DECODE, EMBED) if hparams.is_causal else (EMBED,):
        tokens = Symbol("B", options.max_batch) if name == DECODE else Symbol("T", most)
        b = GraphBuilder(module, name)
        add_cache(b, hparams, options.kv_type, context, options.max_batch)
        rows = None if name == DECODE else Symbol("R", most)
        net = Network(b, hparams, tensors, tokens, rows, context, options.max_batch)
        b.returns(architecture.forward(net))
    tensors.check_all_used(drafting_layers(hparams))
    verify(module, GRAPH)
    return module


def max_tokens(hparams: HParams, options: GraphOptions) -> int:
    """The most tokens of one call of `prefill` or `embed`: where these are whole texts, as many as
    one may have."""
    return options.max_tokens if hparams.is_causal else context_of(hparams, options)


def drafting_layers(hparams: HParams) -> tuple[str, ...]:
    """What the names of tensors begin with that belong to no layer of the graph."""
    first = hparams.n_layers
    return tuple(f"blk.{i}." for i in range(first, first + hparams.n_drafting_layers))


def context_of(hparams: HParams, options: GraphOptions) -> int:
    """The largest number of positions of a sequence."""
    return hparams.max_context if options.max_context is None else options.max_context


def model_name(metadata: Metadata) -> str:
    """A short name for the program: the model's own, in characters that need no quoting."""
    name = metadata.get_str("general.name", metadata.get_str("general.architecture"))
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-").lower()[:64] or "model"
