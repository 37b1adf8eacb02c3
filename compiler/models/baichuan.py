"""baichuan: the graph of llama, or in the 13B model that of refact. No key says which."""

from ggufc.compiler.models import llama, refact
from ggufc.compiler.models.network import Network
from ggufc.ir import Value

LAYERS_OF_13B = 40


def forward(net: Network) -> Value:
    """The logits of the network's tokens."""
    if net.hparams.n_layers == LAYERS_OF_13B:
        return refact.forward(net)
    return llama.forward(net)
