"""The page about architectures says what graphs have, and each of these has a test model."""

from __future__ import annotations

from tests.support.architecture_page import all_models, decoders, page
from tests.support.shared import ROOT

# What the project set out to support, by GGUF's names.
WANTED = """
llama qwen2 qwen2moe qwen3 qwen3moe qwen3next qwen35 qwen35moe gemma gemma2 gemma3 gemma4 phi2 phi3
starcoder starcoder2 stablelm gptneox gpt2 falcon mpt bloom refact codeshell olmo olmo2 olmoe
command-r cohere2 glm4 glm4moe chatglm exaone exaone4 internlm2 baichuan xverse orion granite
granitemoe granitehybrid smollm3 minicpm minicpm3 gpt-oss deepseek2 lfm2 lfm2moe mamba mamba2
falcon-h1 nemotron ernie4_5 ernie4_5-moe hunyuan-dense seed_oss apertus arcee bitnet
""".split()


def test_the_page_is_generated_from_the_graphs() -> None:
    assert (ROOT / "docs" / "architectures.md").read_text(encoding="utf-8") == page()


def test_every_architecture_has_a_model_with_logits_of_another_implementation() -> None:
    tested = {facts.hparams.architecture for facts in all_models()}
    assert set(WANTED) <= set(decoders())
    assert not set(decoders()) - tested


def cells(architecture: str) -> list[str]:
    rows = [line for line in page().splitlines() if line.startswith(f"| `{architecture}` |")]
    return [cell.strip() for line in rows for cell in line.split("|")[2:-1]]


def test_features_are_found() -> None:
    """Some of each kind, known from the models' publications."""
    assert "softcap, softcap of logits" in ", ".join(cells("gemma2"))
    assert "parallel" in cells("phi2")
    assert "parallel" in cells("command-r")
    assert "parallel" not in cells("llama")
    assert "ALiBi" in cells("bloom")
    assert "learned" in cells("gpt2")
    assert "gated delta rule" in ", ".join(cells("qwen3next"))
    assert "sinks" in ", ".join(cells("gpt-oss"))
    assert "after rotation" in ", ".join(cells("hunyuan-dense"))
    assert "over all heads" in cells("olmo2")
    assert "groups" in ", ".join(cells("deepseek2"))
    assert "shared caches" in cells("gemma4")
    assert "relu²" in cells("nemotron")
