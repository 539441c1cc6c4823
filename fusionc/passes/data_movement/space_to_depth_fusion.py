from __future__ import annotations

import math
from itertools import chain

import numpy as np

from fusionc.model.graph import Edge, Graph, Node, Shape
from fusionc.passes._shared.constants import array_of, would_double
from fusionc.passes._shared.slice_split_concat import Cut, axis_of, cuts_of
from fusionc.passes._shared.target import require_kernel
from fusionc.passes.data_movement._pixel_blocks import (
    blocks_of,
    product,
    require_equal_shape,
    transposed_blocks,
)
from fusionc.rewrite import (
    Match,
    Pass,
    Pattern,
    Result,
    Tape,
    const,
    find_each,
    keep,
    maybe,
    op,
    refuse,
    unknown,
    var,
)
from fusionc.shapes.elements import FAR


def _cuts(value: Edge | None, graph: Graph) -> tuple[Edge | None, list[Cut], list[Node]]:
    """The source of a chain of strided Slices that ends in this value, the cuts, and the Slices."""
    cuts: list[Cut] = []
    nodes: list[Node] = []
    while value is not None and value.producer is not None and value.producer.is_op("Slice"):
        node = value.producer
        node_cuts = None if node.has_references else cuts_of(node)
        if node_cuts is None or node.graph is not graph or all(cut.step == 1 for cut in node_cuts):
            break
        cuts += node_cuts
        nodes.append(node)
        value = node.inputs[0]
    return value, cuts, nodes


def _find_at(concat: Node) -> Match:
    """A Concat of all pieces into which strided Slices cut an image. Pieces may share Slices."""
    size = math.isqrt(len(concat.inputs))
    if size < 2 or size * size != len(concat.inputs):
        refuse("the number of inputs is not a square")
    if not _joins_channels(concat):
        refuse("the Concat does not join channels")
    sources, cuts, nodes = zip(
        *(_cuts(value, concat.graph) for value in concat.inputs), strict=True
    )
    x = sources[0]
    if x is None or len(set(sources)) > 1:
        refuse("the inputs are not cut from one value")
    x.require_rank(4)
    pixels = [_pixel_index(x, piece, size) for piece in cuts]
    if set(pixels) != set(range(size * size)):
        refuse("the Slices do not take each pixel of a block once")
    inner = dict.fromkeys(chain(*nodes))
    captures = {"x": x, "places": pixels, "size": size}
    return Match(concat.graph, [concat, *inner], concat.outputs, captures)


def _joins_channels(concat: Node) -> bool:
    """Whether a Concat of images joins their channels."""
    return axis_of(concat, 4) == 1


def _pixel_index(x: Edge, cuts: list[Cut], size: int) -> int | None:
    """The index of the pixel that the cuts take from each block, counted row by row."""
    starts = {}
    for cut in cuts:
        axis = cut.axis % 4
        length = None if x.shape is None else x.shape[axis]
        if axis < 2 or axis in starts or not _takes_each_block(cut, length, size):
            return None
        starts[axis] = cut.start
    return starts[2] * size + starts[3] if len(starts) == 2 else None


def _takes_each_block(cut: Cut, length: int | str | None, size: int) -> bool:
    """Whether a cut takes one element of each block of this size along an axis."""
    if isinstance(length, int) and length % size:
        return False
    reaches_end = cut.end >= (length if isinstance(length, int) else FAR)
    return cut.step == size and 0 <= cut.start < size and reaches_end


def _require_whole_blocks(m: Match) -> None:
    """Refuse if a side of the image may be shorter than a block. Some pieces are empty then, and
    onnxruntime joins the others to fewer channels. A longer side that is not a multiple of the
    block need not be refused: its pieces differ in size, so onnxruntime does not join them.
    """
    sides = m.x.require_shape(4)[2:]
    channels = m.outputs[0].require_shape(4)[1]
    if not isinstance(channels, int) and not all(isinstance(side, int) for side in sides):
        refuse("the image may be smaller than a block")


def _join_slices(m: Match, new: Tape) -> Result:
    require_kernel(m, "SpaceToDepth")
    _require_whole_blocks(m)
    result = new.SpaceToDepth(m.x, blocksize=m.size)
    if m.places == sorted(m.places):
        return result
    channels = m.x.require_size(1, "the number of channels")
    index = np.concatenate([np.arange(channels) + pixel * channels for pixel in m.places])
    return new.Gather(result, new.const(index.astype(np.int64)), axis=1)


def _unshuffle(m: Match, new: Tape) -> Result:
    """PixelUnshuffle keeps the pixels of one channel together. SpaceToDepth keeps the channels of
    one pixel together, so a Gather reorders its result.
    """
    shape, size = _block_shape(m)
    channels = shape[1]
    if not isinstance(channels, int):
        refuse(unknown("the number of channels"))
    index = np.arange(channels * size * size).reshape(size * size, channels).transpose().reshape(-1)
    return new.Gather(
        new.SpaceToDepth(m.x, blocksize=size), new.const(index.astype(np.int64)), axis=1
    )


def _block_shape(m: Match) -> tuple[Shape, int]:
    """The six dimensions of the blocks, and the block size. Refuses other shapes."""
    shape, size = blocks_of(m, 3, 5)
    require_equal_shape(
        m.x.shape, (shape[0], shape[1], product(shape[2], size), product(shape[4], size))
    )
    require_equal_shape(
        m.outputs[0].shape, (shape[0], product(shape[1], size, size), shape[2], shape[4])
    )
    require_kernel(m, "SpaceToDepth")
    return shape, size


def _reorder_weights(m: Match, new: Tape) -> Result:
    """Reorder the weights of a Conv instead of the channels that it reads."""
    index = array_of(m.index)
    weight = array_of(m.W)
    blocks = m.blocks.outputs[0]
    if (
        m.conv.attr("group") != 1
        or index.ndim != 1
        or sorted(index.tolist()) != list(range(weight.shape[1]))
    ):
        refuse("the Gather is not a permutation of the channels")
    if blocks.shape is None or blocks.shape[1] != weight.shape[1]:
        refuse("the Gather is not known to take all channels")
    if would_double(m.W, weight.size):
        refuse("large weights are used elsewhere")
    return new.Conv(blocks, new.const(weight[:, np.argsort(index)], like=m.W), m.B, like=m.conv)


class SpaceToDepthFusionPass(Pass):
    """Slices or Reshapes that turn blocks of pixels into channels become SpaceToDepth.

    before   Reshape(Transpose(Reshape(x, [N, C, H, b, W, b]), [0, 3, 5, 1, 2, 4]), [N, b·b·C, H,
             W]), or with [0, 1, 3, 5, 2, 4] (PixelUnshuffle);
             Concat of the b·b Slices of x with steps b along both axes of an image (YOLO's Focus);
             Conv(Gather(SpaceToDepth(x), permutation of the channels), W)
    after    SpaceToDepth(x, b), with a Gather of the channels if their order differs;
             Conv(SpaceToDepth(x), W′)
    refuses  shapes that are not known to have this form; Slices of an image that may be smaller
             than a block, unless a later operator checks the number of channels; element types for
             which the target lacks a kernel; channels in another order if their number is unknown;
             before a Conv: a Gather that is not a permutation of the channels, or not known to take
             all of them; a Conv with groups; large weights that are used elsewhere
    never    Slices that do not reach the end of the axis, or that miss a pixel of the block
    algebra  the definition of SpaceToDepth, bit by bit; only a Conv after it sums its channels in
             another order
    source   tf2onnx; torch's PixelUnshuffle; the Focus layer of YOLOv5 and YOLOX
    """

    numerics = "rounding"
    patterns = (
        Pattern("SpaceToDepth", transposed_blocks((0, 3, 5, 1, 2, 4))),
        Pattern("PixelUnshuffle", transposed_blocks((0, 1, 3, 5, 2, 4)), _unshuffle),
        Pattern(
            "SlicesConcat",
            rewrite=_join_slices,
            find=find_each(_find_at, "Concat"),
            operators=("Concat", "Slice"),
        ),
        Pattern(
            "ChannelsConv",
            op.Conv(
                op.Gather(keep(op.SpaceToDepth(var("x"), _as="blocks")), const("index"), axis=1),
                const("W"),
                maybe(var("B")),
                _as="conv",
            ),
            _reorder_weights,
        ),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        return new.SpaceToDepth(m.x, blocksize=_block_shape(m)[1])
