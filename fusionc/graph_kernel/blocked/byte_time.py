"""About how long steps over images of bytes take on one thread, here and in onnxruntime.

Measured with AMX, onnxruntime 1.32, on layers of ResNet-50, MobileNetV2 and BERT. With other
instructions both take longer.
"""

from __future__ import annotations

from fusionc.graph_kernel.blocked.image_area import Operation
from fusionc.graph_kernel.blocked.kinds.load_store import LoadStep
from fusionc.graph_kernel.blocked.step_kind import ImageEstimate, StepEstimate, StepKind

_BEGIN = 0.5e-6  # seconds that a step takes, however small it is
_BEGIN_THERE = 3e-6  # that an operator takes
_PRODUCTS = 1.1e12  # of channels, in a second
_PRODUCTS_THERE = 0.35e12
_STREAMED = 11e9  # bytes of weights that are read in a second
_FINISHED = 0.16e-9  # seconds until a sum is a byte
_FINISHED_THERE = 0.18e-9
# products of pixels with at most four channels, and of channels by themselves
_FIRST = 0.4e12
_FIRST_THERE = 0.06e12
_BY_CHANNEL = 0.07e12
_BY_CHANNEL_THERE = 0.018e12
_PASS = 0.05e-9  # seconds for each byte of a pass
_PASS_THERE = 0.18e-9
_LANES = 64
# seconds for each element that comes into the layout or leaves it: as rows, as pixels of few
# channels, as channels that lie apart, and of a transposition there
_OF_ROWS = 0.1e-9
_OF_PIXELS = 0.4e-9
_OF_CHANNELS = 1.2e-9
_TRANSPOSED_THERE = 0.3e-9
_QUANTIZED_THERE = 0.7e-9


def _elements(image: ImageEstimate) -> int:
    return image.pixels * image.channels * (1 if image.is_rows else image.batches)


def sum_seconds(of: StepEstimate, *, is_first: bool) -> tuple[float, float]:
    """Seconds of a convolution or a product over all channels, with the sum that follows it."""
    rows, columns = of.window.kernel
    made = _elements(of.out)
    channels_in = of.image.channels
    weights = rows * columns * channels_in * of.out.channels
    products = made * rows * columns * channels_in
    here = max(products / (_FIRST if is_first else _PRODUCTS), weights / _STREAMED)
    there = products / (_FIRST_THERE if is_first else _PRODUCTS_THERE) + made * _FINISHED_THERE
    if of.second is not None:
        there += _BEGIN_THERE + made * _PASS_THERE
    return _BEGIN + here + made * _FINISHED, _BEGIN_THERE + there


def depthwise_seconds(of: StepEstimate) -> tuple[float, float]:
    """Seconds of a convolution of each channel by itself."""
    rows, columns = of.window.kernel
    products = _elements(of.out) * rows * columns
    filling = -(-of.out.channels // _LANES) * _LANES / of.out.channels
    return (
        _BEGIN + products * filling / _BY_CHANNEL,
        _BEGIN_THERE + products / _BY_CHANNEL_THERE,
    )


def byte_pass_seconds(of: StepEstimate) -> tuple[float, float]:
    """Seconds of a pass over images, the larger one of those that are read and made."""
    count = max(_elements(of.image), _elements(of.out))
    return _BEGIN + count * _PASS, _BEGIN_THERE + count * _PASS_THERE


def byte_copy_seconds(
    kind: StepKind, operation: Operation, of: StepEstimate
) -> tuple[float, float]:
    """Seconds of the way into the layout or out of it, with the quantization."""
    image = of.out
    is_quantized = isinstance(kind, LoadStep) and kind.scale != 0.0
    each = _OF_ROWS if image.is_rows else _OF_PIXELS if operation.is_planar else _OF_CHANNELS
    there = (0.0 if image.is_rows else _TRANSPOSED_THERE) + is_quantized * _QUANTIZED_THERE
    count = _elements(image)
    return _BEGIN + count * each, count * there
