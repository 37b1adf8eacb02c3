"""Attention within whole texts: how the work is cut, and the tile that computes it.

Keys and values lie as they were computed. A thread brings a block of them into the order of a
cache, in its own memory, and uses it for all rows that it works on. Blocks begin at fixed
positions of a text, so that results depend neither on the other texts nor on the threads.
"""

from __future__ import annotations

from ggufc.backends.llvm.isa import Isa
from ggufc.backends.llvm.kernel import Kernel, kernel
from ggufc.backends.llvm.kernel_builder import F32, I32, I64, Function, Val
from ggufc.backends.llvm.kernels.attention_operands import SUM_BYTES, SUMS
from ggufc.backends.llvm.kernels.attention_plan import Plan, make_text_plan
from ggufc.backends.llvm.kernels.attention_tile import SCORE_STRIDE
from ggufc.backends.llvm.kernels.attention_vector_tile import VectorTile
from ggufc.backends.llvm.kernels.kv_write import store_key, store_value
from ggufc.backends.llvm.states import LANES
from ggufc.backends.llvm.vector_math import muladd

TEXT_BLOCK = 64


@kernel("bidirectional_attention")
def emit_bidirectional_attention(k: Kernel) -> None:
    """Items are (kv head, some tokens); the tokens may belong to several texts."""
    f, attention = k.f, TextAttention(k)
    plan = attention.plan
    tokens = max(1, plan.rows * plan.tiles // plan.group)
    blocks = (k.n + (tokens - 1)) // tokens
    with (
        k.shares(blocks * plan.keys.n_heads) as (begin, end),
        f.loop(end, begin, name="item") as item,
    ):
        head, first = item // blocks, item % blocks * tokens
        stop = f.smin(first + tokens, k.n)
        with f.loop(stop, first, name="token") as token:
            position = attention.index("positions", token)
            with f.if_(token.eq(first) | position.eq(0)):
                attention.run(head, token, stop, position)


class TextTile(VectorTile):
    """A tile whose rows see keys on both sides. Positions are relative to the block of keys;
    `count` holds how many of its keys belong to the text."""

    def __init__(self, f: Function, isa: Isa, plan: Plan) -> None:
        super().__init__(f, isa, plan)
        self.count = f.var(I64, 0)

    def _is_partial(self, key: Val) -> Val:
        f, plan = self.f, self.plan
        partial = key + LANES * plan.key_vectors > self.count.get()
        return partial | f.const(partial.type, 1) if plan.window else partial

    def _masked(self, score: Val, position: Val, key: Val) -> Val:
        f, reach = self.f, self.plan.window // 2
        keys = f.const_lanes(I32, range(LANES)) + key.splat(LANES)
        seen = keys < self.count.get().trunc(I32).splat(LANES)
        if self.plan.window:
            distance = keys - position.splat(LANES)
            seen = seen & (distance + reach).ult(2 * reach + 1)
        return f.select(seen, score, float("-inf"))

    def _lower(self, kept: Val, row: Val, begin: Val, groups: Val) -> None:
        f, slopes = self.f, self.state.slopes
        if slopes is None:
            return
        scores, slope = self.scores + row * SCORE_STRIDE, f.load(slopes + kept * 4, F32)
        position = f.load(self.positions + row * 4, I32)
        first = f.const_lanes(I32, range(LANES)) + (begin.trunc(I32) - position).splat(LANES)
        with f.loop(groups * self.plan.key_vectors, name="lower") as i:
            place = scores + i * SUM_BYTES
            distance = f.fabs((first + (i.trunc(I32) * LANES).splat(LANES)).sitofp())
            f.store(muladd(distance, -slope.splat(LANES), f.load(place, SUMS)), place)


class TextAttention:
    """Emits the work on some tokens of one text, for the query heads of one kv head."""

    def __init__(self, k: Kernel) -> None:
        self.k, self.f = k, k.f
        self.plan = make_text_plan(k.signature, k.isa)
        self.tile = TextTile(k.f, k.isa, self.plan)
        self.keys = k.f.alloca(TEXT_BLOCK * self.plan.keys.row_bytes)
        self.values = k.f.alloca(TEXT_BLOCK * self.plan.values.row_bytes)

    def run(self, head: Val, token: Val, limit: Val, position: Val) -> None:
        """Tokens from `token`, at `position` of its text, to the text's last or to `limit`."""
        f, plan = self.f, self.plan
        start, length = token - position, self.index("lengths", token)
        count = f.smin(limit, start + length) - token
        total = count * plan.group
        tiles = (total + (plan.rows - 1)) // plan.rows
        self.start_rows(head, token, tiles, total)
        low, high = self.seen(position, position + count - 1, length)
        with f.loop(high, low & -TEXT_BLOCK, TEXT_BLOCK, name="block") as key:
            seen = f.smin(length - key, TEXT_BLOCK)
            self.fill(head, start + key, seen)
            self.tile.count.set(seen)
            with f.loop(tiles, name="tile") as tile:
                self.attend(tile * plan.rows, position - key, total, seen)
        with f.loop(total, name="finish") as row:
            self.tile.finish_row(row, self.row(self.k.result(), plan.values.dim, token, head, row))

    def seen(self, first: Val, last: Val, length: Val) -> tuple[Val, Val]:
        """The keys [low, high) of a text that tokens at positions first to last see."""
        f, reach = self.f, self.plan.window // 2
        if not self.plan.window:
            return f.const(I64, 0), length
        return f.smax(first - reach, 0), f.smin(last + reach + 1, length)

    def start_rows(self, head: Val, token: Val, tiles: Val, total: Val) -> None:
        """Begin the rows of all tiles; those beyond `total` repeat the last."""
        f, q, dim = self.f, self.k.pointer("q"), self.plan.keys.dim
        with f.loop(tiles * self.plan.rows, name="start") as i:
            row = f.smin(i, total - 1)
            self.tile.start_row(i, self.row(q, dim, token, head, row))
            at = (head * self.plan.group + row % self.plan.group) * 4
            for slopes in self.k.pointers("slopes"):
                self.tile.start_slope(i, f.load(slopes + at, F32))

    def fill(self, head: Val, token: Val, count: Val) -> None:
        """Bring `count` keys and values from `token` on into the order of a cache."""
        f, isa, keys, values = self.f, self.k.isa, self.plan.keys, self.plan.values
        with f.loop(count, name="fill") as i:
            at = (token + i) * keys.n_heads + head
            key, value = (
                self.k.pointer(name) + at * (4 * layout.dim)
                for name, layout in (("k", keys), ("v", values))
            )
            store_key(f, isa, keys, key, self.keys, i)
            store_value(f, isa, values, value, self.values, i)

    def attend(self, first: Val, position: Val, total: Val, seen: Val) -> None:
        """The tile of rows from `first` on; `position` is that of row 0, relative to the block."""
        f, plan = self.f, self.plan
        for r in range(plan.rows):
            own = position + f.smin(first + r, total - 1) // plan.group
            f.store(own.trunc(I32), self.tile.positions, 4 * r)
        self.tile.attend(first, self.keys, self.values, f.const(I64, 0), seen)

    def row(self, base: Val, width: int, token: Val, head: Val, row: Val) -> Val:
        """Where a row's query or output is in `[T, Hq, width]`."""
        group = self.plan.group
        query_head = head * group + row % group
        return base + ((token + row // group) * self.plan.n_heads + query_head) * (4 * width)

    def index(self, name: str, token: Val) -> Val:
        """A token's position, or its text's length, as i64."""
        return self.f.load(self.k.pointer(name) + token * 4, I32).sext(I64)
