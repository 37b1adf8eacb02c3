"""Hyperparameters: from GGUF metadata to one validated, frozen object.

This is the only file that knows the keys of hyperparameters. What a file may leave out has its
default here, or, where an architecture has its own, in `models/architectures.yaml`. Every value is
checked before it is used: the file may be hostile.
"""

import math
from dataclasses import asdict, dataclass
from functools import cache
from importlib import resources
from typing import Any

import yaml

from ggufc.compiler.errors import ModelError, quoted
from ggufc.compiler.gguf import GGUFArray, Metadata
from ggufc.compiler.gguf.constants import INTEGER_KINDS

MAX_LAYERS = 1024
MAX_HEADS = 1 << 14
MAX_HEAD_DIM = 1 << 14
MAX_DIM = 1 << 20
MAX_HIDDEN_DIM = 1 << 24
MAX_VOCABULARY = 1 << 24
MAX_CONTEXT = 1 << 30

# Keys that change what a model computes and that no graph here takes into account, with the values
# that change nothing. (0.0 stands for "none" in multipliers, as in llama.cpp.)
NEUTRAL: dict[str, tuple[Any, ...]] = {
    "attention.causal": (True,),
    "attention.clamp_kqv": (0.0,),
    "attention.max_alibi_bias": (0.0,),
    "embedding_scale": (0.0, 1.0),
    "expert_count": (0,),
    "logit_scale": (0.0, 1.0),
    "residual_scale": (0.0, 1.0),
    "use_parallel_residual": (False,),
}


@dataclass(frozen=True)
class Rope:
    """Rotary embedding of one layer: base of the frequencies, rotated elements of a head, and the
    factor that positions are divided by."""

    theta: float
    dim: int
    factor: float = 1.0


@dataclass(frozen=True)
class LayerParams:
    """What may differ from layer to layer. `window` is how many positions a token sees, itself
    included; 0 stands for all."""

    n_heads: int
    n_kv_heads: int
    hidden_dim: int
    window: int
    rope: Rope


@dataclass(frozen=True)
class HParams:
    """The hyperparameters of a model. `head_dim` is the width of a query or key head, `value_dim`
    of a value head; a softcap of 0 stands for none; `max_context` is what the model was made for.
    """

    architecture: str
    n_layers: int
    dim: int
    vocab_size: int
    max_context: int
    head_dim: int
    value_dim: int
    norm_eps: float
    attention_scale: float
    attention_softcap: float
    logit_softcap: float
    layers: tuple[LayerParams, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and strings by name; what is the same in all layers once, otherwise a
        list."""
        values = asdict(self)
        layers = values.pop("layers")
        for layer in layers:
            layer |= {f"rope_{name}": value for name, value in layer.pop("rope").items()}
        for name in layers[0]:
            column = [layer[name] for layer in layers]
            values[name] = column[0] if all(v == column[0] for v in column) else column
        return values


@cache
def architecture_data() -> dict[str, Any]:
    """The contents of `models/architectures.yaml`."""
    text = (
        resources.files("ggufc.compiler.models").joinpath("architectures.yaml").read_text("utf-8")
    )
    data: dict[str, Any] = yaml.safe_load(text)
    return data


class Keys:
    """The keys of one architecture, looked up in the file, then in the defaults of the
    architecture, then in those of the caller; without any a key is required. Every number is
    checked against its range."""

    def __init__(self, metadata: Metadata) -> None:
        """Take the architecture from `general.architecture`."""
        self.metadata = metadata
        self.architecture = metadata.get_str("general.architecture")
        self.defaults: dict[str, Any] = architecture_data()["defaults"].get(self.architecture, {})

    def full(self, name: str) -> str:
        """The whole key."""
        return f"{self.architecture}.{name}"

    def fail(self, name: str, value: object, allowed: str) -> ModelError:
        """An error about one key, to be raised."""
        shown_value = quoted(value) if isinstance(value, str) else value
        return ModelError(
            f"{self.metadata.label}: key {quoted(self.full(name))} is {shown_value},"
            f" allowed {allowed}"
        )

    def default(self, name: str, default: Any) -> tuple[Any, ...]:
        """The arguments that give a getter its default; none when the key is required."""
        value = self.defaults.get(name, default)
        return () if value is None else (value,)

    def integer(self, name: str, low: int, high: int, default: int | None = None) -> int:
        """An integer from `low` to `high`."""
        value: int = self.metadata.get_int(self.full(name), *self.default(name, default))
        if not low <= value <= high:
            raise self.fail(name, value, f"are {low} to {high}")
        return value

    def real(self, name: str, low: float, high: float, default: float | None = None) -> float:
        """A finite number above `low` (or equal to it if it is the default) and at most `high`."""
        value: float = self.metadata.get_float(self.full(name), *self.default(name, default))
        value = self.metadata.as_written(self.full(name), value)
        if value != default and not low < value <= high:
            raise self.fail(name, value, f"are numbers above {low:g} up to {high:g}")
        return value

    def array(self, name: str, kinds: frozenset[str], length: int) -> GGUFArray:
        """An array of `length` values."""
        values = self.metadata.get_array(self.full(name), kinds)
        if len(values) != length:
            raise ModelError(
                f"{self.metadata.label}: key {quoted(self.full(name))} has {len(values)} values,"
                f" wanted {length}, one for each layer"
            )
        return values

    def per_layer(
        self, name: str, n_layers: int, high: int, default: tuple[int, ...] = ()
    ) -> tuple[int, ...]:
        """One integer from 1 to `high` for each layer, stored as one number for all or as an
        array."""
        value = self.metadata.get(self.full(name))
        if value is None and default:
            return default
        if not isinstance(value, GGUFArray):
            return (self.integer(name, 1, high),) * n_layers
        numbers = self.array(name, INTEGER_KINDS, n_layers)
        for number in numbers:
            if not 1 <= number <= high:
                raise self.fail(name, number, f"are 1 to {high}")
        return tuple(numbers)


def read_hparams(metadata: Metadata) -> HParams:
    """The hyperparameters in `metadata`; a ModelError or GGUFError names the key, the value and
    what is allowed."""
    keys = Keys(metadata)
    for name, allowed in NEUTRAL.items():
        value = metadata.as_written(keys.full(name), allowed[0])
        if value not in allowed:
            raise keys.fail(name, value, f"is only {allowed[-1]}: nothing else is supported")
    n_layers = keys.integer("block_count", 1, MAX_LAYERS)
    dim = keys.integer("embedding_length", 1, MAX_DIM)
    n_heads = keys.per_layer("attention.head_count", n_layers, MAX_HEADS)
    head_dim = keys.integer(
        "attention.key_length", 1, MAX_HEAD_DIM, default_head_dim(keys, dim, n_heads)
    )
    return HParams(
        architecture=keys.architecture,
        n_layers=n_layers,
        dim=dim,
        vocab_size=read_vocab_size(keys),
        max_context=keys.integer("context_length", 1, MAX_CONTEXT),
        head_dim=head_dim,
        value_dim=keys.integer("attention.value_length", 1, MAX_HEAD_DIM, head_dim),
        norm_eps=keys.real("attention.layer_norm_rms_epsilon", 0.0, 0.1),
        attention_scale=keys.real("attention.scale", 0.0, 1e6, 0.0) or 1.0 / math.sqrt(head_dim),
        attention_softcap=keys.real("attn_logit_softcapping", 0.0, 1e6, 0.0),
        logit_softcap=keys.real("final_logit_softcapping", 0.0, 1e6, 0.0),
        layers=read_layers(keys, n_heads, head_dim),
    )


def default_head_dim(keys: Keys, dim: int, n_heads: tuple[int, ...]) -> int:
    """The width of a head where no key gives it: the heads of a layer share the model's width."""
    if keys.full("attention.key_length") not in keys.metadata and dim % n_heads[0]:
        raise keys.fail("attention.head_count", n_heads[0], f"are divisors of the width {dim}")
    return max(1, dim // n_heads[0])


def read_vocab_size(keys: Keys) -> int:
    """The number of tokens: as many as the vocabulary lists, or as the key says where none is
    listed."""
    tokens = keys.metadata.get_array("tokenizer.ggml.tokens", None, None)
    if tokens is not None and len(tokens):
        return len(tokens)
    return keys.integer("vocab_size", 1, MAX_VOCABULARY)


def read_layers(keys: Keys, n_heads: tuple[int, ...], head_dim: int) -> tuple[LayerParams, ...]:
    """The values that may differ from layer to layer."""
    n = len(n_heads)
    n_kv_heads = keys.per_layer("attention.head_count_kv", n, MAX_HEADS, default=n_heads)
    for heads, kv_heads in zip(n_heads, n_kv_heads, strict=True):
        if heads % kv_heads:
            raise keys.fail(
                "attention.head_count_kv", kv_heads, f"are divisors of the {heads} query heads"
            )
    hidden = keys.per_layer("feed_forward_length", n, MAX_HIDDEN_DIM)
    window = keys.integer("attention.sliding_window", 0, MAX_CONTEXT, 0)
    windows = [window if windowed else 0 for windowed in read_window_pattern(keys, n)]
    whole, local = read_ropes(keys, head_dim)
    return tuple(
        LayerParams(
            n_heads[i], n_kv_heads[i], hidden[i], windows[i], local if windows[i] else whole
        )
        for i in range(n)
    )


def read_window_pattern(keys: Keys, n_layers: int) -> list[bool]:
    """For each layer whether it sees a window only: a list of booleans, or a number n that leaves
    every n-th layer (the last of each n) the whole context; 0 leaves it to none."""
    name = "attention.sliding_window_pattern"
    if isinstance(keys.metadata.get(keys.full(name)), GGUFArray):
        return [bool(flag) for flag in keys.array(name, INTEGER_KINDS | {"bool"}, n_layers)]
    period = keys.integer(name, 0, MAX_LAYERS, 0)
    return [period == 0 or i % period < period - 1 for i in range(n_layers)]


def read_ropes(keys: Keys, head_dim: int) -> tuple[Rope, Rope]:
    """Rotary embeddings of layers that see the whole context, and of those that see a window. Where
    the latter have a base of their own they are not scaled."""
    dim = keys.integer("rope.dimension_count", 2, head_dim, head_dim)
    if dim % 2:
        raise keys.fail("rope.dimension_count", dim, f"are even numbers from 2 to {head_dim}")
    whole = Rope(keys.real("rope.freq_base", 1.0, 1e12, 10000.0), dim, read_rope_factor(keys))
    theta = keys.real("rope.freq_base_swa", 1.0, 1e12, whole.theta)
    has_own = (
        "rope.freq_base_swa" in keys.defaults or keys.full("rope.freq_base_swa") in keys.metadata
    )
    return whole, Rope(theta, dim) if has_own else whole


def read_rope_factor(keys: Keys) -> float:
    """What positions are divided by: 1 unless the file asks for linear scaling."""
    kind = keys.metadata.get_str(keys.full("rope.scaling.type"), "linear")
    if kind not in ("none", "linear"):
        raise keys.fail("rope.scaling.type", kind, "are 'none' and 'linear'")
    old = keys.real("rope.scale_linear", 1e-3, 1e6, 0.0)
    factor = keys.real("rope.scaling.factor", 1e-3, 1e6, 0.0) or old
    return factor if kind == "linear" and factor else 1.0
