"""From metadata to hyperparameters."""

from typing import Any

from ggufc.compiler.gguf import GGUFArray, Metadata
from ggufc.compiler.hparams.encoders import read_causal, read_pooling
from ggufc.compiler.hparams.keys import Keys, architecture_data
from ggufc.compiler.hparams.layers import read_layers
from ggufc.compiler.hparams.limits import (
    MAX_CONTEXT,
    MAX_DIM,
    MAX_LAYERS,
    MAX_SCALE,
    MAX_VOCABULARY,
)
from ggufc.compiler.hparams.params import HParams
from ggufc.compiler.hparams.rope import read_sections

# Keys that change what a model computes, with the values that change nothing. An architecture
# whose graph takes one into account says so in its data; in other files these values alone are
# accepted. (0.0 stands for "none" in multipliers, as in llama.cpp.)
NEUTRAL: dict[str, tuple[Any, ...]] = {
    "attention.causal": (True,),
    "attention.clamp_kqv": (0.0,),
    "attention.max_alibi_bias": (0.0,),
    "attention.output_scale": (0.0, 1.0),
    "attention.shared_kv_layers": (0,),
    "attention.temperature_scale": (0.0,),
    "attention.value_scale": (0.0, 1.0),
    "embedding_length_per_layer_input": (0,),
    "embedding_scale": (0.0, 1.0),
    "expert_count": (0,),
    "expert_group_scale": (0.0, 1.0),
    "logit_scale": (0.0, 1.0),
    "residual_scale": (0.0, 1.0),
    "rope.scaling.alpha": (0.0, 1.0),
    "router_logit_softcapping": (0.0,),
    "swiglu_clamp_exp": (0.0,),
    "swiglu_clamp_shexp": (0.0,),
    "use_parallel_residual": (False,),
}


def read_hparams(metadata: Metadata) -> HParams:
    """The hyperparameters in `metadata`; a ModelError or GGUFError names the key, the value and
    what is allowed."""
    keys = Keys(metadata)
    check_neutral(keys)
    n_drafting = keys.integer("nextn_predict_layers", 0, MAX_LAYERS, 0)
    n_layers = keys.integer("block_count", n_drafting + 1, MAX_LAYERS) - n_drafting
    dim = keys.integer("embedding_length", 1, MAX_DIM)
    return HParams(
        architecture=keys.architecture,
        n_layers=n_layers,
        n_drafting_layers=n_drafting,
        dim=dim,
        vocab_size=read_vocab_size(keys),
        max_context=keys.integer("context_length", 1, MAX_CONTEXT),
        norm_eps=read_norm_eps(keys),
        attention_softcap=keys.real("attn_logit_softcapping", 0.0, MAX_SCALE, 0.0),
        logit_softcap=keys.real("final_logit_softcapping", 0.0, MAX_SCALE, 0.0),
        embedding_scale=keys.real("embedding_scale", 0.0, MAX_SCALE, 0.0),
        residual_scale=keys.real("residual_scale", 0.0, MAX_SCALE, 0.0),
        logit_scale=keys.real("logit_scale", 0.0, MAX_SCALE, 0.0),
        kqv_clamp=keys.real("attention.clamp_kqv", 0.0, MAX_SCALE, 0.0),
        max_alibi_bias=keys.real("attention.max_alibi_bias", 0.0, MAX_SCALE, 0.0),
        parallel_residual=keys.flag("use_parallel_residual", False),
        is_rotated=keys.flag("rope.scaling.finetuned", True),
        rope_sections=read_sections(keys),
        per_layer_dim=keys.integer("embedding_length_per_layer_input", 0, MAX_DIM, 0),
        is_causal=read_causal(keys),
        pooling=read_pooling(keys),
        layers=read_layers(keys, n_layers, dim),
    )


def check_neutral(keys: Keys) -> None:
    """Refuse what the architecture's graph would leave out of account, and a file that leaves out
    what the graph needs."""
    for name in architecture_data()["needs"].get(keys.architecture, ()):
        keys.real(name, -MAX_SCALE, MAX_SCALE)
    known = architecture_data()["reads"].get(keys.architecture, ())
    for name, allowed in NEUTRAL.items():
        if name in known:
            continue
        value = keys.metadata.as_written(keys.full(name), allowed[0])
        for one in value if isinstance(value, GGUFArray) else (value,):
            if one not in allowed:
                raise keys.fail(name, one, f"is only {allowed[-1]}: nothing else is supported")


def read_norm_eps(keys: Keys) -> float:
    """What is added to the mean square in norms."""
    kind = "layer_norm_epsilon" if keys.is_among("layer_norm") else "layer_norm_rms_epsilon"
    return keys.real(f"attention.{kind}", 0.0, 0.1)


def read_vocab_size(keys: Keys) -> int:
    """The number of tokens: as many as the vocabulary lists, or as the key says where none is
    listed."""
    tokens = keys.metadata.get_array("tokenizer.ggml.tokens", None, None)
    if tokens is not None and len(tokens):
        return len(tokens)
    return keys.integer("vocab_size", 1, MAX_VOCABULARY)
