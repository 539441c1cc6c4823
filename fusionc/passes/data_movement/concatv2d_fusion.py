from collections.abc import Iterator

from fusionc.model.graph import Edge, Graph, Node
from fusionc.passes._shared.slice_split_concat import axis_of
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, refuse

_MOST = 64  # pieces that come of a Concat which stands in another one several times


def _find(graph: Graph) -> Iterator[Match]:
    """Every tree of Concats at once: merged one by one, a chain of them would be copied as often as
    it is long.
    """
    merged: set[Node] = set()
    for outer in sorted(graph.of_operator("Concat"), key=lambda node: -node.position):
        if outer in merged or outer.has_references:
            continue
        tree = {outer: None}
        pieces = []
        refused = {}
        pending: list[tuple[Edge | None, Node]] = [
            (value, outer) for value in reversed(outer.inputs)
        ]
        while pending:
            value, user = pending.pop()
            inner = None if value is None else value.producer
            if (
                inner is None
                or not inner.is_op("Concat")
                or inner.graph is not graph
                or inner.has_references
            ):
                pieces.append(value)
            elif _is_alone(inner, user) and _same_axis(inner, user):
                tree[inner] = None
                pending += [(piece, inner) for piece in reversed(inner.inputs)]
            else:
                pieces.append(value)
                refused[inner] = user
        merged.update(tree)
        for inner, user in refused.items():
            yield Match(
                graph, (user, inner), user.outputs, {"pieces": None, "inner": inner, "outer": user}
            )
        if len(tree) > 1:
            yield Match(graph, tuple(tree), outer.outputs, {"pieces": pieces, "outer": outer})


def _is_alone(inner: Node, user: Node) -> bool:
    """Whether only `user` reads what `inner` makes, and not so often that merging doubles and
    doubles again.
    """
    (value,) = inner.outputs
    if value is None or value.is_output or value.use_count > 1:
        return False
    times = user.inputs.count(value)
    return times == 1 or times * len(inner.inputs) <= _MOST


def _same_axis(inner: Node, outer: Node) -> bool:
    if inner.attr("axis") == outer.attr("axis"):
        return True
    (value,) = inner.outputs
    axis = None if value is None else axis_of(outer, value.rank)
    return axis is not None and value is not None and axis == axis_of(inner, value.rank)


class ZConcatv2dFusionPass(Pass):
    """Concats among the inputs of a Concat of the same axis are merged into it.

    before   Concat(a, Concat(b, Concat(c, d)), e)
    after    Concat(a, b, c, d, e)
    refuses  another axis, or axes that only an unknown rank could show to be equal; an inner Concat
             used elsewhere; one that stands there several times and would bring more than 64 pieces
    algebra  concatenation is associative
    source   CANN's ZConcatv2dFusionPass
    """

    patterns = (Pattern("ConcatConcat", find=_find, operators=("Concat",)),)

    def rewrite(self, m: Match, new: Tape) -> Result:
        if m.pieces is None:
            refuse(
                "an inner Concat stands there too often"
                if _same_axis(m.inner, m.outer)
                else "the axes differ"
            )
        return new.node("Concat", m.pieces, like=m.outer)
