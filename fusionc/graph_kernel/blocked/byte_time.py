"""Time estimates for steps over images of bytes on one thread, here and in onnxruntime.

They were measured with AMX and onnxruntime 1.32, on layers of ResNet-50, MobileNetV2 and BERT.
Without AMX, both take longer. Names that end in _THERE are for onnxruntime.
"""

from __future__ import annotations

from fusionc.graph_kernel.blocked.image_area import Operation
from fusionc.graph_kernel.blocked.kinds.load_store import LoadStep
from fusionc.graph_kernel.blocked.step_kind import ImageEstimate, StepEstimate, StepKind

_BEGIN = 0.5e-6  # seconds that even the smallest step takes
_BEGIN_THERE = 3e-6  # seconds that even the smallest operator takes
_PRODUCTS = 1.1e12  # multiplications in a second, in sums over channels
_PRODUCTS_THERE = 0.35e12
_STREAMED = 11e9  # bytes of weights that are read in a second
_FINISHED = 0.16e-9  # seconds to turn a sum into a byte
_FINISHED_THERE = 0.18e-9
# multiplications in a second: for pixels with at most four channels, and in depthwise convolutions
_FIRST = 0.4e12
_FIRST_THERE = 0.06e12
_BY_CHANNEL = 0.07e12
_BY_CHANNEL_THERE = 0.018e12
_PASS = 0.05e-9  # seconds for each byte of a pass over an image
_PASS_THERE = 0.18e-9
_LANES = 64
# Seconds to copy an element into the blocked layout or out of it: an element of rows, of pixels
# with few channels, of channels that are stored one after the other. Then the seconds to transpose
# and to quantize an element in onnxruntime.
_OF_ROWS = 0.1e-9
_OF_PIXELS = 0.4e-9
_OF_CHANNELS = 1.2e-9
_RANGED = 0.1e-9  # seconds to find whether an element is the least or the largest one
_QUANTIZED = 0.2e-9  # seconds to quantize an element that is in the layout
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
    """Seconds for a convolution or product over all channels, including an addition after it.
    `products_of_image` are the multiplications for one image, or for all rows. If the result is
    float32, onnxruntime takes as long for a product as the step here. For images it also moves the
    channels to the last axis and back.
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
    """Seconds for a depthwise convolution."""
    rows, columns = of.window.kernel
    products = _elements(of.out) * rows * columns
    filling = -(-of.out.channels // _LANES) * _LANES / of.out.channels
    return (
        _BEGIN + products * filling / _BY_CHANNEL,
        _BEGIN_THERE + products / _BY_CHANNEL_THERE,
    )


def byte_pass_seconds(of: StepEstimate) -> tuple[float, float]:
    """Seconds for a pass over images. The larger one of its image and its result counts."""
    count = max(_elements(of.image), _elements(of.out))
    return _BEGIN + count * _PASS, _BEGIN_THERE + count * _PASS_THERE


def quantization_seconds(of: StepEstimate) -> tuple[float, float]:
    """Seconds to quantize an image of float32."""
    count = _elements(of.out)
    return _BEGIN + count * _QUANTIZED, _BEGIN_THERE + count * _QUANTIZED_THERE


def range_seconds(of: StepEstimate) -> tuple[float, float]:
    """Seconds to find the least and the largest number of an image."""
    count = _elements(of.image)
    return _BEGIN + count * _RANGED, count * _RANGED


def byte_copy_seconds(
    kind: StepKind, operation: Operation, of: StepEstimate
) -> tuple[float, float]:
    """Seconds to copy an image into the blocked layout or out of it, including a quantization."""
    image = of.out
    is_quantized = isinstance(kind, LoadStep) and (kind.scale != 0.0 or bool(operation.third))
    each = _OF_ROWS if image.is_rows else _OF_PIXELS if operation.is_planar else _OF_CHANNELS
    there = (0.0 if image.is_rows else _TRANSPOSED_THERE) + is_quantized * _QUANTIZED_THERE
    count = _elements(image)
    return _BEGIN + count * each, count * there
