"""The LLVM text of small functions, word by word: a change to code generation shows itself here."""

from __future__ import annotations

import pytest

from ggufc.backends.llvm.codegen import emit_kernel
from ggufc.backends.llvm.isa import isa_named
from ggufc.backends.llvm.kernel import OpSignature
from ggufc.backends.llvm.kernel_builder import Module
from ggufc.backends.llvm.threading import define_pool
from tests.support.golden import Golden
from tests.support.signatures import op_signature

KERNELS = {
    "add": op_signature("add", {"a": "f32[T, 40]", "b": "f32[T, 40]"}, ("f32[T, 40]",)),
    "bias_add": op_signature("bias_add", {"x": "f32[T, 64]", "bias": "@f32[64]"}, ("f32[T, 64]",)),
    "slice": op_signature("slice", {"x": "f32[T, 48]"}, ("f32[T, 16]",), start=16, stop=32),
}


@pytest.mark.parametrize("name", KERNELS)
def test_kernels(name: str, golden: Golden) -> None:
    golden.check(f"backends/{name}.ll", kernel_text(KERNELS[name]))


def kernel_text(signature: OpSignature) -> str:
    isa = isa_named("x86-64-v3")
    module = Module(signature.op, isa.triple)
    emit_kernel(module, signature.op, signature, isa)
    return module.text()


@pytest.mark.parametrize("isa", ["x86-64", "aarch64"])
def test_the_pool(isa: str, golden: Golden) -> None:
    module = Module("pool", isa_named(isa).triple)
    define_pool(module, isa_named(isa))
    golden.check(f"backends/pool.{isa}.ll", module.text())
