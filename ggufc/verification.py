"""Checks a bundle: the hash of every file, and its code against the reference interpreter.

The interpreter runs the bundle's own graph, brought to the stage that the code computes
(activations quantised alike), on the values that the packed weights stand for. What is left
between the two is the order of summation, and now and then an activation that rounds the other
way.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ggufc.backends.llvm.isa import isa_named
from ggufc.backends.llvm.layouts import layout_named, unpack
from ggufc.backends.reference.backend import ReferenceBackend
from ggufc.compiler.passes.quantize_activations import Compute
from ggufc.compiler.pipelines import to_fused
from ggufc.ir import IRError, Weight, parse_module
from ggufc.runtime.bundle import GRAPH_IR, Bundle
from ggufc.runtime.engine import Floats
from ggufc.runtime.errors import BundleError
from ggufc.runtime.memory import Bytes, load_weights
from ggufc.runtime.model import Model

PREFILL_TOKENS = 6
DECODE_TOKENS = 2
MAX_DIVERGENCE = 1e-3


@dataclass(frozen=True)
class Comparison:
    """One row of logits: KL divergence (nats) of the code's distribution from the interpreter's,
    and the largest difference of two logits."""

    graph: str
    position: int
    divergence: float
    max_difference: float

    @property
    def agrees(self) -> bool:
        """Whether the code computes what the program means; NaN does not."""
        return self.divergence <= MAX_DIVERGENCE


@dataclass(frozen=True)
class Report:
    """What was checked."""

    files: int
    bytes: int
    isa: str
    comparisons: list[Comparison]

    @property
    def passed(self) -> bool:
        """Whether all rows agree; damaged files raise instead."""
        return all(row.agrees for row in self.comparisons)


def verify_bundle(path: Path, *, threads: int | None = None, isa: str | None = None) -> Report:
    """Check the bundle at `path`. Raises BundleError for a damaged file."""
    bundle = Bundle.open(path)
    bundle.verify()
    with Model.load(path, threads=threads, sequences=1, isa=isa) as model:
        ids = sample_ids(model.manifest.model.vocab_size)
        found = compiled_rows(model, ids)
        expected = reference_rows(bundle, model.engine.isa, ids)
    rows = [compare(i, a, b) for i, (a, b) in enumerate(zip(expected, found, strict=True))]
    files = bundle.manifest.files
    return Report(len(files), sum(f.bytes for f in files), model.engine.isa, rows)


def sample_ids(vocab_size: int) -> npt.NDArray[np.int32]:
    """Tokens to try, the same every time."""
    count = PREFILL_TOKENS + DECODE_TOKENS
    return np.random.default_rng(0).integers(0, vocab_size, count, dtype=np.int32)


def compiled_rows(model: Model, ids: npt.NDArray[np.int32]) -> list[Floats]:
    """Logits after each token: some by prefill, the rest by decode."""
    with model.session() as session:
        rows = list(session.prefill_all(ids[:PREFILL_TOKENS]))
        return rows + [session.decode(int(token)).copy() for token in ids[PREFILL_TOKENS:]]


def reference_rows(bundle: Bundle, isa: str, ids: npt.NDArray[np.int32]) -> list[Floats]:
    """The same by the interpreter."""
    graph = parse_module(bundle.read(GRAPH_IR).decode())
    fused = to_fused(graph, Compute(prefill=isa_named(isa).prefill_compute))
    weights = PackedWeights(bundle)
    positions = np.arange(len(ids), dtype=np.int32)
    zeros = np.zeros_like(ids)
    n = PREFILL_TOKENS
    with ReferenceBackend(fused, weights.values, context=64, sequences=1) as reference:
        rows = list(reference.prefill(ids[:n], positions[:n], zeros[:n], positions[:n]))
        for i in range(n, len(ids)):
            one = slice(i, i + 1)
            rows += list(reference.decode(ids[one], positions[one], zeros[one]))
    return rows


class PackedWeights:
    """The values of a bundle's weights, unpacked when they are asked for and not kept."""

    def __init__(self, bundle: Bundle) -> None:
        self._path = bundle.path
        self._data: Bytes = load_weights(bundle, threads=1, mapped=True)
        self._entries = {entry.name: entry for entry in bundle.manifest.weights}

    def values(self, weight: Weight) -> Floats:
        """float32 values of a weight of the program. Raises BundleError if the bundle lacks it."""
        entry = self._entries.get(weight.name)
        if entry is None:
            raise BundleError(f"{self._path}: the program needs weight {weight.name}, not packed")
        data = self._data[entry.offset : entry.offset + entry.bytes]
        rows, columns = entry.shape if len(entry.shape) == 2 else (1, entry.shape[0])
        try:
            return unpack(layout_named(entry.layout), data, rows, columns).reshape(entry.shape)
        except IRError as error:
            raise BundleError(f"{self._path}: weight {entry.name}: {error}") from None


def compare(index: int, expected: Floats, found: Floats) -> Comparison:
    """Two rows of logits."""
    return Comparison(
        graph="prefill" if index < PREFILL_TOKENS else "decode",
        position=index,
        divergence=divergence(expected.astype(np.float64), found.astype(np.float64)),
        max_difference=float(np.abs(expected - found).max()),
    )


def divergence(expected: npt.NDArray[np.float64], found: npt.NDArray[np.float64]) -> float:
    """KL(expected || found) of the distributions that logits stand for, in nats."""
    p, q = log_softmax(expected), log_softmax(found)
    return float((np.exp(p) * (p - q)).sum())


def log_softmax(logits: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Logarithms of probabilities."""
    shifted = logits - logits.max()
    return np.asarray(shifted - np.log(np.exp(shifted).sum()))
