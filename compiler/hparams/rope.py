"""The keys of rotary embeddings."""

import math
from dataclasses import replace

from ggufc.compiler.gguf import GGUFArray
from ggufc.compiler.gguf.constants import INTEGER_KINDS
from ggufc.compiler.hparams.keys import Keys
from ggufc.compiler.hparams.limits import MAX_CONTEXT
from ggufc.compiler.hparams.params import Rope, Yarn

MAX_BASE = 1e12
FACTOR = (1e-3, 1e6)
KINDS = ("none", "linear", "yarn", "longrope")
# How many positions of a token a file may give: time, height, width and one more.
MAX_SECTIONS = 4


def read_ropes(keys: Keys, head_dim: int, local_head_dim: int) -> tuple[Rope, Rope]:
    """Rotary embeddings of layers that see the whole context, and of those that see a window.

    Where the latter have a base of their own, or the architecture says so, they are not scaled."""
    dim = read_dim(keys, "rope.dimension_count", head_dim, head_dim)
    whole = read_scaling(keys, Rope(keys.real("rope.freq_base", 1.0, MAX_BASE, 10000.0), dim))
    local_dim = read_dim(keys, "rope.dimension_count_swa", local_head_dim, min(dim, local_head_dim))
    if keys.has("rope.freq_base_swa"):
        theta = keys.real("rope.freq_base_swa", 1.0, MAX_BASE, whole.theta)
        return whole, Rope(theta, local_dim, divided=False)
    if keys.is_among("unscaled_windows"):
        return whole, Rope(whole.theta, local_dim)
    return whole, replace(whole, dim=local_dim)


def read_dim(keys: Keys, name: str, head_dim: int, default: int) -> int:
    """The number of rotated elements of a head; odd ones cannot be paired."""
    dim = keys.integer(name, 2, head_dim, default)
    if dim % 2:
        raise keys.fail(name, dim, f"are even numbers from 2 to {head_dim}")
    return dim


def read_scaling(keys: Keys, rope: Rope) -> Rope:
    """`rope` with what the file says about stretching it to longer contexts."""
    kind = keys.word("rope.scaling.type", KINDS, "linear")
    old = keys.real("rope.scale_linear", *FACTOR, 0.0)
    factor = keys.real("rope.scaling.factor", *FACTOR, 0.0) or old or 1.0
    original = keys.integer("rope.scaling.original_context_length", 0, MAX_CONTEXT, 0)
    scale = keys.real("rope.scaling.attn_factor", *FACTOR, 1.0)
    rope = replace(rope, scale=scale, short_context=original)
    if kind == "yarn":
        return read_yarn(keys, rope, factor)
    return replace(rope, factor=factor) if kind == "linear" else rope


def read_yarn(keys: Keys, rope: Rope, factor: float) -> Rope:
    """`rope` stretched by `factor` as YaRN does, sines and cosines included.

    The latter are multiplied by m(1) / m(log multiplier), where m(x) = 1 + x ln(factor) / 10;
    by 1 where a multiplier goes into the scale of the scores instead."""
    yarn = Yarn(
        original_context=rope.short_context or keys.integer("context_length", 1, MAX_CONTEXT),
        beta_fast=keys.real("rope.scaling.yarn_beta_fast", 0.0, 1e6, 32.0),
        beta_slow=keys.real("rope.scaling.yarn_beta_slow", 0.0, 1e6, 1.0),
        extrapolation=keys.real("rope.scaling.yarn_ext_factor", 0.0, 1.0, 1.0),
    )
    multiplier = keys.real("rope.scaling.yarn_log_multiplier", 0.0, 1e3, 0.0)
    stretch = 0.1 * math.log(max(1.0, factor))
    own = (1.0 + stretch) / (1.0 + multiplier * stretch)
    if multiplier and keys.is_among("stretched_scores"):
        own = 1.0
    scale = keys.real("rope.scaling.yarn_attn_factor", *FACTOR, own)
    return replace(rope, factor=factor, yarn=yarn, scale=rope.scale * scale)


def read_sections(keys: Keys) -> tuple[int, ...]:
    """How many pairs turn by each of a token's positions, where it has several; for text these are
    all the same. Empty where it has one."""
    name = "rope.dimension_sections"
    sections = keys.metadata.get_array(keys.full(name), INTEGER_KINDS, None)
    if not isinstance(sections, GGUFArray):
        return ()
    if len(sections) > MAX_SECTIONS:
        raise keys.fail(name, f"{len(sections)} numbers", f"are at most {MAX_SECTIONS}")
    return tuple(int(n) for n in sections) if any(sections) else ()
