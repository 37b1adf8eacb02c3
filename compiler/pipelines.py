"""The pipelines: which passes run, in which order, and the stages that they lead to."""

from __future__ import annotations

from collections.abc import Iterable

from ggufc.compiler.pass_manager import Instrument, Pass, run_pipeline
from ggufc.compiler.passes.eliminate_common_ops import EliminateCommonOps
from ggufc.compiler.passes.eliminate_dead_ops import EliminateDeadOps
from ggufc.compiler.passes.fold_scales import FoldScales
from ggufc.compiler.passes.fuse_bias import FuseBias
from ggufc.compiler.passes.fuse_glu import FuseGlu
from ggufc.compiler.passes.fuse_glu_quantize import FuseGluQuantize
from ggufc.compiler.passes.fuse_qkv import FuseQkv
from ggufc.compiler.passes.fuse_residual import FuseResidual
from ggufc.compiler.passes.fuse_rms_norm_quantize import FuseRmsNormQuantize
from ggufc.compiler.passes.fuse_rope_kv_write import FuseRopeKvWrite
from ggufc.compiler.passes.hoist_take_rows import HoistTakeRows
from ggufc.compiler.passes.layout_weights import LayoutWeights
from ggufc.compiler.passes.plan_memory import PlanMemory
from ggufc.compiler.passes.quantize_activations import Compute, QuantizeActivations
from ggufc.compiler.passes.split_attention import SplitAttention
from ggufc.ir import Module


def fused_pipeline(compute: Compute) -> tuple[Pass, ...]:
    """From stage graph to stage fused, for a target that computes as `compute` says."""
    return (
        # Do less: nothing twice, nothing unused, no rows that nobody wants.
        EliminateCommonOps(),
        FoldScales(),
        HoistTakeRows(),
        EliminateDeadOps(),
        # Fuse: fewer and larger linears, and what follows a linear into it.
        FuseBias(),
        FuseQkv(),
        FuseGlu(),
        FuseResidual(),
        FuseRopeKvWrite(),
        # Cut: one long sequence is work for all threads.
        SplitAttention(),
        # Quantise: one activation for all linears that share it, made where it is at hand.
        QuantizeActivations(compute),
        FuseRmsNormQuantize(),
        FuseGluQuantize(),
        # Tidy up: biases that were joined leave theirs unused.
        EliminateDeadOps(),
    )


def planned_pipeline() -> tuple[Pass, ...]:
    """From stage fused to stage planned."""
    return (
        # Place weights in the packed file, then values in the arena.
        LayoutWeights(),
        PlanMemory(),
    )


def to_fused(module: Module, compute: Compute, instruments: Iterable[Instrument] = ()) -> Module:
    """The module at stage fused, as a copy; a PassError names the pass that failed."""
    fused = module.clone()
    run_pipeline(fused, fused_pipeline(compute), instruments)
    return fused


def to_planned(module: Module, instruments: Iterable[Instrument] = ()) -> Module:
    """A fused module at stage planned, as a copy; a PassError or PlanError says what failed."""
    planned = module.clone()
    run_pipeline(planned, planned_pipeline(), instruments)
    return planned


def pass_names() -> list[str]:
    """The names of all passes in the order of running, each once."""
    return list(
        dict.fromkeys(step.name for step in (*fused_pipeline(Compute()), *planned_pipeline()))
    )
