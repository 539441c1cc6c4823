from collections.abc import Sequence

import numpy as np
from onnx import TensorProto

from fusionc.model.graph import Edge, Node
from fusionc.model.operators import MICROSOFT
from fusionc.operators.facts import Trait, names_with
from fusionc.passes._shared.constants import array_of, require_own
from fusionc.passes._shared.slice_split_concat import axis_of, sizes_of
from fusionc.passes._shared.target import require_onnxruntime
from fusionc.passes.convolution._blocked_layout import are_for_blocks, is_blocked, is_blocked_conv
from fusionc.passes.convolution._joined_convolutions import conv_key, elementwise_key
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

_MAX_PARTS = 4  # with more parts, the input of the convolution would be read too often
_MAX_PARTS_OF_WINDOWS = 2  # the limit for kernels larger than one pixel
_CONTRIB = names_with(Trait.ACTIVATION, domain=MICROSOFT)


def _find_at(split: Node) -> Match:
    """The match of a Split that divides the channels of a Conv. No formula can express it, because
    the number of outputs of a formula is fixed.
    """
    x = split.inputs[0]
    sizes = require_known(sizes_of(split), "the sizes of the parts")
    if x is None or axis_of(split, x.rank) != 1:
        refuse("the Split does not divide the channels")
    activation = _activation_of(x)
    source = activation[0].inputs[0] if activation else x
    conv = None if source is None else source.producer
    if conv is None:
        refuse("the input of the Split does not come from a Conv")
    _require_gain(conv, x, split.outputs)
    captures = {"conv": conv, "activation": activation, "sizes": sizes}
    return Match(split.graph, [conv, *activation, split], split.outputs, captures)


def _activation_of(value: Edge) -> list[Node]:
    """The elementwise operators between a Conv and a value: none, one (f(x)), or two (x·f(x))."""
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


def _require_gain(conv: Node, x: Edge, outputs: Sequence[Edge | None]) -> None:
    """Refuse many parts, and parts that onnxruntime does not compute in its blocked layout, which
    stores blocks of channels together.
    """
    _, _, (_, *kernel), _ = conv_key(conv)
    if x.elem_type != TensorProto.FLOAT:
        refuse("the elements are not float32")
    if not is_blocked_conv(conv) or not is_blocked(x):
        refuse("onnxruntime does not compute the input of the Split in its blocked layout")
    max_parts = _MAX_PARTS if set(kernel) == {1} else _MAX_PARTS_OF_WINDOWS
    parts = [part for part in outputs if part is not None]
    if not 1 < len(parts) == len(outputs):
        refuse("the Split has only one output, or omits an output")
    if len(parts) > max_parts:
        refuse(f"the Split has more than {max_parts} parts")
    if not are_for_blocks(parts):
        refuse("a part does not fill whole blocks of channels, or no operator reads it in blocks")


class ConvSplitPass(UBFusionPass):
    """A Conv whose channels are split becomes one Conv for each part.

    before   Split(f(Conv(x, W, B?))) along the channels, where f is an activation, x·f(x) or
             nothing
    after    f(Conv(x, W₁, B₁)), f(Conv(x, W₂, B₂)), … with the parts of W and B
    refuses  large weights that are used elsewhere
    never    parts that are not whole blocks of 16 channels, or that no operator reads in
             onnxruntime's blocked layout; more than 4 parts, or more than 2 if the kernel is larger
             than one pixel; Convs with groups; weights that are not constant; elements other than
             float32
    algebra  each output channel of a Conv depends only on its own weights
    source   measured: onnxruntime leaves its blocked layout for a Split. YOLOv8 takes 0.97 of the
             time, its block C2f alone 0.91 to 1.00. SameInputConv2dPass does the opposite, but does
             not join the Convs that this pass makes
    """

    numerics = "rounding"
    patterns = (Pattern("ConvSplit", find=find_each(_find_at, "Split"), operators=("Split",)),)

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
    """The activation applied to one part. In x·f(x), the part takes the place of x."""
    result = value
    for node in m.activation:
        operands = [value, result] if node.is_op("Mul") else [value, *node.inputs[1:]]
        result = new.node(node.op, operands, domain=node.domain, like=node)
    return result
