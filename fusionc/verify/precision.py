"""The least precise float type between the inputs and an output.

A float32 output after a product in float16 is no more precise than float16. If a rewrite removes a
Cast, or if onnxruntime does or does not round between two nodes, the output changes by units in the
last place of float16.
"""

from __future__ import annotations

from collections.abc import Iterable

import onnx
from onnx import TensorProto

from fusionc.model.functions import inlined
from fusionc.model.operators import canonical_domain
from fusionc.operators.deciding_operators import MOVES
from fusionc.protos import bodies_of, infer_types, light_copy, reads_of
from fusionc.verify.compare import TOLERANCES

_NAMES: dict[int, str] = {
    TensorProto.DOUBLE: "float64",
    TensorProto.FLOAT: "float32",
    TensorProto.FLOAT16: "float16",
    TensorProto.BFLOAT16: "bfloat16",
}


def least_precise(model: onnx.ModelProto) -> dict[str, str]:
    """The least precise float type of each output that depends on floating-point computation.
    Constants, moves of elements, Casts to a more precise type, and integers are exact, so they do
    not count.
    """
    if all(
        kind not in (TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE)
        for kind in _kinds_of(model)
    ):
        return {}
    try:
        graph = infer_types(inlined(light_copy(model))).graph
    except Exception:  # if onnx cannot infer types, outputs have the precision of their own type
        return {}
    return _Ways(graph).outputs()


class _Ways:
    def __init__(self, graph: onnx.GraphProto) -> None:
        self._graph = graph
        values = (*graph.input, *graph.value_info, *graph.output)
        self._types = {value.name: value.type.tensor_type.elem_type for value in values}
        self._types |= {tensor.name: tensor.data_type for tensor in graph.initializer}
        self._constants = {t.name for t in graph.initializer} - {
            value.name for value in graph.input
        }
        self._found: dict[str, str] = {}

    def outputs(self) -> dict[str, str]:
        for node in self._graph.node:
            self._follow(node)
        return {v.name: self._found[v.name] for v in self._graph.output if self._found.get(v.name)}

    def _follow(self, node: onnx.NodeProto) -> None:
        reads = reads_of(node)
        if reads <= self._constants and not node.op_type.startswith("Random"):
            self._constants.update(node.output)
            return
        read = _coarsest(self._found.get(name, "") for name in reads)
        inside = _coarsest(self._casts_in(body) for body in bodies_of(node))
        for name in filter(None, node.output):
            kind = self._type(name, node)
            if kind is not None and kind not in _NAMES:
                continue
            is_exact = not canonical_domain(node.domain) and (
                node.op_type in MOVES or self._widens(node, kind)
            )
            own = "" if is_exact or kind is None else _NAMES[kind]
            self._found[name] = _coarsest((read, inside, own))

    def _type(self, name: str, node: onnx.NodeProto) -> int | None:
        """The type of a value. If onnx cannot infer the type, it is taken from the first input of
        the node. None if that is unknown, too.
        """
        known = self._types.get(name, 0) or next(
            filter(None, (self._types.get(one, 0) for one in node.input)), 0
        )
        if known:
            self._types[name] = known
        return known or None

    def _widens(self, node: onnx.NodeProto, kind: int | None) -> bool:
        """Whether a node casts floats to a more precise type, which keeps their values."""
        if node.op_type not in ("Cast", "CastLike") or kind is None:
            return False
        read = _NAMES.get(self._types.get(node.input[0], 0))
        return read is not None and TOLERANCES[_NAMES[kind]].absolute <= TOLERANCES[read].absolute

    def _casts_in(self, graph: onnx.GraphProto) -> str:
        """The least precise type to which a value in a body is cast."""
        casts = [
            a.i
            for node in graph.node
            if node.op_type == "Cast"
            for a in node.attribute
            if a.name == "to"
        ]
        inner = [self._casts_in(body) for node in graph.node for body in bodies_of(node)]
        return _coarsest([*(_NAMES.get(kind, "") for kind in casts), *inner])


def _coarsest(names: Iterable[str]) -> str:
    return max(filter(None, names), key=lambda name: TOLERANCES[name].absolute, default="")


def _kinds_of(model: onnx.ModelProto) -> set[int]:
    """The types of inputs, outputs, constants and results of Casts in a model."""
    graph = model.graph
    kinds = {
        value.type.tensor_type.elem_type
        for value in (*graph.input, *graph.value_info, *graph.output)
    }
    kinds |= {tensor.data_type for tensor in graph.initializer}
    for node in (*graph.node, *(node for function in model.functions for node in function.node)):
        kinds |= {
            attribute.i for attribute in node.attribute if attribute.type == onnx.AttributeProto.INT
        }
        kinds |= {attribute.t.data_type for attribute in node.attribute if attribute.HasField("t")}
    return kinds
