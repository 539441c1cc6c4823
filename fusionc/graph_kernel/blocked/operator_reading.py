"""How an operator of a model becomes an operation on images."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import onnx

from fusionc.graph_kernel.blocked.image_area import ImageArea, ImageCut, ImageJoin, Operation

Read = Operation | ImageJoin | ImageCut | None


@dataclass(frozen=True)
class OperatorReading:
    """The function that reads an operator, and facts about the operator's operands.

    `read` returns None if a later operator completes the operation. It raises UnfitOperator if no
    step computes the operator.
    """

    read: Callable[[ImageArea, onnx.NodeProto], Read]
    of_rows: bool = False  # whether it reads rows, and images whose channels are the last axis
    of_heads: bool = False  # whether, in areas of rows, it also reads values with four axes
    of_pixels: bool = False  # whether it may convert images of one pixel to rows, or back
    of_last_axis: bool = False  # whether the channels must be the last axis of its image
    is_convolution: bool = False
    is_product: bool = False  # whether it multiplies rows by a matrix
    weights: tuple[int, ...] = ()  # indices of the operands that must be constants
    tables: tuple[int, ...] = ()  # indices of the operands that are rows, even if constant
    takes_vectors: bool = False  # whether a constant may have one number for each channel of rows
