"""What encoders are made of besides: types of tokens, norms after branches, and their own end."""

from ggufc.compiler.errors import quoted
from ggufc.compiler.models.blocks.basic import add, linear
from ggufc.compiler.models.blocks.layers import Branch
from ggufc.compiler.models.blocks.norms import layer_norm
from ggufc.compiler.models.network import Network
from ggufc.ir import Value

DENSE = ("dense_2", "dense_3")


def add_token_types(net: Network, x: Value) -> Value:
    """`x` plus the embedding of the first type of token, where the file has types: that of a text
    by itself."""
    name = "token_types.weight"
    if not net.tensors.has(name):
        return x
    shape = net.tensors.gguf.tensors[name].shape
    if len(shape) != 2 or shape[0] < 1:
        raise net.tensors.fail(f"tensor {quoted(name)} has shape {list(shape)}, wanted a matrix")
    rows = net.tensors.decoded(net.tensors.info(name, (shape[0], net.hparams.dim)))
    return net.emit("bias_add", x, net.tensors.constant("token_types.0", rows[0]), name="typed")


def encoder_layers(net: Network, x: Value, attention: Branch, mlp: Branch) -> Value:
    """All layers, each norm(x + attention(x)), then norm(x + mlp(x)): [T, dim]. Some files have a
    second norm of attention, before which x is added once more."""
    for layer in net.layers():
        branch = add(layer, "attn_residual", x, attention(layer, x))
        normed = layer_norm(layer, "attn_output_norm", branch)
        if layer.tensors.has(f"{layer.prefix}attn_norm_2.weight"):
            normed = layer_norm(layer, "attn_norm_2", add(layer, "attn_again", normed, x))
        x = add(layer, "ffn_residual", normed, mlp(layer, normed))
        x = layer_norm(layer, "layer_output_norm", x)
    return x


def wanted_rows(net: Network, x: Value) -> Value:
    """The rows of `x` that the caller wants; all of them in decode."""
    return x if net.rows is None else net.emit("take_rows", x, net.rows, name="wanted")


def projected(net: Network, x: Value) -> Value:
    """`x` through the matrices that a file may have for embeddings. Files mean them for the pooled
    one, but without anything between them and the mean it is all the same."""
    for name in DENSE:
        if net.tensors.has(f"{name}.weight"):
            x = linear(net, name, x, net.tensors.gguf.tensors[f"{name}.weight"].shape[0])
    return x
