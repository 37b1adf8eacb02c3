"""Files of architectures with recurrent layers whose sizes do not go together: one line each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ggufc.compiler.errors import ModelError
from ggufc.compiler.gguf import GGUFFile
from ggufc.compiler.models import GraphOptions, build
from tests.support.tiny_gguf import tiny_model

SIZES = {"conv_kernel": 4, "inner_size": 64, "state_size": 8, "time_step_rank": 4, "group_count": 2}

REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "no heads": (
        "qwen35",
        {"attention.head_count": 0, "attention.head_count_kv": 0, "full_attention_interval": 2},
        r"head_count_kv' is 0, allowed are 1 to",
    ),
    "no heads beside": (
        "falcon-h1",
        {"attention.head_count": 0, "attention.head_count_kv": 0},
        r"head_count_kv' is 0, allowed are 1 to",
    ),
    "no convolution": ("mamba", {"ssm.conv_kernel": 1}, r"ssm\.conv_kernel' is 1, allowed are 2"),
    "no state": ("mamba", {"ssm.state_size": 0}, r"ssm\.state_size' is 0, allowed are 1 to"),
    "heads": (
        "mamba2",
        {"ssm.time_step_rank": 6, "attention.head_count": 0, "attention.head_count_kv": 0},
        r"the width of the state space 64 is no multiple of 6",
    ),
    "groups": (
        "mamba2",
        {"ssm.group_count": 3, "attention.head_count": 0, "attention.head_count_kv": 0},
        r"the number of heads of the state space 4 is no multiple of 3",
    ),
    "layers": ("qwen35", {"attention.recurrent_layers": [True]}, r"has 1 values, wanted 2"),
    "attention elsewhere": ("mamba", {}, r"layer 0 is not recurrent"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_sizes_that_do_not_go_together(case: str, tmp_path: Path) -> None:
    architecture, keys, message = REFUSED[case]
    model = tiny_model("llama")
    for key in [key for key in model.metadata if key.startswith("llama.")]:
        model.metadata[key.replace("llama.", f"{architecture}.", 1)] = model.metadata.pop(key)
    model.metadata["general.architecture"] = architecture
    for name, value in {**{f"ssm.{k}": v for k, v in SIZES.items()}, **keys}.items():
        model.metadata[f"{architecture}.{name}"] = value
    gguf = GGUFFile.open(model.write(tmp_path / "model.gguf"))
    with pytest.raises(ModelError, match=message) as caught:
        build(gguf, GraphOptions())
    assert "\n" not in str(caught.value)
