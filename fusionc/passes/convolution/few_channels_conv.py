import numpy as np

from fusionc.model.graph import Edge
from fusionc.model.tensors import Array
from fusionc.passes._shared.constants import array_of, dims_of
from fusionc.passes._shared.target import require_onnxruntime
from fusionc.passes.convolution._windows import window_of
from fusionc.rewrite import (
    Match,
    Pattern,
    Result,
    Tape,
    UBFusionPass,
    const,
    maybe,
    op,
    refuse,
    var,
)
from fusionc.rewrite.pattern import ms
from fusionc.shapes.expressions import is_static

# rows and columns of each block size; of equally fast block sizes, the first one is used
_BLOCKS = ((2, 2), (4, 4), (1, 4), (4, 1))
_MAX_RATIO = 0.57  # blocks are used if they take at most this part of the time, as estimated
# The least number of taps (numbers of a kernel, for all input channels). If a kernel has fewer,
# moving the pixels takes longer than computing them.
_MIN_TAPS = 128
_MAX_WEIGHT_BYTES = 1 << 20  # largest size of the new weights


def _time(channels: int) -> float:
    """The estimated time of one tap (one number of a kernel) for this many output channels,
    relative to the time for 8.

    The kernel computes up to four blocks of 8 channels at a time.
    """
    blocks = -(-channels // 8)
    return {1: 1.0, 2: 1.25, 3: 1.75}.get(blocks, blocks / 2)


def _ratio(weights: tuple[int, ...], block: tuple[int, int]) -> float:
    """The estimated time of the Conv that computes blocks of pixels, relative to the original
    Conv.
    """
    channels, _, height, width = weights
    pixels = block[0] * block[1]
    taps: float = (height + block[0] - 1) * (width + block[1] - 1) / (height * width)
    return taps / pixels * _time(channels * pixels) / _time(channels)


def _faster_blocks(weights: tuple[int, ...]) -> list[tuple[int, int]]:
    """The block sizes that make the Conv faster, in order of speed."""
    taps = np.prod(weights[1:])
    if taps < _MIN_TAPS:
        return []
    limit = _MAX_RATIO if weights[1] % 16 == 0 or taps > 8 * _MIN_TAPS else _MAX_RATIO - 0.1
    faster = [block for block in _BLOCKS if _ratio(weights, block) <= limit]
    return sorted(faster, key=lambda block: _ratio(weights, block))


def _gains_from_blocks(m: Match) -> bool:
    """Whether a two-dimensional Conv has so few output channels that blocks make it faster."""
    weights = dims_of(m.W)
    return len(weights) == 4 and 0 not in weights and bool(_faster_blocks(weights))


def _block_weights(weights: Array, block: tuple[int, int]) -> Array:
    """The weights for each pixel of a p × q block, [M·p·q, C, kH + p − 1, kW + q − 1]."""
    height, width = weights.shape[2:]
    enlarged = np.zeros(
        (weights.shape[0], *block, weights.shape[1], height + block[0] - 1, width + block[1] - 1)
    )
    for a, b in np.ndindex(block):
        enlarged[:, a, b, :, a : a + height, b : b + width] = weights
    return enlarged.reshape(-1, *enlarged.shape[3:])


def _reorder(
    new: Tape, x: Edge, block: tuple[int, int], channels: int, size: tuple[int, int]
) -> Edge:
    """Move the pixels of the blocks, which the Conv returns as channels [M, p, q], into the
    image.
    """
    if block[0] == block[1] and new.graph.opset >= 11:
        return new.DepthToSpace(x, blocksize=block[0], mode="CRD")
    rows = size[0] // block[0]
    columns = size[1] // block[1]
    apart = new.Reshape(x, new.const(np.array([0, channels, *block, rows, columns])))
    return new.Reshape(
        new.Transpose(apart, perm=[0, 1, 4, 2, 5, 3]), new.const(np.array([0, channels, *size]))
    )


class FewChannelsConvPass(UBFusionPass):
    """A Conv with few output channels computes blocks of pixels as additional channels.

    before   a two-dimensional Conv(x, W, B?) or FusedConv with few output channels
    after    DepthToSpace(Conv(x, W′, B′), p), where W′ and B′ hold W and B once for each pixel of a
             block of p × p, with strides p and a kernel larger by p − 1; for blocks of one row or
             column, Reshape, Transpose and Reshape instead of DepthToSpace
    refuses  a Conv that has strides, dilations or groups, or computes its own padding; images whose
             size is unknown, or not a multiple of the block size; elements other than float32;
             weights that would become large
    never    cases that are not faster: more than 4 output channels, small kernels, few input
             channels; weights that are not constant; a FusedConv with an additional addend
    algebra  y[m, p·i + a, q·j + b] = Σ W[m, c, u, v]·x[c, p·i + a + u, q·j + b + v]. For each a and
             b, this is a Conv with strides p and q whose kernel is W, shifted by a and b
    source   measured: onnxruntime computes 8 or 16 output channels in the time of one, and 32 in
             less than twice that time. With this pass, a Conv takes 0.35 to 0.85 of the time with
             AVX-512, AVX2 and SSE
    """

    numerics = "rounding"
    is_for_finite = True  # the new kernel has zeros, and 0 · ∞ is NaN
    patterns = (
        Pattern(
            "Conv",
            op.Conv(var("x"), const("W"), maybe(const("B")), _as="conv"),
            where=_gains_from_blocks,
        ),
        Pattern(
            "FusedConv",
            ms.FusedConv(var("x"), const("W"), maybe(const("B")), _as="conv"),
            where=_gains_from_blocks,
        ),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        require_onnxruntime(m)
        weights = array_of(m.W)
        window = window_of(m.conv, 2)
        if weights.dtype != np.float32:
            refuse("the elements are not float32")
        if window.auto_pad or window.group != 1 or set(window.strides + window.dilations) != {1}:
            refuse("the convolution has strides, dilations or groups, or computes its own padding")
        size = _image_size(m)
        block = _block_of(weights.shape, size)
        enlarged = _block_weights(weights, block)
        if enlarged.size * 4 > _MAX_WEIGHT_BYTES:
            refuse("the weights would become large")
        bias = None
        if m.B is not None:
            bias = new.const(np.repeat(array_of(m.B), block[0] * block[1]), like=m.B)
        blocks = new.node(
            m.conv.op,
            [m.x, new.const(enlarged, like=m.W), bias],
            domain=m.conv.domain,
            like=m.conv,
            strides=list(block),
            kernel_shape=list(enlarged.shape[2:]),
        )
        return _reorder(new, blocks, block, weights.shape[0], size)


def _image_size(m: Match) -> tuple[int, int]:
    size = (m.outputs[0].shape or ())[2:]
    if len(size) != 2 or not is_static(size):
        refuse("the size of the image is unknown")
    return size[0], size[1]


def _block_of(weights: tuple[int, ...], size: tuple[int, int]) -> tuple[int, int]:
    """The fastest block whose size divides the size of the image."""
    for block in _faster_blocks(weights):
        if not (size[0] % block[0] or size[1] % block[1]):
            return block
    refuse("no block divides the size of the image")
