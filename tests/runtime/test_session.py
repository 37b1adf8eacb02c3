"""Sessions over a compiled tiny model: every way to feed tokens gives the same logits."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from ggufc.runtime.errors import ArgumentError, ContextError, ModelClosedError
from ggufc.runtime.model import Model
from ggufc.runtime.session import common_prefix
from ggufc.runtime.step_inputs import Step

IDS = np.random.default_rng(5).integers(3, 64, 40).tolist()


@pytest.fixture(scope="module")
def model(tiny: Path) -> Iterator[Model]:
    with Model.load(tiny, threads=2) as loaded:
        yield loaded


@pytest.fixture(scope="module")
def expected(model: Model) -> np.ndarray:
    """Logits after each of IDS, all at once."""
    return model.logits(IDS, all=True)


@pytest.mark.parametrize("chunk", [1, 3, 16, 39, 64])
def test_chunks_change_nothing(model: Model, expected: np.ndarray, chunk: int) -> None:
    found = model.logits(IDS, all=True, chunk=chunk)
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-5)
    last = model.logits(IDS, chunk=chunk)
    np.testing.assert_allclose(last, expected[-1], rtol=0, atol=2e-5)


def test_decode_equals_prefill(model: Model, expected: np.ndarray) -> None:
    np.testing.assert_allclose(model.logits(IDS, all=True, step=True), expected, rtol=0, atol=2e-5)
    np.testing.assert_allclose(model.logits(IDS, step=True), expected[-1], rtol=0, atol=2e-5)


@pytest.mark.parametrize("threads", [1, 3, 4, 7])
def test_threads_change_no_bit(tiny: Path, expected: np.ndarray, threads: int) -> None:
    with Model.load(tiny, threads=threads) as other:
        assert other.engine.threads == threads
        assert np.array_equal(other.logits(IDS, all=True), expected)
        assert np.array_equal(other.logits(IDS, step=True), other.logits(IDS, step=True))


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("context", [40, 64, 100])
def test_loading_differently_changes_nothing(
    tiny: Path, expected: np.ndarray, mapped: bool, context: int
) -> None:
    with Model.load(tiny, mapped=mapped, context=context, sequences=1) as other:
        assert np.array_equal(other.logits(IDS, all=True), expected)


def test_sequences_do_not_disturb_each_other(model: Model, expected: np.ndarray) -> None:
    with model.session() as a, model.session() as b:
        assert a.index != b.index
        for i, token in enumerate(IDS):
            of_a = a.decode(token).copy()
            b.decode(IDS[-1 - i])
            np.testing.assert_allclose(of_a, expected[i], rtol=0, atol=2e-5)


def test_a_batch_equals_its_sequences_alone(model: Model, expected: np.ndarray) -> None:
    with model.session() as a, model.session() as b:
        a.prefill(IDS[:10])
        b.prefill(IDS[:3])
        logits = np.empty((2, 64), np.float32)
        steps = [Step(b.index, 3, IDS[3], 4), Step(a.index, 10, IDS[10], 11)]
        model.engine.decode(steps, logits)
    np.testing.assert_allclose(logits, expected[[3, 10]], rtol=0, atol=2e-5)


def test_prefix_reuse_gives_the_same_logits(model: Model, expected: np.ndarray) -> None:
    with model.session() as session:
        session.prefill([*IDS[:20], 1, 1, 1])
        assert session.reuse(IDS) == 20
        found = session.prefill(IDS[20:])
        np.testing.assert_allclose(found, expected[-1], rtol=0, atol=2e-5)
        assert session.reuse(IDS) == len(IDS) - 1
        np.testing.assert_allclose(session.decode(IDS[-1]), expected[-1], rtol=0, atol=2e-5)
        assert session.reuse([IDS[0]]) == 0


@pytest.mark.parametrize(
    ("a", "b", "length"), [([], [1], 0), ([1, 2], [1, 2, 3], 2), ([1, 2], [1, 3], 1), ([2], [1], 0)]
)
def test_common_prefix(a: list[int], b: list[int], length: int) -> None:
    assert common_prefix(a, b) == common_prefix(b, a) == length


def test_overflow_is_refused_before_any_work(model: Model) -> None:
    with model.session() as session:
        session.prefill(IDS)
        for run in (session.prefill, session.prefill_all):
            with pytest.raises(ContextError, match="129 tokens do not fit a context of 128"):
                run([5] * 89)
        assert session.position == len(IDS)
        session.prefill([5] * 88)
        with pytest.raises(ContextError, match="129 tokens do not fit a context of 128"):
            session.decode(5)
        assert session.position == 128


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([], "no tokens"),
        ([5, 64], "token id 64 at index 1: the vocabulary has ids 0 to 63"),
        ([-1], "token id -1 at index 0"),
        ([2**40], "token id 1099511627776 at index 0"),
        ([1.5], "expected a flat list of integers"),
        ([[1]], "expected a flat list of integers"),
        (["x"], "expected a flat list of integers"),
    ],
)
def test_bad_ids(model: Model, ids: list[int], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        model.logits(ids)


@pytest.mark.parametrize("chunk", [0, -1, 513])
def test_bad_chunks(model: Model, chunk: int) -> None:
    with pytest.raises(ArgumentError, match=f"chunk {chunk}: expected an integer from 1 to 512"):
        model.logits(IDS, chunk=chunk)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"context": 129}, "context 129: the bundle was compiled for 1 to 128"),
        ({"context": 0}, "context 0"),
        ({"sequences": 9}, "sequences 9: the bundle was compiled for 1 to 8"),
        ({"threads": 0}, "threads 0: expected an integer from 1 to 1024"),
        ({"isa": "z80"}, "no code for z80"),
    ],
)
def test_bad_choices_at_load(tiny: Path, arguments: dict[str, int], message: str) -> None:
    from ggufc.runtime.errors import RunError

    with pytest.raises(RunError, match=message):
        Model.load(tiny, **arguments)  # type: ignore[arg-type]


def test_a_closed_model_says_so(tiny: Path) -> None:
    model = Model.load(tiny, threads=2)
    model.close()
    model.close()
    with pytest.raises(ModelClosedError):
        model.logits(IDS)


def test_threads_of_python_share_a_model(model: Model, expected: np.ndarray) -> None:
    """More threads than sequences: the calls queue, and each gets the answer that it would get
    alone."""
    wrong: list[int] = []

    def work(n: int) -> None:
        for _ in range(5):
            if not np.allclose(model.logits(IDS[:n]), expected[n - 1], rtol=0, atol=2e-5):
                wrong.append(n)

    workers = [threading.Thread(target=work, args=(n,)) for n in range(1, 13)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert not any(worker.is_alive() for worker in workers)
    assert wrong == []


def in_child(work: object) -> int:
    """Run a function in a fork and return the exit status; 97 is a wrong result."""
    pid = os.fork()
    if pid == 0:
        code = 97
        try:
            code = 0 if work() else 97  # type: ignore[operator]
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_the_child_of_a_fork_works(model: Model, expected: np.ndarray) -> None:
    def same() -> bool:
        return bool(np.array_equal(model.logits(IDS), expected[-1]))

    for _ in range(5):
        assert in_child(same) == 0
    assert same()


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_fork_while_another_thread_generates(model: Model, expected: np.ndarray) -> None:
    stop = threading.Event()

    def busy() -> None:
        while not stop.is_set():
            model.logits(IDS)

    def all_sequences_are_free() -> bool:
        with model.session() as one, model.session() as two:
            one.prefill(IDS)
            return bool(np.array_equal(two.prefill(IDS), expected[-1]))

    worker = threading.Thread(target=busy)
    worker.start()
    try:
        assert [in_child(all_sequences_are_free) for _ in range(10)] == [0] * 10
    finally:
        stop.set()
        worker.join(60)
    assert np.array_equal(model.logits(IDS), expected[-1])


def test_memory_that_cannot_be_reserved() -> None:
    from dataclasses import replace

    from ggufc.runtime.bundle import State
    from ggufc.runtime.errors import MachineError
    from ggufc.runtime.states import allocate_states
    from tests.support.fake_bundle import FILES, manifest_of

    manifest = replace(manifest_of(FILES), states=(State("k", "bf16", 1 << 40, 0, "keys", 1),))
    with pytest.raises(MachineError, match="KV cache of 8 sequences of 1048576 positions: choose"):
        allocate_states(manifest, 8, 1 << 20)
