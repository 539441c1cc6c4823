"""Replace the operators of an area by a call of a function. The function contains these
operators.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import onnx

from fusionc.graph_kernel.area import KernelKind
from fusionc.graph_kernel.blocked.image_operators import is_product
from fusionc.graph_kernel.blocked.make_program import algorithm_of, program_of
from fusionc.graph_kernel.select.area_location import AreaLocation
from fusionc.graph_kernel.select.make_area import function_of
from fusionc.graph_kernel.select.operator_kinds import MOVES_DATA, ROW_BY_ROW, OperatorKind, kind_of
from fusionc.model.graph import Edge, Graph
from fusionc.model.operators import KERNELS
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, refuse
from fusionc.rewrite.log import PatternCount, RewriteLog
from fusionc.rewrite.pipeline import apply

# The passes that switch areas of each kind; the names are CANN's. If several of them fit an area,
# the area counts for the most specific one.
SEVERAL_OUTPUTS = "TbeMultiOutputFusionPass"
REDUCTION = "TbeReduceElemwiseFusionPass"
ELEMENTWISE = "TbeEltwiseFusionPass"
ANY = "AutomaticUbFusion"
BLOCKED = "BlockedConvolutionFusionPass"
PRODUCTS = "BlockedMatMulFusionPass"
ALGORITHMS = {
    "WinogradConvolutionPass": KernelKind.WINOGRAD,
    "StrassenMatMulPass": KernelKind.STRASSEN,
}
_NO_AREA = "the area that contains it was refused"
# If this pass is on, areas may contain operators that only move elements.
DATA_MOVEMENT = "FusionVirtualOpSetSwitch"


def pass_of(location: AreaLocation) -> str:
    """The name of the pass that an area counts for. If that pass is off, the area is not made."""
    operators = {node.op_type for node in location.area.nodes}
    if location.area.kind is not KernelKind.LOOPS:
        return PRODUCTS if any(map(is_product, operators)) else BLOCKED
    if len(location.outputs) > 1:
        return SEVERAL_OUTPUTS
    if operators & ROW_BY_ROW:
        return REDUCTION
    return ELEMENTWISE if all(kind_of(op) == OperatorKind.ELEMWISE for op in operators) else ANY


def moves_data(location: AreaLocation) -> bool:
    """Whether the area computes elements and contains operators that only move elements."""
    return location.area.kind is KernelKind.LOOPS and any(
        node.op_type in MOVES_DATA for node in location.area.nodes
    )


def replace_by_calls(
    graph: Graph, locations: Sequence[tuple[AreaLocation, str | None]], pass_: Pass, log: RewriteLog
) -> PatternCount:
    """Replace the operators of one pass's areas by calls, and count the areas.

    Each area comes with the reason why it is refused, or None. Refused areas are only counted.
    """

    def find(_: Graph) -> Iterator[Match]:
        for location, reason in locations:
            # The call of an area that was replaced earlier may now produce an input, under the same
            # name.
            inputs = [_current(value) for value in location.inputs]
            yield Match(
                graph,
                location.nodes,
                location.outputs,
                {"area": location.area, "inputs": inputs, "reason": reason},
            )

    def rewrite(m: Match, new: Tape) -> Result:
        return refuse(m.reason) if m.reason else new.call(function_of(m.area), m.inputs)

    count = apply(pass_, Pattern("area", find=find, rewrite=rewrite), graph, log)
    _declare_sizes(graph, [location for location, reason in locations if reason is None])
    return count


def _declare_sizes(graph: Graph, locations: Sequence[AreaLocation]) -> None:
    """Declare the known sizes of the outputs of areas.

    onnxruntime does not infer the sizes of a kernel's outputs, but it uses them: for example, it
    keeps an image in its blocked layout only if it knows the number of channels.
    """
    declared = {info.name for info in graph.proto.value_info}
    for location in locations:
        for value, name in zip(location.outputs, location.area.outputs, strict=True):
            made = _current(value)
            is_call = made.producer is not None and made.producer.domain == KERNELS
            if is_call and not made.is_output and value.name not in declared:
                known = location.area.values[name]
                dims = [dim if isinstance(dim, int) else None for dim in known.shape]
                graph.proto.value_info.append(
                    onnx.helper.make_tensor_value_info(value.name, known.dtype, dims)
                )


def count_steps(
    graph: Graph, locations: Sequence[tuple[AreaLocation, str | None]], pass_: Pass
) -> PatternCount:
    """Count the operators of areas that are computed with the algorithm of a pass, such as
    Winograd's.

    If an area was not made, its operators count as refused.
    """
    count = PatternCount(graph.id, pass_.kind, pass_.name, pass_.patterns[0].name)
    kind = ALGORITHMS[pass_.name]
    for location, reason in locations:
        if kind not in location.area.kind:
            continue
        times = sum(algorithm_of(step) is kind for step in program_of(location.area).program.steps)
        if (KERNELS, location.area.name, "") in graph.model.functions:
            count.effected += times
        elif times:
            why = reason or _NO_AREA
            count.refused[why] = count.refused.get(why, 0) + times
    return count


def _current(value: Edge) -> Edge:
    return value.graph.values.get(value.name, value)
