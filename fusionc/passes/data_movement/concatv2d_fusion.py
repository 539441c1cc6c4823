from collections.abc import Iterator
from dataclasses import dataclass, field

from fusionc.model.graph import Edge, Graph, Node
from fusionc.passes._shared.slice_split_concat import axis_of
from fusionc.rewrite import Match, Miss, Pass, Pattern, Result, Tape, refuse

# an inner Concat that the outer one reads several times may add at most this many inputs to it
_MAX_PIECES = 64


@dataclass
class _Tree:
    """A Concat and the Concats among its inputs that can be merged into it."""

    nodes: dict[Node, None]
    pieces: list[Edge | None] = field(default_factory=list)  # the inputs of the merged Concat
    refused: dict[Node, Node] = field(default_factory=dict)  # inner Concat → its reader


def _find(graph: Graph) -> Iterator[Match | Miss]:
    """Whole trees of Concats. If the Concats were merged one by one, each step would copy the list
    of inputs.
    """
    merged: set[Node] = set()
    for outer in sorted(graph.of_operator("Concat"), key=lambda node: -node.position):
        if outer in merged or outer.has_references:
            continue
        tree = _tree(outer)
        merged.update(tree.nodes)
        for inner, user in tree.refused.items():
            yield Match(
                graph, (user, inner), user.outputs, {"pieces": None, "inner": inner, "outer": user}
            )
        if len(tree.nodes) > 1:
            captures = {"pieces": tree.pieces, "outer": outer}
            yield Match(graph, tuple(tree.nodes), outer.outputs, captures)
        elif not tree.refused:
            yield Miss(outer, "none of its inputs is made by a Concat of the same graph")


def _tree(outer: Node) -> _Tree:
    tree = _Tree({outer: None})
    pending = [(value, outer) for value in reversed(outer.inputs)]
    while pending:
        value, user = pending.pop()
        inner = _concat_of(value, outer.graph)
        if inner is not None and _can_merge(inner, user) and _same_axis(inner, user):
            tree.nodes[inner] = None
            pending += [(piece, inner) for piece in reversed(inner.inputs)]
            continue
        tree.pieces.append(value)
        if inner is not None:
            tree.refused[inner] = user
    return tree


def _concat_of(value: Edge | None, graph: Graph) -> Node | None:
    """The Concat of this graph that computes a value."""
    node = None if value is None else value.producer
    if node is None or not node.is_op("Concat") or node.graph is not graph or node.has_references:
        return None
    return node


def _can_merge(inner: Node, user: Node) -> bool:
    """Whether only `user` reads the result of `inner`. `user` may read the result several times,
    unless the number of pieces would then grow exponentially.
    """
    (value,) = inner.outputs
    if value is None or value.is_output or value.use_count > 1:
        return False
    count = user.inputs.count(value)
    return count == 1 or count * len(inner.inputs) <= _MAX_PIECES


def _same_axis(inner: Node, outer: Node) -> bool:
    if inner.attr("axis") == outer.attr("axis"):
        return True
    (value,) = inner.outputs
    axis = None if value is None else axis_of(outer, value.rank)
    return axis is not None and value is not None and axis == axis_of(inner, value.rank)


class ZConcatv2dFusionPass(Pass):
    """Concats among the inputs of a Concat along the same axis are merged into it.

    before   Concat(a, Concat(b, Concat(c, d)), e)
    after    Concat(a, b, c, d, e)
    refuses  different axes; an unknown rank, if the axes are equal only for some ranks; an inner
             Concat that is used elsewhere; an inner Concat that is an input several times and would
             add more than 64 pieces
    algebra  concatenation is associative
    source   CANN's ZConcatv2dFusionPass
    """

    patterns = (Pattern("ConcatConcat", find=_find, operators=("Concat",)),)

    def rewrite(self, m: Match, new: Tape) -> Result:
        if m.pieces is None:
            refuse(
                "an inner Concat is used elsewhere, or too often"
                if _same_axis(m.inner, m.outer)
                else "the axes of the two operators differ"
            )
        return new.node("Concat", m.pieces, like=m.outer)
