"""Prevent rewrites that would trigger a fault in onnxruntime: its own optimizer would make the
model invalid, so that it could not be loaded.

onnxruntime 1.32 (QDQPropagationTransformer) moves a DequantizeLinear to the end of the operators
after it that only move elements, and inserts a QuantizeLinear before its new place. From opset 21
on, this QuantizeLinear gets a zero point of type uint8 even if the integers are int8, and
onnxruntime then rejects the model. onnxruntime does not move a DequantizeLinear that is directly
followed by an operator that computes, so removing this operator triggers the fault.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import TypeGuard

from onnx import TensorProto

from fusionc.integer_groups.group_parts import FAR, MAX_CONSUMERS
from fusionc.integer_groups.kept_groups import has_groups
from fusionc.integer_groups.wiring import Wiring
from fusionc.model.graph import Edge, Node
from fusionc.operators.integer_operators import PASSED, QUANTIZE

_CURRENT = Wiring()  # the graph without changes
_BROKEN_SINCE = 21  # the first opset with the fault
_MOVERS = PASSED - {"Identity"}


def reason_to_prevent_move(
    nodes: Sequence[Node], new: Sequence[Node], pairs: Sequence[tuple[Edge, Edge]]
) -> str:
    """Why `nodes` must not be replaced by the nodes `new`: after the rewrite, onnxruntime could not
    load the model. "" if they may be replaced. `pairs` are the old values with their replacements.
    """
    if not nodes or nodes[0].graph.opset < _BROKEN_SINCE or not has_groups(nodes[0].graph):
        return ""
    gone = set(nodes)
    after = Wiring(gone, new, pairs)
    values = chain.from_iterable(node.inputs for node in (*nodes, *new))
    results = (value for _, value in pairs)
    for value in dict.fromkeys(chain(filter(None, values), results)):
        dequantize = _dequantizer(value, after)
        if dequantize is None or dequantize in gone or not is_moved(dequantize, after):
            continue
        if dequantize in new or not is_moved(dequantize, _CURRENT):
            return (
                "onnxruntime could then not load the model: it would quantize the result of an "
                "operator that moves elements to uint8 instead of int8"
            )
    return ""


def is_moved(dequantize: Node, wiring: Wiring) -> bool:
    """Whether onnxruntime moves a DequantizeLinear past a consumer, and then rejects the model.

    This is so if the DequantizeLinear has a single constant scale and a single constant zero point
    of type int8, and if a consumer only moves elements and its result is not quantized again.
    """
    packed, scale, zero = (*dequantize.inputs, None, None)[:3]
    result = dequantize.outputs[0]
    if dequantize.domain != "" or packed is None or packed.is_constant or result is None:
        return False
    if not _is_single(scale) or not _is_single(zero) or zero.elem_type != TensorProto.INT8:
        return False
    return result.use_count <= MAX_CONSUMERS and any(
        not _is_quantized(mover, wiring) for mover in wiring.users(result) if mover.is_op(*_MOVERS)
    )


def _is_single(value: Edge | None) -> TypeGuard[Edge]:
    """Whether a value is a constant with one element."""
    return value is not None and value.is_constant and set(value.shape or ()) <= {1}


def _is_quantized(mover: Node, wiring: Wiring) -> bool:
    """Whether a QuantizeLinear reads the result of an operator that moves elements, directly or
    after more such operators whose results no other node reads.
    """
    result = mover.outputs[0]
    return result is not None and any(
        user.operator in QUANTIZE
        or (user.is_op(*_MOVERS) and _is_quantized_privately(user, wiring))
        for user in wiring.users(result)
    )


def _is_quantized_privately(mover: Node, wiring: Wiring) -> bool:
    result = mover.outputs[0]
    is_private = result is not None and wiring.only_user(result) is not None
    return is_private and _is_quantized(mover, wiring)


def _dequantizer(value: Edge, wiring: Wiring) -> Node | None:
    """The DequantizeLinear from which a value comes, directly or through operators that move
    elements.
    """
    for _ in range(FAR):
        node = wiring.maker(value)
        if node is None or node.is_op("DequantizeLinear"):
            return node
        source = node.inputs[0] if node.is_op(*_MOVERS) else None
        if source is None:
            return None
        value = source
    return None
