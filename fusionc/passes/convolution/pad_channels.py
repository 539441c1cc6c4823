from collections.abc import Iterator
from typing import Any

import numpy as np

from fusionc.model.graph import Edge, Graph, Node
from fusionc.model.tensors import Array
from fusionc.operators.facts import Trait, names_with
from fusionc.passes._shared.constants import array_of, require_own, shape_of
from fusionc.passes._shared.target import require_onnxruntime
from fusionc.rewrite import Match, Pattern, Result, Tape, UBFusionPass, refuse

_BLOCK = 16
_PART = 4  # of a block: a Conv without groups takes input channels by so many
# What makes finite numbers of zeros, in each channel for itself.
_OF_EACH = names_with(Trait.ACTIVATION) | {
    "AveragePool",
    "GlobalAveragePool",
    "GlobalMaxPool",
    "MaxPool",
}
_OF_BOTH = ("Add", "Mul")


def _find(graph: Graph) -> Iterator[Match]:
    """What lies between the convolutions is no formula."""
    for conv in graph.of_operator("Conv"):
        if _channels_of(conv) % _BLOCK and _is_plain(conv):
            between = _between(conv)
            if between is not None and _is_worth_it(conv, *between):
                inner, readers = between
                nodes = sorted([conv, *inner, *readers], key=lambda node: node.position)
                outputs = [reader.outputs[0] for reader in readers]
                yield Match(graph, nodes, outputs, {"conv": conv, "readers": readers})


def _channels_of(conv: Node) -> int:
    """The output channels of a Conv with constant weights; 0 of another one."""
    weight = conv.inputs[1] if len(conv.inputs) > 1 else None
    is_known = (
        weight is not None
        and weight.is_constant
        and all(b is None or b.is_constant for b in conv.inputs[2:])
    )
    shape = shape_of(weight) if is_known and not conv.has_references else None
    return shape[0] if shape and isinstance(shape[0], int) else 0


def _is_plain(conv: Node) -> bool:
    return bool(conv.attr("group", 1) == 1)


def _is_depthwise(conv: Node, channels: int) -> bool:
    return bool(_channels_of(conv) == channels == conv.attr("group", 1))


def _between(conv: Node) -> tuple[list[Node], list[Node]] | None:
    """What works on the channels of a Conv one by one, and the Convs that read them at last; None
    where others do.
    """
    first = conv.outputs[0]
    values = dict.fromkeys([first])
    inner = dict[Node, None]()
    readers = dict[Node, None]()
    pending = [first]
    while pending:
        value = pending.pop()
        if value is None or value.is_output:
            return None
        for user in value.outputs:
            if user.graph is not conv.graph or (user.is_op("Conv") and user.inputs[0] is not value):
                return None
            if user.is_op("Conv") and _channels_of(user) and _is_plain(user):
                readers[user] = None
            elif _keeps_channels(user, value, _channels_of(conv)):
                inner[user] = None
                if user.outputs[0] not in values:
                    values[user.outputs[0]] = None
                    pending.append(user.outputs[0])
            else:
                return None
    operands = [value for node in inner if node.is_op(*_OF_BOTH) for value in node.inputs]
    return (list(inner), list(readers)) if all(value in values for value in operands) else None


def _keeps_channels(node: Node, value: Edge, channels: int) -> bool:
    """Whether the operator makes each channel of its result of that channel of the value."""
    if node.is_op("Conv"):
        return _is_depthwise(node, channels)
    if node.is_op(*_OF_BOTH):
        return True
    others = [limit for limit in node.inputs[1:] if limit is not None]
    return (
        node.is_op(*_OF_EACH) and node.inputs[0] is value and not others and len(node.outputs) == 1
    )


def _is_worth_it(conv: Node, inner: list[Node], readers: list[Node]) -> bool:
    """Whether the padding brings a convolution with a window into the blocked layout."""
    channels = _channels_of(conv)
    if any(node.is_op("Conv") for node in inner):
        return bool(readers)
    windows = [shape[2:] for reader in readers if (shape := shape_of(reader.inputs[1]))]
    return channels % _PART != 0 and any(set(window) != {1} for window in windows)


class PadChannelsPass(UBFusionPass):
    """Channels between convolutions are padded to whole blocks, with weights that are 0.

    before   Conv(f(Conv(x, W, B?)), V, A?), with W [M, …] and M no multiple of 16; f activations,
             pools, depthwise convolutions, sums and products of these, and any number of Convs that
             read them
    after    the same with M rounded up to the next multiple of 16, zeros in W, B, V and what is
             between
    refuses  large weights that others use; elements other than float32
    never    channels that others than Convs without groups read at last; weights that are no
             constants; windows of one pixel, and M that is a multiple of 4, unless a depthwise
             convolution is between
    algebra  what V reads of the added channels is f(0), which is finite, times 0
    source   measured: 30 channels and a window of 3 x 3 take 0.76 of the time, 90 0.81, 42 0.83, 50
             0.88, 18 1.01, 10 1.08; with a depthwise convolution between 0.65 to 0.97. Off by
             default: it is the size of the images and the processor that decide
    """

    numerics = "rounding"
    default = "off"
    is_for_finite = True  # an infinite element times 0 is NaN, in all outputs
    patterns = (Pattern("PadChannels", find=_find, operators=("Conv",)),)

    def rewrite(self, m: Match, new: Tape) -> Result:
        require_onnxruntime(m)
        channels = _channels_of(m.conv)
        more = -channels % _BLOCK
        padded: dict[Edge | None, Edge] = {}
        for node in m.nodes:
            inputs = [None if value is None else padded.get(value, value) for value in node.inputs]
            attributes: dict[str, Any] = {}
            if node.is_op("Conv"):
                require_own(m, node.inputs[1])
                inputs[1:] = [
                    _wider(new, value, more, at, node, m)
                    for at, value in enumerate(node.inputs[1:])
                ]
                if node is not m.conv and node not in m.readers:
                    attributes["group"] = channels + more
            made: Edge = new.node(node.op, inputs, like=node, **attributes)
            padded[node.outputs[0]] = made
        return tuple(padded[reader.outputs[0]] for reader in m.readers)


def _wider(
    new: Tape, constant: Edge | None, more: int, at: int, conv: Node, m: Match
) -> Edge | None:
    """The weights, or at 1 the bias, with zeros for more channels: inputs of a reader, else
    outputs.
    """
    if constant is None or (at == 1 and conv in m.readers):
        return constant
    array: Array = array_of(constant)
    if array.dtype != np.float32:
        refuse("the elements are not float32")
    axis = 1 if conv in m.readers else 0
    return new.const(
        np.pad(array, [(0, more if i == axis else 0) for i in range(array.ndim)]), like=constant
    )
