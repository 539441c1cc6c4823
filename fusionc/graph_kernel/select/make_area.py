"""Make an area, with its own names of values, from operators; make a function from an area."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx

from fusionc.graph_kernel.area import NARROW_DOC, Area, AreaValue, KernelKind
from fusionc.graph_kernel.c.source import generator
from fusionc.graph_kernel.select.area_values import area_value_of, edges_of, named
from fusionc.model.graph import Edge, Node
from fusionc.model.operators import KERNELS, MICROSOFT
from fusionc.model.tensors import to_proto

_LONGEST_NAME = 64  # characters of the operators in an area's name; origin and digest follow
_DIGITS = 12  # of the digest


def area_of(
    nodes: Sequence[Node],
    inputs: Sequence[Edge],
    outputs: Sequence[Edge],
    origin: str = "split",
    kind: KernelKind = KernelKind.LOOPS,
    wide: Collection[Edge] = (),
    direct: Collection[Edge] = (),
) -> Area | None:
    """The area of operators that are in topological order. Equal operators give equal areas.

    `origin` becomes part of the area's name. Constants that are not in `inputs` become part of the
    area. `wide` are the weights of the convolutions and products that stay in float32. `direct` are
    the weights of those that must not use an algorithm with fewer multiplications. Returns None if
    the element type or rank of a value is unknown, or if `outputs` is empty.
    """
    if not outputs:
        return None
    content = _Content(inputs, outputs)
    for edge in (edge for node in nodes for edge in edges_of(node)):
        if not content.add(edge):
            return None
    area = Area(
        name="",
        nodes=tuple(_renamed(node, content.names) for node in nodes),
        inputs=tuple(content.names[v] for v in inputs),
        outputs=tuple(content.names[v] for v in outputs),
        values=content.values,
        opset=nodes[0].graph.opset,
        constants=content.constants,
        kind=kind,
        wide=content.named(wide),
        direct=content.named(direct),
        sources={name: value.name for value, name in content.names.items()},
    )
    operators = "_".join(node.op for node in nodes)[:_LONGEST_NAME].rstrip("_")
    return replace(area, name=f"{operators}_{origin}_{_digest(area)}")


class _Content:
    """The values and constants of an area, and their names in it."""

    def __init__(self, inputs: Sequence[Edge], outputs: Sequence[Edge]) -> None:
        self.names = {value: f"x{i}" for i, value in enumerate(inputs)}
        self.names |= {value: f"y{i}" for i, value in enumerate(outputs)}
        self.constants: dict[str, np.ndarray[Any, Any]] = {}
        self.values: dict[str, AreaValue] = {}
        self._symbols: dict[str, str] = {}  # symbols of the model → symbols of the area

    def add(self, edge: Edge) -> bool:
        """Add a value if it is new. Returns False if its element type or rank is unknown."""
        name = self.names.get(edge)
        if name in self.values or name in self.constants:
            return True
        array = edge.constant() if name is None else None
        if array is not None:
            self.names[edge] = name = f"c{len(self.constants)}"
            self.constants[name] = array
            return True
        operand = area_value_of(edge)
        if operand is None:
            return False
        name = self.names.setdefault(edge, f"v{len(self.values)}")
        shape = tuple(d if isinstance(d, int) else self._symbol(d) for d in operand.shape)
        self.values[name] = AreaValue(name, operand.dtype, shape)
        return True

    def named(self, edges: Iterable[Edge]) -> frozenset[str]:
        return frozenset(self.names[edge] for edge in edges)

    def _symbol(self, symbol: str) -> str:
        return self._symbols.setdefault(symbol, f"s{len(self._symbols)}")


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
    if KernelKind.NARROW in area.kind:
        function.doc_string = NARROW_DOC
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
    """A digest of the area's operators, types and shapes, and of the code that generates kernels.

    It is part of the area's name. So a model never calls a kernel that was made for another area or
    by another version of fusionc.
    """
    text = hashlib.sha256(function_of(area).SerializeToString(deterministic=True))
    text.update(repr(sorted((o.name, o.dtype, o.shape) for o in area.values.values())).encode())
    text.update(repr(area.kind.value).encode())
    text.update(repr(sorted(area.wide)).encode() if area.wide else b"")
    text.update(repr(["direct", *sorted(area.direct)]).encode() if area.direct else b"")
    text.update(generator())
    return text.hexdigest()[:_DIGITS]
