"""Time estimates, on one thread, for steps over images of bytes and for onnxruntime's operators.

They were measured with AMX and onnxruntime 1.32, on layers of ResNet-50, MobileNetV2 and BERT.
Without AMX, both take longer. Names that end in _THERE are for onnxruntime.
"""

from __future__ import annotations

from fusionc.graph_kernel.blocked.image_area import Operation
from fusionc.graph_kernel.blocked.kinds.load_store import LoadStep
from fusionc.graph_kernel.blocked.step_kind import ImageEstimate, StepEstimate, StepKind

_BEGIN = 0.5e-6  # seconds that even the smallest step takes
_BEGIN_THERE = 3e-6  # seconds that even the smallest operator takes
_PRODUCTS = 1.1e12  # multiplications in a second, for sums over channels
_PRODUCTS_THERE = 0.35e12
_STREAMED = 11e9  # bytes of weights that can be read in a second
_FINISHED = 0.16e-9  # seconds to convert a sum to a byte
_FINISHED_THERE = 0.18e-9
# Multiplications in a second: for pixels with at most four channels, then in depthwise
# convolutions.
_FIRST = 0.4e12
_FIRST_THERE = 0.06e12
_BY_CHANNEL = 0.07e12
_BY_CHANNEL_THERE = 0.018e12
_PASS = 0.05e-9  # seconds for each byte in a pass over an image
_PASS_THERE = 0.18e-9
_LANES = 64
# Seconds to copy an element into the blocked layout or out of it: an element of rows, of pixels
# with few channels, and of channels that are stored one after the other.
_OF_ROWS = 0.1e-9
_OF_PIXELS = 0.4e-9
_OF_CHANNELS = 1.2e-9
_RANGED = 0.1e-9  # seconds to compare an element with the smallest and largest ones so far
_QUANTIZED = 0.2e-9  # seconds to quantize an element that is already in the blocked layout
_TRANSPOSED_THERE = 0.3e-9
_QUANTIZED_THERE = 0.7e-9


def _elements(image: ImageEstimate) -> int:
    return image.pixels * image.channels * (1 if image.is_rows else image.batches)


def sum_seconds(
    of: StepEstimate,
    products_of_image: float,
    *,
    is_first: bool,
    has_floats: bool = False,
) -> tuple[float, float]:
    """Seconds for a convolution or product over all channels, including a sum that follows: here,
    and in onnxruntime.

    `products_of_image` is the number of multiplications for one image, or for all rows. If the
    result is float32, onnxruntime takes as long for a product as the step here. For images, it also
    moves the channels to the last axis and back.
    """
    made = _elements(of.out)
    weights = products_of_image / of.out.pixels
    products = weights * made / of.out.channels
    here = max(products / (_FIRST if is_first else _PRODUCTS), weights / _STREAMED)
    there = products / (_FIRST_THERE if is_first else _PRODUCTS_THERE) + made * _FINISHED_THERE
    if has_floats and of.window.kernel == (1, 1):
        moved = 0 if of.out.is_rows else made + _elements(of.image)
        there = here + made * _FINISHED + moved * _TRANSPOSED_THERE
    if of.second is not None:
        there += _BEGIN_THERE + made * _PASS_THERE
    return _BEGIN + here + made * _FINISHED, _BEGIN_THERE + there


def depthwise_seconds(of: StepEstimate) -> tuple[float, float]:
    """Seconds for a depthwise convolution: here, and in onnxruntime."""
    rows, columns = of.window.kernel
    products = _elements(of.out) * rows * columns
    filling = -(-of.out.channels // _LANES) * _LANES / of.out.channels
    return (
        _BEGIN + products * filling / _BY_CHANNEL,
        _BEGIN_THERE + products / _BY_CHANNEL_THERE,
    )


def byte_pass_seconds(of: StepEstimate) -> tuple[float, float]:
    """Seconds for a pass over images: here, and in onnxruntime. The larger of image and result
    counts.
    """
    count = max(_elements(of.image), _elements(of.out))
    return _BEGIN + count * _PASS, _BEGIN_THERE + count * _PASS_THERE


def quantization_seconds(of: StepEstimate) -> tuple[float, float]:
    """Seconds to quantize a float32 image: here, and in onnxruntime."""
    count = _elements(of.out)
    return _BEGIN + count * _QUANTIZED, _BEGIN_THERE + count * _QUANTIZED_THERE


def range_seconds(of: StepEstimate) -> tuple[float, float]:
    """Seconds to find the smallest and the largest number of an image: here, and in onnxruntime."""
    count = _elements(of.image)
    return _BEGIN + count * _RANGED, count * _RANGED


def byte_copy_seconds(
    kind: StepKind, operation: Operation, of: StepEstimate
) -> tuple[float, float]:
    """Seconds to copy an image into the blocked layout or out of it, including a quantization:
    here, and in onnxruntime.
    """
    image = of.out
    is_quantized = isinstance(kind, LoadStep) and (kind.scale != 0.0 or bool(operation.third))
    each = _OF_ROWS if image.is_rows else _OF_PIXELS if operation.is_planar else _OF_CHANNELS
    there = (0.0 if image.is_rows else _TRANSPOSED_THERE) + is_quantized * _QUANTIZED_THERE
    count = _elements(image)
    return _BEGIN + count * each, count * there
