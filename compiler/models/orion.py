"""orion: as qwen2 without biases, with layer norms."""

from ggufc.compiler.models import qwen2
from ggufc.compiler.models.blocks import embedding, layer_norm, logits, pre_norm_layers
from ggufc.compiler.models.network import Network
from ggufc.ir import Value


def forward(net: Network) -> Value:
    """The logits of the network's tokens."""
    x = pre_norm_layers(net, embedding(net), qwen2.attention, qwen2.mlp, layer_norm)
    return logits(net, x, layer_norm)
