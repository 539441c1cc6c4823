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

_BLOCKS = ((2, 2), (4, 4), (1, 4), (4, 1))  # of pixels; the first of equally fast ones is taken
_PAYS = 0.57  # share of the estimated time up to which blocks are faster
# input channels times the kernel; with fewer, reordering the pixels takes longer than computing
_TAPS = 128
_BYTES = 1 << 20  # of the new weights


def _time(channels: int) -> float:
    """The cost of one tap for this many output channels, relative to 8 of them.

    Up to four blocks of 8 are computed at a time.
    """
    blocks = -(-channels // 8)
    return {1: 1.0, 2: 1.25, 3: 1.75}.get(blocks, blocks / 2)


def _ratio(weights: tuple[int, ...], block: tuple[int, int]) -> float:
    """The estimated time of the convolution in blocks of pixels, relative to the original one."""
    channels, _, height, width = weights
    pixels = block[0] * block[1]
    taps: float = (height + block[0] - 1) * (width + block[1] - 1) / (height * width)
    return taps / pixels * _time(channels * pixels) / _time(channels)


def _faster_blocks(weights: tuple[int, ...]) -> list[tuple[int, int]]:
    """The blocks of pixels that are faster, the fastest first."""
    taps = np.prod(weights[1:])
    if taps < _TAPS:
        return []
    limit = _PAYS if weights[1] % 16 == 0 or taps > 8 * _TAPS else _PAYS - 0.1
    faster = [block for block in _BLOCKS if _ratio(weights, block) <= limit]
    return sorted(faster, key=lambda block: _ratio(weights, block))


def _makes_few_channels(m: Match) -> bool:
    """Whether the convolution works on images, with so few channels that blocks are faster."""
    weights = dims_of(m.W)
    return len(weights) == 4 and 0 not in weights and bool(_faster_blocks(weights))


def _block_weights(weights: Array, block: tuple[int, int]) -> Array:
    """The weights of each pixel of a block, [M·p·q, C, kH + p − 1, kW + q − 1]."""
    height, width = weights.shape[2:]
    wider = np.zeros(
        (weights.shape[0], *block, weights.shape[1], height + block[0] - 1, width + block[1] - 1)
    )
    for a, b in np.ndindex(block):
        wider[:, a, b, :, a : a + height, b : b + width] = weights
    return wider.reshape(-1, *wider.shape[3:])


def _reorder(
    new: Tape, x: Edge, block: tuple[int, int], channels: int, size: tuple[int, int]
) -> Edge:
    """Move the pixels of the blocks, which are channels [M, p, q], to their places."""
    if block[0] == block[1] and new.graph.opset >= 11:
        return new.DepthToSpace(x, blocksize=block[0], mode="CRD")
    rows = size[0] // block[0]
    columns = size[1] // block[1]
    apart = new.Reshape(x, new.const(np.array([0, channels, *block, rows, columns])))
    return new.Reshape(
        new.Transpose(apart, perm=[0, 1, 4, 2, 5, 3]), new.const(np.array([0, channels, *size]))
    )


class FewChannelsConvPass(UBFusionPass):
    """A convolution with few output channels computes blocks of pixels as more channels.

    before   Conv(x, W, B?) over two axes, or FusedConv, with few output channels
    after    DepthToSpace(Conv(x, W of each pixel of a block, B of each), p), with strides p and
             kernels larger by p − 1; for blocks in one line Reshape, Transpose, Reshape in place of
             DepthToSpace
    refuses  strides, dilations, groups; sizes that are unknown or odd; elements other than float32;
             weights that would become large
    never    cases that are not faster: more than 4 channels, small kernels, few input channels;
             weights that are not constant; a FusedConv that adds another value
    algebra  y[m, p·i + a, q·j + b] = Σ W[m, c, u, v]·x[c, p·i + a + u, q·j + b + v], a convolution
             with strides p and q whose kernel is W, moved by a and b
    source   onnxruntime computes 8 or 16 channels in the time of one, and 32 in less than twice
             that; 0.35 to 0.85 of the time with AVX-512, AVX2 and SSE
    """

    numerics = "rounding"
    is_for_finite = True  # an infinite pixel meets the zeros around a kernel
    patterns = (
        Pattern(
            "Conv",
            op.Conv(var("x"), const("W"), maybe(const("B")), _as="conv"),
            where=_makes_few_channels,
        ),
        Pattern(
            "FusedConv",
            ms.FusedConv(var("x"), const("W"), maybe(const("B")), _as="conv"),
            where=_makes_few_channels,
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
        wider = _block_weights(weights, block)
        if wider.size * 4 > _BYTES:
            refuse("the weights would become large")
        bias = None
        if m.B is not None:
            bias = new.const(np.repeat(array_of(m.B), block[0] * block[1]), like=m.B)
        blocks = new.node(
            m.conv.op,
            [m.x, new.const(wider, like=m.W), bias],
            domain=m.conv.domain,
            like=m.conv,
            strides=list(block),
            kernel_shape=list(wider.shape[2:]),
        )
        return _reorder(new, blocks, block, weights.shape[0], size)


def _image_size(m: Match) -> tuple[int, int]:
    size = (m.outputs[0].shape or ())[2:]
    if len(size) != 2 or not is_static(size):
        refuse("the size of the image is unknown")
    return size[0], size[1]


def _block_of(weights: tuple[int, ...], size: tuple[int, int]) -> tuple[int, int]:
    """The fastest block that divides the image."""
    for block in _faster_blocks(weights):
        if not (size[0] % block[0] or size[1] % block[1]):
            return block
    refuse("the image has an odd size")
