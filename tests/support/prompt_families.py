"""Families of models as people run them: architectures, tokenizers, and the published chat
templates that are stored here. The tokenizers are those that converted files of a family name."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Family:
    """`architectures` are GGUF's names; `tokenizers` are `tokenizer.ggml.model`, for byte-level
    ones with `tokenizer.ggml.pre` after a stroke; `templates` are names in `tests/data/prompt`."""

    architectures: tuple[str, ...]
    tokenizers: tuple[str, ...]
    templates: tuple[str, ...] = ()


def _family(architectures: str, tokenizers: str, templates: str = "") -> Family:
    return Family(tuple(architectures.split()), tuple(tokenizers.split()), tuple(templates.split()))


FAMILIES = (
    _family(
        "llama",
        "gpt2/llama-bpe",
        "npm-Llama-3-Instruct meta-llama-Llama-3.1-8B-Instruct meta-llama-Llama-3.2-3B-Instruct "
        "NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use fireworks-ai-llama-3-firefunction-v2 "
        "meetkai-functionary-medium-v3.1 meetkai-functionary-medium-v3.2 "
        "deepseek-ai-DeepSeek-R1-Distill-Llama-8B",
    ),
    _family(
        "llama",
        "llama gpt2/tekken",
        "mistralai-Mistral-Nemo-Instruct-2407 Mistral-Small-3.2-24B-Instruct-2506",
    ),
    _family("llama", "gpt2/smollm", "gguf-SmolLM2-Instruct"),
    _family("arcee smollm3", "gpt2/llama-bpe", "HuggingFaceTB-SmolLM3-3B"),
    _family("apertus", "gpt2/tekken", "Apertus-8B-Instruct"),
    _family(
        "baichuan bitnet ernie4_5 ernie4_5-moe internlm2 minicpm minicpm3 nemotron orion xverse",
        "llama",
    ),
    _family("bert nomic-bert", "bert"),
    _family("jina-bert-v2", "bert gpt2/jina-v2-es gpt2/jina-v2-de gpt2/jina-v2-code"),
    _family("llama-embed", "gpt2/llama-bpe"),
    _family("nomic-bert-moe", "t5"),
    _family("bloom", "gpt2/bloom"),
    _family("chatglm", "gpt2/chatglm-bpe"),
    _family("codeshell", "gpt2/codeshell"),
    _family("command-r cohere2", "gpt2/command-r"),
    _family(
        "deepseek2",
        "gpt2/deepseek-llm gpt2/deepseek-coder gpt2/deepseek-v3",
        "npm-DeepSeek-V3 deepseek-ai-DeepSeek-V3.1",
    ),
    _family("deepseek2", "gpt2/gigachat", "GigaChat3.1-10B-A1.8B"),
    _family("deepseek2", "gpt2/glm4", "GLM-4.7-Flash"),
    _family("deepseek2", "gpt2/kimi-k2", "Kimi-K2-Instruct"),
    _family("exaone", "gpt2/exaone"),
    _family("exaone4", "gpt2/exaone4"),
    _family("falcon", "gpt2/falcon gpt2/falcon3"),
    _family("falcon-h1", "gpt2/falcon-h1"),
    _family("gemma gemma2", "llama", "google-gemma-2-2b-it"),
    _family("gemma3", "llama", "npm-Gemma3-it"),
    _family("gemma-embedding", "llama"),
    _family("gemma4", "gemma4", "google-gemma-4-31B-it"),
    _family("glm4 glm4moe", "gpt2/glm4"),
    _family("glm4moe", "gpt2/solar-open", "upstage-Solar-Open-100B"),
    _family("gpt-oss", "gpt2/gpt-4o", "openai-gpt-oss-120b"),
    _family("gpt2", "gpt2/gpt-2"),
    _family("gptneox mamba mamba2", "gpt2/olmo"),
    _family(
        "granite granitemoe granitehybrid",
        "gpt2/refact gpt2/dbrx",
        "ibm-granite-granite-4.0 ibm-granite-granite-4.1",
    ),
    _family("hunyuan-dense", "gpt2/hunyuan-dense"),
    _family("lfm2 lfm2moe", "gpt2/lfm2", "LFM2.5-Instruct LFM2.5-8B-A1B"),
    _family("mpt", "gpt2/mpt"),
    _family("olmo olmoe", "gpt2/olmo"),
    _family("olmo2", "gpt2/dbrx"),
    _family("phi2", "gpt2/phi-2"),
    _family("phi3", "llama gpt2/dbrx gpt2/gpt-4o", "gguf-Phi-3 microsoft-Phi-3.5-mini-instruct"),
    _family(
        "qwen2 qwen2moe",
        "gpt2/qwen2",
        "gguf-Qwen2 Qwen-Qwen2.5-7B-Instruct Qwen-QwQ-32B",
    ),
    _family("qwen2", "gpt2/deepseek-r1-qwen", "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B"),
    _family("qwen3 qwen3moe qwen3next", "gpt2/qwen2", "Qwen-Qwen3-0.6B Qwen3-Coder"),
    _family("qwen35 qwen35moe", "gpt2/qwen35", "Qwen3.5-4B"),
    _family("refact", "gpt2/refact"),
    _family("seed_oss", "gpt2/seed-coder", "ByteDance-Seed-OSS"),
    _family("stablelm", "gpt2/stablelm2 gpt2/olmo"),
    _family("starcoder starcoder2", "gpt2/starcoder"),
)

# Templates of models whose architectures are not compiled; they are rendered all the same.
OTHERS = tuple(
    "Kimi-K3 MiMo-VL MiniMax-M1 MiniMax-M2 MiniMax-M3 NVIDIA-Nemotron-3-Nano-30B-A3B-BF16 "
    "NVIDIA-Nemotron-Nano-v2 Reka-Edge Spark2.5 StepFun3.5-Flash deepseek-ai-DeepSeek-V3.2 "
    "deepseek-ai-DeepSeek-V4-Flash-0731 inclusionai-ling-3.0-flash "
    "mistralai-Ministral-3-14B-Reasoning-2512 muse-glimmer openbmb-MiniCPM5-1B "
    "poolside-Laguna-S-2.1 poolside-Laguna-XS-2.1 tencent-Hy3".split()
)
