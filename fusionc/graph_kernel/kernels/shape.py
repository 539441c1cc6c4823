"""Shape: the sizes of an input as elements. A kernel knows them before its loops run, so each is a number there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import onnx

from fusionc.graph_kernel.kernels.index import CutWanted, Index
from fusionc.graph_kernel.kernels.sizes import ONE, Size, Unsupported
from fusionc.graph_kernel.kernels.steps import Step
from fusionc.graph_kernel.kernels.view import Shape, View, attribute

if TYPE_CHECKING:
    from fusionc.graph_kernel.kernels.pull import Pull


def _asked(view: View, node: onnx.NodeProto) -> Shape:
    """The sizes that are asked for. Bounds beyond the rank are moved to it, and a negative one counts from the end."""
    shape = view.shapes[node.input[0]]
    return shape[attribute(node, "start", 0) : attribute(node, "end", len(shape))]


def _shapes(view: View, node: onnx.NodeProto) -> list[Shape]:
    return [(Size(len(_asked(view, node))),)]


def _element(pull: Pull, node: onnx.NodeProto, k: int, at: Sequence[Index]) -> Step:
    sizes, index = _asked(pull.view, node), at[0]
    for variable, _ in index.terms:
        if variable.extent.factor and variable.extent.number is not None:
            raise CutWanted(variable, [ONE] * variable.extent.number)
    place = index.offset.size
    if index.terms or place is None or place.number is None or not 0 <= place.number < len(sizes):
        raise Unsupported("it is not known which size is read")
    return pull.steps.size(pull.view.kind(node.output[0]), sizes[place.number])


SHAPE: dict[
    str,
    tuple[
        Callable[[View, onnx.NodeProto], list[Shape]],
        Callable[[Pull, onnx.NodeProto, int, Sequence[Index]], Step],
    ],
] = {"Shape": (_shapes, _element)}
