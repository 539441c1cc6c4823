from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fusionc.model.graph import Edge, Graph, Node, Shape
from fusionc.passes._shared.transpose_and_reshape import order_of
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, find_each, refuse, require_known
from fusionc.shapes.equality import same_after_reshape

_MAX_OPERATORS = 16  # the largest number of operators that one match examines


def _joined_axes(reshape: Node) -> Shape:
    """The leading dimensions that a Reshape joins into one. Empty if the Reshape may change
    anything else.
    """
    x = reshape.inputs[0]
    flat = reshape.outputs[0]
    if x is None or flat is None or x.shape is None or flat.shape is None or not flat.shape:
        return ()
    count = len(x.shape) - len(flat.shape) + 1
    rest = tuple(flat.shape[1:])
    if count < 2 or tuple(x.shape[count:]) != rest:
        return ()
    is_known = None not in x.shape and 0 not in rest
    return tuple(x.shape[:count]) if is_known else ()


def _is_batchwise(node: Node) -> bool:
    """Whether each item of the result along its first axis depends only on the same item of each
    input.
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
    """Batchwise operators whose inputs are Reshapes that join the same leading axes."""

    graph: Graph
    joined_dims: Shape = ()  # the dimensions that the Reshapes join
    leaves: dict[Edge, Node] = field(default_factory=dict)  # reshaped value → its Reshape
    nodes: dict[Node, None] = field(default_factory=dict)  # the batchwise operators

    def add(self, value: Edge | None) -> bool:
        """Add all nodes that compute a value. False if these nodes are not batchwise operators that
        begin with Reshapes which join the same axes.
        """
        node = None if value is None else value.producer
        if (
            value is None
            or node is None
            or node.graph is not self.graph
            or len(self.nodes) > _MAX_OPERATORS
        ):
            return False
        if node in self.nodes or value in self.leaves:
            return True
        if node.has_references or not node.is_op("Reshape", "MatMul", "Transpose", "Softmax"):
            return False
        return self._add_leaf(value, node) if node.op == "Reshape" else self._add_node(node)

    def _add_leaf(self, value: Edge, reshape: Node) -> bool:
        joined_dims = _joined_axes(reshape)
        self.leaves[value] = reshape
        self.joined_dims = self.joined_dims or joined_dims
        return bool(joined_dims) and joined_dims == self.joined_dims

    def _add_node(self, node: Node) -> bool:
        self.nodes[node] = None
        return _is_batchwise(node) and all(map(self.add, node.inputs))

    def private(self) -> list[Node]:
        """The Reshapes whose results only the region uses."""
        return [
            n
            for v, n in self.leaves.items()
            if not v.is_output and all(u in self.nodes for u in v.outputs)
        ]


def _find_at(root: Node) -> Match:
    """Reshape(f(Reshape(a), …)) for batchwise operators f."""
    flat: Edge = require_known(root.inputs[0], "the input")
    rest = flat.require_shape(least=2)[1:]
    region = _Region(root.graph)
    if not region.add(flat):
        refuse("the input does not begin with Reshapes that join the same leading axes")
    if not region.nodes:
        refuse("the Reshapes have no operator between them")
    result = root.outputs[0]
    shape = None if result is None else result.shape
    if not same_after_reshape(shape, (*region.joined_dims, *rest)):
        refuse("the Reshape is not known to undo those before it")
    nodes = [root, *region.nodes, *region.private()]
    return Match(root.graph, nodes, root.outputs, {"region": region})


class FlatBatchEliminationPass(Pass):
    """Matrix products between Reshapes that only join leading axes are computed without joining
    them.

    before   Reshape(f(Reshape(a), Reshape(b), …)), where the inner Reshapes turn [batch, heads, …]
             into [batch · heads, …], the outer Reshape splits this axis again, and f consists of
             MatMul, Softmax over the last axis, and Transposes that keep the first axis
    after    f(a, b, …)
    refuses  only what every pass refuses
    never    leading axes that are not known to be equal, or to be joined and split again; products
             that broadcast
    algebra  each matrix of a batch is computed on its own, whatever axes the batch has
    source   Hugging Face's BART, OPT, CLIP, Whisper and wav2vec 2.0 write attention in this way;
             the attention passes match four axes
    """

    patterns = (Pattern("FlatBatch", find=find_each(_find_at, "Reshape"), operators=("Reshape",)),)

    def rewrite(self, m: Match, new: Tape) -> Result:
        region: _Region = m.region
        added = len(region.joined_dims) - 1
        replaced: dict[Edge | None, Edge | None] = {
            value: node.inputs[0] for value, node in region.leaves.items()
        }
        for node in sorted(region.nodes, key=lambda n: n.position):
            inputs = [replaced[value] for value in node.inputs]
            result = new.node(node.op, inputs, like=node, **_attributes(node, added))
            replaced[node.outputs[0]] = result
        return result


def _attributes(node: Node, added: int) -> dict[str, Any]:
    """The attributes that change when the batch gets this number of additional axes."""
    if node.op == "Transpose":
        return {"perm": [*range(added + 1), *(axis + added for axis in order_of(node)[1:])]}
    if node.op == "Softmax":
        axis = node.attr("axis")
        return {"axis": axis if axis < 0 else axis + added}
    return {}
