"""Rewrites areas with float16 values into areas that compute in float32. The kernel of such an area
converts float16 to float32 when it reads a tensor, computes in float32, and rounds when it writes a
tensor.

onnxruntime does the same for most operators, because it has few CPU kernels for float16: it
computes them in float32, and rounds only where the model has a Cast.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
import onnx
from onnx import TensorProto, helper

from fusionc.graph_kernel.area import Area
from fusionc.graph_kernel.lower.area_info import attribute
from fusionc.model.operators import KERNELS

# The operator that replaces numbers too large for float16 by infinity. It exists only in these
# areas.
IN_HALF_RANGE = (KERNELS, "InHalfRange")
FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16)
_OF_INTEGERS = ("DequantizeLinear", "DynamicQuantizeLinear", "QuantizeLinear")


def in_float32(area: Area) -> tuple[Area, list[int]]:
    """The area with float32 in place of float16, and without Casts between the two. Also, for each
    of its operators, the index of the operator in the original area.

    A Cast stays if both its operand and its result are inputs or outputs of the area. Areas that
    compute in integers are not changed, because the type of a scale determines how their results
    are rounded.
    """
    is_of_integers = any(node.op_type in _OF_INTEGERS for node in area.nodes)
    if is_of_integers or not any(v.dtype == TensorProto.FLOAT16 for v in area.values.values()):
        return area, list(range(len(area.nodes)))
    nodes = _without_casts(area)
    values = {
        name: replace(value, dtype=TensorProto.FLOAT)
        if value.dtype == TensorProto.FLOAT16
        else value
        for name, value in area.values.items()
    }
    constants = {
        name: array.astype(np.float32) if array.dtype == np.float16 else array
        for name, array in area.constants.items()
    }
    widened = replace(area, nodes=tuple(nodes.values()), values=values, constants=constants)
    return widened, list(nodes)


def with_half_range(area: Area, wide: Area) -> tuple[Area, list[int]]:
    """`wide`, the float32 form of `area`, in which some outputs are limited to the range of
    float16. These are the outputs that operators in the area read, too: a number that is written as
    infinity must also be read as infinity. Also, for each operator, the index of its operator in
    `wide`.
    """
    if wide is area:
        return area, list(range(len(area.nodes)))
    limited = _limited_values(area, wide)
    nodes = [
        (place, part)
        for place, node in enumerate(wide.nodes)
        for part in _with_limits(node, limited)
    ]
    values = {new: replace(wide.values[name], name=new) for name, new in limited.items()}
    operators = tuple(node for _, node in nodes)
    ranged = replace(wide, nodes=operators, values={**wide.values, **values})
    return ranged, [place for place, _ in nodes]


def _limited_values(area: Area, wide: Area) -> Mapping[str, str]:
    """The outputs that operators in the area read, too: name → the name of the value before its
    range is limited.
    """
    written = {name for name in area.outputs if area.values[name].dtype == TensorProto.FLOAT16}
    for node in area.nodes:
        if _is_between_floats(area, node) and attribute(node, "to") == TensorProto.FLOAT:
            written.add(node.output[0])
    read = {name for node in wide.nodes for name in node.input}
    return {name: f"{name} in float32" for name in wide.outputs if name in written & read}


def _with_limits(node: onnx.NodeProto, limited: Mapping[str, str]) -> Iterator[onnx.NodeProto]:
    """The operator, followed by one operator for each result in `limited`, which limits its
    range.
    """
    results = [name for name in node.output if name in limited]
    yield _with_outputs(node, limited) if results else node
    domain, op = IN_HALF_RANGE
    for name in results:
        yield helper.make_node(op, [limited[name]], [name], domain=domain)


def _with_outputs(node: onnx.NodeProto, names: Mapping[str, str]) -> onnx.NodeProto:
    renamed = onnx.NodeProto()
    renamed.CopyFrom(node)
    renamed.output[:] = [names.get(name, name) for name in node.output]
    return renamed


def _without_casts(area: Area) -> Mapping[int, onnx.NodeProto]:
    """Index → operator, without the Casts between float32 and float16 that can be removed."""
    nodes = dict(enumerate(area.nodes))
    names = dict[str, str]()  # the result or operand of a removed Cast → the name that replaces it
    ends = {*area.inputs, *area.outputs}
    for place, node in enumerate(area.nodes):
        if not _is_between_floats(area, node):
            continue
        operand = names.get(node.input[0], node.input[0])
        result = node.output[0]
        if result not in area.outputs:
            names[result] = operand
        elif operand not in ends:
            names = {name: result if kept == operand else kept for name, kept in names.items()}
            names[operand] = result
        else:
            continue
        del nodes[place]
    return {place: _renamed(node, names) for place, node in nodes.items()}


def _is_between_floats(area: Area, node: onnx.NodeProto) -> bool:
    if node.op_type != "Cast" or node.domain or node.input[0] not in area.values:
        return False
    dtype = area.values[node.input[0]].dtype
    return dtype in FLOATS and attribute(node, "to") in FLOATS and dtype != attribute(node, "to")


def _renamed(node: onnx.NodeProto, names: Mapping[str, str]) -> onnx.NodeProto:
    if not any(name in names for name in (*node.input, *node.output)):
        return node
    renamed = onnx.NodeProto()
    renamed.CopyFrom(node)
    renamed.input[:] = [names.get(name, name) for name in node.input]
    renamed.output[:] = [names.get(name, name) for name in node.output]
    return renamed
