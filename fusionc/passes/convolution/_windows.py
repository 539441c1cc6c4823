"""Windows of convolutions and pools: their kernel, strides, dilations and padding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fusionc.model.graph import Edge, Node
from fusionc.model.tensors import Array
from fusionc.rewrite import not_constant, refuse


@dataclass(frozen=True)
class Window:
    """How the window of a convolution or pool moves over an image."""

    auto_pad: str  # empty if `pads` gives the padding
    dilations: tuple[int, ...]
    group: int
    pads: tuple[int, ...]  # the padding before each spatial axis, then after each
    strides: tuple[int, ...]

    @property
    def is_unpadded(self) -> bool:
        """Whether the image is not padded."""
        return not self.auto_pad and not any(self.pads)

    @property
    def is_plain(self) -> bool:
        """Whether the image is not padded and all strides are 1."""
        return self.is_unpadded and set(self.strides) <= {1}


def window_of(node: Node, axes: int) -> Window:
    """The window of a convolution or pool over this many spatial axes, with defaults filled in."""
    auto_pad = str(node.attr("auto_pad", "NOTSET"))
    ones = [1] * axes
    return Window(
        "" if auto_pad in ("NOTSET", "VALID") else auto_pad,
        tuple(node.attr("dilations") or ones),
        int(node.attr("group", 1)),
        tuple((node.attr("pads") if auto_pad == "NOTSET" else None) or [0] * (2 * axes)),
        tuple(node.attr("strides") or ones),
    )


def covers_all(node: Node, x: Edge, kernel: Sequence[int]) -> bool:
    """Whether the window is known to be as large as x, so that it has a single position."""
    window = window_of(node, len(kernel))
    shape = x.shape
    if shape is None or len(shape) != len(kernel) + 2 or 0 in kernel:
        return False
    return window.is_unpadded and set(window.dilations) <= {1} and list(shape[2:]) == list(kernel)


def joint_padding(node: Node, pad: Node, axes: int) -> tuple[list[int], float]:
    """The `pads` that a node needs to absorb the Pad before it, and the number that the Pad writes.

    Refuses padding of batch or channels, negative or unknown padding, and an image that is known to
    be empty before the Pad.
    """
    image = pad.inputs[0]
    if image is not None and 0 in (image.shape or ()):
        refuse("the image is empty, so all elements of the result come from the Pad")
    window = window_of(node, axes)
    if window.auto_pad:
        refuse(f"the {node.op} computes its own padding")
    begin, end, value = _padding_of(pad, axes + 2)
    if any((*begin[:2], *end[:2])):
        refuse("batch or channels are padded")
    if min(begin + end) < 0:
        refuse("the padding is negative")
    return [a + b for a, b in zip(window.pads, begin[2:] + end[2:], strict=True)], value


def _padding_of(pad: Node, rank: int) -> tuple[list[int], list[int], float]:
    """The padding before and after each axis, and the number that the Pad writes."""
    if pad.attr("mode", "constant") != "constant":
        refuse("the padding is not constant")
    axes = list(range(rank))
    if pad.graph.opset < 11:
        amounts = list(pad.attr("pads") or pad.attr("paddings"))
        value = float(pad.attr("value", 0.0))
    else:
        pads_array, value_array, axes_array = _constants(pad.inputs[1:])
        assert pads_array is not None  # pads is a required input
        amounts = [int(p) for p in pads_array.reshape(-1)]
        value = (
            0.0
            if value_array is None or not value_array.size
            else float(value_array.reshape(-1)[0])
        )
        axes = axes if axes_array is None else [int(a) % rank for a in axes_array.reshape(-1)]
    if len(amounts) != 2 * len(axes):
        refuse("the Pad does not have two numbers for each axis")
    begin = [0] * rank
    end = [0] * rank
    for i, axis in enumerate(axes):
        begin[axis] = amounts[i]
        end[axis] = amounts[i + len(axes)]
    return begin, end, value


def _constants(inputs: Sequence[Edge | None]) -> list[Array | None]:
    """The inputs of a Pad after the first one: pads, value and axes. An omitted input is None.
    Refuses inputs that are not constant.
    """
    arrays = [None if value is None else value.constant() for value in inputs]
    for value, array in zip(inputs, arrays, strict=True):
        if value is not None and array is None:
            refuse(not_constant("the padding"))
    return [*arrays, None, None][:3]
