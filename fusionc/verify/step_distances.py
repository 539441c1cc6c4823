"""Measure how far a quantized number is from the limit between two steps, if two models take
different steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx
from onnx import NodeProto, TensorProto

from fusionc.verify.compare import TOLERANCES

# The nodes that measure one Quantize of x. For each element that the models put on different steps
# (`ours` and `theirs`), the signed distances of x from both steps are added. The sum is 0 if x is
# in the middle.
_DISTANCE = onnx.parser.parse_graph("""agraph () => () {
    a = DequantizeLinear (ours) b = DequantizeLinear (theirs)
    value = Cast <to = 1> (x) here = Cast <to = 1> (a) there = Cast <to = 1> (b)
    up = Sub (value, here) down = Sub (value, there) sum = Add (up, down) distance = Abs (sum)
    is_same = Equal (here, there) zero = Sub (here, here) moved = Where (is_same, zero, distance)
    far = ReduceMax <keepdims = 0> (moved)
    magnitude = Abs (here) most = ReduceMax <keepdims = 0> (magnitude) }""").node
_ENDS = ("far", "most")
_OF_DEQUANTIZE = ("axis", "block_size")


class StepDistances:
    """Adds two outputs to a model for each Quantize among `nodes`: the largest distance of an
    element from the limit between its two steps, and the largest value after quantization.

    `theirs` are the results of another model. The model has each of them as an input, under its
    name NAME, and computes its own result as NAME.computed.
    """

    def __init__(
        self, model: onnx.ModelProto, nodes: Sequence[NodeProto], theirs: Mapping[str, Any]
    ) -> None:
        halves = {t.name for t in model.graph.initializer if t.data_type == TensorProto.FLOAT16}
        self._roundings = list[float]()  # as shares of the largest value
        for node in nodes:
            name = node.output[0].removesuffix(".computed")
            if node.op_type == "QuantizeLinear" and name in theirs:
                model.graph.node.extend(_distance_nodes(node, name))
                ends = [onnx.ValueInfoProto(name=f"{name}.{end}") for end in _ENDS]
                model.graph.output.extend(ends)
                kind = "float16" if node.input[1] in halves else "float32"
                self._roundings.append(TOLERANCES[kind].absolute)

    def are_small(self, results: Sequence[Any]) -> bool:
        """Whether rounding explains all distances. `results` are the added outputs' values."""
        numbers = zip(self._roundings, results[::2], results[1::2], strict=True)
        return all(bool(far <= 2 * rounding * most) for rounding, far, most in numbers)


def _distance_nodes(quantize: NodeProto, name: str) -> list[NodeProto]:
    """The nodes that measure the distances of one Quantize."""
    known = {"x": quantize.input[0], "ours": quantize.output[0], "theirs": name}
    nodes = list[NodeProto]()
    for pattern in _DISTANCE:
        node = NodeProto.FromString(pattern.SerializeToString())
        node.input[:] = [known.get(one, f"{name}.{one}") for one in pattern.input]
        node.output[:] = [f"{name}.{one}" for one in pattern.output]
        if node.op_type == "DequantizeLinear":
            node.input.extend(quantize.input[1:])
            node.attribute.extend(a for a in quantize.attribute if a.name in _OF_DEQUANTIZE)
        nodes.append(node)
    return nodes
