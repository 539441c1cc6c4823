import math
from collections import Counter
from collections.abc import Iterator

import numpy as np

from fusionc.model.graph import Edge, Graph, Node
from fusionc.model.operators import has_legacy_axis
from fusionc.passes._shared.constants import LARGE, SHARED, array_of
from fusionc.passes._shared.slice_split_concat import new_split
from fusionc.passes._shared.target import require_floats
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, refuse

_MANY_ROWS = 128  # from so many on Split takes onnxruntime as long as one product saves
# off by default: who switches it on wants its products apart
_SPLIT = "InferenceMatmulSplitFusionPass"


def _added(product: Node) -> Node | None:
    """The Add of a constant vector that alone uses a MatMul."""
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
    """Whether this is a constant with one number for each column of the product."""
    weight = product.inputs[1]
    shape = None if weight is None else weight.shape
    if bias is None or not bias.is_constant or shape is None:
        return False
    rows, columns = shape
    return bias.shape == (rows if product.attr("transB") else columns,)


def _is_to_stay(node: Node) -> bool:
    """Whether a pass that wants products apart says of itself that it has made this one."""
    return any(
        _SPLIT in text
        for text in (node.proto.doc_string, *(p.value for p in node.proto.metadata_props))
    )


def _groups(graph: Graph) -> Iterator[list[Node]]:
    """Products of one value that are computed in the same way, weights and bias apart."""
    groups: dict[tuple[object, ...], list[Node]] = {}
    for node in [*graph.of_operator("MatMul"), *graph.of_operator("Gemm")]:
        x, weight = node.inputs[:2]
        is_matrix = weight is not None and weight.is_constant and weight.rank == 2
        if x is None or x.is_constant or not is_matrix or node.has_references or _is_to_stay(node):
            continue
        bias = node.inputs[2] if len(node.inputs) > 2 else None
        if bias is not None and not _is_row(bias, node):
            continue
        how = (
            [node.attr(name) for name in ("transA", "transB", "alpha", "beta")]
            if node.op == "Gemm"
            else []
        )
        groups.setdefault((x, node.op, bias is None, *how), []).append(node)
    yield from (nodes for nodes in groups.values() if len(nodes) > 1)


def _weights(nodes: list[Node]) -> tuple[Edge, ...]:
    return tuple(weight for node in nodes if (weight := node.inputs[1]) is not None)


def _is_elsewhere(weights: tuple[Edge, ...], times: int) -> bool:
    """Whether large ones of these have other users than their products, which are there so many
    times: the joined weights of all of them are equal, and become one again.
    """
    return any(weight.use_count != times and array_of(weight).nbytes > LARGE for weight in weights)


def _find(graph: Graph) -> Iterator[Match]:
    """How many products there are is not a question for a formula."""
    groups = list(_groups(graph))
    weights = list(map(_weights, groups))
    alike = Counter(weights)
    shared = [_is_elsewhere(own, alike[own]) for own in weights]
    for nodes, is_shared in zip(groups, shared, strict=True):
        if len({tuple(node.inputs[1:]) for node in nodes}) < len(nodes):
            continue
        adds = [_added(node) if node.op == "MatMul" else None for node in nodes]
        added = [add for add in adds if add is not None]
        if len(added) < len(nodes):
            added = []
        if len(nodes) + len(added) > 2 + bool(added):
            captures = {
                "x": nodes[0].inputs[0],
                "products": nodes,
                "adds": added,
                "is_shared": is_shared,
            }
            yield Match(
                graph, [*nodes, *added], [end.outputs[0] for end in added or nodes], captures
            )


class SameInputMatMulPass(Pass):
    """Products of one value with several weights become one product, and a Split.

    before   x·W₁ [+ B₁], x·W₂ [+ B₂], … (query, key and value of an attention), by MatMul, Add or
             by Gemm
    after    Split(x·[W₁ W₂ …] [+ [B₁ B₂ …]])
    refuses  integers; a rank that is unknown; for onnxruntime 128 rows or more, as far as their
             number is known (1.00 to 1.06 of the time: its Split copies them); large weights that
             are used elsewhere, unless it is in the same way
    never    what would not make the graph smaller: two products without a bias; products of the
             same weights, which CommonSubexpressionEliminationPass makes one; what
             InferenceMatmulSplitFusionPass has split, where it is on
    algebra  the columns of a product are computed one by one
    source   MindSpore's op combine
    """

    numerics = "rounding"
    patterns = (Pattern("SameInputMatMul", find=_find, operators=("MatMul", "Gemm")),)

    def rewrite(self, m: Match, new: Tape) -> Result:
        require_floats(m.x)
        if m.is_shared:
            refuse(SHARED)
        rank = m.x.rank
        if rank is None or rank < 2:
            refuse("the rank is unknown" if rank is None else "the rank is 1")
        first = m.products[0]
        rows = m.x.shape[1:] if first.attr("transA") else m.x.shape[:-1]
        known_rows = math.prod(size for size in rows if isinstance(size, int))
        if m.graph.model.is_for_onnxruntime and known_rows >= _MANY_ROWS:
            refuse("to split so many rows takes as long as the products save")
        along = 0 if first.attr("transB") else 1
        weight, sizes = _joined([node.inputs[1] for node in m.products], along, new)
        biases = [
            node.inputs[2]
            for node in m.products
            if len(node.inputs) > 2 and node.inputs[2] is not None
        ]
        bias = _joined(biases, 0, new)[0] if biases else None
        result = new.node(first.op, [m.x, weight, bias], like=first)
        if m.adds:
            result = new.Add(
                result, _joined([v for add in m.adds if (v := _constant(add))], 0, new)[0]
            )
        return new_split(new, result, sizes, rank - 1)


def _joined(constants: list[Edge], axis: int, new: Tape) -> tuple[Edge, list[int]]:
    """One constant of several, and how long each of them is along the axis."""
    arrays = [array_of(value) for value in constants]
    return new.const(np.concatenate(arrays, axis), like=constants[0]), [
        array.shape[axis] for array in arrays
    ]
