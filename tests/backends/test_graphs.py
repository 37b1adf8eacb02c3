"""Both graphs of tiny models as machine code against the interpreter, and what a call may ask."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from ggufc.backends.base import Backend
from ggufc.backends.llvm import ISAS, CodegenError, host_isas
from ggufc.backends.llvm.abi import ReturnCode
from ggufc.compiler.models import GraphOptions
from tests.support.planned_models import QUANTISED, PlannedModel, plan_model, planned_model
from tests.support.tiny_gguf import tiny_model

Logits = npt.NDArray[np.float32]
HOST = pytest.mark.parametrize("isa", host_isas())


def ints(*values: int) -> npt.NDArray[np.int32]:
    return np.array(values, np.int32)


def conversation(backend: Backend) -> list[Logits]:
    """Two sequences: one prefilled in chunks, one whole; then both decoded together, thrice."""
    first, second = np.arange(3, 14, dtype=np.int32), np.arange(40, 31, -1, dtype=np.int32)
    found = []
    for start, stop in ((0, 5), (5, 6), (6, 11)):
        positions = np.arange(start, stop, dtype=np.int32)
        rows = ints(stop - start - 1, 0)
        found.append(backend.prefill(first[start:stop], positions, positions * 0 + 2, rows))
    positions = np.arange(9, dtype=np.int32)
    found.append(backend.prefill(second, positions, positions * 0, positions))
    for step in range(3):
        tokens, sequences = ints(7 + step, 9 - step), ints(2, 0)
        found.append(backend.decode(tokens, ints(11 + step, 9 + step), sequences))
    return found


def native_conversation(model: PlannedModel, isa: str, threads: int) -> list[Logits]:
    with model.native(isa, threads=threads, context=64, sequences=3) as backend:
        return conversation(backend)


@HOST
@pytest.mark.parametrize("architecture", ["llama", "gemma3"])
def test_float_models_equal_the_interpreter(architecture: str, isa: str) -> None:
    model = planned_model(architecture)
    expected = conversation(model.reference(context=64, sequences=3))
    for found, wanted in zip(native_conversation(model, isa, 1), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


@HOST
@pytest.mark.parametrize(("architecture", "type_name"), [("llama", "q4_k"), ("gemma3", "q8_0")])
def test_quantised_models_are_near_the_interpreter(
    architecture: str, type_name: str, isa: str
) -> None:
    """An activation at a border may be rounded the other way: near, not equal."""
    model = planned_model(architecture, type_name, **QUANTISED)
    expected = conversation(model.reference(context=64, sequences=3))
    for found, wanted in zip(native_conversation(model, isa, 1), expected, strict=True):
        assert np.abs(found - wanted).max() < 0.05 * np.abs(wanted).max()
        assert np.abs(found - wanted).mean() < 0.005 * np.abs(wanted).max()


@HOST
@pytest.mark.parametrize("type_name", ["f32", "q8_0"])
def test_results_are_the_same_for_any_number_of_threads(isa: str, type_name: str) -> None:
    model = planned_model("gemma3", type_name, **({} if type_name == "f32" else QUANTISED))
    runs = []
    for threads in (1, 2, 3, 5):
        with model.native(isa, threads=threads, context=64, sequences=3) as backend:
            runs.append(
                [*conversation(backend), backend.state("blk.0.k"), backend.state("blk.1.v")]
            )
    for run in runs[1:]:
        assert [a.tobytes() for a in run] == [a.tobytes() for a in runs[0]]


def test_long_prompts_give_the_same_results_whoever_takes_the_work() -> None:
    """Several blocks of tokens, whose pieces threads take from each other: more threads than cores
    are halted in the middle."""
    sizes = {**QUANTISED, "hidden_dim": 2048, "context": 512}
    tiny = tiny_model("llama", type_name="q4_k", **sizes)
    model = plan_model(tiny, GraphOptions(max_tokens=400, kv_type="bf16"))
    tokens, positions = np.arange(400, dtype=np.int32) % 50, np.arange(400, dtype=np.int32)
    runs = []
    for threads in (1, 2, 3, 8):
        with model.native(host_isas()[0], threads=threads, context=448, sequences=1) as backend:
            logits = [
                backend.prefill(tokens, positions, positions * 0, ints(0, 200, 399))
                for _ in range(3)
            ]
            runs.append([*logits, backend.state("blk.1.v")])
    for run in runs[1:]:
        assert [a.tobytes() for a in run] == [a.tobytes() for a in runs[0]]


def test_caches_equal_those_of_the_interpreter() -> None:
    model = planned_model("llama")
    with model.native(host_isas()[0], context=64, sequences=3) as backend:
        conversation(backend)
        reference = model.reference(context=64, sequences=3)
        conversation(reference)
        for name, expected in reference._states.arrays.items():
            np.testing.assert_allclose(backend.state(name), expected, rtol=1e-4, atol=1e-4)


def test_no_rows_are_wanted() -> None:
    model = planned_model("llama")
    with model.native(host_isas()[0], threads=2, context=64) as backend:
        positions = np.arange(5, dtype=np.int32)
        found = backend.prefill(positions, positions, positions * 0, ints())
        assert found.shape == (0, 64)
        again = backend.prefill(ints(5), ints(5), ints(0), ints(0))
    reference = model.reference(context=64)
    reference.prefill(positions, positions, positions * 0, ints())
    expected = reference.prefill(ints(5), ints(5), ints(0), ints(0))
    np.testing.assert_allclose(again, expected, rtol=1e-4, atol=1e-4)


REFUSED: dict[str, tuple[dict[str, int], ReturnCode]] = {
    "version": ({"abi_version": 2}, ReturnCode.ABI_VERSION),
    "no tokens": ({"n_tokens": 0}, ReturnCode.N_TOKENS),
    "too many tokens": ({"n_tokens": 33}, ReturnCode.N_TOKENS),
    "negative rows": ({"n_rows": (1 << 64) - 1}, ReturnCode.N_ROWS),
    "too many rows": ({"n_rows": 33}, ReturnCode.N_ROWS),
    "no context": ({"context": 0}, ReturnCode.CONTEXT),
    "odd context": ({"context": 96}, ReturnCode.CONTEXT),
    "too long a context": ({"context": 192}, ReturnCode.CONTEXT),
    "no sequences": ({"n_sequences": 0}, ReturnCode.N_SEQUENCES),
    "too many sequences": ({"n_sequences": 9}, ReturnCode.N_SEQUENCES),
    "no arena": ({"arena": 0}, ReturnCode.ALIGNMENT),
    "odd weights": ({"weights": 32}, ReturnCode.ALIGNMENT),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_call_that_the_code_was_not_made_for_is_refused(case: str) -> None:
    changes, code = REFUSED[case]
    model = planned_model("llama")
    with model.native(host_isas()[-1], context=64) as backend:
        arguments = (ints(1, 2), ints(0, 1), ints(0, 0), ints(1))
        assert backend.call("prefill", *arguments)[0] == ReturnCode.OK
        assert backend.call("prefill", *arguments, changes=changes)[0] == code


def test_decode_writes_a_row_for_each_token() -> None:
    model = planned_model("llama")
    with model.native(host_isas()[-1], context=64) as backend:
        arguments = (ints(1, 2), ints(0, 0), ints(0, 1), ints(0, 1))
        assert backend.call("decode", *arguments)[0] == ReturnCode.OK
        assert backend.call("decode", *arguments, changes={"n_rows": 1})[0] == ReturnCode.N_ROWS


def test_a_profile_has_the_time_after_each_op() -> None:
    model = planned_model("llama")
    n_ops = len(model.planned.functions["prefill"].ops)
    stamps = np.zeros(n_ops + 2, np.uint64)
    with model.native(host_isas()[0], threads=2, context=64) as backend:
        positions = np.arange(5, dtype=np.int32)
        code, _ = backend.call(
            "prefill", positions, positions, positions * 0, ints(4), profile=stamps
        )
    assert code == ReturnCode.OK
    assert (np.diff(stamps[: n_ops + 1].astype(np.int64)) >= 0).all()
    assert stamps[0] > 0
    assert stamps[n_ops] > stamps[0]
    assert stamps[n_ops + 1] == 0


def test_other_machines_code_is_refused_with_the_reason() -> None:
    foreign = next(name for name in ISAS if name not in host_isas())
    with (
        pytest.raises(CodegenError, match=f"cannot run {foreign} code; it runs {host_isas()[0]}"),
        planned_model("llama").native(foreign),
    ):
        pass
