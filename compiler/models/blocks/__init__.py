"""What networks are made of. An architecture puts these together; none of them knows which one
it is in.

A block takes the scope that it belongs to, the names of its tensors (as in the file, without
prefix and suffix) and the values it works on, and returns a value that is named after the step.
T is the number of tokens.
"""

from ggufc.compiler.models.blocks.attention import (
    alibi_slopes,
    attend,
    attention_output,
    look_up,
    rotated_attention,
    shared_width_scale,
    sloped_attention,
)
from ggufc.compiler.models.blocks.basic import add, linear, scaled, split, width
from ggufc.compiler.models.blocks.delta import gated_attention, gated_delta
from ggufc.compiler.models.blocks.encoders import (
    add_token_types,
    encoder_layers,
    projected,
    wanted_rows,
)
from ggufc.compiler.models.blocks.ends import add_positions, embedding, logits
from ggufc.compiler.models.blocks.experts import experts_of, mixture, mixture_mlp, plain_mixture
from ggufc.compiler.models.blocks.heads import (
    clamped,
    each_head_norms,
    flat,
    head_norms,
    heads,
    projection_norms,
    qkv,
    rotate,
    rotated,
)
from ggufc.compiler.models.blocks.latent import latent_attention
from ggufc.compiler.models.blocks.layers import (
    Branch,
    add_branches,
    parallel_layers,
    post_norm_layers,
    pre_norm_layers,
    pre_norm_mixers,
)
from ggufc.compiler.models.blocks.mlp import gated, gated_mlp, joined_gated_mlp, plain_mlp
from ggufc.compiler.models.blocks.norms import (
    Norm,
    bare_layer_norm,
    bare_rms_norm,
    layer_norm,
    rms_norm,
)
from ggufc.compiler.models.blocks.recurrent import (
    channel_state_space,
    convolution,
    gated_convolution,
    head_state_space,
    recurrent_of,
    shares,
)

__all__ = [
    "Branch",
    "Norm",
    "add",
    "add_branches",
    "add_positions",
    "add_token_types",
    "alibi_slopes",
    "attend",
    "attention_output",
    "bare_layer_norm",
    "bare_rms_norm",
    "channel_state_space",
    "clamped",
    "convolution",
    "each_head_norms",
    "embedding",
    "encoder_layers",
    "experts_of",
    "flat",
    "gated",
    "gated_attention",
    "gated_convolution",
    "gated_delta",
    "gated_mlp",
    "head_norms",
    "head_state_space",
    "heads",
    "joined_gated_mlp",
    "latent_attention",
    "layer_norm",
    "linear",
    "logits",
    "look_up",
    "mixture",
    "mixture_mlp",
    "parallel_layers",
    "plain_mixture",
    "plain_mlp",
    "post_norm_layers",
    "pre_norm_layers",
    "pre_norm_mixers",
    "projected",
    "projection_norms",
    "qkv",
    "recurrent_of",
    "rms_norm",
    "rotate",
    "rotated",
    "rotated_attention",
    "scaled",
    "shared_width_scale",
    "shares",
    "sloped_attention",
    "split",
    "wanted_rows",
    "width",
]
