"""The operators of a model that read quantized integers: the notation in which they are written,
and which of them onnxruntime computes in integers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from fusionc.integer_groups.float_fallback import (
    data_integers,
    dequantized_weights,
    is_in_integers,
    is_result_quantized,
    reason_for_float,
)
from fusionc.integer_groups.group_parts import FAR
from fusionc.model.graph import Edge, Node
from fusionc.operators.integer_operators import BYTES, DEQUANTIZE, QUANTIZE, WEIGHTED
from fusionc.operators.signedness import kernel_of

QDQ = "in QDQ pairs"
INPUTS_ONLY = "with QDQ on inputs only"
QOPERATOR = "in QOperator format"
INTEGER_PRODUCT = "on integers quantized while the model runs (dynamic)"
WEIGHTS_ONLY = "with only the weights dequantized"
WEIGHTS_CAST = "with weights cast from integers"


@dataclass
class IntegerCensus:
    """The operators that read integers, dequantized or not."""

    writings: dict[str, list[Node]] = field(default_factory=dict)  # the operators by notation
    in_integers: dict[Node, None] = field(default_factory=dict)
    # operators that read dequantized data and are computed in floating point, with the reason
    in_float: dict[Node, str] = field(default_factory=dict)
    data: set[int] = field(default_factory=set)  # element types of integers that are not constant
    weights: dict[Edge, None] = field(default_factory=dict)  # constant integers

    @property
    def nodes(self) -> list[Node]:
        """All of the operators."""
        return [node for nodes in self.writings.values() for node in nodes]

    def note(self, node: Node) -> None:
        """Count an operator if it reads integers."""
        weights = dequantized_weights(node)
        cast = _cast_weights(node)
        for integers in filter(None, (weights, cast)):
            self.weights[integers] = None
        if node.operator in QUANTIZE | DEQUANTIZE:
            return
        if kernel_of(node.operator, len(node.inputs)) is not None:
            self._note_integer_operator(node)
        elif data := data_integers(node):
            self._note_dequantized(node, data)
        elif weights is not None or cast is not None:
            writing = WEIGHTS_CAST if weights is None else WEIGHTS_ONLY
            self.writings.setdefault(writing, []).append(node)

    def _note_integer_operator(self, node: Node) -> None:
        kernel = kernel_of(node.operator, len(node.inputs))
        assert kernel is not None
        writing = INTEGER_PRODUCT if kernel.result_zero is None else QOPERATOR
        self.writings.setdefault(writing, []).append(node)
        self.in_integers[node] = None
        for operand in kernel.operands:
            value = node.inputs[operand.value]
            if value is not None and value.is_constant:
                self.weights[value] = None
            elif value is not None:
                self.data.add(value.elem_type)

    def _note_dequantized(self, node: Node, data: Sequence[Edge]) -> None:
        self.data.update(value.elem_type for value in data)
        writing = QDQ if is_result_quantized(node) else INPUTS_ONLY
        self.writings.setdefault(writing, []).append(node)
        if is_in_integers(node):
            self.in_integers[node] = None
        else:
            self.in_float[node] = reason_for_float(node)


def _cast_weights(node: Node) -> Edge | None:
    """The constant 8-bit integers that become the weights of a product or convolution: by a Cast,
    and perhaps by scaling with constants or rearranging. None if the weights are made otherwise.
    """
    weights = node.inputs[1] if node.op in WEIGHTED and len(node.inputs) > 1 else None
    for _ in range(FAR):
        maker = None if weights is None else weights.producer
        if maker is None:
            break
        if maker.is_op("Cast"):
            return _stored_bytes(maker.inputs[0])
        varying = [v for v in maker.inputs if v is not None and not v.is_constant]
        weights = varying[0] if len(varying) == 1 else None
    return None


def _stored_bytes(value: Edge | None) -> Edge | None:
    is_stored = value is not None and value.is_constant and value.elem_type in BYTES
    return value if is_stored else None


def integer_census(nodes: Iterable[Node]) -> IntegerCensus:
    """Count the operators that read integers."""
    census = IntegerCensus()
    for node in nodes:
        if node.function is None:
            census.note(node)
    return census
