"""Checks a bundle: the hash of every file, and its code against the reference interpreter.

Code that quantises activations cannot be compared with the interpreter number by number: a sum in
another order lets an activation round the other way, and layer by layer that grows to the size of
the quantisation's own error. So the error of the code is held against the error that its program
has when the interpreter runs it; both are measured from the bundle's graph, which computes in
float32.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ggufc.backends.llvm.isa import isa_named
from ggufc.backends.llvm.layouts import layout_named, unpack_tensor
from ggufc.backends.reference.backend import ReferenceBackend
from ggufc.compiler.passes.quantize_activations import Compute
from ggufc.compiler.pipelines import to_fused
from ggufc.ir import EMBED, PREFILL, IRError, Module, Weight, parse_module
from ggufc.runtime.bundle import GRAPH_IR, Bundle
from ggufc.runtime.engine import Floats, Ints
from ggufc.runtime.errors import ArgumentError, BundleError
from ggufc.runtime.memory import Bytes, load_weights
from ggufc.runtime.model import Model
from ggufc.tokenizer.provenance import Policy

SAMPLE = "The quick brown fox jumps over the lazy dog, and the dog sleeps on."
PREFILL_TOKENS = 7
DECODE_TOKENS = 1
# Two runs of one quantised program differ from the exact one by independent errors of like size.
ALLOWED_RATIO = 4.0
ALLOWED_DIVERGENCE = 1e-3
KEPT_BYTES = 1 << 30


@dataclass(frozen=True)
class Comparison:
    """The logits after one token: KL divergence, in nats, of two distributions from the exact
    one: the code's, and the one that the interpreter gives for the code's program. Of an encoder,
    likewise, the relative errors of a token's embedding."""

    graph: str
    position: int
    code: float
    interpreter: float


@dataclass(frozen=True)
class Report:
    """What was checked."""

    files: int
    bytes: int
    isa: str
    tokens: list[Comparison]
    dropped_bytes: list[tuple[int, int]]
    """(byte offset, value) of bytes of the text that the vocabulary has no token for."""

    @property
    def code(self) -> float:
        """Mean divergence of the code."""
        return float(np.mean([row.code for row in self.tokens]))

    @property
    def allowed(self) -> float:
        """The largest mean divergence at which the code counts as right."""
        program = float(np.mean([row.interpreter for row in self.tokens]))
        return ALLOWED_RATIO * program + ALLOWED_DIVERGENCE

    @property
    def passed(self) -> bool:
        """Whether the code computes what its program says; damaged files raise instead."""
        return self.code <= self.allowed


def verify_bundle(
    path: Path,
    *,
    threads: int | None = None,
    isa: str | None = None,
    text: str | None = None,
    control_tokens: Policy = "native",
    strict: bool = False,
) -> Report:
    """Check the bundle at `path`, its code by the tokens of `text` (default: a few of a sentence).
    Raises BundleError for a damaged file."""
    bundle = Bundle.open(path)
    bundle.verify()
    with Model.load(path, threads=threads, sequences=1, isa=isa) as model:
        ids, dropped = sample_ids(model, text, control_tokens, strict)
        code = compiled_rows(model, ids)
        isa = model.engine.isa
    graph = parse_module(bundle.read(GRAPH_IR).decode())
    program = to_fused(graph, Compute(prefill=isa_named(isa).prefill_compute))
    weights = PackedWeights(bundle, joined_weights(graph, program))
    exact = interpreted_rows(graph, weights, ids)
    interpreted = interpreted_rows(program, weights, ids)
    generates = PREFILL in program.functions
    distance = divergence if generates else relative_error
    rows = [
        Comparison(
            graph_of(i, ids) if generates else EMBED,
            i,
            distance(exact[i], code[i]),
            distance(exact[i], other),
        )
        for i, other in enumerate(interpreted)
    ]
    files = bundle.manifest.files
    return Report(len(files), sum(f.bytes for f in files), isa, rows, dropped)


def sample_ids(
    model: Model, text: str | None, control_tokens: Policy, strict: bool
) -> tuple[Ints, list[tuple[int, int]]]:
    """The tokens to try, those of a text or the beginning of a sentence, and the bytes of the text
    that were dropped. Raises ArgumentError where there are too few, TokenizerError."""
    dropped: list[tuple[int, int]] = []
    if text is None:
        ids = model.tokenizer.encode(SAMPLE)[: PREFILL_TOKENS + DECODE_TOKENS]
    else:
        encode = model.tokenizer.encode_with_details
        encoding = encode(text, control_tokens=control_tokens, strict=strict)
        ids, dropped = encoding.ids, encoding.dropped_bytes
    if len(ids) <= DECODE_TOKENS:
        raise ArgumentError(f"the text has {len(ids)} tokens, at least 2 are needed to verify code")
    return np.array(ids, np.int32), dropped


def graph_of(index: int, ids: Sequence[int] | Ints) -> str:
    """Which graph runs a token: all but the last by prefill."""
    return "prefill" if index < len(ids) - DECODE_TOKENS else "decode"


def compiled_rows(model: Model, ids: Ints) -> list[Floats]:
    """Logits after each token, or an encoder's embedding of each, by the compiled code."""
    if PREFILL not in model.manifest.graphs:
        return list(next(model.embedder(pooling="none", normalize=False).embed([ids])))
    with model.session() as session:
        rows = list(session.prefill_all(ids[:-DECODE_TOKENS]))
        return rows + [session.decode(int(token)).copy() for token in ids[-DECODE_TOKENS:]]


def interpreted_rows(program: Module, weights: "PackedWeights", ids: Ints) -> list[Floats]:
    """Logits after each token, or an encoder's embedding of each, by the interpreter."""
    n = len(ids) - DECODE_TOKENS
    positions = np.arange(len(ids), dtype=np.int32)
    zeros = np.zeros_like(ids)
    context = max(64, len(ids))
    with ReferenceBackend(program, weights.values, context=context, sequences=1) as reference:
        if PREFILL not in program.functions:
            return list(reference.embed(ids, positions, zeros, positions))
        rows = list(reference.prefill(ids[:n], positions[:n], zeros[:n], positions[:n]))
        for i in range(n, len(ids)):
            one = slice(i, i + 1)
            rows += list(reference.decode(ids[one], positions[one], zeros[one]))
    return rows


def joined_weights(graph: Module, program: Module) -> dict[str, tuple[Weight, int]]:
    """By the name of a weight of the graph that the program has as part of another one: that, and
    the row where the part begins."""
    places = {}
    for weight in program.weights.values():
        parts = [graph.weights.get(str(source)) for source in weight.sources]
        first = 0
        for part in parts if len(parts) > 1 else ():
            if part is not None:
                places[part.name] = weight, first
                first += part.type.max_shape[0]
    return places


class PackedWeights:
    """The values of a bundle's weights, unpacked when they are asked for; some are kept. Of weights
    that were joined to one, `joined` says where in it they are."""

    def __init__(self, bundle: Bundle, joined: dict[str, tuple[Weight, int]]) -> None:
        self._path = bundle.path
        self._joined = joined
        self._data: Bytes = load_weights(bundle, threads=1, mapped=True)
        self._entries = {entry.name: entry for entry in bundle.manifest.weights}
        self._kept: dict[str, Floats] = {}
        self._room = KEPT_BYTES

    def values(self, weight: Weight) -> Floats:
        """float32 values of a weight of the program. Raises BundleError if the bundle lacks it."""
        values = self._kept.get(weight.name)
        if values is None and weight.name not in self._entries and weight.name in self._joined:
            whole, first = self._joined[weight.name]
            values = self.values(whole)[first : first + weight.type.max_shape[0]]
        elif values is None:
            values = self._unpack(weight.name)
            if values.nbytes <= self._room:
                self._kept[weight.name] = values
                self._room -= values.nbytes
        return values

    def _unpack(self, name: str) -> Floats:
        entry = self._entries.get(name)
        if entry is None:
            raise BundleError(f"{self._path}: the program needs weight {name}, not packed")
        data = self._data[entry.offset : entry.offset + entry.bytes]
        try:
            return unpack_tensor(layout_named(entry.layout), data, entry.shape)
        except IRError as error:
            raise BundleError(f"{self._path}: weight {name}: {error}") from None


def divergence(expected: Floats, found: Floats) -> float:
    """KL(expected || found), in nats, of the distributions that two rows of logits stand for."""
    p, q = log_softmax(expected), log_softmax(found)
    return float((np.exp(p) * (p - q)).sum())


def relative_error(expected: Floats, found: Floats) -> float:
    """The squared length of what two embeddings differ by, over that of the expected one."""
    wide = expected.astype(np.float64)
    return float(np.square(found - wide).sum() / max(np.square(wide).sum(), 1e-300))


def log_softmax(logits: Floats) -> npt.NDArray[np.float64]:
    """Logarithms of probabilities."""
    shifted = logits.astype(np.float64) - float(logits.max())
    return np.asarray(shifted - np.log(np.exp(shifted).sum()))
