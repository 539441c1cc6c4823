from collections.abc import Iterator

import numpy as np

from fusionc.model.graph import Edge, Graph, Node
from fusionc.passes._shared.constants import array_of, shape_of, would_double
from fusionc.passes._shared.slice_split_concat import axis_of, sizes_of
from fusionc.passes._shared.target import require_onnxruntime
from fusionc.rewrite import Match, Pattern, Result, Tape, UBFusionPass, refuse


def _made_by(value: Edge | None, graph: Graph, *names: str) -> Node | None:
    node = None if value is None else value.producer
    return (
        node
        if node is not None
        and node.is_op(*names)
        and node.graph is graph
        and not node.has_references
        else None
    )


def _sum(value: Edge | None, graph: Graph) -> tuple[Node, Edge | None, list[Node]] | None:
    """The product that a value is, what is added to it, and all nodes of that."""
    add = _made_by(value, graph, "Add")
    if add is None:
        product = _made_by(value, graph, "MatMul", "Gemm")
        bias = product.inputs[2] if product is not None and len(product.inputs) > 2 else None
        return None if product is None else (product, bias, [product])
    for part, bias in (add.inputs, add.inputs[::-1]):
        product = _made_by(part, graph, "MatMul")
        if product is not None and bias is not None and bias.is_constant:
            return product, bias, [product, add]
    return None


def _find(graph: Graph) -> Iterator[Match]:
    """A Split along the last axis of a product by constant weights, to which a constant vector may
    be added.
    """
    for split in graph.of_operator("Split"):
        if split.has_references:
            continue
        whole = split.inputs[0]
        sizes = sizes_of(split)
        found = _sum(whole, graph)
        if whole is None or found is None or sizes is None:
            continue
        product, bias, nodes = found
        x, weight = product.inputs[:2]
        shape = shape_of(weight) if weight is not None and weight.is_constant else None
        is_last = split.attr("axis", 0) == -1 or (
            whole.rank and axis_of(split, whole.rank) == whole.rank - 1
        )
        if shape is None or len(shape) != 2 or not is_last:
            continue
        axis = 0 if product.op == "Gemm" and product.attr("transB") else 1
        if bias is not None and not (bias.is_constant and shape_of(bias) == (shape[axis],)):
            continue
        outputs = [output for output in split.outputs if output is not None]
        if len(outputs) == len(sizes) > 1:
            captures = {
                "x": x,
                "W": weight,
                "B": bias,
                "sizes": sizes,
                "axis": axis,
                "product": product,
            }
            yield Match(graph, [split, *nodes], outputs, captures)


class InferenceMatmulSplitFusionPass(UBFusionPass):
    """A product that is split becomes several products.

    before   Split(x·W [+ B]) along the last axis into any number of pieces, with constant weights
             and bias; by Gemm too
    after    x·W₁ [+ B₁], x·W₂ [+ B₂], …
    refuses  large weights that are used elsewhere; other targets
    never    by default: it pays or costs by the size, one large product takes 0.97 to 1.1 of the
             time of its parts, and SameInputMatMulPass makes one product of several, which saves
             nodes; it leaves what this pass has split
    algebra  the columns of a product are computed one by one
    source   MindSpore's inference_matmul_split_fusion, which makes two or three pieces
    """

    numerics = "rounding"
    default = "off"
    aliases = ("inference_matmul_split_fusion",)
    patterns = (Pattern("MatMulSplit", find=_find, operators=("Split", "MatMul", "Gemm")),)

    def rewrite(self, m: Match, new: Tape) -> Result:
        require_onnxruntime(m)
        if would_double(m.W, array_of(m.W).size):
            refuse("large weights are used elsewhere")
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
