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
_MOST_PARTS_OF_WINDOWS = 2
_CONTRIB = names_with(Trait.ACTIVATION, domain=MICROSOFT)


def _find(graph: Graph) -> Iterator[Match]:
    """How many pieces there are is not a question for a formula."""
    for split in (node for node in graph.of_operator("Split") if not node.has_references):
        x = split.inputs[0]
        parts = [part for part in split.outputs if part is not None]
        sizes = sizes_of(split)
        if (
            x is None
            or sizes is None
            or len(parts) < len(split.outputs)
            or axis_of(split, x.rank) != 1
        ):
            continue
        activation = _activation_of(x)
        before = activation[0].inputs[0] if activation else x
        conv = None if before is None else before.producer
        if conv is not None and _is_worth_it(conv, x, parts):
            captures = {"conv": conv, "activation": activation, "sizes": sizes}
            yield Match(graph, [conv, *activation, split], parts, captures)


def _activation_of(value: Edge) -> list[Node]:
    """The operators that make this of a convolution, element by element: none, one, or x·f(x)."""
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


def _is_worth_it(conv: Node, x: Edge, parts: Sequence[Edge]) -> bool:
    """Whether onnxruntime has it all in blocks, and reads the input of the Conv not too often."""
    key = conv_key(conv)
    if (
        key is None
        or not is_blocked_conv(conv)
        or x.elem_type != TensorProto.FLOAT
        or not is_blocked(x)
    ):
        return False
    _, _, (_, *kernel), _ = key
    most = _MOST_PARTS if set(kernel) == {1} else _MOST_PARTS_OF_WINDOWS
    return 1 < len(parts) <= most and are_for_blocks(parts)


class ConvSplitPass(UBFusionPass):
    """A convolution of which the channels are split becomes one convolution for each part.

    before   Split(f(Conv(x, W, B?))) along the channels, f an activation, x·f(x) or nothing
    after    f(Conv(x, W₁, B₁)), f(Conv(x, W₂, B₂)), … with the parts of W and B
    refuses  large weights that are used elsewhere
    never    parts that are no whole blocks of 16 channels, or that no operator reads in
             onnxruntime's blocked layout; more than 4 of them, or than 2 where the window is larger
             than one pixel; groups; weights that are no constants; elements other than float32
    algebra  each output channel of a Conv depends on its own weights alone
    source   measured: onnxruntime leaves its blocked layout for a Split; YOLOv8 (C2f) takes 0.97 of
             the time, such a block 0.91 to 1.00. The inverse of SameInputConv2dPass, which leaves
             what is split here
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
    """The activation of one part; the Mul behind a gate multiplies by the part itself."""
    result = value
    for node in m.activation:
        operands = [value, result] if node.is_op("Mul") else [value, *node.inputs[1:]]
        result = new.node(node.op, operands, domain=node.domain, like=node)
    return result
