"""Norms of the residual stream."""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from ggufc.compiler.models.blocks.basic import width
from ggufc.compiler.models.network import Scope
from ggufc.ir import Value

Norm: TypeAlias = Callable[[Scope, str, Value], Value]


def rms_norm(at: Scope, name: str, x: Value) -> Value:
    """Root-mean-square norm over the last axis of `x`, by the vector `name`; files of falcon-h1
    call theirs so without ".weight" after it."""
    bare = f"{at.prefix}{name}"
    weight = at.tensors.vector(bare if at.tensors.has(bare) else f"{bare}.weight", width(x))
    return at.emit("rms_norm", x, weight, eps=at.hparams.norm_eps, name=name)


def bare_rms_norm(at: Scope, name: str, x: Value) -> Value:
    """Root-mean-square norm over the last axis of `x`, without weights: all of them are 1."""
    ones = at.tensors.constant(f"ones.{width(x)}", np.ones(width(x), np.float32))
    return at.emit("rms_norm", x, ones, eps=at.hparams.norm_eps, name=name)


def layer_norm(at: Scope, name: str, x: Value) -> Value:
    """Norm to mean 0 and variance 1 over the last axis of `x`, times the vector `name`, plus its
    bias where the file has one."""
    full = f"{at.prefix}{name}"
    weight = at.tensors.vector(f"{full}.weight", width(x))
    bias = at.tensors.vector(f"{full}.bias", width(x)) if at.tensors.has(f"{full}.bias") else None
    return at.emit("layer_norm", x, weight, bias, eps=at.hparams.norm_eps, name=name)


def bare_layer_norm(at: Scope, name: str, x: Value) -> Value:
    """Norm to mean 0 and variance 1 over the last axis of `x`, without weights."""
    return at.emit("layer_norm", x, eps=at.hparams.norm_eps, name=name)
