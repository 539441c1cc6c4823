from collections.abc import Iterator, Sequence

from fusionc.model.graph import Edge, Graph, Node
from fusionc.passes._shared.slice_split_concat import axis_of, new_split, piece_of
from fusionc.rewrite import (
    Match,
    Miss,
    Pass,
    Pattern,
    Result,
    Tape,
    find_each,
    refuse,
    require_known,
    unknown,
)
from fusionc.shapes.equality import same_after_reshape

_Piece = tuple[int, int, Node]  # start, end, and the Slice


def _find(graph: Graph) -> Iterator[Match | Miss]:
    """Slices that cover one value along one axis without a gap or an overlap."""
    seen: set[tuple[Edge, int]] = set()
    for slice_node in graph.of_operator("Slice"):
        if not slice_node.is_in_graph:
            continue
        piece = piece_of(slice_node)
        if piece is None:
            yield Miss(slice_node, "start and end of one piece along one axis are not known")
        elif piece[:2] not in seen:
            seen.add(piece[:2])
            yield _match(slice_node, *piece[:2], graph)


def _match(slice_node: Node, x: Edge, axis: int, graph: Graph) -> Match | Miss:
    """All Slices of x along an axis, or the reason why they do not cover x."""
    pieces = sorted(_pieces(x, axis, graph), key=lambda piece: piece[:2])
    length = None if x.shape is None else x.shape[axis]
    if len(pieces) < 2:
        return Miss(slice_node, "no other Slice cuts the same value along the same axis")
    if not isinstance(length, int):
        return Miss(slice_node, unknown("the length of the axis"))
    if not _cover(pieces, length):
        return Miss(slice_node, "the Slices of the value overlap or leave a gap")
    nodes = [node for _, _, node in pieces]
    sizes = [end - start for start, end, _ in pieces]
    outputs = [value for node in nodes for value in node.outputs]
    return Match(graph, nodes, outputs, {"x": x, "axis": axis, "sizes": sizes})


def _cover(pieces: Sequence[_Piece], length: int) -> bool:
    """Whether each piece begins where the previous one ends, from 0 to the length of the axis."""
    bounds = [0, *(end for _, end, _ in pieces)]
    return [start for start, _, _ in pieces] == bounds[:-1] and bounds[-1] == length


def _pieces(x: Edge, axis: int, graph: Graph) -> Iterator[_Piece]:
    """All Slices of a value along an axis."""
    for node in x.outputs:
        piece = piece_of(node) if node.graph is graph else None
        if piece is not None and piece[:2] == (x, axis):
            yield *piece[2:], node


def _find_at(reshape: Node) -> Match:
    """A Reshape that splits an axis, and Gathers that take the new axis apart."""
    x: Edge = require_known(reshape.inputs[0], "the input")
    whole: Edge = require_known(reshape.outputs[0], "the result")
    if whole.is_output or whole.is_pinned:
        refuse("the result is used elsewhere")
    gathers = {_index_of(node, reshape): node for node in whole.outputs}
    shape = whole.require_shape()
    axis = _axis_before_last(list(gathers.values()), len(shape))
    count, size = shape[axis : axis + 2]
    if not isinstance(count, int) or not isinstance(size, int):
        refuse(unknown("the size of a piece"))
    if not same_after_reshape(x.shape, (*shape[:axis], count * size, *shape[axis + 2 :])):
        refuse("the Reshape is not known to split only the axis that the Gathers take apart")
    pieces = {index % count: node for index, node in gathers.items()}
    if not len(whole.outputs) == len(pieces) == count > 1:
        refuse("the Gathers do not take each element once")
    nodes = [pieces[index] for index in range(count)]
    captures = {"x": x, "axis": axis, "sizes": [size] * count}
    outputs = [node.outputs[0] for node in nodes]
    return Match(reshape.graph, [reshape, *nodes], outputs, captures)


def _index_of(node: Node, reshape: Node) -> int:
    """The index of the element that a Gather takes from the Reshape. Refuses all other nodes."""
    is_gather = node.is_op("Gather") and node.graph is reshape.graph and not node.has_references
    index = node.inputs[1] if is_gather and node.inputs[0] is reshape.outputs[0] else None
    array = None if index is None else index.constant()
    if array is None or array.ndim:
        refuse("a node that is not a Gather of one known element reads the result")
    return int(array)


def _axis_before_last(gathers: list[Node], rank: int) -> int:
    """The one axis from which Gathers take elements. Refuses the last axis."""
    axes = {axis_of(node, rank) for node in gathers}
    axis = next(iter(axes), None)
    if len(axes) != 1 or axis is None or axis + 1 >= rank:
        refuse("the Gathers do not take elements of one axis before the last")
    return axis


class ZSplitVDFusionPassV2(Pass):
    """Slices or Gathers that together cover one value become a Split.

    before   Slice(x, 0, 2), Slice(x, 2, 5), Slice(x, 5, 6) along an axis of size 6; Gather(y, 0),
             Gather(y, 1), Gather(y, 2), where y = Reshape(x) splits an axis, as in packed
             attention
    after    Split(x, [2, 3, 1]); Split(x)
    refuses  only what every pass refuses
    never    pieces that overlap, leave a gap or are not known before the model runs; Gathers of
             single elements without such a Reshape, because a Split would need additional Squeezes
             (if a Split is faster, onnxruntime itself creates it when it loads the model)
    algebra  the definition of Split
    source   CANN's ZSplitVDFusionPassV2
    """

    aliases = ("StridedSliceDToSplitFusionPass",)
    patterns = (
        Pattern("SlicesSplit", find=_find, operators=("Slice",)),
        Pattern("GathersSplit", find=find_each(_find_at, "Reshape"), operators=("Gather",)),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        return new_split(new, m.x, m.sizes, m.axis)
