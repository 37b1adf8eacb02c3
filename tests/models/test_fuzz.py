"""Random hyperparameters, tensors and types: a graph comes out, or one of our errors, and
nothing else."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np

from ggufc.compiler.errors import CompileError
from ggufc.compiler.gguf import GGUFFile
from ggufc.compiler.inspection import inspect_gguf
from ggufc.compiler.models import GraphOptions, build
from tests.support.fixtures import SMALL
from tests.support.small_models import architecture, small_model
from tests.support.tiny_gguf import TinyModel, TinyTensor, tiny_model

ROUNDS = 400
ARCHITECTURES = ("llama", "qwen2", "qwen3", "gemma3")
VALUES: tuple[Any, ...] = (
    0, 1, 2, 3, 7, 64, 2**31, 2**32 - 1, (-1, "i32"), (2**63, "u64"), 0.0, 1e-30, 1e30, -1.0,
    float("nan"), float("inf"), True, False, "linear", "", "yarn",
    ([], "u32"), [1, 2], [4, 4, 4], [0.5], ["a"], [[1], [2]], [True, False],
)  # fmt: skip
KEYS = (
    "rope.scaling.type", "rope.scaling.factor", "rope.scale_linear", "rope.freq_base_swa",
    "attention.sliding_window", "attention.sliding_window_pattern", "attention.scale",
    "attn_logit_softcapping", "final_logit_softcapping", "vocab_size", "expert_count",
)  # fmt: skip
MORE_KEYS = (
    "rope.scaling.type", "rope.scaling.factor", "rope.scaling.original_context_length",
    "rope.scaling.attn_factor", "rope.scaling.yarn_beta_fast", "rope.dimension_count_swa",
    "rope.dimension_sections", "attention.key_length_swa", "attention.shared_kv_layers",
    "attention.clamp_kqv", "attention.max_alibi_bias", "embedding_length_per_layer_input",
    "attention.sliding_window", "attention.sliding_window_pattern", "use_parallel_residual",
)  # fmt: skip
ROUNDS_OF_EACH = 3


def damage(model: TinyModel, random_: random.Random) -> None:
    """Change a few keys or tensors."""
    architecture = model.metadata["general.architecture"]
    for _ in range(random_.randrange(1, 3)):
        kind = random_.randrange(4)
        if kind == 0:
            model.metadata[f"{architecture}.{random_.choice(KEYS)}"] = random_.choice(VALUES)
        elif kind == 1:
            model.metadata[random_.choice(list(model.metadata))] = random_.choice(VALUES)
        elif kind == 2:
            model.tensors.pop(random_.choice(list(model.tensors)))
        else:
            shape = tuple(random_.choice((1, 2, 32, 64)) for _ in range(random_.randrange(4)))
            name = random_.choice([*model.tensors, "rope_freqs.weight", "blk.0.attn_qkv.weight"])
            model.tensors[name] = TinyTensor.of(np.ones(shape))


def damage_small(model: TinyModel, random_: random.Random) -> None:
    """Change a few of the keys or tensors of a model of any architecture."""
    name = architecture(model)
    keys = [*MORE_KEYS, *(key.removeprefix(f"{name}.") for key in model.metadata if name in key)]
    for _ in range(random_.randrange(1, 3)):
        kind, tensor = random_.randrange(3), random_.choice(list(model.tensors))
        if kind == 0:
            model.metadata[f"{name}.{random_.choice(keys)}"] = random_.choice(VALUES)
        elif kind == 1:
            model.tensors.pop(tensor)
        else:
            shape = tuple(random_.choice((1, 2, 32, 96)) for _ in range(random_.randrange(4)))
            model.tensors[tensor] = TinyTensor.of(np.ones(shape))


def test_damaged_models_of_every_architecture(tmp_path: Path) -> None:
    random_ = random.Random(0)
    messages = []
    for name in SMALL * ROUNDS_OF_EACH:
        model = small_model(name.removeprefix("small/"))
        damage_small(model, random_)
        gguf = GGUFFile.open(model.write(tmp_path / "small.gguf"))
        try:
            build(gguf, GraphOptions())
        except CompileError as error:
            messages.append(str(error))
    assert 0 < len(messages) < len(SMALL) * ROUNDS_OF_EACH
    assert not [message for message in messages if "\n" in message]


def test_damaged_models_are_built_or_refused(tmp_path: Path) -> None:
    random_ = random.Random(0)
    messages = []
    for _ in range(ROUNDS):
        model = tiny_model(random_.choice(ARCHITECTURES), n_layers=1)
        damage(model, random_)
        path = model.write(tmp_path / "tiny.gguf")
        try:
            build(GGUFFile.open(path), GraphOptions())
        except CompileError as error:
            messages.append(str(error))
        inspect_gguf(path)
    assert 0 < len(messages) < ROUNDS
    assert not [message for message in messages if "\n" in message or len(message) > 1200]
