"""The hyperparameters of a model and of its layers: plain, frozen values."""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Yarn:
    """What YaRN needs to know: the context that the model was first trained with, between how many
    turns in that context frequencies pass from the scaled to the unscaled, and how much of the
    unscaled ones there is at most."""

    original_context: int
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    extrapolation: float = 1.0


@dataclass(frozen=True)
class Rope:
    """Rotary embedding of one layer.

    `theta` is the base of the frequencies, `dim` the number of rotated elements of a head,
    `factor` what positions are divided by, `scale` what sines and cosines are multiplied by.
    `divided` says whether the divisors of the file, if it has any, are meant for this layer;
    sequences longer than `short_context`, if that is not 0, have divisors of their own."""

    theta: float
    dim: int
    factor: float = 1.0
    scale: float = 1.0
    yarn: Yarn | None = None
    divided: bool = True
    short_context: int = 0


@dataclass(frozen=True)
class Xielu:
    """The coefficients of the activation of the same name, `xielu`."""

    alpha_n: float
    alpha_p: float
    beta: float
    eps: float


@dataclass(frozen=True)
class Experts:
    """The experts of a layer: `count` MLPs of width `hidden_dim`, of which each token uses `used`,
    and one of width `shared_dim`, if that is not 0, that all tokens use.

    How tokens choose is as the op `route` says: `gating`, whether the weights are `normalized`,
    their `scale`, the `groups` of experts, how many of them are used, and by the sum of how many
    of its best scores a group counts."""

    count: int
    used: int
    hidden_dim: int
    shared_dim: int
    gating: str
    normalized: bool
    scale: float
    groups: int
    groups_used: int
    group_best: int


@dataclass(frozen=True)
class Latent:
    """Attention to keys and values that are kept as one latent vector of `rank` elements a token
    (multi-head latent attention, DeepSeek-AI 2024). A head's query and key have `key_dim` elements,
    the rotated ones included, its value has `value_dim`; `query_rank` is the width that queries
    pass through, 0 for none."""

    rank: int
    query_rank: int
    key_dim: int
    value_dim: int


@dataclass(frozen=True)
class Recurrent:
    """The recurrent part of a layer: a convolution over `conv_width` tokens, and with `state_dim` a
    state space of `inner_dim` rows.

    `rank` is the number of heads, or in models without heads what steps pass through; `groups` of
    heads share their inputs; `is_normed` says whether steps and inputs are normed."""

    conv_width: int
    inner_dim: int
    state_dim: int = 0
    rank: int = 0
    groups: int = 1
    is_normed: bool = False


@dataclass(frozen=True)
class LayerParams:
    """What may differ from layer to layer.

    `head_dim` is the width of a query or key head, `value_dim` of a value head; `window` is how
    many positions a token sees, itself included, 0 for all; scores are multiplied by
    `attention_scale`; `cache` is the layer whose keys and values this one attends to, its own
    number unless it has none. A layer without heads of keys and values has no attention."""

    n_heads: int
    n_kv_heads: int
    head_dim: int
    value_dim: int
    hidden_dim: int
    window: int
    attention_scale: float
    cache: int
    rope: Rope
    xielu: Xielu | None = None
    experts: Experts | None = None
    latent: Latent | None = None
    recurrent: Recurrent | None = None


@dataclass(frozen=True)
class HParams:
    """The hyperparameters of a model.

    A softcap, clamp, bias or scale of 0 stands for none; what a scale means is the architecture's
    business. After the `n_layers` layers a file may have more, which draft further tokens and which
    no graph uses. `max_context` is what the model was made for; `is_rotated` is for architectures
    that may do without rotary embeddings; `per_layer_dim` is the width of the embedding that each
    layer has of its own, 0 for none. A model that `is_causal` can generate text; in any other,
    tokens see those after them, too, and all that it makes is embeddings. `pooling` is what the
    file says about making one embedding of those of all tokens, None if it says nothing."""

    architecture: str
    n_layers: int
    n_drafting_layers: int
    dim: int
    vocab_size: int
    max_context: int
    norm_eps: float
    attention_softcap: float
    logit_softcap: float
    embedding_scale: float
    residual_scale: float
    logit_scale: float
    kqv_clamp: float
    max_alibi_bias: float
    parallel_residual: bool
    is_rotated: bool
    rope_sections: tuple[int, ...]
    per_layer_dim: int
    is_causal: bool
    pooling: str | None
    layers: tuple[LayerParams, ...]

    @property
    def has_windows(self) -> bool:
        """Whether any layer sees a window only."""
        return any(layer.window for layer in self.layers)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and strings by name; what is the same in all layers once, otherwise a
        list."""
        values = asdict(self)
        layers = [flat(layer) for layer in values.pop("layers")]
        for name in dict.fromkeys(name for layer in layers for name in layer):
            column = [layer.get(name) for layer in layers]
            values[name] = column[0] if all(v == column[0] for v in column) else column
        return values


def flat(values: dict[str, Any]) -> dict[str, Any]:
    """Nested dictionaries as one, names joined by `_`."""
    result: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            result |= {f"{name}_{inner}": item for inner, item in flat(value).items()}
        else:
            result[name] = value
    return result
