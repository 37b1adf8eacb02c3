"""The family of small models as `TinyModel`s: to be damaged, or quantised."""

from __future__ import annotations

from functools import cache

import numpy as np

from ggufc.compiler.gguf import GGUFArray, GGUFFile
from tests.support.fixtures import model_fixture
from tests.support.tiny_gguf import TinyModel, TinyTensor

BLOCK = 32


def small_model(name: str) -> TinyModel:
    """A copy of the small model `name`, whose dictionaries may be changed."""
    kept = _read(name)
    return TinyModel(dict(kept.metadata), dict(kept.tensors))


@cache
def _read(name: str) -> TinyModel:
    model = TinyModel()
    with GGUFFile.open(model_fixture(f"small/{name}").path) as gguf:
        for key, value in gguf.metadata.values_by_key.items():
            is_array = isinstance(value, GGUFArray)
            kind = value.kind if is_array else gguf.metadata.kinds[key]
            model.metadata[key] = (list(value) if is_array else value, kind)
        for key, info in gguf.tensors.items():
            data = bytes(gguf.tensor_bytes(key))
            model.tensors[key] = TinyTensor(info.type_name, info.shape, data)
    return model


def architecture(model: TinyModel) -> str:
    """The architecture's name."""
    value, _ = model.metadata["general.architecture"]
    return str(value)


def in_blocks(model: TinyModel) -> TinyModel:
    """The model with all matrices in q8_0 whose rows are made of whole blocks."""
    for name, tensor in model.tensors.items():
        if len(tensor.shape) == 2 and tensor.shape[1] % BLOCK == 0:
            model.tensors[name] = TinyTensor("q8_0", tensor.shape, q8_0(tensor.numpy()))
    return model


def q8_0(values: np.ndarray) -> bytes:
    """Blocks of a float16 scale and 32 signed bytes."""
    rows = values.reshape(-1, BLOCK)
    blocks = np.zeros(len(rows), [("d", "<f2"), ("qs", "i1", BLOCK)])
    blocks["d"] = np.abs(rows).max(axis=1) / 127
    scale = blocks["d"].astype(np.float32)[:, None]
    blocks["qs"] = np.clip(np.rint(rows / np.where(scale == 0, 1, scale)), -127, 127)
    return blocks.tobytes()
