"""The engine: a bundle's code with its weights, its arena and the KV cache of all sequences."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggufc.runtime.arguments import check_flag, check_integer, is_integer, refuse, shown
from ggufc.runtime.bundle import EMBED, Bundle, Manifest
from ggufc.runtime.cpu import choose_object, default_threads
from ggufc.runtime.errors import (
    ArgumentError,
    ContextError,
    ModelClosedError,
    PurposeError,
)
from ggufc.runtime.locks import ForkSafeLock
from ggufc.runtime.memory import address, allocate, huge_part, load_weights
from ggufc.runtime.native import Call, NativeCode, ThreadPool, allow_tiles
from ggufc.runtime.states import States, padded_context
from ggufc.runtime.step_inputs import Addresses, Step, StepInputs

MAX_THREADS = 1024
Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int32]
Stamps = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class EngineOptions:
    """Choices made at load: None takes the default (threads: what the machine offers; context and
    sequences: the compiled maximum; isa: the best that runs here). `mapped` shares the weights
    between processes."""

    threads: int | None = None
    context: int | None = None
    sequences: int | None = None
    isa: str | None = None
    mapped: bool = False

    def __post_init__(self) -> None:
        """Raises ArgumentError for values of other types, and for threads that nobody has."""
        if self.threads is not None:
            check_integer("threads", self.threads, 1, MAX_THREADS)
        if self.isa is not None and not isinstance(self.isa, str):
            refuse("isa", self.isa, "the name of an instruction set")
        check_flag("mapped", self.mapped)


class Engine:
    """Runs the graphs. Safe to call from several threads: one call runs at a time, on all
    threads of the pool, and each caller gives its own array for the logits."""

    def __init__(self, bundle: Bundle, options: EngineOptions) -> None:
        """Load code and weights. Raises BundleError, MachineError, ContextError, ArgumentError."""
        self.manifest = bundle.manifest
        limits = self.manifest.limits
        self.context = within("context", options.context, limits.context)
        self.sequences = within("sequences", options.sequences, limits.sequences)
        self.threads = default_threads() if options.threads is None else options.threads
        chosen = choose_object(self.manifest.objects, options.isa)
        self.isa = chosen.isa
        allow_tiles(chosen.needs)
        self._code = NativeCode(
            bundle.read(chosen.path), str(bundle.path / chosen.path), self.manifest.graphs
        )
        self._weights = load_weights(bundle, threads=self.threads, mapped=options.mapped)
        self._arena = allocate(chosen.arena_bytes, huge=True)
        self.states = States(self.manifest, self.sequences, padded_context(self.context))
        self._pool = ThreadPool(self._code, self.threads)
        self._call = self._new_call()
        self._steps = StepInputs(self.sequences)
        self._lock = ForkSafeLock()
        self._closed = False
        self._stamps: Stamps | None = None
        self.native_seconds: dict[str, float] = {}
        """Time spent in each graph so far, by the clock on the wall."""
        model = self.manifest.model
        self.vocab_size = model.vocab_size
        """The width of the logits."""
        self.can_rewind = not any(state.sequence_bytes for state in self.manifest.states)
        """Whether tokens at the end of a sequence can be taken back: no state holds them all in
        one."""
        self.short_context = int(model.hparams.get("short_context", 0))
        """The number of positions up to which the model rotates as in short sequences; 0 where it
        knows no difference."""

    def _new_call(self) -> Call:
        return Call(
            abi_version=self.manifest.abi,
            weights=address(self._weights),
            arena=address(self._arena),
            states=address(self.states.table),
            context=self.states.context,
            n_sequences=self.sequences,
        )

    def embed(
        self,
        ids: Ints,
        positions: Ints,
        sequences: Ints,
        lengths: Ints,
        rows: Ints,
        out: Floats,
    ) -> None:
        """As `prefill`, with the embeddings of the tokens that `rows` names in place of logits:
        fills `out` [len(rows), width]. An encoder takes whole texts, as many as fit, of as many
        tokens as `lengths` says for each token."""
        self._run("embed", ids, positions, sequences, rows, lengths, out)

    def check_graph(self, graph: str) -> None:
        """Raise PurposeError unless the model has this graph."""
        check_purpose(self.manifest, graph)

    def prefill(
        self,
        sequence: int,
        position: int,
        ids: Ints,
        rows: Ints,
        logits: Floats,
        length: int | None = None,
    ) -> None:
        """Run `ids` (at most the compiled number of tokens) at `position` and onwards of one
        sequence, and fill `logits` [len(rows), vocab] with those of the tokens that `rows`
        names. `length` is how long the sequence will be, where more tokens are known to follow."""
        count = len(ids)
        positions = np.arange(position, position + count, dtype=np.int32)
        sequences = np.full(count, sequence, np.int32)
        lengths = np.full(count, length or position + count, np.int32)
        self._run("prefill", ids, positions, sequences, rows, lengths, logits)

    def decode(self, steps: Sequence[Step], logits: Floats) -> None:
        """Run one token of each of several distinct sequences; fills `logits` [len(steps),
        vocab]."""
        self.check_graph("decode")
        with self._lock:
            self._run_at("decode", self._steps.fill(steps), len(steps), len(steps), logits)

    def _run(
        self,
        graph: str,
        ids: Ints,
        positions: Ints,
        sequences: Ints,
        rows: Ints,
        lengths: Ints,
        logits: Floats,
    ) -> None:
        self.check_graph(graph)
        inputs = Addresses(*map(address, (ids, positions, sequences, rows, lengths)))
        with self._lock:
            self._run_at(graph, inputs, len(ids), len(rows), logits)

    def _run_at(
        self, graph: str, inputs: Addresses, n_tokens: int, n_rows: int, logits: Floats
    ) -> None:
        """Run a graph; under the lock."""
        if self._closed:
            raise ModelClosedError("the model is closed")
        call = self._call
        call.tokens, call.positions, call.sequences, call.rows, call.lengths = inputs
        call.logits, call.n_tokens, call.n_rows = address(logits), n_tokens, n_rows
        call.pool = self._pool.address()
        started = time.perf_counter()
        self._code.run(graph, call)
        seconds = time.perf_counter() - started
        self.native_seconds[graph] = self.native_seconds.get(graph, 0.0) + seconds

    def profile(self, stamps: Stamps | None) -> None:
        """From the next call on, let the graphs note the processor's clock in `stamps`: before each
        op, and at the end. It needs one element more than the longest graph has ops. None ends
        it."""
        with self._lock:
            self._stamps = stamps
            self._call.profile = None if stamps is None else address(stamps)

    @property
    def huge_weights(self) -> float | None:
        """The part of the weights that lies on 2 MB pages; None where the system does not tell."""
        return huge_part(self._weights)

    def close(self) -> None:
        """End the threads; every later call raises ModelClosedError."""
        with self._lock:
            self._closed = True
            self._pool.close()


def check_purpose(manifest: Manifest, graph: str) -> None:
    """Raise PurposeError unless the bundle has this graph."""
    if graph in manifest.graphs:
        return
    name, architecture = manifest.model.name, manifest.model.architecture
    if graph == EMBED:
        raise PurposeError(f"{name} ({architecture}) makes no embeddings")
    raise PurposeError(
        f"{name} ({architecture}) is an encoder: it makes embeddings and no text; use embed"
    )


def within(name: str, value: int | None, maximum: int) -> int:
    """`value`, or the maximum when it is None. Raises ContextError outside 1..maximum,
    ArgumentError for what is no integer."""
    if value is None:
        return maximum
    if not is_integer(value):
        refuse(name, value, f"an integer from 1 to {maximum}")
    if not 1 <= value <= maximum:
        raise ContextError(f"{name} {shown(value)}: the bundle was compiled for 1 to {maximum}")
    return value


def as_ids(ids: Sequence[int] | Ints, vocab_size: int) -> Ints:
    """Token ids as a checked array. Raises ArgumentError that names the first bad one."""
    try:
        array = np.asarray(ids)
    except ValueError:  # lists of several lengths
        refuse("token ids", ids, "a flat list of integers")
    if array.ndim != 1 or array.dtype.kind not in "iu":
        if array.size or array.ndim != 1:
            refuse("token ids", ids, "a flat list of integers")
        array = array.astype(np.int64)
    bad = np.flatnonzero((array < 0) | (array >= vocab_size))
    if len(bad):
        at = int(bad[0])
        raise ArgumentError(
            f"token id {int(array[at])} at index {at}: the vocabulary has ids 0 to {vocab_size - 1}"
        )
    return np.ascontiguousarray(array, dtype=np.int32)
