"""The bounds of a Clip, and whether they have no effect before a quantization, because the
quantization saturates anyway.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fusionc.operators.disputed_shapes import NodeLike


def clip_bounds(clip: NodeLike, largest: float) -> list[float | None]:
    """The lower and the upper bound: attributes before opset 11, and inputs since then. A bound
    that is not a single known number is None. An omitted bound is `-largest` or `largest`.
    """
    if clip.graph.opset < 11:
        return [float(clip.attr("min", -largest)), float(clip.attr("max", largest))]
    bounds: list[float | None] = [-largest, largest]
    for index, value in enumerate(clip.inputs[1:3]):
        if value is not None:
            array = value.constant()
            bounds[index] = float(array.item()) if array is not None and array.size == 1 else None
    return bounds


def clips_nothing(
    bounds: tuple[float, float],
    step: np.floating[Any],
    zero: int,
    integers: tuple[int, int],
    slack: float = 0.0,
) -> bool:
    """Whether bounds change none of the numbers that a quantization with this step and zero point
    can represent. `integers` are the smallest and largest integer of the quantization. A change of
    the smallest or largest number by at most `slack` does not count.
    """
    first, last = (float(np.float32(step) * np.float32(integer - zero)) for integer in integers)
    return bounds[0] - slack <= first and last <= bounds[1] + slack
