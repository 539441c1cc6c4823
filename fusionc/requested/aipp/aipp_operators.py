"""ONNX operators that preprocess images as AIPP does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper

from fusionc.requested.aipp.preprocessing import ColorMatrix, Preprocessing

_INPUTS_SINCE = {"Slice": 10, "Clip": 11, "Pad": 11}  # before, these operands were attributes
_RESIZE_WITHOUT_ROI = 13


@dataclass
class PreprocessingOperators:
    """The nodes and constants that preprocess the images in the value `images`. They compute the
    value `result` in the type `elem_type`.
    """

    images: str
    result: str
    elem_type: int
    opset: int
    fresh: Callable[[str], str]  # a name that the model does not have yet
    nodes: list[NodeProto] = field(default_factory=list)
    constants: list[TensorProto] = field(default_factory=list)

    def add(self, steps: Preprocessing) -> None:
        """Add the operators for these steps. Cropping and exchanging channels come before the Cast
        to floats, because moving uint8 is cheaper.
        """
        pixels = self._pixels(steps)
        if steps.colors is None:
            pixels = self._gather(pixels, steps)
        pixels = self._node("Cast", pixels, to=TensorProto.FLOAT)
        if steps.colors is not None:
            pixels = self._other_colors(pixels, steps.colors, steps.order)
        shift = np.add(steps.mean, steps.minimum)
        if shift.any():
            pixels = self._node("Sub", pixels, self._per_channel(shift))
        if set(steps.factor) != {1.0}:
            pixels = self._node("Mul", pixels, self._per_channel(steps.factor))
        if any(steps.pads):
            top, left, bottom, right = steps.pads
            pads = np.array([0, 0, top, left, 0, 0, bottom, right])
            value = np.float32(steps.pad_value)
            pixels = self._with_operands("Pad", pixels, {"pads": pads, "value": value})
        if self.elem_type != TensorProto.FLOAT:
            self._node("Cast", pixels, to=self.elem_type)
        self.nodes[-1].output[0] = self.result

    def _pixels(self, steps: Preprocessing) -> str:
        """The cropped images in the layout (N, C, H, W), in uint8."""
        if steps.is_nv12:
            return self._nv12(steps)
        return self._in_planes(self._cropped(self.images, steps.crop))

    def _nv12(self, steps: Preprocessing) -> str:
        """The planes Y, U and V, with U and V for each pixel."""
        assert steps.height is not None
        assert steps.width is not None
        top, left, height, width = steps.crop or (0, 0, steps.height, steps.width)
        colors_top = steps.height + top // 2
        luma = self._cropped(self.images, (top, left, height, width))
        luma = self._reshaped(luma, 0, 1, height, width)
        chroma = self._cropped(self.images, (colors_top, left, height // 2, width))
        chroma = self._in_planes(self._reshaped(chroma, 0, height // 2, width // 2, 2))
        return self._node("Concat", luma, self._doubled(chroma, height, width), axis=1)

    def _doubled(self, planes: str, height: int, width: int) -> str:
        """Both planes with every row and column repeated, in the sizes `height` and `width`."""
        if self.opset >= _RESIZE_WITHOUT_ROI:
            scales = self._constant(np.array([1, 1, 2, 2], np.float32))
            nearest = {"mode": "nearest", "nearest_mode": "floor"}
            return self._node(
                "Resize",
                *(planes, "", scales),
                coordinate_transformation_mode="asymmetric",
                **nearest,
            )
        columns = self._reshaped(planes, 0, 2, height // 2, width // 2, 1)
        rows = self._node("Concat", columns, columns, axis=4)
        rows = self._reshaped(rows, 0, 2, height // 2, 1, width)
        return self._reshaped(self._node("Concat", rows, rows, axis=3), 0, 2, height, width)

    def _reshaped(self, value: str, *shape: int) -> str:
        return self._node("Reshape", value, self._constant(np.array(shape)))

    def _in_planes(self, pixels: str) -> str:
        return self._node("Transpose", pixels, perm=[0, 3, 1, 2])

    def _cropped(self, images: str, crop: tuple[int, int, int, int] | None) -> str:
        if crop is None:
            return images
        top, left, height, width = crop
        starts = np.array([top, left])
        ends = np.array([top + height, left + width])
        operands = {"starts": starts, "ends": ends, "axes": np.array([1, 2])}
        return self._with_operands("Slice", images, operands)

    def _gather(self, pixels: str, steps: Preprocessing) -> str:
        if steps.order == tuple(range(len(steps.order))):
            return pixels
        return self._node("Gather", pixels, self._constant(np.array(steps.order)), axis=1)

    def _other_colors(self, pixels: str, colors: ColorMatrix, order: tuple[int, ...]) -> str:
        """The color matrix as a convolution. Its weights select the channels in `order`. All sums
        in the convolution are multiples of 1/256, and are exact if they are below 65536.
        """
        rows = np.array(colors.rows, np.float64)
        channels = max(order) + 1
        weights = np.zeros((len(rows), channels, 1, 1))
        weights[:, list(order), 0, 0] = rows / 256
        bias = -(rows @ np.array(colors.before)) / 256
        operands = (weights.astype(np.float32), bias.astype(np.float32))
        pixels = self._node("Conv", pixels, *map(self._constant, operands))
        pixels = self._node("Floor", pixels)
        if any(colors.after):
            pixels = self._node("Add", pixels, self._per_channel(colors.after))
        limits = {"min": np.float32(0), "max": np.float32(255)}
        return self._with_operands("Clip", pixels, limits)

    def _per_channel(self, numbers: Any) -> str:
        return self._constant(np.reshape(numbers, (1, -1, 1, 1)).astype(np.float32))

    def _constant(self, array: Any) -> str:
        name = self.fresh(f"{self.images}_aipp_constant")
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def _with_operands(self, op: str, operand: str, others: Mapping[str, Any]) -> str:
        """A node whose other operands are constants, or attributes in old opsets."""
        if self.opset >= _INPUTS_SINCE[op]:
            return self._node(op, operand, *map(self._constant, others.values()))
        return self._node(op, operand, **{name: value.tolist() for name, value in others.items()})

    def _node(self, op: str, *operands: str, **attributes: Any) -> str:
        result = self.fresh(f"{self.images}_aipp_{op.lower()}")
        name = self.fresh(f"{self.images}_aipp_{op}")
        self.nodes.append(helper.make_node(op, operands, [result], name=name, **attributes))
        return result
