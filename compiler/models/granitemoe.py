"""granitemoe: as granite, with experts, and perhaps one that all tokens use."""

from ggufc.compiler.models import granite
from ggufc.compiler.models.network import Network
from ggufc.ir import Value


def forward(net: Network) -> Value:
    """The logits of the network's tokens."""
    return granite.forward(net)
