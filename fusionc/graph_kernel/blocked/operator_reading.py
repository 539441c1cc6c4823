"""How operators of a model become operations on images."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import onnx

from fusionc.graph_kernel.blocked.image_area import ImageArea, ImageCut, ImageJoin, Operation

Read = Operation | ImageJoin | ImageCut | None


@dataclass(frozen=True)
class OperatorReading:
    """The function that reads an operator, and which values the operator may have.

    `read` gives None if a later operator completes what this one begins, and raises UnfitOperator
    if no step computes it.
    """

    read: Callable[[ImageArea, onnx.NodeProto], Read]
    of_rows: bool = False  # reads rows, and images whose last axis is that of the channels
    of_heads: bool = False  # in areas of rows, also reads values of four axes
    of_pixels: bool = False  # may turn images of one pixel into rows, or rows into such images
    of_last_axis: bool = False  # the last axis of its image is that of the channels
    is_convolution: bool = False
    is_product: bool = False  # a product of rows with a matrix
    weights: tuple[int, ...] = ()  # the operands that have to be constants
    tables: tuple[int, ...] = ()  # the operands that are rows, even if they are constants
    takes_vectors: bool = False  # an operand may have a constant number for each channel of rows
