import numpy as np

from fusionc.model.graph import Edge, Graph, Node
from fusionc.passes._shared.slice_split_concat import axis_of, new_split, sizes_of
from fusionc.passes._shared.target import require_onnxruntime
from fusionc.passes._shared.transpose_and_reshape import axes_of, new_unsqueeze, order_of
from fusionc.rewrite import (
    Match,
    Pattern,
    Result,
    Tape,
    UBFusionPass,
    find_each,
    refuse,
    require_known,
    unknown,
)
from fusionc.shapes.equality import same_shape


def _producer(value: Edge | None, name: str) -> Node | None:
    """The producer of a value, if it is this operator."""
    node = None if value is None else value.producer
    return node if node is not None and node.is_op(name) and not node.has_references else None


def _find_at(split: Node) -> Match:
    """Reshape, Transpose, Split and Squeezes that cut [batch, length, pieces · …] into pieces of
    [batch, …, length].
    """
    turn = _producer(split.inputs[0], "Transpose")
    if turn is None:
        refuse("the input is not the result of a Transpose")
    reshape = _producer(turn.inputs[0], "Reshape")
    if reshape is None:
        refuse("the input of the Transpose is not the result of a Reshape")
    order = order_of(turn)
    rank = len(order)
    if rank < 4 or order != [2, 0, *range(3, rank), 1]:
        refuse("the Transpose does not put the pieces first and the length last")
    squeezes = _squeezes(split, rank)
    captures = {
        "x": reshape.inputs[0],
        "whole": reshape.outputs[0],
        "squeezes": squeezes,
        "split": split,
    }
    nodes = [reshape, turn, split, *squeezes]
    return Match(split.graph, nodes, [node.outputs[0] for node in squeezes], captures)


def _squeezes(split: Node, rank: int) -> list[Node]:
    """The Squeezes of the outputs along axis 0, one for each output. Refuses other users."""
    if set(require_known(sizes_of(split), "the sizes of the pieces")) != {1}:
        refuse("a piece has more than one element along the axis")
    if axis_of(split, rank) != 0:
        refuse("the axis is not the first one")
    users = [user for value in split.outputs if value is not None for user in value.outputs]
    are_squeezed = all(_squeezes_first_axis(user, split.graph, rank) for user in users)
    if not are_squeezed or len(users) != len(split.outputs):
        refuse("a piece is not used by exactly one Squeeze of the first axis")
    return users


def _squeezes_first_axis(node: Node, graph: Graph, rank: int) -> bool:
    is_squeeze = node.is_op("Squeeze") and node.graph is graph and not node.has_references
    return is_squeeze and axes_of(node) in ([0], [-rank])


class UnpackTransposePass(UBFusionPass):
    """A Transpose of query, key and value together, before their Split, moves fewer axes.

    before   Squeeze(Split(Transpose(Reshape(x, [batch, length, 3, heads, size]), [2, 0, 3, 4, 1]),
             axis 0), axis 0)
    after    Squeeze(Split(Reshape(Transpose(x, [0, 2, 1]), [batch, 3, heads, size, length]), axis
             1), axis 1)
    refuses  an x whose rank is not 3; a Reshape that changes more than the last axis; unknown sizes
             except that of the batch; targets other than onnxruntime
    algebra  the result has the same elements in the same order
    source   measured: onnxruntime 1.31.1 transposes a matrix fast, but five axes element by
             element. Attention across channels (XCiT) runs in 0.86 of the time
    """

    patterns = (
        Pattern("UnpackTranspose", find=find_each(_find_at, "Split"), operators=("Split",)),
    )

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
        transposed = new.Transpose(m.x, perm=[0, 2, 1])
        reshaped = new.Reshape(transposed, new.const(np.array([0, *sizes], np.int64)))
        outputs = new_split(new, reshaped, sizes_of(m.split) or [], 1)
        pieces = dict(zip(m.split.outputs, outputs, strict=True))
        return [new_unsqueeze(new, pieces[node.inputs[0]], [1], "Squeeze") for node in m.squeezes]
