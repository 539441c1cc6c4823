"""The operator Shape. The elements of its result are sizes, which are known before loops run."""

from __future__ import annotations

from collections.abc import Sequence

import onnx

from fusionc.graph_kernel.lower.area_info import AreaInfo, KernelShape, attribute
from fusionc.graph_kernel.lower.index import CutWanted, Index
from fusionc.graph_kernel.lower.lowering import Lowering, OperatorLowering
from fusionc.graph_kernel.lower.steps import Step
from fusionc.graph_kernel.lower.symbolic_sizes import Unsupported
from fusionc.operators.polynomials import ONE, number


def _asked(info: AreaInfo, node: onnx.NodeProto) -> KernelShape:
    """The sizes that a Shape returns. Its start and end may be negative (then they count from the
    end), and are limited to the rank.
    """
    shape = info.shapes[node.input[0]]
    return shape[attribute(node, "start", 0) : attribute(node, "end", len(shape))]


def _shapes(info: AreaInfo, node: onnx.NodeProto) -> list[KernelShape]:
    return [(number(len(_asked(info, node))),)]


def _element(lowering: Lowering, node: onnx.NodeProto, k: int, at: Sequence[Index]) -> Step:
    sizes = _asked(lowering.info, node)
    index = at[0]
    for variable, _ in index.terms:
        if variable.extent.number:
            raise CutWanted(variable, [ONE] * variable.extent.number)
    place = index.offset.number
    if index.terms or place is None or not 0 <= place < len(sizes):
        raise Unsupported("it is not known which size is read")
    return lowering.steps.size(lowering.info.ctype(node.output[0]), sizes[place])


SHAPE = {"Shape": OperatorLowering(_shapes, _element)}
