"""Runs graph kernel fusion on a small model, as a conversion does, without building kernels."""

from __future__ import annotations

from collections.abc import Sequence

import onnx

from fusionc.graph_kernel.flags.flag_table import Flags
from fusionc.graph_kernel.flags.stages import Stages
from fusionc.graph_kernel.fusion import Fused, GraphKernelFusion
from fusionc.graph_kernel.select.supported_operators import ReasonAgainst, any_standard_operator
from fusionc.model.write_back import write_back
from fusionc.passes import PASSES
from fusionc.rewrite.log import RewriteLog
from fusionc.rewrite.pipeline import run
from fusionc.shapes.inference import typed_model

DEFAULT = frozenset(p.name for p in PASSES if p.default != "off")


def fuse(
    model: onnx.ModelProto,
    flags: Flags | None = None,
    enabled: frozenset[str] = DEFAULT,
    reason_against: ReasonAgainst = any_standard_operator,
    behind: Sequence[str] = (),
) -> tuple[onnx.ModelProto, Fused]:
    """A copy of the model with its areas, and the result of the fusion. The passes `behind` run
    before the fusion.
    """
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    flags = flags or Flags(opt_level=2)
    in_memory = typed_model(copy, "")
    registry = {p.name: p for p in PASSES}
    run(in_memory, [registry[name] for name in behind], RewriteLog())
    fusion = GraphKernelFusion(flags, Stages(flags), registry, enabled, reason_against)
    fused = fusion.run(in_memory, RewriteLog())
    return write_back(in_memory), fused
