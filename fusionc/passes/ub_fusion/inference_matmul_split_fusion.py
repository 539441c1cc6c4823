from collections.abc import Iterator

import numpy as np

from fusionc.model.graph import Graph
from fusionc.passes.splitting import axis_of, sizes_of
from fusionc.passes.target import require_onnxruntime
from fusionc.passes.weights import array_of, shape_of, would_double
from fusionc.rewrite import Match, Pattern, Result, Tape, UBFusionPass, refuse


def _find(graph: Graph) -> Iterator[Match]:
    """A Split in two along the last axis of a product by constant weights."""
    for split in graph.of_operator("Split"):
        value, sizes = split.inputs[0], sizes_of(split)
        product = None if value is None else value.producer
        if (
            value is None
            or product is None
            or not product.is_op("MatMul")
            or product.graph is not graph
            or split.has_references
        ):
            continue
        x, weight = product.inputs
        is_last = split.attr("axis", 0) == -1 or (value.rank and axis_of(split, value.rank) == value.rank - 1)
        if weight is None or not weight.is_constant or len(shape_of(weight) or ()) != 2 or not is_last:
            continue
        outputs = [output for output in split.outputs if output is not None]
        if sizes is not None and len(outputs) == len(sizes) == 2:
            captures = {"x": x, "W": weight, "sizes": sizes, "product": product}
            yield Match(graph, [split, product], outputs, captures)


class InferenceMatmulSplitFusionPass(UBFusionPass):
    """A product that is split in two becomes two products.

    before   Split(x·W) along the last axis, with constant weights
    after    x·W₁, x·W₂
    refuses  large weights that are used elsewhere; another product of the same value; other targets
    never    by default: it pays or costs by the size, one large product takes 0.97 to 1.1 of the time of its parts;
             a bias, more than two pieces: SameInputMatMulPass makes one product of these, which saves nodes
    algebra  the columns of a product are computed one by one
    source   MindSpore's inference_matmul_split_fusion
    """

    numerics = "rounding"
    default = "off"
    aliases = ("inference_matmul_split_fusion",)
    patterns = (Pattern("MatMulSplit", find=_find),)

    def rewrite(self, m: Match, new: Tape) -> Result:
        require_onnxruntime(m)
        if would_double(m.W, array_of(m.W).size):
            refuse("large weights are used elsewhere")
        products = [user for user in m.x.outputs if user.graph is m.graph and user.is_op("MatMul", "Gemm")]
        if any(user is not m.product for user in products):
            refuse("another product of the same value")
        weights = np.split(array_of(m.W), np.cumsum(m.sizes)[:-1], axis=1)
        return tuple(new.MatMul(m.x, new.const(part, like=m.W)) for part in weights)
