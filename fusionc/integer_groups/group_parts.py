"""Find out whether onnxruntime computes an operator in integers, because its inputs come from
DequantizeLinear and its result goes to QuantizeLinear. These nodes and the operator (the core) form
a group. A `Wiring` answers the questions for the current graph, or for the graph after a rewrite.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import TensorProto

from fusionc.integer_groups.wiring import Wiring
from fusionc.model.graph import Edge, Node
from fusionc.operators.clip_bounds import clip_bounds, clips_nothing
from fusionc.operators.integer_operators import (
    BETWEEN,
    BYTES,
    DEQUANTIZE,
    FLOAT_RESULT,
    INTEGERS,
    MADE,
    PASSED,
    PRODUCTS,
    QUANTIZE,
    WEIGHTED,
)

FAR = 8  # the largest number of operators between the core and a quantization
MAX_CONSUMERS = 64  # a value with more consumers is not examined
# onnxruntime computes an operator in integers only if its inputs are dequantized to float32
_OTHER_FLOATS = frozenset({TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE})
_EPSILON = float(np.finfo(np.float32).eps)


def is_core(node: Node) -> bool:
    """Whether a node may be the core of a group: the operator that is computed in integers."""
    return node.operator in MADE or (node.domain == "" and node.op in BETWEEN)


def grade(node: Node, wiring: Wiring) -> int:
    """How onnxruntime computes a node: `INTEGERS` if it computes the node in integers,
    `FLOAT_RESULT` if it does so but the result is floating-point, and 0 otherwise.
    """
    if node.operator in MADE or not is_core(node):
        return MADE.get(node.operator, 0)
    types = _types_read(node, wiring)
    bias = node.inputs[2] if node.op in WEIGHTED and len(node.inputs) > 2 else None
    if not types or not _takes_bias(node, bias, wiring):
        return 0
    way = way_to_quantizer(node, wiring)
    if way and _are_alike([types[0], _quantized_type(way[-1])]):
        return INTEGERS
    is_exact = bias is None or _dequantized_type(bias, wiring) is not None
    return FLOAT_RESULT if node.op in PRODUCTS and is_exact else 0


def reads_integers(node: Node) -> bool:
    """Whether a node reads only dequantized integers whose scales fit onnxruntime's integer
    operator, as the core of a group does. A scale fits if all data have the same scale, which must
    be a scalar for AveragePool.
    """
    wiring = Wiring()
    if node.domain != "" or node.op not in BETWEEN or not _types_read(node, wiring):
        return False
    data = node.inputs[:1] if node.op in WEIGHTED else node.inputs
    dequantizers = [_dequantizer_of(value, wiring) for value in data]
    scales = [dequantizer.inputs[1] for dequantizer in dequantizers if dequantizer is not None]
    return all(takes_scale(node, scale) for scale in scales)


def takes_scale(core: Node, scale: Edge | None) -> bool:
    """Whether onnxruntime's integer operator accepts this scale for its data or its result."""
    if scale is None or scale.shape is None:
        return True
    return scale.shape == () if core.op == "AveragePool" else set(scale.shape) <= {1}


def _types_read(node: Node, wiring: Wiring) -> list[int]:
    """The integer types that a node reads. Empty if it cannot compute with these types."""
    places = BETWEEN[node.op]
    read = [value for at, value in enumerate(node.inputs) if places is None or at in places]
    types = [_dequantized_type(value, wiring) for value in read]
    known = [type_ for type_ in types if type_ is not None]
    is_fit = len(known) == len(types) and _are_alike(known[:1] if node.op in WEIGHTED else known)
    return known if is_fit else []


def _takes_bias(node: Node, bias: Edge | None, wiring: Wiring) -> bool:
    """Whether the bias of a product can be part of the group: it must be a constant or dequantized,
    and the product must not scale it.
    """
    if bias is None:
        return True
    is_scaled = node.op == "Gemm" and node.attr("beta") != 1
    return not is_scaled and (bias.is_constant or _dequantized_type(bias, wiring) is not None)


def _are_alike(types: Sequence[int | None]) -> bool:
    """Whether all known types are the same 8-bit type."""
    return BYTES.issuperset(filter(None, types)) and len({*filter(None, types)}) < 2


def _dequantized_type(value: Edge | None, wiring: Wiring) -> int | None:
    """The type of the integers from which a value is dequantized; 0 if the type is unknown. None if
    the value is not dequantized.
    """
    integers = None if value is None else dequantized_from(value, wiring)
    return None if integers is None else integers.elem_type


def dequantized_from(value: Edge, wiring: Wiring) -> Edge | None:
    """The integers from which a value is computed by a DequantizeLinear and operators that only
    move elements. None if the value is computed in another way.
    """
    dequantize = _dequantizer_of(value, wiring)
    return None if dequantize is None else dequantize.inputs[0]


def _dequantizer_of(value: Edge | None, wiring: Wiring) -> Node | None:
    for _ in range(FAR):
        producer = None if value is None else wiring.maker(value)
        if producer is None or not producer.inputs or producer.inputs[0] is None:
            return None
        value = producer.inputs[0]
        if producer.operator in DEQUANTIZE:
            result = producer.outputs[0]
            return None if result is None or result.elem_type in _OTHER_FLOATS else producer
        if producer.domain != "" or producer.op not in PASSED:
            return None
    return None


def _quantized_type(quantize: Node) -> int:
    result = quantize.outputs[0]
    return 0 if result is None else result.elem_type


def way_to_quantizer(core: Node, wiring: Wiring) -> list[Node]:
    """The nodes after the core up to and including the QuantizeLinear of its result. Empty if the
    result is not quantized, or if onnxruntime does not accept a node in between.
    """
    way: list[Node] = []
    node = core
    while len(way) < FAR:
        users = _users_of_result(node, wiring)
        if users and all(
            user.operator in QUANTIZE and _are_equal(user, users[0]) for user in users
        ):
            return (
                [*way, users[0]]
                if all(_is_void(n, users[0]) for n in way if n.op in ("Relu", "Clip"))
                else []
            )
        if (
            len(users) != 1
            or users[0].domain != ""
            or not _may_lie_between(users[0], node, core, wiring)
        ):
            return []
        node = users[0]
        way.append(node)
    return []


def _users_of_result(node: Node, wiring: Wiring) -> list[Node]:
    value = node.outputs[0] if node.outputs else None
    if value is None or value.use_count > MAX_CONSUMERS or wiring.is_output(value):
        return []
    return wiring.users(value)


def _are_equal(one: Node, other: Node) -> bool:
    """Whether two QuantizeLinear nodes of a value have the same scale and zero point."""
    return one is other or one.inputs[1:] == other.inputs[1:]


def _may_lie_between(node: Node, before: Node, core: Node, wiring: Wiring) -> bool:
    """Whether a node may be between the core and the QuantizeLinear, because onnxruntime fuses the
    node into the group, or moves it after the QuantizeLinear. `before` is the node before `node`.
    """
    if node.op == "Add":  # onnxruntime fuses a MatMul and its bias into a Gemm
        added = [v for v in node.inputs if v is not None and wiring.maker(v) is not before]
        is_bias = len(added) == 1 and _takes_bias(node, added[0], wiring)
        return before is core and core.op == "MatMul" and is_bias
    if node.op in ("Relu", "Clip"):
        return (
            core.op != "MatMul"
            or before is core
            or (core.outputs[0] is not None and core.outputs[0].rank == 2)
        )
    return node.op in PASSED


def _is_void(activation: Node, quantize: Node) -> bool:
    """Whether a Relu or Clip has no effect, because the QuantizeLinear after it saturates at the
    same bounds or at tighter ones.
    """
    numbers = [None if v is None else v.constant() for v in (*quantize.inputs, None)[1:3]]
    scale, zero = (None if array is None or array.size != 1 else array for array in numbers)
    if scale is None or zero is None or zero.dtype.kind not in "iu":
        return False
    limits = np.iinfo(zero.dtype)
    integers = limits.min, limits.max
    if activation.op == "Relu":
        return clips_nothing((0.0, np.inf), scale.item(), zero.item(), integers)
    least, most = clip_bounds(activation, np.inf)
    if least is None or most is None:
        return False
    return clips_nothing((least, most), scale.item(), zero.item(), integers, _EPSILON)
