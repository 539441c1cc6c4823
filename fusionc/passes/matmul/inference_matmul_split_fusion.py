from dataclasses import dataclass

import numpy as np

from fusionc.model.graph import Edge, Graph, Node
from fusionc.passes._shared.constants import SHARED, array_of, shape_of, would_double
from fusionc.passes._shared.slice_split_concat import axis_of, sizes_of
from fusionc.passes._shared.target import require_onnxruntime
from fusionc.rewrite import (
    Match,
    Pattern,
    Result,
    Tape,
    UBFusionPass,
    find_each,
    refuse,
    require_known,
)


def _producer(value: Edge | None, graph: Graph, *names: str) -> Node | None:
    """The producer of a value in this graph, if it is one of these operators."""
    node = None if value is None else value.producer
    if node is None or node.graph is not graph or node.has_references:
        return None
    return node if node.is_op(*names) else None


@dataclass(frozen=True)
class _Product:
    """A product with constant weights and an optional bias."""

    node: Node  # the MatMul or Gemm
    bias: Edge | None
    nodes: tuple[Node, ...]  # the product, and the Add of the bias

    @property
    def columns_axis(self) -> int:
        """The axis of the weights that becomes the columns of the result."""
        return 0 if self.node.op == "Gemm" and self.node.attr("transB") else 1

    @property
    def is_constant(self) -> bool:
        """Whether the weights are a constant matrix, and the bias, if any, is a constant row."""
        weight = self.node.inputs[1]
        shape = shape_of(weight) if weight is not None and weight.is_constant else None
        if shape is None or len(shape) != 2:
            return False
        columns = shape[self.columns_axis]
        bias = self.bias
        return bias is None or (bias.is_constant and shape_of(bias) == (columns,))


def _product_of(value: Edge | None, graph: Graph) -> _Product | None:
    """The product that computes a value, possibly with the Add of a constant after it."""
    add = _producer(value, graph, "Add")
    if add is None:
        node = _producer(value, graph, "MatMul", "Gemm")
        return None if node is None else _Product(node, [*node.inputs, None][2], (node,))
    for part, bias in (add.inputs, add.inputs[::-1]):
        node = _producer(part, graph, "MatMul")
        if node is not None and bias is not None and bias.is_constant:
            return _Product(node, bias, (node, add))
    return None


def _find_at(split: Node) -> Match:
    """The match of a Split along the last axis of a product with constant weights. The Add of a
    constant may be between the product and the Split.
    """
    product = _product_of(split.inputs[0], split.graph)
    if product is None:
        refuse("its input is neither a product nor the sum of a product and a constant")
    if not product.is_constant:
        refuse("the weights are not a constant matrix, or the bias is not a constant row")
    sizes = require_known(sizes_of(split), "the sizes of the pieces")
    if not _is_along_last(split):
        refuse("the axis is not known to be the last one")
    outputs = [output for output in split.outputs if output is not None]
    if len(outputs) < len(sizes) or len(sizes) < 2:
        refuse("the Split omits a piece, or has only one piece")
    captures = {
        "x": product.node.inputs[0],
        "W": product.node.inputs[1],
        "B": product.bias,
        "sizes": sizes,
        "axis": product.columns_axis,
        "product": product.node,
    }
    return Match(split.graph, [split, *product.nodes], outputs, captures)


def _is_along_last(split: Node) -> bool:
    """Whether a Split works along the last axis. If the rank is unknown, its axis must be −1."""
    rank = None if split.inputs[0] is None else split.inputs[0].rank
    return split.attr("axis", 0) == -1 or bool(rank and axis_of(split, rank) == rank - 1)


class InferenceMatmulSplitFusionPass(UBFusionPass):
    """A product whose result is split becomes several products.

    before   Split(x·W [+ B]) along the last axis into any number of pieces. The product is a MatMul
             or Gemm; weights and bias are constant
    after    x·W₁ [+ B₁], x·W₂ [+ B₂], …
    refuses  large weights that are used elsewhere; targets other than onnxruntime
    never    off by default, because one large product takes 0.97 to 1.1 of the time of its parts,
             depending on the size, and SameInputMatMulPass does the opposite to save nodes.
             SameInputMatMulPass does not join the products that this pass has split
    algebra  each column of a product is computed on its own
    source   MindSpore's inference_matmul_split_fusion, which makes two or three pieces
    """

    numerics = "rounding"
    default = "off"
    aliases = ("inference_matmul_split_fusion",)
    patterns = (
        Pattern(
            "MatMulSplit", find=find_each(_find_at, "Split"), operators=("Split", "MatMul", "Gemm")
        ),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        require_onnxruntime(m)
        if would_double(m.W, array_of(m.W).size):
            refuse(SHARED)
        ends = np.cumsum(m.sizes)[:-1]
        weights = [new.const(part, like=m.W) for part in np.split(array_of(m.W), ends, axis=m.axis)]
        if m.B is None:
            return tuple(
                new.node(m.product.op, [m.x, weight], like=m.product) for weight in weights
            )
        biases = [new.const(part, like=m.B) for part in np.split(array_of(m.B), ends)]
        pairs = list(zip(weights, biases, strict=True))
        if m.product.op == "Gemm":
            return tuple(new.Gemm(m.x, *pair, like=m.product) for pair in pairs)
        return tuple(new.Add(new.MatMul(m.x, weight), bias) for weight, bias in pairs)
