"""seed_oss: as qwen2; files call the second norm of a layer by the name of another one."""

from ggufc.compiler.models import qwen2
from ggufc.compiler.models.blocks import embedding, logits, pre_norm_layers
from ggufc.compiler.models.network import Network
from ggufc.ir import Value


def forward(net: Network) -> Value:
    """The logits of the network's tokens."""
    x = embedding(net)
    norm_name = "post_attention_norm"
    return logits(net, pre_norm_layers(net, x, qwen2.attention, qwen2.mlp, mlp_norm=norm_name))
