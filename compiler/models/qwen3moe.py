"""qwen3moe: as qwen3, with experts."""

from ggufc.compiler.models import qwen3
from ggufc.compiler.models.blocks import embedding, logits, mixture_mlp, pre_norm_layers
from ggufc.compiler.models.network import Network
from ggufc.ir import Value


def forward(net: Network) -> Value:
    """The logits of the network's tokens."""
    return logits(net, pre_norm_layers(net, embedding(net), qwen3.attention, mixture_mlp))
