"""The two ends of a network: tokens become vectors, and vectors become logits."""

from ggufc.compiler.models.blocks.basic import add, rescaled, scaled
from ggufc.compiler.models.blocks.encoders import projected, wanted_rows
from ggufc.compiler.models.blocks.norms import Norm, rms_norm
from ggufc.compiler.models.network import Network
from ggufc.ir import Value


def embedding(net: Network, scale: float = 1.0, name: str = "token_embd") -> Value:
    """The rows of the embedding `name` for the tokens, times `scale`: [T, dim]."""
    table = net.tensors.matrix(f"{name}.weight", net.hparams.vocab_size, net.hparams.dim)
    return net.emit("embed", net.tokens, table, scale=scale, name="embd")


def add_positions(net: Network, x: Value) -> Value:
    """`x` plus the embedding that was learned for each position."""
    hp = net.hparams
    if net.context > hp.max_context:
        raise net.tensors.fail(
            f"context {net.context}: the model has learned positions 0 to {hp.max_context - 1}"
        )
    table = net.tensors.matrix("position_embd.weight", hp.max_context, hp.dim)
    positions = net.emit("embed", net.positions, table, name="position_embd")
    return add(net, "inp", x, positions)


def logits(net: Network, x: Value, norm: Norm = rms_norm, scale: float = 1.0) -> Value:
    """Scores of all tokens of the vocabulary for the rows that are wanted, times `scale`. Without
    an output matrix the embedding serves as one. Where the function is to make embeddings, these
    are the rows that the scores would be made of."""
    hp = net.hparams
    x = norm(net, "output_norm", wanted_rows(net, x))
    if net.makes_embeddings:
        net.tensors.leave("output.weight", "output.scale", "output.bias")
        return projected(net, x)
    name = "output" if net.tensors.has("output.weight") else "token_embd"
    weight = net.tensors.matrix(f"{name}.weight", hp.vocab_size, hp.dim)
    out = rescaled(net, name, net.emit("linear", x, (weight,), name="logits"))
    if net.tensors.has("output.bias"):
        bias = net.tensors.vector("output.bias", hp.vocab_size)
        out = net.emit("bias_add", out, bias, name="logits.biased")
    out = scaled(net, "logits.scaled", out, scale)
    if hp.logit_softcap > 0:
        out = net.emit("softcap", out, cap=hp.logit_softcap, name="logits.capped")
    return out
