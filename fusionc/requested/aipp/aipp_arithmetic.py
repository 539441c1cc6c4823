"""AIPP's arithmetic in NumPy: the reference for the operators that preprocess images."""

from __future__ import annotations

from typing import Any

import numpy as np

from fusionc.requested.aipp.preprocessing import ColorMatrix, Preprocessing

_Array = np.ndarray[Any, Any]


def preprocess(images: _Array, steps: Preprocessing) -> _Array:
    """The input of the model for images of uint8, in the layout (N, C, H, W) and in float64."""
    pixels = _pixels_of_nv12(images) if steps.is_nv12 else np.moveaxis(images, 3, 1)
    pixels = pixels[:, list(steps.order)].astype(np.int64)
    if steps.crop is not None:
        top, left, height, width = steps.crop
        pixels = pixels[:, :, top : top + height, left : left + width]
    if steps.colors is not None:
        pixels = _other_colors(pixels, steps.colors)
    mean, minimum, factor = (
        np.reshape(row, (-1, 1, 1)) for row in (steps.mean, steps.minimum, steps.factor)
    )
    result = (pixels - mean - minimum) * factor
    top, left, bottom, right = steps.pads
    pads = ((0, 0), (0, 0), (top, bottom), (left, right))
    return np.pad(result, pads, constant_values=steps.pad_value)


def _pixels_of_nv12(images: _Array) -> _Array:
    """Y, U and V of each pixel. An image has first the rows of Y, and then half as many rows with U
    and V in turn. Each U and V belongs to two rows and two columns of Y.
    """
    height = images.shape[1] // 3 * 2
    luma = images[:, :height, :, 0]
    chroma = images[:, height:, :, 0]
    u, v = (chroma[:, :, at::2].repeat(2, axis=1).repeat(2, axis=2) for at in (0, 1))
    return np.stack([luma, u, v], axis=1)


def _other_colors(pixels: _Array, colors: ColorMatrix) -> _Array:
    shifted = pixels - np.reshape(colors.before, (-1, 1, 1))
    sums = np.einsum("rc,nchw->nrhw", np.array(colors.rows), shifted)
    result: _Array = np.clip((sums >> 8) + np.reshape(colors.after, (-1, 1, 1)), 0, 255)
    return result
