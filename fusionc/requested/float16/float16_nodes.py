"""Find the nodes of float32 that could compute in float16, and say why others cannot."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from onnx import TensorProto

from fusionc.integer_groups.kept_groups import nodes_in_groups
from fusionc.model.graph import Edge, Graph, Node
from fusionc.operators.facts import Trait, operators_with
from fusionc.requested.float16.half_constants import HalfConstants
from fusionc.runtime.cpu_kernels import Float16Ports, float16_ports, way_to_run

READS_SHAPE = operators_with(Trait.READS_SHAPE)
# Operators that keep their types: a Cast because the type is its purpose, quantizations because
# they connect the integers of the model with floats.
_FIXED = operators_with(
    Trait.CASTS, Trait.QUANTIZES, Trait.DEQUANTIZES, Trait.RANDOM, Trait.STATEFUL, Trait.READS_SHAPE
)
_QUANTIZES = operators_with(Trait.QUANTIZES)
_DEQUANTIZES = operators_with(Trait.DEQUANTIZES)
_OTHER_FLOATS = (TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16)
_BODIES = "its subgraphs stay in float32"
_FUNCTION = "the function that it calls stays in float32 (FunctionInlinePass:on inlines it)"
_LIMITED = frozenset({"Clip", "Max", "Min"})  # a constant may be a limit of their result


@dataclass(frozen=True)
class Float16Node:
    """A node that reads or computes float32, with the inputs and outputs that could be float16."""

    node: Node
    inputs: Mapping[int, Edge]  # by position
    outputs: Mapping[int, Edge]
    reason: str  # why it cannot compute in float16; "" if it can


@dataclass
class Float16Nodes:
    """Finds the nodes of a main graph that could compute in float16."""

    graph: Graph
    constants: HalfConstants

    @cached_property
    def nodes(self) -> dict[Node, Float16Node]:
        """The nodes that read or compute float32, in order. Nodes that must keep their types, such
        as Casts, are left out.
        """
        ordered = (node for node in self.graph.ordered() if node.operator not in _FIXED)
        looked = ((node, self._look_at(node)) for node in ordered if not node.is_op("Constant"))
        return {node: one for node, one in looked if one is not None}

    def _look_at(self, node: Node) -> Float16Node | None:
        edges = _present((*node.inputs, *node.outputs))
        if not any(edge.elem_type == TensorProto.FLOAT for edge in edges):
            return None
        if node.bodies or node.function is not None:
            return Float16Node(node, {}, {}, _BODIES if node.bodies else _FUNCTION)
        ports = float16_ports(node.op, node.domain, self.graph.opset_of(node.domain))
        if ports is None:
            return Float16Node(node, {}, {}, "its operator does not take float16")
        inputs = _float32(node.inputs, ports.takes)
        if not inputs:
            return Float16Node(node, {}, {}, "it has no input that could be float16")
        reason = self._type_reason(node, ports, inputs) or self._number_reason(node, inputs)
        return Float16Node(node, inputs, _float32(node.outputs, ports.makes), reason)

    def _type_reason(self, node: Node, ports: Float16Ports, inputs: Mapping[int, Edge]) -> str:
        """Why the types of a node, or its place in the model, exclude float16."""
        kinds = [0 if edge is None else edge.elem_type for edge in node.inputs]
        if any(kind in _OTHER_FLOATS for at, kind in enumerate(kinds) if ports.takes(at)):
            return "it has inputs of another type"
        if not all(edge.elem_type for edge in _present((*node.inputs, *node.outputs))):
            return "the types of its inputs or outputs are not known"
        lowered = [TensorProto.FLOAT16 if at in inputs else kind for at, kind in enumerate(kinds)]
        version = self.graph.opset_of(node.domain)
        if way_to_run(node.op, node.domain, version, lowered) == "none":
            return "onnxruntime cannot run it in float16"
        return "it belongs to a quantized group" if node in self._quantized else ""

    def _number_reason(self, node: Node, inputs: Mapping[int, Edge]) -> str:
        """Why the numbers in a node exclude float16."""
        if _loses_epsilon(node):
            return f"its epsilon {node.attr('epsilon'):.1g} is 0 in float16"
        is_limit = node.op in _LIMITED
        constants = (edge for edge in inputs.values() if edge.is_constant)
        faults = (self.constants.fault(edge, is_limit=is_limit) for edge in constants)
        return next(filter(None, faults), "")

    @cached_property
    def _quantized(self) -> Set[Node]:
        """Nodes that a runtime may compute in integers together with quantizations, and all other
        nodes next to a quantization or dequantization.
        """
        nodes = set(nodes_in_groups(self.graph))
        for node in self.graph.nodes:
            if node.operator in _QUANTIZES:
                nodes.update(maker for edge in _present(node.inputs) for maker in edge.inputs)
            if node.operator in _DEQUANTIZES:
                nodes.update(user for edge in _present(node.outputs) for user in edge.outputs)
        return nodes


def _float32(edges: Sequence[Edge | None], may_be: Callable[[int], bool]) -> dict[int, Edge]:
    """The values of float32 at positions that may be float16."""
    return {
        at: edge
        for at, edge in enumerate(edges)
        if edge is not None and edge.elem_type == TensorProto.FLOAT and may_be(at)
    }


def _present(edges: Iterable[Edge | None]) -> Iterator[Edge]:
    return (edge for edge in edges if edge is not None)


def _loses_epsilon(node: Node) -> bool:
    """Whether the epsilon of a normalization vanishes in float16. Operators with stash_type compute
    in float32 inside.
    """
    epsilon = node.attr("epsilon", 0.0)
    return bool(epsilon) and not np.float16(epsilon) and node.attr("stash_type", 0) != 1
