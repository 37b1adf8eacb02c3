"""The ops of the IR, one file a family; importing this package registers them all in `OPS`."""

from ggufc.ir.ops import (
    activation,
    attention,
    bidirectional_attention,
    elementwise,
    embedding,
    experts,
    fused,
    linear,
    norm,
    recurrent,
    rope,
    routing,
    shape,
    split_attention,
)

__all__ = [
    "activation",
    "attention",
    "bidirectional_attention",
    "elementwise",
    "embedding",
    "experts",
    "fused",
    "linear",
    "norm",
    "recurrent",
    "rope",
    "routing",
    "shape",
    "split_attention",
]
