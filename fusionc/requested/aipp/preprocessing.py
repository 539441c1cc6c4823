"""What an `aipp_op` block does to the images of one input, with all sizes and defaults resolved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from onnx import TensorProto, ValueInfoProto

from fusionc.errors import UsageError
from fusionc.model.tensors import type_name
from fusionc.requested.aipp.aipp_file import AippBlock
from fusionc.requested.aipp.aipp_keys import RGB888, XRGB8888, YUV400, YUV420SP

_FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE)
_SIDES = (("top", "bottom"), ("left", "right"))
# CANN's defaults: the matrix from YUV to BGR, and the one from BGR to YUV
_FROM_YUV = ((298, 516, 0), (298, -100, -208), (298, 0, 409))
_TO_YUV = ((66, 129, 25), (-38, -74, 112), (112, -94, -18))
_YUV_BIAS = (16, 128, 128)


@dataclass(frozen=True)
class ImageFormat:
    """The layout of the pixels of an image."""

    channels: int
    swapped: tuple[int, int] | None  # the channels that rbuv_swap_switch exchanges
    is_yuv: bool


FORMATS = {
    YUV420SP: ImageFormat(3, (1, 2), is_yuv=True),
    RGB888: ImageFormat(3, (0, 2), is_yuv=False),
    XRGB8888: ImageFormat(4, (1, 3), is_yuv=False),
    YUV400: ImageFormat(1, None, is_yuv=True),
}
_UNUSED = 0  # the channel X of XRGB8888_U8


@dataclass(frozen=True)
class ColorMatrix:
    """out = (rows · (pixel − before) >> 8) + after, saturated to 0…255."""

    rows: tuple[tuple[int, int, int], ...]
    before: tuple[int, int, int]
    after: tuple[int, ...]


@dataclass(frozen=True)
class Preprocessing:
    """AIPP for one input, in its order: exchange channels, crop, color matrix, normalize, pad."""

    format: str
    height: int | None  # of the image; None if it is open
    width: int | None
    order: tuple[int, ...]  # the channels of the image that are read, in order
    crop: tuple[int, int, int, int] | None  # top, left, height and width
    colors: ColorMatrix | None
    # for each channel of the model's input: (pixel - mean - minimum) * factor
    mean: tuple[int, ...]
    minimum: tuple[float, ...]
    factor: tuple[float, ...]
    pads: tuple[int, int, int, int]  # top, left, bottom and right
    pad_value: float

    @property
    def is_nv12(self) -> bool:
        """Whether an image has the rows of Y first, and then half as many rows of U and V."""
        return self.format == YUV420SP

    @property
    def image_sizes(self) -> tuple[int | None, int | None, int]:
        """Height, width and channels of the tensor that has an image."""
        if self.is_nv12 and self.height is not None:
            return self.height * 3 // 2, self.width, 1
        return self.height, self.width, FORMATS[self.format].channels


def preprocessing_of(block: AippBlock, value: ValueInfoProto) -> Preprocessing:
    """The preprocessing of this input. Raises UsageError if the block does not fit the input."""
    sizes = _image_sizes(block, value)
    channels = sizes[0]
    assert channels is not None
    order = _order(block, channels)
    source, crop, pads = _geometry(block, value.name, sizes[1:])
    _require_even(block, source, crop)
    return Preprocessing(
        block["input_format"],
        *source,
        order,
        crop,
        _colors(block, channels),
        tuple(block[f"mean_chn_{c}"] for c in range(channels)),
        tuple(block[f"min_chn_{c}"] for c in range(channels)),
        tuple(block[f"var_reci_chn_{c}"] for c in range(channels)),
        pads,
        float(np.float32(block["padding_value"])) if block["padding"] else 0.0,
    )


def _image_sizes(block: AippBlock, value: ValueInfoProto) -> Sequence[int | None]:
    """Channels, height and width of the model's input; None for open sizes."""
    tensor = value.type.tensor_type
    dims = tensor.shape.dim
    if tensor.elem_type not in _FLOATS or len(dims) != 4:
        type_ = type_name(tensor.elem_type) if tensor.elem_type else "another type"
        what = f"the input {value.name} is not an image: it has {len(dims)} dimensions of {type_}"
        hint = "name an input of 4 dimensions (N, C, H, W) of float, float16 or double"
        raise block.error(_input_key(block), what, hint)
    sizes = [dim.dim_value if dim.dim_value > 0 else None for dim in dims]
    if sizes[1] is None:
        what = f"the number of channels of {value.name} is open"
        hint = f'fix it with --input_shape "{value.name}:1,3,224,224"'
        raise block.error("input_format", what, hint)
    return sizes[1:]


def _input_key(block: AippBlock) -> str:
    return "related_input_name" if block["related_input_name"] else "related_input_rank"


def _order(block: AippBlock, channels: int) -> tuple[int, ...]:
    """The channels of the image that are read, in order. If there is a color matrix, they are what
    the matrix is multiplied with.
    """
    is_xrgb = block["input_format"] == XRGB8888
    order = _exchanged(block)
    if block["csc_switch"]:
        return tuple(channel for channel in order if not is_xrgb or channel != _UNUSED)
    if is_xrgb and channels == len(order) - 1 and order[-1] == _UNUSED:
        return tuple(order[:-1])
    if channels != len(order):
        raise _channels_error(block, channels)
    return tuple(order)


def _exchanged(block: AippBlock) -> list[int]:
    """All channels of the image, in the order that rbuv_swap_switch and ax_swap_switch ask for."""
    name = block["input_format"]
    image = FORMATS[name]
    order = list(range(image.channels))
    if block["rbuv_swap_switch"]:
        if image.swapped is None:
            raise block.error("rbuv_swap_switch", f"{name} has one channel", "give false")
        first, second = image.swapped
        order[first] = second
        order[second] = first
    if block["ax_swap_switch"]:
        if name != XRGB8888:
            what = f"ax_swap_switch moves the channel X, which {name} lacks"
            raise block.error("ax_swap_switch", what, f"give false, or input_format {XRGB8888}")
        order = [*order[1:], order[0]]
    return order


def _channels_error(block: AippBlock, channels: int) -> UsageError:
    """The error for a model that takes another number of channels than the image has."""
    name = block["input_format"]
    what = f"{name} has {FORMATS[name].channels} channels, and the model takes {channels}"
    hint = f"give another input_format ({', '.join(FORMATS)})"
    if name == XRGB8888 and channels == 3:
        hint = "give ax_swap_switch: true, which moves X to the end, where it is left out"
    elif channels == 1:
        hint = "give csc_switch: true, with the matrix from the colors to one channel"
    return block.error("input_format", what, hint)


def _colors(block: AippBlock, channels: int) -> ColorMatrix | None:
    """The color matrix, with only the rows for the channels that the model takes."""
    if not block["csc_switch"]:
        return None
    image = FORMATS[block["input_format"]]
    if image.channels == 1 or channels not in (1, 3):
        what = "csc_switch needs an image of colors and a model that takes 1 or 3 channels, but "
        what += f"{block['input_format']} has {image.channels}, and the model takes {channels}"
        raise block.error("csc_switch", what, "give false")
    default = _FROM_YUV if image.is_yuv else _TO_YUV
    rows = [
        [_or_default(block[f"matrix_r{r}c{c}"], default[r][c]) for c in range(3)]
        for r in range(channels)
    ]
    name = "input" if image.is_yuv else "output"
    bias = [_or_default(block[f"{name}_bias_{c}"], _YUV_BIAS[c]) for c in range(3)]
    none = [0, 0, 0]
    before, after = (bias, none) if image.is_yuv else (none, bias)
    return ColorMatrix(
        tuple((row[0], row[1], row[2]) for row in rows),
        (before[0], before[1], before[2]),
        tuple(after[:channels]),
    )


def _or_default(value: int | None, default: int) -> int:
    return default if value is None else value


_Sizes = tuple[int | None, int | None]
_Rectangle = tuple[int, int, int, int]


def _geometry(
    block: AippBlock, name: str, model: Sequence[int | None]
) -> tuple[_Sizes, _Rectangle | None, _Rectangle]:
    """The height and width of the image, the part to crop, and the padding. `model` has the height
    and the width of the model's input.
    """
    high, wide = (
        _extent(block, name, letter, model[axis], _SIDES[axis]) for axis, letter in enumerate("hw")
    )
    crop = (high.start, wide.start, high.size or 0, wide.size or 0) if block["crop"] else None
    pads = (high.pads[0], wide.pads[0], high.pads[1], wide.pads[1])
    return (high.source, wide.source), crop, pads


@dataclass(frozen=True)
class _Extent:
    """The image in one direction."""

    source: int | None  # the size of the image; None if it is open
    start: int  # where the cropped part starts
    size: int | None  # the size of the cropped part, or of the whole image; None if it is open
    pads: tuple[int, int]  # the padding at the start and at the end


def _extent(
    block: AippBlock, name: str, letter: str, wanted: int | None, sides: tuple[str, str]
) -> _Extent:
    """The image in the direction of a letter: h or w. `wanted` is the size that the model takes, or
    None if it takes any.
    """
    padding = [block[f"{side}_padding_size"] if block["padding"] else 0 for side in sides]
    inner = None if wanted is None else wanted - sum(padding)
    source = block[f"src_image_size_{letter}"] or None
    start = 0
    key = f"src_image_size_{letter}"
    if block["crop"]:
        key = f"crop_size_{letter}"
        start = block[f"load_start_pos_{letter}"]
        size: int | None = _cropped(block, letter, inner)
    else:
        size = source or inner
    if inner is not None and size != inner:
        what = f"the image is {size} and the padding {sum(padding)}, but {name} takes {wanted}"
        hint = f"give sizes whose sum is {wanted}"
        raise block.error(key, f"{key} does not fit: {what}", hint)
    return _Extent(source or size, start, size, (padding[0], padding[1]))


def _cropped(block: AippBlock, letter: str, inner: int | None) -> int:
    """The size that is cropped. `inner` is the size that the model needs before the padding."""
    source = block[f"src_image_size_{letter}"]
    size: int = block[f"crop_size_{letter}"] or inner or 0
    for key, number in ((f"src_image_size_{letter}", source), (f"crop_size_{letter}", size)):
        if number <= 0:
            raise block.error(key, f"crop needs {key}", "give a number of pixels above 0")
    key = f"load_start_pos_{letter}"
    end = block[key] + size
    if end > source:
        what = f"the part to crop ends at {end}, and the image at {source}"
        hint = f"{key} + crop_size_{letter} is at most src_image_size_{letter}"
        raise block.error(key, what, hint)
    return size


def _require_even(block: AippBlock, source: _Sizes, crop: _Rectangle | None) -> None:
    """Raise UsageError if an image in YUV420SP_U8 has an open size, or an odd one."""
    if block["input_format"] != YUV420SP:
        return
    for letter, size in zip("hw", source, strict=True):
        if size is None:
            key = f"src_image_size_{letter}"
            raise block.error(key, f"{YUV420SP} needs {key}", "give the size of the image")
    starts = ("load_start_pos_h", "load_start_pos_w", "crop_size_h", "crop_size_w")
    named = [*zip(("src_image_size_h", "src_image_size_w"), source, strict=True)]
    named += zip(starts, crop or (), strict=False)
    for key, number in named:
        if number is not None and number % 2:
            what = f"{key} is {number}, but in {YUV420SP} two rows and two columns share a color"
            raise block.error(key, what, "give an even number")
