"""The ops of the IR, one file a family; importing this package registers them all in `OPS`."""

from ggufc.ir.ops import (
    activation,
    attention,
    elementwise,
    embedding,
    fused,
    linear,
    norm,
    rope,
    shape,
    split_attention,
)

__all__ = [
    "activation",
    "attention",
    "elementwise",
    "embedding",
    "fused",
    "linear",
    "norm",
    "rope",
    "shape",
    "split_attention",
]
