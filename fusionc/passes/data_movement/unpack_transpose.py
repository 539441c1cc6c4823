from collections.abc import Iterator

import numpy as np

from fusionc.model.graph import Edge, Graph, Node
from fusionc.passes._shared.slice_split_concat import axis_of, new_split, sizes_of
from fusionc.passes._shared.target import require_onnxruntime
from fusionc.passes._shared.transpose_and_reshape import axes_of, new_unsqueeze, order_of
from fusionc.rewrite import Match, Pattern, Result, Tape, UBFusionPass, refuse, unknown
from fusionc.shapes.equality import same_shape


def _producer(value: Edge | None, name: str) -> Node | None:
    """The node of this operator that computes a value."""
    node = None if value is None else value.producer
    return node if node is not None and node.is_op(name) and not node.has_references else None


def _find(graph: Graph) -> Iterator[Match]:
    """[batch, length, pieces · …] cut into pieces of [batch, …, length] by Reshape, Transpose,
    Split and Squeezes.
    """
    for split in graph.of_operator("Split"):
        if not split.is_in_graph or split.has_references:
            continue
        turn = _producer(split.inputs[0], "Transpose")
        reshape = None if turn is None else _producer(turn.inputs[0], "Reshape")
        if turn is None or reshape is None:
            continue
        order = order_of(turn)
        rank = len(order)
        squeezes = _squeezes(split, rank)
        if rank >= 4 and order == [2, 0, *range(3, rank), 1] and squeezes:
            captures = {
                "x": reshape.inputs[0],
                "whole": reshape.outputs[0],
                "squeezes": squeezes,
                "split": split,
            }
            nodes = [reshape, turn, split, *squeezes]
            yield Match(graph, nodes, [node.outputs[0] for node in squeezes], captures)


def _squeezes(split: Node, rank: int) -> list[Node]:
    """The Squeezes of single pieces along axis 0, one for each output; none if others use them."""
    sizes = sizes_of(split)
    if sizes is None or set(sizes) != {1} or axis_of(split, rank) != 0:
        return []
    users = [user for value in split.outputs if value is not None for user in value.outputs]
    are_squeezed = all(_squeezes_first_axis(user, split.graph, rank) for user in users)
    return users if are_squeezed and len(users) == len(split.outputs) else []


def _squeezes_first_axis(node: Node, graph: Graph, rank: int) -> bool:
    is_squeeze = node.is_op("Squeeze") and node.graph is graph and not node.has_references
    return is_squeeze and axes_of(node) in ([0], [-rank])


class UnpackTransposePass(UBFusionPass):
    """Query, key and value are transposed together before the Split, not after it.

    before   Squeeze(Split(Transpose(Reshape(x, [batch, length, 3, heads, size]), [2, 0, 3, 4, 1]),
             axis 0), axis 0)
    after    Squeeze(Split(Reshape(Transpose(x, [0, 2, 1]), [batch, 3, heads, size, length]), axis
             1), axis 1)
    refuses  x of another rank than 3; a Reshape that changes more than its last axis; sizes other
             than that of the batch that are unknown; other targets
    algebra  the same elements in the same order; onnxruntime 1.31.1 transposes a matrix fast, but
             five axes element by element: attention across channels (XCiT) runs in 0.86 of the time
    source   measured
    """

    patterns = (Pattern("UnpackTranspose", find=_find, operators=("Split",)),)

    def rewrite(self, m: Match, new: Tape) -> Result:
        require_onnxruntime(m)
        shape = m.whole.shape
        if m.x is None or shape is None:
            refuse(unknown("the shape"))
        if not same_shape(m.x.require_shape(3)[:2], shape[:2]):
            refuse("the Reshape is not known to split only the last axis")
        sizes = (*shape[2:], shape[1])
        if not all(isinstance(size, int) and size > 0 for size in sizes):
            refuse("a size other than that of the batch is unknown, or is 0")
        turned = new.Transpose(m.x, perm=[0, 2, 1])
        whole = new.Reshape(turned, new.const(np.array([0, *sizes], np.int64)))
        outputs = new_split(new, whole, sizes_of(m.split) or [], 1)
        pieces = dict(zip(m.split.outputs, outputs, strict=True))
        return [new_unsqueeze(new, pieces[node.inputs[0]], [1], "Squeeze") for node in m.squeezes]
