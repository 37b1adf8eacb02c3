"""The fused step between the q/k/v product and attention: per-head norm, rotation, cache rows."""

from __future__ import annotations

from ggufc.backends.llvm.kernel import Kernel, kernel
from ggufc.backends.llvm.kernel_builder import Val
from ggufc.backends.llvm.kernels.kv_write import PART_TOKENS, Caches
from ggufc.backends.llvm.kernels.rope import Loader, rotate_row
from ggufc.backends.llvm.kernels.rows import inverse_rms, load_row


@kernel("rope_kv_write")
def emit_rope_kv_write(k: Kernel) -> None:
    """Work is cut by (token, head of q, k or v), so that one token keeps all threads busy."""
    f, step = k.f, _Step(k)
    with (
        k.shares(k.n * step.heads, step.heads * PART_TOKENS) as (begin, end),
        f.loop(end, begin, name="item") as item,
    ):
        token, head = item // step.heads, item % step.heads
        row = k.pointer("qkv") + item * (4 * step.dim)
        with f.if_(head < step.n_heads):
            place = token * step.n_heads + head
            step.turn("q_norm", token, row, k.result() + place * (4 * step.dim))
        with f.if_((head - step.n_heads).ult(step.n_kv_heads)):
            step.turn("k_norm", token, row, step.turned)
            step.caches.write_key(token, head - step.n_heads, step.turned)
        first_value = step.n_heads + step.n_kv_heads
        with f.if_(head >= first_value):
            step.caches.write_value(token, head - first_value, row)


class _Step:
    """Sizes of the op, and the norm and rotation of one head."""

    def __init__(self, k: Kernel) -> None:
        self.k = k
        self.n_heads, self.n_kv_heads, self.dim = (
            int(k.signature.attribute(n)) for n in ("n_heads", "n_kv_heads", "head_dim")
        )
        self.heads = self.n_heads + 2 * self.n_kv_heads
        self.rotated = k.signature.named("table")[0].type.max_shape[1]
        self.caches = Caches(k)
        self.turned = k.f.alloca(4 * self.dim)

    def turn(self, norm: str, token: Val, row: Val, target: Val) -> None:
        """Norm (where the op has that weight) and rotate the head at `row` into `target`."""
        angles = self.k.pointer("table") + token * (4 * self.rotated)
        pairing = self.k.signature.attribute("pairing")
        load = self._loader(norm, row)
        rotate_row(self.k.f, load, target, angles, self.rotated, self.dim, pairing)

    def _loader(self, norm: str, row: Val) -> Loader:
        f, weights = self.k.f, self.k.pointers(norm)
        if not weights:
            return lambda element, lanes: load_row(f, row, element, lanes)
        scale = inverse_rms(f, row, self.dim, self.k.signature.attribute("eps"))

        def load(element: int, lanes: int) -> Val:
            weight = load_row(f, weights[0], element, lanes)
            return load_row(f, row, element, lanes) * scale.splat(lanes) * weight

        return load
