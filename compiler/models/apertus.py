"""apertus: as qwen3, with an MLP that has no gate and an activation with coefficients per layer."""

from dataclasses import asdict

from ggufc.compiler.errors import quoted
from ggufc.compiler.models import qwen3
from ggufc.compiler.models.blocks import embedding, logits, plain_mlp, pre_norm_layers
from ggufc.compiler.models.network import Layer, Network
from ggufc.ir import Value


def forward(net: Network) -> Value:
    """The logits of the network's tokens."""
    return logits(net, pre_norm_layers(net, embedding(net), qwen3.attention, mlp))


def mlp(layer: Layer, x: Value) -> Value:
    """The MLP without a gate."""
    coefficients = layer.params.xielu
    if coefficients is None:
        raise layer.tensors.fail(f"key {quoted('xielu.alpha_n')} is missing (an array wanted)")
    return plain_mlp(layer, x, "xielu", **asdict(coefficients))
