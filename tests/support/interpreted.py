"""A model run by the IR interpreter: in one piece, in chunks, or token by token."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ggufc.compiler.gguf import GGUFFile
from ggufc.compiler.models import GraphOptions, build
from ggufc.compiler.sources import weight_bytes
from ggufc.ir import Interpreter, Module, Weight, decode
from ggufc.ir.numerics import F32Array

Ids = npt.NDArray[np.int32]


class InterpretedModel:
    """Runs `module`, by default the graph of the file at any stage that the interpreter takes."""

    def __init__(
        self, gguf: GGUFFile, module: Module | None = None, context: int = 192, sequences: int = 2
    ) -> None:
        """`context` and `sequences` are the sizes of the KV cache, which is float32 in the
        default module."""
        options = GraphOptions(kv_type="f32", max_context=context, max_batch=sequences)
        self.module = build(gguf, options) if module is None else module
        self.gguf = gguf
        self.decoded: dict[str, F32Array] = {}
        self.interpreter = Interpreter(self.module, self.weight)
        self.context, self.sequences = context, sequences
        self.reset()

    def reset(self) -> None:
        """Forget all sequences."""
        self.states = self.interpreter.new_states(self.context, self.sequences)

    def weight(self, weight: Weight) -> F32Array:
        """The values of a weight, decoded once."""
        if weight.name not in self.decoded:
            raw = weight_bytes(self.gguf, weight)
            self.decoded[weight.name] = decode(weight.type.dtype.name, raw, weight.type.max_shape)
        return self.decoded[weight.name]

    def prefill(self, ids: Ids, start: int = 0, sequence: int = 0) -> F32Array:
        """Logits [n, vocabulary] of n tokens that begin at position `start` of a sequence."""
        n = len(ids)
        inputs = {
            "tokens": np.asarray(ids, np.int32),
            "positions": np.arange(start, start + n, dtype=np.int32),
            "sequences": np.full(n, sequence, np.int32),
            "rows": np.arange(n, dtype=np.int32),
        }
        return np.asarray(self.interpreter.run("prefill", inputs, self.states)[0])

    def decode(self, tokens: Ids, positions: Ids, sequences: Ids) -> F32Array:
        """Logits [B, vocabulary] of one token in each of B sequences."""
        values = {"tokens": tokens, "positions": positions, "sequences": sequences}
        inputs = {name: np.asarray(value, np.int32) for name, value in values.items()}
        return np.asarray(self.interpreter.run("decode", inputs, self.states)[0])

    def in_chunks(self, ids: Ids, size: int, sequence: int = 0) -> F32Array:
        """Logits [n, vocabulary] of a new sequence, prefilled `size` tokens at a time."""
        starts = range(0, len(ids), size)
        return np.concatenate([self.prefill(ids[s : s + size], s, sequence) for s in starts])

    def step_by_step(self, ids: Ids, sequence: int = 0) -> F32Array:
        """Logits [n, vocabulary] of a new sequence, decoded token by token."""
        rows = [self.decode(ids[i : i + 1], [i], [sequence]) for i in range(len(ids))]  # type: ignore[arg-type]
        return np.concatenate(rows)

    def greedy(self, ids: Ids, count: int, sequence: int = 0) -> list[int]:
        """The `count` tokens that follow a prompt when the best one is taken each time."""
        out = [int(self.prefill(ids, 0, sequence)[-1].argmax())]
        while len(out) < count:
            at = len(ids) + len(out) - 1
            row = self.decode(np.array(out[-1:]), np.array([at]), np.array([sequence]))
            out.append(int(row[0].argmax()))
        return out
