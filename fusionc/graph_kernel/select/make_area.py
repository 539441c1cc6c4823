"""From operators to an area in names of its own, and from an area to the function that computes the
same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx

from fusionc.graph_kernel.area import Area, AreaValue, KernelKind
from fusionc.graph_kernel.c.source import generator
from fusionc.graph_kernel.select.area_values import area_value_of, edges_of, named
from fusionc.model.graph import Edge, Node
from fusionc.model.operators import KERNELS, MICROSOFT
from fusionc.model.tensors import to_proto

_LONGEST_NAME = 64  # characters of an area's name, apart from what makes it unique
_DIGITS = 12


def area_of(
    nodes: Sequence[Node],
    inputs: Sequence[Edge],
    outputs: Sequence[Edge],
    origin: str = "split",
    kind: KernelKind = KernelKind.LOOPS,
) -> Area | None:
    """The area of operators in topological order; equal ones give equal areas. `origin` is what has
    made it.

    Constants that are no `inputs` become part of it. None where a type is unknown, or where nothing
    comes out.
    """
    if not outputs:
        return None
    names = {value: f"x{i}" for i, value in enumerate(inputs)} | {
        value: f"y{i}" for i, value in enumerate(outputs)
    }
    constants: dict[str, np.ndarray[Any, Any]] = {}
    values: dict[str, AreaValue] = {}
    symbols: dict[str, str] = {}
    for node in nodes:
        for edge in edges_of(node):
            if edge in names and (names[edge] in values or names[edge] in constants):
                continue
            array = None if edge in names else edge.constant()
            if array is not None:
                names[edge] = f"c{len(constants)}"
                constants[names[edge]] = array
                continue
            operand = area_value_of(edge)
            if operand is None:
                return None
            name = names.setdefault(edge, f"v{len(values)}")
            shape = tuple(
                d if isinstance(d, int) else symbols.setdefault(d, f"s{len(symbols)}")
                for d in operand.shape
            )
            values[name] = AreaValue(name, operand.dtype, shape)
    protos = tuple(_renamed(node, names) for node in nodes)
    ends = tuple(names[v] for v in inputs), tuple(names[v] for v in outputs)
    area = Area("", protos, *ends, values, nodes[0].graph.opset, constants, kind)
    operators = "_".join(node.op for node in nodes)[:_LONGEST_NAME].rstrip("_")
    return replace(area, name=f"{operators}_{origin}_{_digest(area)}")


def _renamed(node: Node, names: Mapping[Edge, str]) -> onnx.NodeProto:
    proto = named(node)
    proto.input[:] = ["" if v is None else names[v] for v in node.inputs]
    proto.output[:] = ["" if v is None else names[v] for v in node.outputs]
    return proto


def function_of(area: Area) -> onnx.FunctionProto:
    """The model-local function that computes what the kernel of the area computes."""
    function = onnx.FunctionProto(
        domain=KERNELS, name=area.name, input=area.inputs, output=area.outputs
    )
    function.opset_import.add(domain="", version=area.opset)
    if any(node.domain == MICROSOFT for node in area.nodes):
        function.opset_import.add(domain=MICROSOFT, version=1)
    for name, array in area.constants.items():
        constant = function.node.add(op_type="Constant", output=[name])
        constant.attribute.add(name="value", type=onnx.AttributeProto.TENSOR).t.CopyFrom(
            to_proto(array, name)
        )
    function.node.extend(area.nodes)
    return function


def _digest(area: Area) -> str:
    """What makes the name of an area that of its content: what it computes, of which types and
    shapes, and what makes its kernel. So a model never calls a kernel that was made for another
    area or by another version of fusionc.
    """
    text = hashlib.sha256(function_of(area).SerializeToString(deterministic=True))
    text.update(repr(sorted((o.name, o.dtype, o.shape) for o in area.values.values())).encode())
    text.update(repr(area.kind.value).encode())
    text.update(generator())
    return text.hexdigest()[:_DIGITS]
