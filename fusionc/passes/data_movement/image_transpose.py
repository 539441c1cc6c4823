import numpy as np

from fusionc.model.graph import Shape
from fusionc.passes._shared.target import require_onnxruntime
from fusionc.passes._shared.transpose_and_reshape import order_of
from fusionc.rewrite import Match, Pattern, Result, Tape, UBFusionPass, op, refuse, unknown, var
from fusionc.shapes.equality import same_shape
from fusionc.shapes.expressions import is_static

x = var("x")
shape = var("shape")
_SWAPPED = [0, 2, 1]
_UNKNOWN_SIZES = "rows and columns are computed when the model runs, or are 0"


def _swaps_last_axes(m: Match) -> bool:
    """Whether the Transpose exchanges the last two of three axes."""
    return order_of(m.turn) == _SWAPPED


def _follows_conv(m: Match) -> bool:
    """Whether a Conv computes the image."""
    return m.x.producer is not None and m.x.producer.is_op("Conv")


def _precedes_conv(m: Match) -> bool:
    """Whether a Conv reads the image."""
    image = m.reshape.outputs[0]
    return any(user.is_op("Conv") and user.inputs[0] is image for user in image.outputs)


def _pixels_of_image(m: Match, new: Tape) -> Result:
    require_onnxruntime(m)
    pixels = m.reshape.outputs[0].shape
    target = m.shape.constant()
    channels = _channels(m.x.shape, pixels, (0, 1))
    count = pixels[2]
    if not isinstance(count, int) and target is not None and target[-1] == -1:
        count = -1
    if not isinstance(count, int) or count == 0:
        refuse(_UNKNOWN_SIZES)
    result = m.turn.outputs[0]
    if not result.is_output and all(user.is_op("MatMul") for user in result.outputs):
        refuse("only matrix products read the result, and they exchange axes themselves")
    channels_last = new.Transpose(m.x, perm=[0, 2, 3, 1])
    return new.Reshape(channels_last, new.const(np.array([0, count, channels], np.int64)))


def _image_of_pixels(m: Match, new: Tape) -> Result:
    require_onnxruntime(m)
    image = m.reshape.outputs[0].shape
    target = m.shape.constant()
    channels = _channels(image, m.x.shape, (0, 2))
    sizes = image[2:]
    if not is_static(sizes) or 0 in sizes:
        sizes = () if target is None else tuple(target[2:].tolist())
        if -1 not in sizes or max(sizes) < 1:
            refuse(_UNKNOWN_SIZES)
    channels_last = new.Reshape(m.x, new.const(np.array([0, *sizes, channels], np.int64)))
    return new.Transpose(channels_last, perm=[0, 3, 1, 2])


def _channels(image: Shape | None, pixels: Shape | None, axes: tuple[int, int]) -> int:
    """The number of channels of an image and of its pixels.

    `axes` are the batch and channel axes of the pixels. Refuses if the Reshape is not known to keep
    batch and channels.
    """
    if image is None or pixels is None:
        refuse(unknown("the shape"))
    if len(image) != 4:
        refuse("the rank of the image is not 4")
    if not same_shape(image[:2], [pixels[axis] for axis in axes]):
        refuse("the Reshape is not known to keep batch and channels")
    channels = image[1]
    if not isinstance(channels, int):
        refuse(unknown("the number of channels"))
    if channels < 1:
        refuse("the number of channels is 0")
    return channels


class ImageTransposePass(UBFusionPass):
    """A Transpose of the channels of an image changes places with a Reshape, so that it is next to
    the Conv.

    before   Transpose(Reshape(Conv(…), [N, C, H·W]), [0, 2, 1]);
             Conv(Reshape(Transpose(x, [0, 2, 1]), [N, C, H, W]), …)
    after    Reshape(Transpose(Conv(…), [0, 2, 3, 1]), [N, H·W, C]);
             Conv(Transpose(Reshape(x, [N, H, W, C]), [0, 3, 1, 2]), …)
    refuses  a Reshape that is not known to keep batch and channels; unknown channels; rows and
             columns that are computed when the model runs, or are 0; pixels that only matrix
             products read, because these exchange axes themselves; targets other than onnxruntime
    algebra  the result has the same elements in the same order, and the Transpose moves as many
             elements
    source   measured: onnxruntime 1.32 merges a Transpose into a Conv next to it, which then reads
             or writes images with the channels last. It does not do so if a Reshape is in between.
             It also pushes a Transpose through a written-out normalization towards the next
             Transpose, and then no longer recognizes the normalization. Hierarchical vision
             transformers (PVT, SegFormer) run in 0.93 to 0.99 of the time
    """

    patterns = (
        Pattern(
            "PixelsOfImage",
            op.Transpose(op.Reshape(x, shape, _as="reshape"), _as="turn"),
            _pixels_of_image,
            where=(_swaps_last_axes, _follows_conv),
        ),
        Pattern(
            "ImageOfPixels",
            op.Reshape(op.Transpose(x, _as="turn"), shape, _as="reshape"),
            _image_of_pixels,
            where=(_swaps_last_axes, _precedes_conv),
        ),
    )
