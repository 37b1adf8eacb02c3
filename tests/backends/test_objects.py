"""Objects of every instruction set: complete, the same on any machine, within their features."""

from __future__ import annotations

import hashlib
import re
import struct
import subprocess
import sys
from functools import cache

import pytest

from ggufc.backends.llvm import ISAS, CodegenError, compile_module, isa_named, module_text
from ggufc.backends.llvm.abi import EXPORTS
from ggufc.backends.llvm.isa import Isa
from ggufc.backends.llvm.object_code import emit_object, symbols
from ggufc.backends.llvm.optimize import parse, target_machine
from ggufc.compiler.passes.quantize_activations import Compute
from tests.support.planned_models import QUANTISED, PlannedModel, plan_model, planned_model
from tests.support.tiny_gguf import tiny_model

EVERY = pytest.mark.parametrize("isa", ISAS.values(), ids=lambda isa: isa.name)
ELF_MACHINE = {"x86_64": 62, "aarch64": 183}


@cache
def model_for(isa: Isa) -> PlannedModel:
    """A model that passes made for the instruction set; more types than float32 are in it."""
    if isa.prefill_compute == "int8":
        return planned_model("gemma3", "q8_0", **QUANTISED)
    model = tiny_model("gemma3", type_name="q8_0", **QUANTISED)
    return plan_model(model, compute=Compute(prefill=isa.prefill_compute))


@EVERY
def test_objects_are_complete(isa: Isa) -> None:
    compiled = model_for(isa).compiled(isa.name)
    found = symbols(compiled.object)
    assert found.undefined == ()
    assert found.defined == tuple(sorted(EXPORTS))
    (machine,) = struct.unpack_from("<H", compiled.object, 18)
    assert machine == ELF_MACHINE[compiled.machine] == ELF_MACHINE[isa.machine]
    assert compiled.needs == isa.features


def test_objects_do_not_depend_on_the_process() -> None:
    """Hash seeds and the order of imports leave no trace."""
    program = (
        "import hashlib; from ggufc.backends.llvm import compile_module; "
        "from tests.support.planned_models import planned_model; "
        "print(hashlib.sha256(compile_module(planned_model('llama').planned, 'x86-64').object)"
        ".hexdigest())"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(filter(None, sys.path))},
        ).stdout
        for seed in ("1", "2")
    }
    here = compile_module(planned_model("llama").planned, "x86-64").object
    assert found == {hashlib.sha256(here).hexdigest() + "\n"}


@pytest.mark.parametrize(
    ("isa", "registers"), [("x86-64", "[yz]mm"), ("x86-64-v3", "zmm"), ("x86-64-v4-vnni", "tmm")]
)
def test_code_keeps_to_the_registers_of_its_instruction_set(isa: str, registers: str) -> None:
    assert re.search(r"%xmm\d", assembly(isa))
    assert not re.search(rf"%{registers}\d", assembly(isa))


@pytest.mark.parametrize(
    ("isa", "register"),
    [("x86-64-v3", "ymm"), ("x86-64-v4-vnni", "zmm"), ("x86-64-amx", "tmm")],
)
def test_code_uses_the_registers_of_its_instruction_set(isa: str, register: str) -> None:
    assert re.search(rf"%{register}\d", assembly(isa))


@cache
def assembly(isa: str) -> str:
    return module_text(model_for(isa_named(isa)).planned, isa, "asm")


def test_undefined_symbols_are_named() -> None:
    isa = isa_named("x86-64")
    text = f"""target triple = "{isa.triple}"
    declare float @expf(float)
    define float @f(float %x) {{
      %y = call float @expf(float %x)
      ret float %y
    }}"""
    with pytest.raises(CodegenError, match=r"x86_64.*undefined symbols expf; generated code"):
        emit_object(parse(text), target_machine(isa))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "begins with , expected an ELF64 header"),
        (b"MZ\x90\x00\x03\x00", "begins with 4d5a90000300, expected"),
        (b"\x7fELF\x02\x01".ljust(64, b"\0"), "no symbol table"),
    ],
)
def test_what_is_no_object_is_refused(content: bytes, message: str) -> None:
    with pytest.raises(CodegenError, match=message):
        symbols(content)


def test_text_that_is_not_llvm_is_refused_on_one_line() -> None:
    with pytest.raises(CodegenError, match=r"LLVM refuses the module: .*expected") as error:
        parse("define nonsense")
    assert "\n" not in str(error.value)
