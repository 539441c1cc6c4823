"""The bounds of a Clip: attributes before opset 11, inputs since then."""

from __future__ import annotations

from fusionc.operators.disputed_shapes import NodeLike


def clip_bounds(clip: NodeLike, largest: float) -> list[float | None]:
    """The lower and the upper bound; None for a bound that is not one known number. An omitted
    bound is `-largest` or `largest`.
    """
    if clip.graph.opset < 11:
        return [float(clip.attr("min", -largest)), float(clip.attr("max", largest))]
    bounds: list[float | None] = [-largest, largest]
    for index, value in enumerate(clip.inputs[1:3]):
        if value is not None:
            array = value.constant()
            bounds[index] = float(array.item()) if array is not None and array.size == 1 else None
    return bounds
