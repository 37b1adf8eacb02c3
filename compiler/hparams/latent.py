"""The keys of attention to latent vectors."""

import math

from ggufc.compiler.hparams.keys import Keys
from ggufc.compiler.hparams.limits import MAX_DIM, MAX_HEAD_DIM
from ggufc.compiler.hparams.params import Latent, Rope


def read_latent(keys: Keys, rope: Rope, key_dim: int, value_dim: int) -> Latent | None:
    """The widths of latent attention, None where a model has the usual one. `key_dim` and
    `value_dim` are those of what is cached: the heads' own, unless keys give these."""
    name = "attention.kv_lora_rank"
    if not keys.has(name) or keys.integer(name, 0, MAX_DIM) == 0:
        return None
    return Latent(
        rank=keys.integer(name, 1, MAX_DIM),
        query_rank=keys.integer("attention.q_lora_rank", 0, MAX_DIM, 0),
        key_dim=keys.integer("attention.key_length_mla", rope.dim + 1, MAX_HEAD_DIM, key_dim),
        value_dim=keys.integer("attention.value_length_mla", 1, MAX_HEAD_DIM, value_dim),
    )


def latent_scale(keys: Keys, latent: Latent, rope: Rope) -> float:
    """What scores are multiplied by: with YaRN more than 1 over the root of a key's width, by the
    square of 1 + ln(factor) times the multiplier of the file."""
    multiplier = keys.real("rope.scaling.yarn_log_multiplier", 0.0, 1e3, 0.0)
    stretch = 1.0 + multiplier * math.log(max(1.0, rope.factor)) if rope.yarn else 1.0
    return stretch * stretch / math.sqrt(latent.key_dim)
