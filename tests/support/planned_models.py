"""Tiny models at the stages that backends see, with their weights in both forms."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt

from ggufc.backends.base import CompiledObject
from ggufc.backends.llvm import compile_module
from ggufc.backends.llvm.jit import NativeBackend
from ggufc.backends.llvm.layouts import RAW, pack_tensor
from ggufc.backends.reference import ReferenceBackend
from ggufc.compiler.gguf import GGUFFile
from ggufc.compiler.models import GraphOptions, build
from ggufc.compiler.passes.quantize_activations import Compute
from ggufc.compiler.pipelines import to_fused, to_planned
from ggufc.compiler.sources import weight_bytes
from ggufc.ir import Module, Weight, decode
from tests.support.random_weights import random_weight_bytes
from tests.support.tiny_gguf import TinyModel, TinyTensor, tiny_model

# Sizes that matrices of every block type can have.
QUANTISED: dict[str, Any] = {"dim": 256, "hidden_dim": 256, "head_dim": 64}
MIXED = (
    "q2_k", "q3_k", "iq1_m", "iq2_s", "iq3_xxs", "iq3_s", "iq4_nl", "iq4_xs", "tq2_0", "mxfp4",
    "nvfp4", "q1_0", "q2_0", "q5_0", "q6_k", "q4_k",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class PlannedModel:
    """A module at stage planned; `raw` has each weight's bytes as in the file, by name."""

    planned: Module
    raw: dict[str, npt.NDArray[np.uint8]]

    def values(self, weight: Weight) -> npt.NDArray[np.float32]:
        """The float32 values of a weight, for the interpreter."""
        content = self.raw[weight.name].tobytes()
        return decode(weight.type.dtype.name, content, weight.type.max_shape)

    def packed(self) -> npt.NDArray[np.uint8]:
        """The packed weights."""
        placed = [w for w in self.planned.weights.values() if w.offset is not None]
        out = np.zeros(max((_end(w) for w in placed), default=0), np.uint8)
        for weight in placed:
            content = self.raw[weight.name]
            if weight.layout != RAW.name:
                content = pack_tensor(weight.type.dtype.name, content, weight.type.max_shape)
            out[_end(weight) - len(content) : _end(weight)] = content
        return out

    def reference(self, **options: Any) -> ReferenceBackend:
        """The interpreter on this module."""
        return ReferenceBackend(self.planned, self.values, **options)

    @cache  # noqa: B019 -- models live as long as the tests
    def compiled(self, isa: str) -> CompiledObject:
        """The object of this module for one instruction set."""
        return compile_module(self.planned, isa)

    @contextmanager
    def native(self, isa: str, **options: Any) -> Iterator[NativeBackend]:
        """Machine code of this module."""
        with NativeBackend(self.compiled(isa), self.planned, self.packed(), **options) as backend:
            yield backend


def _end(weight: Weight) -> int:
    assert weight.offset is not None
    assert weight.nbytes is not None
    return weight.offset + weight.nbytes


def plan_model(
    model: TinyModel, options: GraphOptions | None = None, compute: Compute | None = None
) -> PlannedModel:
    """Take a tiny model through the frontend and all passes."""
    with TemporaryDirectory() as folder:
        path = model.write(Path(folder) / "tiny.gguf")
        with GGUFFile.open(path) as gguf:
            graph = build(gguf, options or GraphOptions(max_tokens=32, kv_type="f32"))
            planned = to_planned(to_fused(graph, compute or Compute()))
            names = [n for n, w in planned.weights.items() if w.offset is not None]
            raw = {n: weight_bytes(gguf, planned.weights[n]).copy() for n in names}
    return PlannedModel(planned, raw)


@cache
def mixed_model() -> PlannedModel:
    """A tiny llama whose matrices are of many types: each whose values are looked up or have few
    bits, and some of the others."""
    model, rng = tiny_model(**QUANTISED), np.random.default_rng(3)
    matrices = [name for name, tensor in model.tensors.items() if len(tensor.shape) == 2]
    for name, type_name in zip(matrices, cycle(MIXED), strict=False):
        shape = model.tensors[name].shape
        content = random_weight_bytes(rng, type_name, shape)
        model.tensors[name] = TinyTensor(type_name, shape, content)
    return plan_model(model)


@cache
def planned_model(architecture: str, type_name: str = "f32", **sizes: Any) -> PlannedModel:
    """A tiny model of an architecture; all matrices are of one type."""
    return plan_model(tiny_model(architecture, type_name=type_name, **sizes))
