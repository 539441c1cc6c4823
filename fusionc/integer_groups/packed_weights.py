"""Refuse rewrites after which onnxruntime would multiply by weights in their packed integer form.

onnxruntime turns a product of floats with a DequantizeLinear of constants into MatMulNBits. At its
default accuracy, this operator rounds the floats to 8-bit integers, although the model does not
quantize them. A node between the DequantizeLinear and the product, such as a Transpose, prevents
this.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from onnx import TensorProto

from fusionc.integer_groups.group_parts import grade, is_core
from fusionc.integer_groups.kept_groups import has_groups
from fusionc.integer_groups.wiring import Wiring
from fusionc.model.graph import Edge, Node
from fusionc.operators.integer_operators import BYTES, DEQUANTIZE

_CURRENT = Wiring()  # the graph without changes
_FOLDED_SINCE = 21  # the first opset for which it is known that a Transpose is removed
_TYPES = BYTES | {TensorProto.INT4, TensorProto.UINT4}


def reason_to_shield_weights(
    nodes: Sequence[Node], new: Sequence[Node], pairs: Sequence[tuple[Edge, Edge]]
) -> str:
    """Why `nodes` must not be replaced by the nodes `new`: after the rewrite, onnxruntime would
    multiply by packed weights, which it does not do before the rewrite. "" if they may be replaced.
    `pairs` are the old values with their replacements.
    """
    if not nodes or not has_groups(nodes[0].graph):
        return ""
    gone = set(nodes)
    after = Wiring(gone, new, pairs)
    exposed = [
        product
        for product in dict.fromkeys(_products_nearby(nodes, new, pairs))
        if product not in gone and takes_packed(product, after)
    ]
    packed_before = [product for product in (*gone, *exposed) if takes_packed(product, _CURRENT)]
    is_exposing = len(exposed) > len(packed_before)
    return "onnxruntime would round the other operand to integers (MatMulNBits)" * is_exposing


def _products_nearby(
    nodes: Sequence[Node], new: Sequence[Node], pairs: Sequence[tuple[Edge, Edge]]
) -> Iterator[Node]:
    """The new products, and the products that read a value that a rewrite replaces or reads."""
    read = chain.from_iterable(node.inputs for node in nodes)
    values = [*filter(None, read), *(old for old, _ in pairs)]
    users = chain.from_iterable(value.outputs for value in values)
    yield from (node for node in (*new, *users) if node.is_op("MatMul", "Gemm"))


def takes_packed(product: Node, wiring: Wiring) -> bool:
    """Whether onnxruntime turns a node into MatMulNBits: a product of floats with dequantized
    constants that no other node reads.
    """
    if not product.is_op("MatMul", "Gemm") or len(product.inputs) < 2:
        return False
    if product.op == "Gemm" and not _is_plain(product):
        return False
    dequantize = _private_dequantizer(product, wiring)
    packed = None if dequantize is None else dequantize.inputs[0]
    if packed is None or not packed.is_constant or packed.elem_type not in _TYPES:
        return False
    return packed.rank in (2, None) and not (is_core(product) and grade(product, wiring))


def _private_dequantizer(product: Node, wiring: Wiring) -> Node | None:
    """The DequantizeLinear of weights that only this product reads. None if the weights are not
    dequantized, or if there is an operator in between that onnxruntime does not remove. It removes
    an Identity, and the Transpose of some weights.
    """
    reader = product
    value = product.inputs[1]
    while value is not None and wiring.only_user(value) is reader:
        maker = wiring.maker(value)
        if maker is None or maker.operator in DEQUANTIZE:
            return maker
        is_removed = product.op == "MatMul" and _is_folded(maker, wiring)
        if not maker.is_op("Identity") and not is_removed:
            return None
        reader = maker
        value = maker.inputs[0]
    return None


def _is_folded(transpose: Node, wiring: Wiring) -> bool:
    """Whether onnxruntime 1.32 removes a Transpose of dequantized weights before a MatMul, and
    stores the weights transposed. It does so if the scale is a scalar, and for several scales if
    `perm` is given. False below opset 21, for which this is not known.
    """
    value = transpose.inputs[0] if transpose.is_op("Transpose") else None
    maker = None if value is None else wiring.maker(value)
    if maker is None or maker.operator not in DEQUANTIZE or transpose.graph.opset < _FOLDED_SINCE:
        return False
    packed, scale = maker.inputs[:2]
    if packed is None or packed.elem_type not in BYTES or scale is None:
        return False
    return scale.shape == () or (scale.shape != (1,) and transpose.attr("perm") is not None)


def _is_plain(gemm: Node) -> bool:
    """Whether a Gemm neither scales nor transposes."""
    scales = (gemm.attr("alpha"), gemm.attr("beta"))
    return scales == (1, 1) and not (gemm.attr("transA") or gemm.attr("transB"))
