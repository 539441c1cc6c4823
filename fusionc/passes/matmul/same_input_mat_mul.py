import math
from collections import Counter
from collections.abc import Iterable, Iterator

import numpy as np

from fusionc.model.graph import Edge, Graph, Node, Shape
from fusionc.model.operators import has_legacy_axis
from fusionc.passes._shared.constants import LARGE, SHARED, array_of
from fusionc.passes._shared.slice_split_concat import new_split
from fusionc.passes._shared.target import require_floats
from fusionc.passes.matmul._settings import product_settings
from fusionc.rewrite import Match, Miss, Pass, Pattern, Result, Tape, refuse

# for this many rows or more, onnxruntime's Split takes the time that the joint product saves
_MAX_ROWS = 128
# The pass that does the opposite. It is off by default. If a user switches it on, the products that
# it splits stay separate.
_SPLITTING_PASS = "InferenceMatmulSplitFusionPass"


def _bias_add(product: Node) -> Node | None:
    """The Add of a constant vector that is the only user of a MatMul; else None."""
    value = product.outputs[0]
    if value is None or value.use_count != 1 or not value.outputs or value.is_output:
        return None
    user = value.outputs[0]
    if not user.is_op("Add") or user.graph is not product.graph or has_legacy_axis(user):
        return None
    return user if _is_row(_constant(user), product) else None


def _constant(node: Node) -> Edge | None:
    return next((v for v in node.inputs if v is not None and v.is_constant), None)


def _is_row(bias: Edge | None, product: Node) -> bool:
    """Whether the bias is a constant with one number for each column of the product."""
    weight = product.inputs[1]
    shape = None if weight is None else weight.shape
    if bias is None or not bias.is_constant or shape is None:
        return False
    rows, columns = shape
    return bias.shape == (rows if product.attr("transB") else columns,)


def _was_split(node: Node) -> bool:
    """Whether the node's provenance names the pass that splits products."""
    texts = (node.proto.doc_string, *(p.value for p in node.proto.metadata_props))
    return any(_SPLITTING_PASS in text for text in texts)


def _obstacle(product: Node) -> str:
    """Why a product cannot be joined with others; "" if it can be. The weights must be a constant
    matrix, and the bias, if there is one, a constant row.
    """
    x, weight = product.inputs[:2]
    if product.has_references:
        return "its attributes are parameters of the function that holds it"
    if x is None or x.is_constant:
        return "the input is a constant"
    if weight is None or not weight.is_constant or weight.rank != 2:
        return "the weights are not a constant matrix"
    bias = _gemm_bias(product)
    if bias is not None and not _is_row(bias, product):
        return "the bias is not a constant row"
    return f"{_SPLITTING_PASS} has split it" if _was_split(product) else ""


def _gemm_bias(product: Node) -> Edge | None:
    return [*product.inputs, None][2]


def _groups(products: Iterable[Node]) -> list[list[Node]]:
    """The products in groups. The products of a group read the same value and differ only in
    weights and bias.
    """
    groups: dict[tuple[object, ...], list[Node]] = {}
    for node in products:
        key = (node.inputs[0], _gemm_bias(node) is None, *product_settings(node))
        groups.setdefault(key, []).append(node)
    return list(groups.values())


def _weights(nodes: list[Node]) -> tuple[Edge, ...]:
    return tuple(weight for node in nodes if (weight := node.inputs[1]) is not None)


def _are_used_elsewhere(weights: tuple[Edge, ...], group_count: int) -> bool:
    """Whether large weights have users other than the `group_count` groups of products that have
    the same weights.

    The joined weights of these groups are equal, so another pass merges them into one constant.
    """
    return any(
        weight.use_count != group_count and array_of(weight).nbytes > LARGE for weight in weights
    )


def _find(graph: Graph) -> Iterator[Match | Miss]:
    """A match for each group of products that can be joined. No formula can express such a group,
    because the number of nodes of a formula is fixed.
    """
    candidates = list[Node]()
    for node in [*graph.of_operator("MatMul"), *graph.of_operator("Gemm")]:
        if obstacle := _obstacle(node):
            yield Miss(node, obstacle)
        else:
            candidates.append(node)
    groups = list[list[Node]]()
    for group in _groups(candidates):
        if len(group) > 1:
            groups.append(group)
        else:
            yield Miss(group[0], "no other product of its input has the same settings")
    weights = list(map(_weights, groups))
    counts = Counter(weights)
    shared = [
        _are_used_elsewhere(group_weights, counts[group_weights]) for group_weights in weights
    ]
    for products, is_shared in zip(groups, shared, strict=True):
        if len({tuple(node.inputs[1:]) for node in products}) < len(products):
            yield Miss(products[0], "two of the products have the same weights")
            continue
        adds = _bias_adds(products)
        if len(products) + len(adds) > 2 + bool(adds):
            captures = {
                "x": products[0].inputs[0],
                "products": products,
                "adds": adds,
                "is_shared": is_shared,
            }
            outputs = [end.outputs[0] for end in adds or products]
            yield Match(graph, [*products, *adds], outputs, captures)
        else:
            yield Miss(products[0], "there are only two products, and no bias")


def _bias_adds(products: list[Node]) -> list[Node]:
    """The Adds of a bias after the products; empty unless each product is a MatMul with such an
    Add.
    """
    adds = [add for node in products if node.op == "MatMul" and (add := _bias_add(node))]
    return adds if len(adds) == len(products) else []


class SameInputMatMulPass(Pass):
    """Products of the same value with different weights become one product and a Split.

    before   x·W₁ [+ B₁], x·W₂ [+ B₂], … by MatMul and Add, or by Gemm, for example query, key and
             value of an attention
    after    Split(x·[W₁ W₂ …] [+ [B₁ B₂ …]])
    refuses  integers; an unknown rank; for onnxruntime, 128 known rows or more, because its
             Split copies them (1.00 to 1.06 of the time); large weights that are used elsewhere,
             except by products that are joined in the same way
    never    two products without a bias, because the graph would not become smaller; products with
             the same weights, which CommonSubexpressionEliminationPass joins; products that
             InferenceMatmulSplitFusionPass has split, if the user has switched it on
    algebra  each column of a product is computed on its own
    source   MindSpore's op combine
    """

    numerics = "rounding"
    patterns = (Pattern("SameInputMatMul", find=_find, operators=("MatMul", "Gemm")),)

    def rewrite(self, m: Match, new: Tape) -> Result:
        require_floats(m.x)
        if m.is_shared:
            refuse(SHARED)
        shape = m.x.require_shape(least=2)
        first = m.products[0]
        rows = shape[1:] if first.attr("transA") else shape[:-1]
        if m.graph.model.is_for_onnxruntime:
            _require_few(rows)
        columns_axis = 0 if first.attr("transB") else 1
        weight, sizes = _joined([node.inputs[1] for node in m.products], columns_axis, new)
        bias = _joined_rows(map(_gemm_bias, m.products), new)
        result = new.node(first.op, [m.x, weight, bias], like=first)
        addend = _joined_rows(map(_constant, m.adds), new)
        if addend is not None:
            result = new.Add(result, addend)
        return new_split(new, result, sizes, len(shape) - 1)


def _require_few(rows: Shape) -> None:
    """Refuse if there are so many rows that their Split takes the time that the joint product
    saves.
    """
    if math.prod(size for size in rows if isinstance(size, int)) >= _MAX_ROWS:
        refuse("a Split of so many rows costs the time that the joint product saves")


def _joined_rows(constants: Iterable[Edge | None], new: Tape) -> Edge | None:
    """The constant rows concatenated into one constant; None if all of them are None."""
    rows = [row for row in constants if row is not None]
    return _joined(rows, 0, new)[0] if rows else None


def _joined(constants: list[Edge], axis: int, new: Tape) -> tuple[Edge, list[int]]:
    """The constants concatenated along an axis, and the length of each."""
    arrays = [array_of(value) for value in constants]
    return new.const(np.concatenate(arrays, axis), like=constants[0]), [
        array.shape[axis] for array in arrays
    ]
