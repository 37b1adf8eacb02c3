"""codeshell: the graph of starcoder2; a file may hold one matrix for both ends of the network."""

from ggufc.compiler.models import starcoder2
from ggufc.compiler.models.blocks import embedding, layer_norm, logits, pre_norm_layers
from ggufc.compiler.models.network import Network
from ggufc.ir import Value


def forward(net: Network) -> Value:
    """The logits of the network's tokens."""
    name = "token_embd" if net.tensors.has("token_embd.weight") else "output"
    x = embedding(net, name=name)
    x = pre_norm_layers(net, x, starcoder2.attention, starcoder2.mlp, layer_norm)
    return logits(net, x, layer_norm)
