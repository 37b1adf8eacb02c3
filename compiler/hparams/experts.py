"""The keys of mixtures of experts."""

from ggufc.compiler.hparams.keys import Keys
from ggufc.compiler.hparams.limits import MAX_HIDDEN_DIM, MAX_LAYERS, MAX_SCALE
from ggufc.compiler.hparams.params import Experts

MAX_EXPERTS = 1 << 12
# By number, as files give them.
GATINGS = {1: "softmax", 2: "sigmoid", 3: "softmax_chosen"}


def read_experts(keys: Keys, hidden: tuple[int, ...]) -> list[Experts | None]:
    """The experts of each layer, None where it has an MLP of `hidden` width instead.

    The first layers may have none, and of the others all but every n-th; or, where a key says so,
    the second of each n alone has some."""
    n_layers = len(hidden)
    count = keys.integer("expert_count", 0, MAX_EXPERTS, 0)
    if count == 0:
        return [None] * n_layers
    dense = keys.integer("leading_dense_block_count", 0, n_layers, 0)
    every = keys.integer("moe_every_n_layers", 0, MAX_LAYERS, 0)
    if every:
        return [
            read_mixture(keys, count, hidden[i]) if i % every == 1 else None
            for i in range(n_layers)
        ]
    step = keys.integer("interleave_moe_layer_step", 1, MAX_LAYERS, 1)
    return [
        read_mixture(keys, count, hidden[i]) if i >= dense and (i + 1) % step == 0 else None
        for i in range(n_layers)
    ]


def read_mixture(keys: Keys, count: int, hidden: int) -> Experts:
    """The experts of a layer, `count` of them."""
    used = keys.integer("expert_used_count", 1, count)
    own = hidden // used if keys.is_among("parted_mlps") else hidden
    width = keys.integer("expert_feed_forward_length", 1, MAX_HIDDEN_DIM, max(1, own))
    gating = GATINGS[keys.integer("expert_gating_func", 1, len(GATINGS))]
    groups, groups_used = read_groups(keys, count, used)
    return Experts(
        count=count,
        used=used,
        hidden_dim=width,
        shared_dim=read_shared_dim(keys, width, hidden),
        gating=gating,
        normalized=keys.flag("expert_weights_norm", False),
        scale=keys.real("expert_weights_scale", 0.0, MAX_SCALE, 0.0) or 1.0,
        groups=groups,
        groups_used=groups_used,
        # DeepSeek V3 and its followers add the two best of a group, V2 takes the best.
        group_best=min(2 if gating == "sigmoid" else 1, count // groups),
    )


def read_groups(keys: Keys, count: int, used: int) -> tuple[int, int]:
    """How many groups experts are in, and of how many each token takes its own."""
    name = "expert_group_count"
    groups = keys.integer(name, 0, count, 0) or 1
    if count % groups:
        raise keys.fail(name, groups, f"are divisors of the {count} experts")
    if groups == 1:
        return 1, 1
    least = -(-used * groups // count)
    return groups, keys.integer("expert_group_used_count", least, groups, groups)


def read_shared_dim(keys: Keys, width: int, hidden: int) -> int:
    """The width of the experts that all tokens use, taken together; 0 for none. `width` is that of
    any one expert, `hidden` that of an MLP."""
    name = "expert_shared_feed_forward_length"
    if keys.has(name):
        return keys.integer(name, 0, MAX_HIDDEN_DIM)
    if keys.is_among("wide_shared_experts"):
        return hidden
    return width * keys.integer("expert_shared_count", 0, MAX_EXPERTS, 0)
