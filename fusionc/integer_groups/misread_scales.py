"""Refuse rewrites that would let onnxruntime fuse a product or convolution with dequantizations
whose scales it misreads.

onnxruntime 1.32 (QDQSelectorActionTransformer) turns such a node into MatMulIntegerToFloat, QGemm
or QLinearConv. If there are several scales, it assumes that they belong to the columns or output
channels, whatever `axis` says. If this is not so, the result is wrong, or the model does not run.
In most models an Add after the MatMul prevents the fusion: onnxruntime turns both into a Gemm, and
does not fuse it because its bias is not dequantized. Therefore passes must keep every node that may
prevent the fusion.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from itertools import chain

from fusionc.integer_groups.group_parts import FAR, MAX_CONSUMERS
from fusionc.integer_groups.kept_groups import cores_downstream, has_groups
from fusionc.integer_groups.wiring import Wiring
from fusionc.model.graph import Edge, Graph, Node
from fusionc.operators.integer_operators import BYTES, DEQUANTIZE, WEIGHTED

_CURRENT = Wiring()  # the graph without changes
_MOVES = ("Identity", "Transpose")  # may change places with a DequantizeLinear
_NO_AXIS = -1  # scales of blocks, or along an unknown axis


def reason_to_prevent_fusion(
    nodes: Sequence[Node], new: Sequence[Node], pairs: Sequence[tuple[Edge, Edge]]
) -> str:
    """Why `nodes` must not be replaced by the nodes `new`: after the rewrite, onnxruntime might
    fuse a node and misread its scales. "" if they may be replaced. `pairs` are the old values with
    their replacements.
    """
    if not nodes or not has_groups(nodes[0].graph):
        return ""
    made = set(new)
    after = Wiring(set(nodes), new, pairs)
    for node in dict.fromkeys(_nodes_nearby(nodes, new, pairs)):
        surroundings = _surroundings(node, after)
        if surroundings is not None and (
            node in made or surroundings != _surroundings(node, _CURRENT)
        ):
            return (
                f"onnxruntime could then fuse {node.op} with its DequantizeLinear, and would "
                "apply the scales along a wrong axis"
            )
    return ""


def consumers_that_prevent_fusion(graph: Graph) -> set[Node]:
    """The consumers of all nodes with scales that onnxruntime may misread."""
    results = chain.from_iterable(node.outputs for node in nodes_with_misread_scales(graph))
    return {user for value in results if value is not None for user in value.outputs}


def nodes_with_misread_scales(graph: Graph) -> list[Node]:
    """The nodes whose scales onnxruntime misreads if their consumers do not prevent the fusion."""
    if not has_groups(graph):
        return []
    return [node for node in graph.nodes if _surroundings(node, _CURRENT) is not None]


def _nodes_nearby(
    nodes: Sequence[Node], new: Sequence[Node], pairs: Sequence[tuple[Edge, Edge]]
) -> Iterator[Node]:
    """The new nodes, and the remaining nodes near the rewrite: the rewrite changes their operands,
    their consumers, or the operands of their consumers.
    """
    users = [user for old, _ in pairs for user in old.outputs]
    read = chain.from_iterable(node.inputs for node in (*nodes, *new, *users))
    values = [*filter(None, read), *(value for _, value in pairs)]
    downstream = chain.from_iterable(map(cores_downstream, nodes))
    gone = {None, *nodes}
    for node in (*new, *(value.producer for value in values), *downstream):
        if node is not None and node not in gone:
            yield node


def _surroundings(node: Node, wiring: Wiring) -> Hashable | None:
    """Everything that decides whether onnxruntime fuses a node and misreads its scales: the nodes
    between it and the integers, its consumers, and the shapes that the consumers read. None if
    onnxruntime cannot misread its scales.
    """
    if node.domain != "" or node.op not in WEIGHTED:
        return None
    ways = [_way_to_integers(value, wiring) for value in node.inputs]
    if _has_float_operand(node, ways) or not _misreads(node, *ways[:2]):
        return None
    result = node.outputs[0]
    if result is None or result.use_count > MAX_CONSUMERS:
        return (*ways,)
    users = wiring.users(result)
    read = filter(None, chain.from_iterable(user.inputs for user in users))
    shapes = frozenset(wiring.current(value).shape for value in read)
    return (*ways, frozenset(users), shapes, wiring.is_output(result))


def _has_float_operand(node: Node, ways: Sequence[Sequence[Node]]) -> bool:
    """Whether a node has an operand that is not dequantized, so that onnxruntime does not fuse it.
    The bias of a Conv does not count, because onnxruntime may quantize it itself.
    """
    needed = [value is not None for value in node.inputs[: 3 if node.op == "Gemm" else 2]]
    return len(needed) < 2 or any(n and not way for n, way in zip(needed, ways, strict=False))


def _way_to_integers(value: Edge | None, wiring: Wiring) -> tuple[Node, ...]:
    """The nodes from a value back to the DequantizeLinear from which it comes, in this order. Empty
    if it does not come from a DequantizeLinear.
    """
    way: list[Node] = []
    while value is not None and len(way) < FAR:
        node = wiring.maker(value)
        if node is None:
            return ()
        way.append(node)
        if node.operator in DEQUANTIZE:
            return tuple(way)
        if node.domain != "" or node.op not in _MOVES:
            return ()
        value = node.inputs[0]
    return ()


def _misreads(node: Node, left: Sequence[Node], right: Sequence[Node]) -> bool:
    """Whether onnxruntime misreads the scales: the operands come from integers of 8 bits, and
    either the first operand has several scales, or the second has several scales along an axis that
    is not an axis of the result.
    """
    types = {
        0 if way[-1].inputs[0] is None else way[-1].inputs[0].elem_type for way in (left, right)
    }
    if not types <= BYTES:
        return False
    axis = _axis_of_scales(right)
    return _axis_of_scales(left) is not None or axis not in (None, _axis_of_results(node, right))


def _axis_of_scales(way: Sequence[Node]) -> int | None:
    """The axis along which a value has several scales. None if it has only one, and _NO_AXIS if the
    axis is unknown. `way` are the nodes from the value back to its DequantizeLinear.
    """
    scale = way[-1].inputs[1]
    sizes = None if scale is None else scale.shape
    if sizes is not None and set(sizes) <= {1}:
        return None
    return _axis_after_moves(way) if sizes is not None and len(sizes) == 1 else _NO_AXIS


def _axis_after_moves(way: Sequence[Node]) -> int:
    *moves, dequantize = way
    integers = dequantize.inputs[0]
    rank = None if integers is None else integers.rank
    if rank is None or any(node.has_references for node in way):
        return _NO_AXIS
    axis = int(dequantize.attr("axis", 1)) % rank
    for order in (move.attr("perm") for move in reversed(moves) if move.op == "Transpose"):
        axis = order.index(axis) if order else rank - 1 - axis
    return axis


def _axis_of_results(node: Node, right: Sequence[Node]) -> int | None:
    """The axis of the weights that is also an axis of the result. None if the weights are not a
    matrix: onnxruntime's product then accepts only one scale.
    """
    if node.op == "Conv":
        return 0
    integers = right[-1].inputs[0]
    is_matrix = integers is not None and integers.rank == 2 and not node.has_references
    return int(not (node.op == "Gemm" and node.attr("transB"))) if is_matrix else None
