"""minicpm: the graph of granite; what old files do not say follows from the sizes of MiniCPM-2B."""

import math
from dataclasses import replace

from ggufc.compiler.hparams import HParams
from ggufc.compiler.models import granite
from ggufc.compiler.models.network import Network
from ggufc.ir import Value

EMBEDDING_SCALE = 12.0
BRANCH_SCALE = 1.4
BASE_WIDTH = 256


def forward(net: Network) -> Value:
    """The logits of the network's tokens."""
    net.hparams = with_scales(net.hparams)
    return granite.forward(net)


def with_scales(hp: HParams) -> HParams:
    """Hyperparameters with every multiplier."""
    return replace(
        hp,
        embedding_scale=hp.embedding_scale or EMBEDDING_SCALE,
        residual_scale=hp.residual_scale or BRANCH_SCALE / math.sqrt(hp.n_layers),
        logit_scale=hp.logit_scale or hp.dim / BASE_WIDTH,
    )
