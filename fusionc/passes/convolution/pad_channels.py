from collections.abc import Iterable
from typing import Any

import numpy as np

from fusionc.model.graph import Edge, Node
from fusionc.model.tensors import Array
from fusionc.operators.facts import Trait, names_with
from fusionc.passes._shared.constants import array_of, require_own, shape_of
from fusionc.passes._shared.target import require_onnxruntime
from fusionc.rewrite import Match, Pattern, Result, Tape, UBFusionPass, find_each, refuse

_BLOCK = 16  # channels
_INPUT_CHANNEL_STEP = 4  # a Conv without groups reads this many input channels at a time
# operators that compute each channel on its own, and return finite numbers for zeros
_CHANNELWISE = names_with(Trait.ACTIVATION) | {
    "AveragePool",
    "GlobalAveragePool",
    "GlobalMaxPool",
    "MaxPool",
}
_BINARY = ("Add", "Mul")


def _find_at(conv: Node) -> Match:
    """The match of a Conv and the operators after it, up to the Convs that mix the channels
    again.
    """
    channels = _channels_of(conv)
    if not channels:
        refuse("the weights or the bias are not constant")
    if channels % _BLOCK == 0:
        refuse(f"the channels already fill whole blocks of {_BLOCK}")
    if not _is_plain(conv):
        refuse("the Conv has groups")
    inner, readers = _channel_region(conv)
    if not _gains_time(conv, inner, readers):
        refuse("padding brings no Conv with a kernel larger than one pixel into the blocked layout")
    nodes = sorted([conv, *inner, *readers], key=lambda node: node.position)
    outputs = [reader.outputs[0] for reader in readers]
    return Match(conv.graph, nodes, outputs, {"conv": conv, "readers": readers})


def _channels_of(conv: Node) -> int:
    """The number of output channels of a Conv with constant weights; 0 for other nodes."""
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


def _channel_region(conv: Node) -> tuple[list[Node], list[Node]]:
    """The operators after a Conv that do not mix its channels, and the Convs that read their
    results.

    Refuses if other operators read the channels.
    """
    inner = dict[Node, None]()
    readers = dict[Node, None]()
    values = [conv.outputs[0]]
    for value in values:  # the loop appends to the list
        if value is None or value.is_output:
            refuse("the channels are an output of the graph")
        for user in value.outputs:
            if user.graph is not conv.graph:
                refuse("a subgraph reads the channels")
            if _reads_channels(user, value):
                readers[user] = None
            elif not _keeps_channels(user, value, _channels_of(conv)):
                refuse(f"{user.op} reads the channels")
            elif user not in inner:
                inner[user] = None
                values.append(user.outputs[0])
    if not _are_operands_inside(inner, set(values)):
        refuse("an Add or Mul combines the channels with a value from elsewhere")
    return list(inner), list(readers)


def _are_operands_inside(nodes: Iterable[Node], values: set[Edge | None]) -> bool:
    """Whether all operands of the Adds and Muls are among these values."""
    return all(values.issuperset(node.inputs) for node in nodes if node.is_op(*_BINARY))


def _reads_channels(node: Node, value: Edge) -> bool:
    """Whether a node is an ungrouped Conv of the value, with constant weights."""
    is_conv = node.is_op("Conv") and node.inputs[0] is value
    return is_conv and _channels_of(node) > 0 and _is_plain(node)


def _keeps_channels(node: Node, value: Edge, channels: int) -> bool:
    """Whether each channel of the result depends only on the same channel of the value."""
    if node.is_op("Conv"):
        return node.inputs[0] is value and _is_depthwise(node, channels)
    if node.is_op(*_BINARY):
        return True
    others = [limit for limit in node.inputs[1:] if limit is not None]
    return (
        node.is_op(*_CHANNELWISE)
        and node.inputs[0] is value
        and not others
        and len(node.outputs) == 1
    )


def _gains_time(conv: Node, inner: list[Node], readers: list[Node]) -> bool:
    """Whether padding brings a Conv with a kernel larger than one pixel into the blocked layout."""
    channels = _channels_of(conv)
    if any(node.is_op("Conv") for node in inner):
        return bool(readers)
    windows = [shape[2:] for reader in readers if (shape := shape_of(reader.inputs[1]))]
    return channels % _INPUT_CHANNEL_STEP != 0 and any(set(window) != {1} for window in windows)


class PadChannelsPass(UBFusionPass):
    """Channels between Convs are padded to whole blocks, with weights of 0.

    before   Conv(f(Conv(x, W, B?)), V, A?), with W of [M, …] and an M that is not a multiple of 16;
             f consists of activations, pools, depthwise convolutions, sums and products; any number
             of Convs may read the result of f
    after    the same with M rounded up to the next multiple of 16, and zeros added to W, B, V and
             the weights in between
    refuses  large weights that are used elsewhere; elements other than float32
    never    channels if a node other than an ungrouped Conv reads the result of f; weights that are
             not constant; kernels of one pixel, and an M that is a multiple of 4, unless f contains
             a depthwise convolution
    algebra  V multiplies the added channels by 0; their value f(0) is finite
    source   measured for a kernel of 3 × 3: 10 and 18 channels take 1.08 and 1.01 of the time, 30
             to 90 channels 0.76 to 0.88; with a depthwise convolution in between, 0.65 to 0.97 of
             the time. Off by default, because the gain depends on the image size and the processor
    """

    numerics = "rounding"
    default = "off"
    is_for_finite = True  # an infinite element of an added channel times a weight of 0 would be NaN
    patterns = (Pattern("PadChannels", find=find_each(_find_at, "Conv"), operators=("Conv",)),)

    def rewrite(self, m: Match, new: Tape) -> Result:
        require_onnxruntime(m)
        channels = _channels_of(m.conv)
        added = -channels % _BLOCK
        padded: dict[Edge | None, Edge] = {}
        for node in m.nodes:
            inputs = [None if value is None else padded.get(value, value) for value in node.inputs]
            attributes: dict[str, Any] = {}
            if node.is_op("Conv"):
                require_own(m, node.inputs[1])
                inputs[1:] = [
                    _padded(new, value, added, index, node, m)
                    for index, value in enumerate(node.inputs[1:])
                ]
                if node is not m.conv and node not in m.readers:
                    attributes["group"] = channels + added
            padded[node.outputs[0]] = new.node(node.op, inputs, like=node, **attributes)
        return tuple(padded[reader.outputs[0]] for reader in m.readers)


def _padded(
    new: Tape, constant: Edge | None, added: int, index: int, conv: Node, m: Match
) -> Edge | None:
    """The weights (`index` 0) or bias (`index` 1), with zeros for the added channels.

    The added channels are input channels of the final readers, and output channels of other Convs.
    """
    if constant is None or (index == 1 and conv in m.readers):
        return constant
    array: Array = array_of(constant)
    if array.dtype != np.float32:
        refuse("the elements are not float32")
    axis = 1 if conv in m.readers else 0
    return new.const(
        np.pad(array, [(0, added if i == axis else 0) for i in range(array.ndim)]), like=constant
    )
