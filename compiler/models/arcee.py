"""arcee: as llama, with an MLP that has no gate and squares what is above 0."""

from ggufc.compiler.models import llama
from ggufc.compiler.models.blocks import embedding, logits, plain_mlp, pre_norm_layers
from ggufc.compiler.models.network import Layer, Network
from ggufc.ir import Value


def forward(net: Network) -> Value:
    """The logits of the network's tokens."""
    return logits(net, pre_norm_layers(net, embedding(net), llama.attention, mlp))


def mlp(layer: Layer, x: Value) -> Value:
    """The MLP without a gate."""
    return plain_mlp(layer, x, "relu_squared")
