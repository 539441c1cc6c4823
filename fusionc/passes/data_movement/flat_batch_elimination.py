from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from fusionc.model.graph import Edge, Graph, Node, Shape
from fusionc.passes._shared.transpose_and_reshape import order_of
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape
from fusionc.shapes.equality import same_after_reshape

_MOST = 16  # operators that one match looks through


def _joined(reshape: Node) -> Shape:
    """The leading axes that a Reshape makes one of; none where it is not known to do that alone."""
    x = reshape.inputs[0]
    made = reshape.outputs[0]
    if x is None or made is None or x.shape is None or made.shape is None or not made.shape:
        return ()
    count = len(x.shape) - len(made.shape) + 1
    rest = tuple(made.shape[1:])
    is_known = None not in (*x.shape, *rest) and 0 not in rest
    return (
        tuple(x.shape[:count]) if count > 1 and is_known and tuple(x.shape[count:]) == rest else ()
    )


def _is_by_batch(node: Node) -> bool:
    """Whether an operator computes each element along the first axis of its result from the same
    ones of its inputs.
    """
    ranks = {None if value is None else value.rank for value in node.inputs}
    rank = next(iter(ranks))
    if len(ranks) > 1 or rank is None:
        return False
    if node.is_op("Transpose"):
        return order_of(node)[:1] == [0]
    return rank > 2 if node.is_op("MatMul") else rank > 1 and node.attr("axis") in (-1, rank - 1)


@dataclass
class _Region:
    """Operators that work by batches, and the Reshapes of the same leading axes that they begin
    with.
    """

    graph: Graph
    lead: Shape = ()
    leaves: dict[Edge, Node] = field(default_factory=dict)
    nodes: dict[Node, None] = field(default_factory=dict)

    def add(self, value: Edge | None) -> bool:
        """Take in everything that a value is computed from; False where something else than a
        Reshape begins it.
        """
        node = None if value is None else value.producer
        if value is None or node is None or node.graph is not self.graph or len(self.nodes) > _MOST:
            return False
        if node in self.nodes or value in self.leaves:
            return True
        if node.has_references or not node.is_op("Reshape", "MatMul", "Transpose", "Softmax"):
            return False
        if node.op == "Reshape":
            lead = _joined(node)
            self.leaves[value] = node
            self.lead = self.lead or lead
            return bool(lead) and lead == self.lead
        self.nodes[node] = None
        return _is_by_batch(node) and all(map(self.add, node.inputs))

    def private(self) -> list[Node]:
        """The Reshapes that nobody else uses."""
        return [
            n
            for v, n in self.leaves.items()
            if not v.is_output and all(u in self.nodes for u in v.outputs)
        ]


def _between_reshapes(graph: Graph) -> Iterator[Match]:
    """Reshapes of what operators that work by batches make of Reshapes."""
    for root in graph.of_operator("Reshape"):
        flat = root.inputs[0]
        made = root.outputs[0]
        region = _Region(graph)
        if (
            not root.is_in_graph
            or root.has_references
            or made is None
            or not region.add(flat)
            or not region.nodes
        ):
            continue
        rest = () if flat is None or flat.shape is None else tuple(flat.shape[1:])
        if rest and same_after_reshape(made.shape, (*region.lead, *rest)):
            yield Match(
                graph, [root, *region.nodes, *region.private()], root.outputs, {"region": region}
            )


class FlatBatchEliminationPass(Pass):
    """Products of matrices between Reshapes that only join leading axes are computed with the axes
    as they are.

    before   Reshape(f(Reshape(a), Reshape(b), …)), where the inner Reshapes make [batch · heads, …]
             of [batch, heads, …], the outer one undoes it, and f is made of MatMul, Softmax over
             the last axis, and Transposes that leave the first one
    after    f(a, b, …)
    refuses  nothing of its own
    never    leading axes that are not known to be the same, or to be joined and parted again;
             broadcasting
    algebra  each matrix of a batch is computed by itself, in however many axes they are counted
    source   how Hugging Face's BART, OPT, CLIP, Whisper and wav2vec 2.0 write attention, which is
             looked for on four axes
    """

    patterns = (Pattern("FlatBatch", find=_between_reshapes, operators=("Reshape",)),)

    def rewrite(self, m: Match, new: Tape) -> Result:
        region: _Region = m.region
        more = len(region.lead) - 1
        made: dict[Edge | None, Edge | None] = {
            value: node.inputs[0] for value, node in region.leaves.items()
        }
        nodes = sorted(region.nodes, key=lambda n: n.position)
        for node in nodes:
            attributes: dict[str, Any] = {}
            if node.op == "Transpose":
                attributes["perm"] = [
                    *range(more + 1),
                    *(axis + more for axis in order_of(node)[1:]),
                ]
            elif node.op == "Softmax":
                attributes["axis"] = (
                    node.attr("axis") if node.attr("axis") < 0 else node.attr("axis") + more
                )
            result = new.node(
                node.op, [made[value] for value in node.inputs], like=node, **attributes
            )
            made[node.outputs[0]] = result
        return result
