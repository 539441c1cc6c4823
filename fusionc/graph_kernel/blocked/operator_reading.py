"""How an operator of a model becomes an operation on images."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import onnx

from fusionc.graph_kernel.blocked.image_area import ImageArea, ImageCut, ImageJoin, Operation

Read = Operation | ImageJoin | ImageCut | None


@dataclass(frozen=True)
class OperatorReading:
    """The function that reads an operator, and the kinds of values that the operator may have.

    `read` returns None if a later operator completes the operation, and raises UnfitOperator if no
    step computes the operator.
    """

    read: Callable[[ImageArea, onnx.NodeProto], Read]
    of_rows: bool = False  # reads rows, and images whose channels are the last axis
    of_heads: bool = False  # in areas of rows, also reads values with four axes
    of_pixels: bool = False  # may turn images of one pixel into rows, or rows into such images
    of_last_axis: bool = False  # the channels are the last axis of its image
    is_convolution: bool = False
    is_product: bool = False  # a product of rows with a matrix
    weights: tuple[int, ...] = ()  # the operands that have to be constants
    tables: tuple[int, ...] = ()  # the operands that are rows, even if they are constants
    takes_vectors: bool = False  # an operand may have a constant number for each channel of rows
