from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from fusionc.model.graph import Edge, Graph, Node, Shape
from fusionc.passes._shared.constants import array_of, would_double
from fusionc.passes._shared.slice_split_concat import Cut, axis_of, cuts_of
from fusionc.passes._shared.target import require_kernel
from fusionc.passes.data_movement._pixel_blocks import apart, check, moved, times
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, const, keep, maybe, op, refuse, var
from fusionc.shapes.elements import FAR


def _cuts(value: Edge | None, graph: Graph) -> tuple[Edge | None, list[Cut], list[Node]]:
    """What a value is cut from by Slices with steps, how, and those Slices."""
    cuts: list[Cut] = []
    nodes: list[Node] = []
    while value is not None and value.producer is not None and value.producer.is_op("Slice"):
        node = value.producer
        found = None if node.has_references else cuts_of(node)
        if found is None or node.graph is not graph or all(cut.step == 1 for cut in found):
            break
        cuts += found
        nodes.append(node)
        value = node.inputs[0]
    return value, cuts, nodes


def _find(graph: Graph) -> Iterator[Match]:
    """Concats of all pieces that steps cut an image into; the Slices are shared in many ways."""
    for concat in graph.of_operator("Concat"):
        size = math.isqrt(len(concat.inputs))
        if (
            not concat.is_in_graph
            or concat.has_references
            or size < 2
            or size * size != len(concat.inputs)
        ):
            continue
        pieces = [_cuts(value, graph) for value in concat.inputs]
        x = pieces[0][0]
        if (
            x is None
            or x.rank != 4
            or axis_of(concat, 4) != 1
            or any(piece[0] is not x for piece in pieces)
        ):
            continue
        places = [_place(x, cuts, size) for _, cuts, _ in pieces]
        if sorted(place for place in places if place is not None) == list(range(size * size)):
            nodes = dict.fromkeys([concat, *(node for piece in pieces for node in piece[2])])
            yield Match(
                graph, list(nodes), concat.outputs, {"x": x, "places": places, "size": size}
            )


def _place(x: Edge, cuts: list[Cut], size: int) -> int | None:
    """The number of the pixel in each block that the cuts take, rows first."""
    starts = {}
    for cut in cuts:
        axis = cut.axis % 4
        length = None if x.shape is None else x.shape[axis]
        goes_to_end = cut.end >= (length if isinstance(length, int) else FAR)
        if (
            axis < 2
            or axis in starts
            or cut.step != size
            or not 0 <= cut.start < size
            or not goes_to_end
        ):
            return None
        if isinstance(length, int) and length % size:
            return None
        starts[axis] = cut.start
    return starts[2] * size + starts[3] if len(starts) == 2 else None


def _of_slices(m: Match, new: Tape) -> Result:
    require_kernel(m, "SpaceToDepth")
    result = new.SpaceToDepth(m.x, blocksize=m.size)
    if m.places == sorted(m.places):
        return result
    channels = m.x.shape[1]
    if not isinstance(channels, int):
        refuse("the number of channels is unknown")
    index = np.concatenate([np.arange(channels) + place * channels for place in m.places])
    return new.Gather(result, new.const(index.astype(np.int64)), axis=1)


def _by_channel(m: Match, new: Tape) -> Result:
    """Channels come first, then the pixels of the block: the other way round."""
    shape, size = _checked(m)
    channels = shape[1]
    if not isinstance(channels, int):
        refuse("the number of channels is unknown")
    index = np.arange(channels * size * size).reshape(size * size, channels).transpose().reshape(-1)
    return new.Gather(
        new.SpaceToDepth(m.x, blocksize=size), new.const(index.astype(np.int64)), axis=1
    )


def _checked(m: Match) -> tuple[Shape, int]:
    """The six dimensions in between, and the size of a block."""
    shape, size = apart(m, 3, 5)
    check(m.x.shape, (shape[0], shape[1], times(shape[2], size), times(shape[4], size)))
    check(m.outputs[0].shape, (shape[0], times(shape[1], size, size), shape[2], shape[4]))
    require_kernel(m, "SpaceToDepth")
    return shape, size


def _into_weights(m: Match, new: Tape) -> Result:
    """A Conv that reads the channels in another order: its weights in that order."""
    index = array_of(m.index)
    weight = array_of(m.W)
    blocks = m.blocks.outputs[0]
    if (
        m.conv.attr("group") != 1
        or index.ndim != 1
        or sorted(index.tolist()) != list(range(weight.shape[1]))
    ):
        refuse("the Gather is not a reordering of the channels")
    if blocks.shape is None or blocks.shape[1] != weight.shape[1]:
        refuse("the Gather is not known to take all channels")
    if would_double(m.W, weight.size):
        refuse("large weights are used elsewhere")
    return new.Conv(blocks, new.const(weight[:, np.argsort(index)], like=m.W), m.B, like=m.conv)


class SpaceToDepthFusionPass(Pass):
    """Blocks of pixels that become channels, written with Slices or with Reshapes, become
    SpaceToDepth.

    before   Reshape(Transpose(Reshape(x, [N, C, H, b, W, b]), [0, 3, 5, 1, 2, 4]), [N, b·b·C, H,
             W]), or by [0, 1, 3, 5, 2, 4] (PixelUnshuffle);
             Concat of the b·b Slices of x with steps b along both axes of an image (YOLO's Focus);
             Conv(Gather(SpaceToDepth(x), another order of the channels), W)
    after    SpaceToDepth(x, b), and a Gather of the channels where their order differs;
             Conv(SpaceToDepth(x), W′)
    refuses  shapes that are not known to be these; elements that the target has no kernel for;
             another order of an unknown number of channels; in front of a Conv: a Gather that is
             not a reordering of the channels, or not known to take all of them, groups, large
             weights that are used elsewhere
    never    Slices that do not reach the end, or of which one is missing
    algebra  the definition of SpaceToDepth, bit by bit; only a Conv behind it sums its channels in
             another order
    source   tf2onnx; torch's PixelUnshuffle; the Focus layer of YOLOv5 and YOLOX
    """

    numerics = "rounding"
    patterns = (
        Pattern("SpaceToDepth", moved((0, 3, 5, 1, 2, 4))),
        Pattern("PixelUnshuffle", moved((0, 1, 3, 5, 2, 4)), _by_channel),
        Pattern("SlicesConcat", rewrite=_of_slices, find=_find, operators=("Concat", "Slice")),
        Pattern(
            "ChannelsConv",
            op.Conv(
                op.Gather(keep(op.SpaceToDepth(var("x"), _as="blocks")), const("index"), axis=1),
                const("W"),
                maybe(var("B")),
                _as="conv",
            ),
            _into_weights,
        ),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        return new.SpaceToDepth(m.x, blocksize=_checked(m)[1])
