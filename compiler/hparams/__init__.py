"""Hyperparameters: from GGUF metadata to one validated, frozen object.

This package is the only one that knows the keys of hyperparameters. What a file may leave out has
its default here, or, where an architecture has its own, in `models/architectures.yaml`. Every value
is checked before it is used: the file may be hostile.
"""

from ggufc.compiler.hparams.keys import architecture_data
from ggufc.compiler.hparams.params import (
    Experts,
    HParams,
    Latent,
    LayerParams,
    Recurrent,
    Rope,
    Xielu,
    Yarn,
)
from ggufc.compiler.hparams.reader import read_hparams

__all__ = [
    "Experts",
    "HParams",
    "Latent",
    "LayerParams",
    "Recurrent",
    "Rope",
    "Xielu",
    "Yarn",
    "architecture_data",
    "read_hparams",
]
