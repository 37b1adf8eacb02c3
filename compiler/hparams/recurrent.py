"""The keys of recurrent layers."""

from collections.abc import Sequence

from ggufc.compiler.gguf import GGUFArray
from ggufc.compiler.gguf.constants import INTEGER_KINDS
from ggufc.compiler.hparams.keys import Keys, architecture_data
from ggufc.compiler.hparams.limits import MAX_DIM, MAX_HEADS, MAX_HIDDEN_DIM, MAX_LAYERS
from ggufc.compiler.hparams.params import Recurrent

MAX_CONV_WIDTH = 64
MAX_STATE_DIM = 1 << 12
DEFAULT_PERIOD = 4


def may_recur(keys: Keys) -> bool:
    """Whether the architecture has recurrent layers, which need no heads."""
    return keys.architecture in architecture_data()["recurrent"]


def read_recurrent(keys: Keys, n_kv_heads: Sequence[int], dim: int) -> list[Recurrent | None]:
    """The recurrent part of each layer, None where it has none; `dim` is the width of the model."""
    n_layers = len(n_kv_heads)
    which = architecture_data()["recurrent"].get(keys.architecture)
    if which is None:
        return [None] * n_layers
    part = read_part(keys, dim)
    if which == "listed":
        chosen = read_list(keys, n_layers)
    else:
        chosen = [which == "every" or heads == 0 for heads in n_kv_heads]
    return [part if is_chosen else None for is_chosen in chosen]


def attending(
    keys: Keys, n_kv_heads: Sequence[int], recurrent: Sequence[Recurrent | None]
) -> list[int]:
    """The number of key and value heads of each layer: none where it is recurrent instead."""
    beside = architecture_data()["recurrent"].get(keys.architecture) == "every"
    found = []
    for heads, part in zip(n_kv_heads, recurrent, strict=True):
        attends = part is None or beside
        if attends and heads == 0:
            raise keys.fail("attention.head_count_kv", 0, f"are 1 to {MAX_HEADS}")
        found.append(heads if attends else 0)
    return found


def read_list(keys: Keys, n_layers: int) -> list[bool]:
    """For each layer whether it is recurrent: a list, or all but every n-th (the last of each
    n)."""
    name = "attention.recurrent_layers"
    if isinstance(keys.metadata.get(keys.full(name)), GGUFArray):
        count = keys.integer("block_count", n_layers, MAX_LAYERS)  # those for drafting included
        flags = [bool(flag) for flag in keys.array(name, INTEGER_KINDS | {"bool"}, count)]
        return flags[:n_layers]
    period = keys.integer("full_attention_interval", 1, MAX_LAYERS, DEFAULT_PERIOD)
    return [i % period < period - 1 for i in range(n_layers)]


def read_part(keys: Keys, dim: int) -> Recurrent:
    """The sizes of the recurrent part of a layer."""
    if keys.has("shortconv.l_cache"):
        return Recurrent(keys.integer("shortconv.l_cache", 2, MAX_CONV_WIDTH), dim)
    return Recurrent(
        conv_width=keys.integer("ssm.conv_kernel", 2, MAX_CONV_WIDTH),
        inner_dim=keys.integer("ssm.inner_size", 1, MAX_HIDDEN_DIM),
        state_dim=keys.integer("ssm.state_size", 1, MAX_STATE_DIM),
        rank=keys.integer("ssm.time_step_rank", 1, MAX_DIM),
        groups=keys.integer("ssm.group_count", 1, MAX_HEADS, 1),
        is_normed=keys.flag("ssm.dt_b_c_rms", False),
    )
