from collections.abc import Iterator, Sequence

from fusionc.model.graph import Edge, Graph, Node
from fusionc.passes._shared.slice_split_concat import new_split, piece_of
from fusionc.rewrite import Match, Miss, Pass, Pattern, Result, Tape, unknown

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


class ZSplitVDFusionPassV2(Pass):
    """Slices that together cover one value become a Split.

    before   Slice(x, 0, 2), Slice(x, 2, 5), Slice(x, 5, 6) along an axis of size 6
    after    Split(x, [2, 3, 1])
    refuses  only what every pass refuses
    never    pieces that overlap, leave a gap or are not known before the model runs; Gathers of
             single elements, because a Split would need additional Squeezes (if a Split is faster,
             onnxruntime itself creates it when it loads the model)
    algebra  the definition of Split
    source   CANN's ZSplitVDFusionPassV2
    """

    aliases = ("StridedSliceDToSplitFusionPass",)
    patterns = (Pattern("SlicesSplit", find=_find, operators=("Slice",)),)

    def rewrite(self, m: Match, new: Tape) -> Result:
        return new_split(new, m.x, m.sizes, m.axis)
