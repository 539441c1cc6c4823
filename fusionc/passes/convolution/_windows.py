"""Windows of convolutions and pools, which move over a padded image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fusionc.model.graph import Edge, Node
from fusionc.rewrite import refuse


@dataclass(frozen=True)
class Window:
    """How a window moves over an image. `auto_pad` is "" unless the operator computes its padding
    itself.
    """

    auto_pad: str
    dilations: tuple[int, ...]
    group: int
    pads: tuple[int, ...]  # before each axis, then after each axis
    strides: tuple[int, ...]

    @property
    def is_unpadded(self) -> bool:
        """Whether nothing is padded."""
        return not self.auto_pad and not any(self.pads)

    @property
    def is_plain(self) -> bool:
        """Whether there is neither padding nor a stride."""
        return self.is_unpadded and set(self.strides) <= {1}


def window_of(node: Node, axes: int) -> Window:
    """The attributes of a convolution or pool over that many axes, what is left out written out."""
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
    """Whether the window is known to be as large as x, so that it has one place only."""
    window = window_of(node, len(kernel))
    shape = x.shape
    if shape is None or len(shape) != len(kernel) + 2 or 0 in kernel:
        return False
    return window.is_unpadded and set(window.dilations) <= {1} and list(shape[2:]) == list(kernel)


def with_padding(node: Node, pad: Node, axes: int) -> tuple[list[int], float]:
    """The `pads` of a node that takes over the padding of a Pad before it, and the number that the
    Pad writes.

    Refuses padding of batch or channels, negative one, that of an image known to be empty, of which
    runtimes compute nothing else, and what is not known before the model runs.
    """
    image = pad.inputs[0]
    if image is not None and 0 in (image.shape or ()):
        refuse("nothing but padding")
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
    """What a Pad adds before and after each axis, and the number that it writes there."""
    if pad.attr("mode", "constant") != "constant":
        refuse("the padding is not constant")
    if pad.graph.opset < 11:
        amounts = list(pad.attr("pads") or pad.attr("paddings"))
        value = float(pad.attr("value", 0.0))
        axes = None
    else:
        given = [None if v is None else v.constant() for v in pad.inputs[1:]]
        if any(v is not None and g is None for v, g in zip(pad.inputs[1:], given, strict=True)):
            refuse("the padding is not known before the model runs")
        found, fill, axes = [*given, None, None][:3]
        assert found is not None  # the pads are no optional input
        amounts = [int(p) for p in found.reshape(-1)]
        value = 0.0 if fill is None or not fill.size else float(fill.reshape(-1)[0])
    chosen = list(range(rank)) if axes is None else [int(a) % rank for a in axes.reshape(-1)]
    if len(amounts) != 2 * len(chosen):
        refuse("the padding is not two numbers for each axis")
    begin = [0] * rank
    end = [0] * rank
    for i, axis in enumerate(chosen):
        begin[axis] = amounts[i]
        end[axis] = amounts[i + len(chosen)]
    return begin, end, value
