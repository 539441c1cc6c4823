"""Why onnxruntime computes an operator in floating point although it reads dequantized integers."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from onnx import TensorProto

from fusionc.integer_groups.group_parts import (
    dequantized_from,
    grade,
    is_core,
    way_to_quantizer,
)
from fusionc.integer_groups.wiring import Wiring
from fusionc.model.graph import Edge, Node
from fusionc.operators.facts import Trait, operators_with
from fusionc.operators.integer_operators import (
    BETWEEN,
    BYTES,
    DEQUANTIZE,
    PASSED,
    QUANTIZE,
    WEIGHTED,
)

_READS_SHAPE = operators_with(Trait.READS_SHAPE)
_AS_IT_IS = Wiring()


def data_integers(node: Node) -> list[Edge]:
    """The integers that an operator reads through a DequantizeLinear, except constants. Empty for
    operators that only move elements, quantize, dequantize, or read only the shape.
    """
    if node.operator in QUANTIZE | DEQUANTIZE | _READS_SHAPE:
        return []
    if node.domain == "" and node.op in PASSED:
        return []
    integers = [dequantized_from(value, _AS_IT_IS) for value in node.inputs if value is not None]
    return [value for value in integers if value is not None and not _is_constant(value)]


def dequantized_weights(node: Node) -> Edge | None:
    """The constant integers from which the weights of a product or convolution are dequantized.
    None for other operators and other weights.
    """
    is_weighted = node.domain == "" and node.op in WEIGHTED | {"ConvTranspose"}
    weights = node.inputs[1] if is_weighted and len(node.inputs) > 1 else None
    integers = None if weights is None else dequantized_from(weights, _AS_IT_IS)
    return integers if integers is not None and _is_constant(integers) else None


def _is_constant(integers: Edge) -> bool:
    """Whether integers are stored, or quantized from a stored constant."""
    maker = integers.producer
    if maker is None or maker.operator not in QUANTIZE or maker.inputs[0] is None:
        return integers.is_constant
    return maker.inputs[0].is_constant


def integers_around(node: Node) -> list[Edge]:
    """The integers that an operator reads through a DequantizeLinear, and the integers to which its
    result is quantized.
    """
    way = way_to_quantizer(node, _AS_IT_IS)
    made = [value for value in way[-1].outputs if value is not None] if way else []
    return [*data_integers(node), *made]


def is_in_integers(node: Node) -> bool:
    """Whether onnxruntime computes an operator in integers although it reads dequantized values.
    The result may be quantized or stay in floating point.
    """
    return is_core(node) and bool(grade(node, _AS_IT_IS))


def is_result_quantized(node: Node) -> bool:
    """Whether a QuantizeLinear reads the result of an operator, directly or after operators that
    only move elements.
    """
    return bool(way_to_quantizer(node, _AS_IT_IS))


def reason_for_float(node: Node) -> str:
    """Why an operator that reads dequantized integers is not computed in integers; "" if it is."""
    if is_in_integers(node):
        return ""
    if node.domain or node.op not in BETWEEN:
        return "onnxruntime does not compute this operator in integers"
    places = BETWEEN[node.op]
    read = [value for at, value in enumerate(node.inputs) if places is None or at in places]
    return _reason_in_inputs(node, read) or _reason_in_result(node)


def _reason_in_inputs(node: Node, read: Sequence[Edge | None]) -> str:
    integers = [None if v is None else dequantized_from(v, _AS_IT_IS) for v in read]
    known = [value for value in integers if value is not None]
    if len(known) < len(integers):
        what = "data" if integers[0] is None else "weights"
        return f"its {what if node.op in WEIGHTED else 'operands'} are not all dequantized"
    return _reason_in_types(node, dict.fromkeys(value.elem_type for value in known))


def _reason_in_types(node: Node, types: Collection[int]) -> str:
    if wide := [one for one in types if one not in BYTES]:
        return f"it reads integers of type {TensorProto.DataType.Name(wide[0]).lower()}"
    return "its operands have different types" if len(types) > 1 and node.op not in WEIGHTED else ""


def _reason_in_result(node: Node) -> str:
    if way := way_to_quantizer(node, _AS_IT_IS):
        return _reason_in_quantization(node, way[-1])
    result = node.outputs[0] if node.outputs else None
    if result is None or _AS_IT_IS.is_output(result):
        return "its result is an output of the graph and not quantized"
    users = sorted({user.op for user in _AS_IT_IS.users(result)})
    return f"its result goes to {', '.join(users)} and is not quantized"


def _reason_in_quantization(node: Node, quantize: Node) -> str:
    made = quantize.outputs[0]
    types = [value.elem_type for value in data_integers(node)[:1]]
    types += [] if made is None else [made.elem_type]
    if len(set(types)) > 1:
        data, result = (TensorProto.DataType.Name(one).lower() for one in types)
        return f"its data are {data} and its result is quantized to {result}"
    return "its bias is neither constant nor dequantized"
