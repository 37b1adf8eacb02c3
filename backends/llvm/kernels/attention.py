"""Attention over the KV cache: how the work is cut and shared."""

from __future__ import annotations

from ggufc.backends.llvm.kernel import Kernel, kernel
from ggufc.backends.llvm.kernel_builder import F32, I32, I64, Val
from ggufc.backends.llvm.kernels.attention_matrix_tile import MatrixTile
from ggufc.backends.llvm.kernels.attention_plan import KEY_BLOCK, Plan, make_plan
from ggufc.backends.llvm.kernels.attention_tile import Tile
from ggufc.backends.llvm.kernels.attention_vector_tile import VectorTile

_BLOCKS_A_THREAD = 4


@kernel("attention")
def emit_attention(k: Kernel) -> None:
    """Prefill: blocks of rows of one sequence. Decode: sequence by sequence."""
    attention = Attention(k)
    attention.tile.begin()
    emit = emit_prefill if k.signature.phase == "prefill" else emit_decode
    emit(k, attention)
    attention.tile.end()


def emit_prefill(k: Kernel, attention: Attention) -> None:
    """Items are (kv head, block of rows), paired so that equal numbers of them are equal work.

    A later block sees more keys: blocks are taken from both ends in turn.
    """
    f, plan = k.f, attention.plan
    total = k.n * plan.group
    # Fewer tiles a block where there would not be blocks enough to share; results are the same.
    wanted = total * plan.keys.n_heads // (k.threads * (plan.rows * _BLOCKS_A_THREAD))
    tiles = f.smin(f.smax(wanted, 1), plan.tiles)
    block_rows = tiles * plan.rows
    blocks = (total + (block_rows - 1)) // block_rows
    zero = f.const(I64, 0)
    with (
        k.shares(blocks * plan.keys.n_heads) as (begin, end),
        f.loop(end, begin, name="item") as item,
    ):
        head, index = item // blocks, item % blocks
        half = index // 2
        block = f.select((index & 1).ne(0), blocks - 1 - half, half)
        attention.run(zero, head, block * block_rows, total, tiles)


def emit_decode(k: Kernel, attention: Attention) -> None:
    """Items are (sequence, kv head, part of its query heads)."""
    f, plan = k.f, attention.plan
    parts = -(-plan.group // plan.rows)
    heads = plan.keys.n_heads
    begin, end = k.share(k.n * (heads * parts))
    group = f.const(I64, plan.group)
    with f.loop(end, begin, name="item") as item:
        token, rest = item // (heads * parts), item % (heads * parts)
        row = rest % parts * plan.rows
        attention.run(token, rest // parts, row, group, f.const(I64, 1))


class Attention:
    """Emits the work on one block of rows of one kv head."""

    def __init__(self, k: Kernel) -> None:
        self.k, self.f = k, k.f
        self.plan: Plan = make_plan(k.signature, k.isa)
        kind = MatrixTile if self.plan.uses_matrices else VectorTile
        self.tile: Tile = kind(k.f, k.isa, self.plan)

    def run(self, token: Val, head: Val, first: Val, total: Val, tiles: Val) -> None:
        """`tiles` tiles from row `first` on, of the `total` rows that begin at `token`."""
        f, plan = self.f, self.plan
        stop = f.smin(first + tiles * plan.rows, total)
        start = self.index("positions", token)
        keys, values = self.caches(token, head)
        self.start_rows(token, head, first, tiles, total)
        last = self._position(start, stop - 1)
        # At the same positions whatever the rows of the block, so that results are, too.
        lowest = self.first_key(self._position(start, first)) & -KEY_BLOCK
        with f.loop(last + 1, lowest, KEY_BLOCK, name="block") as key:
            with f.loop(tiles, name="tile") as tile:
                row = first + tile * plan.rows
                with f.if_(row < total):
                    self._tile(tile * plan.rows, row, total, start, keys, values, key)
        with f.loop(stop - first, name="finish") as i:
            out = self.row(self.k.result(), plan.values.dim, token, head, first + i)
            self.tile.finish_row(i, out)

    def caches(self, token: Val, head: Val) -> tuple[Val, Val]:
        """Pointers to position 0 of the token's keys and values of a kv head."""
        sequence, context = self.index("sequences", token), self.k.context
        return (
            self.plan.keys.head(self.k.pointer("k_cache"), sequence, head, context),
            self.plan.values.head(self.k.pointer("v_cache"), sequence, head, context),
        )

    def start_rows(self, token: Val, head: Val, first: Val, tiles: Val, total: Val) -> None:
        """Begin the rows of a block; those beyond `total` repeat the last."""
        f, q, dim = self.f, self.k.pointer("q"), self.plan.keys.dim
        with f.loop(tiles * self.plan.rows, name="start") as i:
            row = f.smin(first + i, total - 1)
            self.tile.start_row(i, self.row(q, dim, token, head, row))
            at = (head * self.plan.group + row % self.plan.group) * 4
            for slopes in self.k.pointers("slopes"):
                self.tile.start_slope(i, f.load(slopes + at, F32))
            for sinks in self.k.pointers("sinks"):
                self.tile.start_sink(i, f.load(sinks + at, F32))

    def _tile(
        self, kept: Val, row: Val, total: Val, start: Val, keys: Val, values: Val, key: Val
    ) -> None:
        """One tile against the part of the key block that its rows see."""
        f, plan = self.f, self.plan
        for r in range(plan.rows):
            position = self._position(start, f.smin(row + r, total - 1))
            f.store(position.trunc(I32), self.tile.positions, 4 * r)
        last = self._position(start, f.smin(row + plan.rows, total) - 1)
        begin = f.smax(key, self.first_key(self._position(start, row)))
        end = f.smin(key + KEY_BLOCK, last + 1)
        with f.if_(begin < end):
            self.tile.attend(kept, keys, values, begin, end - begin)

    def row(self, base: Val, width: int, token: Val, head: Val, row: Val) -> Val:
        """Where a row's query or output is in `[T, Hq, width]`."""
        group = self.plan.group
        token = token + row // group
        query_head = head * group + row % group
        return base + (token * self.plan.n_heads + query_head) * (4 * width)

    def _position(self, start: Val, row: Val) -> Val:
        return start + row // self.plan.group

    def first_key(self, position: Val) -> Val:
        """The first key, rounded down, that a row at this position sees."""
        f, plan = self.f, self.plan
        if not plan.window:
            return f.const(I64, 0)
        return f.smax(position - (plan.window - 1), 0) & -plan.key_alignment

    def index(self, name: str, token: Val) -> Val:
        """A token's position or sequence, as i64."""
        return self.f.load(self.k.pointer(name) + token * 4, I32).sext(I64)
