from collections.abc import Iterator, Sequence

import numpy as np
from onnx import TensorProto

from fusionc.model.graph import Edge, Graph, Node
from fusionc.model.operators import MICROSOFT
from fusionc.operators.facts import Trait, names_with
from fusionc.passes._shared.constants import array_of, require_own
from fusionc.passes._shared.slice_split_concat import axis_of, sizes_of
from fusionc.passes._shared.target import require_onnxruntime
from fusionc.passes.convolution._blocked_layout import are_for_blocks, is_blocked, is_blocked_conv
from fusionc.passes.convolution._joined_convolutions import conv_key, elementwise_key
from fusionc.rewrite import Match, Pattern, Result, Tape, UBFusionPass

_MOST_PARTS = 4  # more would read the input of the convolution too often
_MOST_PARTS_OF_WINDOWS = 2  # the same for windows of several pixels
_CONTRIB = names_with(Trait.ACTIVATION, domain=MICROSOFT)


def _find(graph: Graph) -> Iterator[Match]:
    """A Split of a Conv, with any number of outputs, which a formula cannot express."""
    for split in graph.of_operator("Split"):
        x = split.inputs[0]
        sizes = None if split.has_references else sizes_of(split)
        if x is None or sizes is None or axis_of(split, x.rank) != 1:
            continue
        activation = _activation_of(x)
        before = activation[0].inputs[0] if activation else x
        conv = None if before is None else before.producer
        if conv is not None and _is_worth_it(conv, x, split.outputs):
            captures = {"conv": conv, "activation": activation, "sizes": sizes}
            yield Match(graph, [conv, *activation, split], split.outputs, captures)


def _activation_of(value: Edge) -> list[Node]:
    """The elementwise operators between a convolution and a value: none, one, or x·f(x)."""
    node = value.producer
    if node is None:
        return []
    if elementwise_key(node) or (node.domain == MICROSOFT and node.op in _CONTRIB):
        return [node]
    if node.is_op("Mul"):
        for x, gate in (node.inputs, node.inputs[::-1]):
            inner = None if gate is None else gate.producer
            if inner is not None and elementwise_key(inner) and inner.inputs[0] is x:
                return [inner, node]
    return []


def _is_worth_it(conv: Node, x: Edge, outputs: Sequence[Edge | None]) -> bool:
    """Whether onnxruntime computes everything in blocks, and rarely reads the input of the Conv."""
    key = conv_key(conv)
    if key is None or not is_blocked_conv(conv):
        return False
    if x.elem_type != TensorProto.FLOAT or not is_blocked(x):
        return False
    _, _, (_, *kernel), _ = key
    most = _MOST_PARTS if set(kernel) == {1} else _MOST_PARTS_OF_WINDOWS
    parts = [part for part in outputs if part is not None]
    return 1 < len(parts) == len(outputs) <= most and are_for_blocks(parts)


class ConvSplitPass(UBFusionPass):
    """A convolution whose channels are split becomes one convolution for each part.

    before   Split(f(Conv(x, W, B?))) along the channels, f an activation, x·f(x) or nothing
    after    f(Conv(x, W₁, B₁)), f(Conv(x, W₂, B₂)), … with the parts of W and B
    refuses  large weights that are used elsewhere
    never    parts that are not whole blocks of 16 channels, or that no operator reads in
             onnxruntime's blocked layout; more than 4 parts, or 2 if the window is larger than one
             pixel; groups; weights that are not constant; elements other than float32
    algebra  each output channel of a Conv depends only on its own weights
    source   measured: onnxruntime leaves its blocked layout for a Split; YOLOv8 (C2f) takes 0.97 of
             the time, such a block 0.91 to 1.00. The inverse of SameInputConv2dPass, which does not
             join convolutions that were split here
    """

    numerics = "rounding"
    patterns = (Pattern("ConvSplit", find=_find, operators=("Split",)),)

    def rewrite(self, m: Match, new: Tape) -> Result:
        require_onnxruntime(m)
        x, weight, bias = [*m.conv.inputs, None][:3]
        require_own(m, weight)
        ends = np.cumsum(m.sizes)[:-1]
        weights = [new.const(part, like=weight) for part in np.split(array_of(weight), ends)]
        biases: list[Edge | None] = [None] * len(weights)
        if bias is not None:
            biases = [new.const(part, like=bias) for part in np.split(array_of(bias), ends)]
        pairs = zip(weights, biases, strict=True)
        return tuple(_activated(m, new, new.Conv(x, *pair, like=m.conv)) for pair in pairs)


def _activated(m: Match, new: Tape, value: Edge) -> Edge:
    """The activation of one part; the Mul after a gate multiplies by the part itself."""
    result = value
    for node in m.activation:
        operands = [value, result] if node.is_op("Mul") else [value, *node.inputs[1:]]
        result = new.node(node.op, operands, domain=node.domain, like=node)
    return result
