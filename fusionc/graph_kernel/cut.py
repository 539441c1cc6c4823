"""From a region of a cluster to an area, and to the operators of the model that it stands for."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx

from fusionc.graph_kernel.area import DOMAIN, Area, Operand
from fusionc.graph_kernel.cluster_model import is_seen_outside
from fusionc.graph_kernel.contents import embedded, named, operand_of
from fusionc.graph_kernel.split.regions import Region
from fusionc.model.graph import Edge, Node
from fusionc.model.tensors import to_proto

_LONGEST_NAME = 64  # characters of an area's name, apart from what makes it unique
_DIGITS = 12


@dataclass(frozen=True)
class Cut:
    """An area, and where it is in the model: the operators that it replaces, what it reads and what it provides."""

    area: Area
    nodes: tuple[Node, ...]
    inputs: tuple[Edge, ...]
    outputs: tuple[Edge, ...]


def cut(region: Region, originals: Mapping[str, Edge], cluster: Iterable[Node]) -> Cut | None:
    """The area of a region in the model of a cluster; None where it cannot be cut out of the model itself.

    `originals` are the values of the cluster in the model, by name, `cluster` is its operators there. An expanded
    operator of which a part is elsewhere cannot be cut, nor can what simplification has entangled with its neighbours.
    """
    nodes = sorted(region.nodes, key=lambda node: node.position)
    inside = set(nodes)
    read = [v for node in nodes for v in node.inputs if v is not None and v.producer not in inside]
    inputs = [v for v in dict.fromkeys(read) if embedded(v) is None]
    made = [v for node in nodes for v in node.outputs if v is not None]
    outputs = [v for v in made if is_seen_outside(v, inside)]
    if any(v.name not in originals for v in (*inputs, *outputs)):
        return None
    read_there, made_there = (tuple(originals[v.name] for v in values) for values in (inputs, outputs))
    replaced = _between(set(read_there), made_there, set(cluster))
    area = None if replaced is None else _area(nodes, inputs, outputs)
    return None if area is None or replaced is None else Cut(area, replaced, read_there, made_there)


def _between(inputs: set[Edge], outputs: Sequence[Edge], cluster: set[Node]) -> tuple[Node, ...] | None:
    """The operators of the cluster that lead from `inputs` to `outputs`; None where others need their results."""
    found: set[Node] = set()
    stack = [value.producer for value in outputs]
    while stack:
        node = stack.pop()
        if node is None or node not in cluster or node in found:
            continue
        found.add(node)
        stack.extend(v.producer for v in node.inputs if v is not None and v not in inputs)
    made = {value for node in found for value in node.outputs if value is not None}
    if any(is_seen_outside(value, found) for value in made.difference(outputs)) or made.intersection(inputs):
        return None
    return tuple(sorted(found, key=lambda node: node.position))


def _area(nodes: Sequence[Node], inputs: Sequence[Edge], outputs: Sequence[Edge]) -> Area | None:
    """The area in names of its own, so that equal areas are equal."""
    names = {value: f"x{i}" for i, value in enumerate(inputs)} | {value: f"y{i}" for i, value in enumerate(outputs)}
    constants: dict[str, np.ndarray[Any, Any]] = {}
    values: dict[str, Operand] = {}
    symbols: dict[str, str] = {}
    for node in nodes:
        for edge in (*node.inputs, *node.outputs):
            if edge is None or (edge in names and names[edge] in values):
                continue
            array = embedded(edge)
            if array is not None and edge not in outputs:
                name = names.setdefault(edge, f"c{len(constants)}")
                constants.setdefault(name, array)
                continue
            operand = operand_of(edge)
            if operand is None:
                return None
            name = names.setdefault(edge, f"v{len(values)}")
            shape = tuple(d if isinstance(d, int) else symbols.setdefault(d, f"s{len(symbols)}") for d in operand.shape)
            values[name] = Operand(name, operand.dtype, shape)
    protos = tuple(_renamed(node, names) for node in nodes)
    ends = tuple(names[v] for v in inputs), tuple(names[v] for v in outputs)
    area = Area("", protos, *ends, values, nodes[0].graph.opset, constants)
    operators = "_".join(node.op for node in nodes)[:_LONGEST_NAME].rstrip("_")
    return replace(area, name=f"{operators}_split_{_digest(area)}")


def _renamed(node: Node, names: Mapping[Edge, str]) -> onnx.NodeProto:
    proto = named(node)
    proto.input[:] = ["" if v is None else names[v] for v in node.inputs]
    proto.output[:] = ["" if v is None else names[v] for v in node.outputs]
    return proto


def function_of(area: Area) -> onnx.FunctionProto:
    """The model-local function that computes what the kernel of the area computes."""
    function = onnx.FunctionProto(domain=DOMAIN, name=area.name, input=area.inputs, output=area.outputs)
    function.opset_import.add(domain="", version=area.opset)
    for name, array in area.constants.items():
        constant = function.node.add(op_type="Constant", output=[name])
        constant.attribute.add(name="value", type=onnx.AttributeProto.TENSOR).t.CopyFrom(to_proto(array, name))
    function.node.extend(area.nodes)
    return function


def _digest(area: Area) -> str:
    """What makes the name of an area that of its contents: what it computes, of which types and shapes."""
    text = hashlib.sha256(function_of(area).SerializeToString(deterministic=True))
    text.update(repr(sorted((o.name, o.dtype, o.shape) for o in area.values.values())).encode())
    return text.hexdigest()[:_DIGITS]
