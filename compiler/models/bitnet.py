"""bitnet: as qwen2 without biases, with a norm before the last product of each branch."""

from ggufc.compiler.models.blocks import (
    attend,
    attention_output,
    embedding,
    gated,
    linear,
    logits,
    pre_norm_layers,
    qkv,
    rms_norm,
    rotate,
)
from ggufc.compiler.models.network import Layer, Network
from ggufc.ir import Value


def forward(net: Network) -> Value:
    """The logits of the network's tokens."""
    return logits(net, pre_norm_layers(net, embedding(net), attention, mlp))


def attention(layer: Layer, x: Value) -> Value:
    """Attention with rotated queries and keys, normed before its output is mixed."""
    q, k, v = qkv(layer, x)
    q, k = rotate(layer, q, k, "half")
    mixed = rms_norm(layer, "attn_sub_norm", attend(layer, q, k, v))
    return attention_output(layer, mixed)


def mlp(layer: Layer, x: Value) -> Value:
    """The gated MLP, normed inside."""
    hidden = layer.params.hidden_dim
    gate, up = (linear(layer, name, x, hidden) for name in ("ffn_gate", "ffn_up"))
    inner = rms_norm(layer, "ffn_sub_norm", gated(layer, gate, up, "silu"))
    return linear(layer, "ffn_down", inner, layer.hparams.dim)
