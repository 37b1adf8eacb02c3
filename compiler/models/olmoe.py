"""olmoe: as llama with experts, and norms of all heads of q and k together."""

from ggufc.compiler.models import olmo2
from ggufc.compiler.models.blocks import embedding, logits, mixture_mlp, pre_norm_layers
from ggufc.compiler.models.network import Network
from ggufc.ir import Value


def forward(net: Network) -> Value:
    """The logits of the network's tokens."""
    return logits(net, pre_norm_layers(net, embedding(net), olmo2.attention, mixture_mlp))
