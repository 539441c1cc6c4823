from collections.abc import Sequence

import numpy as np

from fusionc.model.graph import Edge
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, const, keep, op, var
from fusionc.shapes.elements import Element, elements

x = var("x")
_SHAPE_OF_SOME_AXES = 15  # the first opset in which Shape has a start and an end


def _picked(m: Match) -> list[Element]:
    """The dimensions that are asked for; none where they are unknown."""
    dims, index = elements(m.shape.outputs[0]), m.index.constant()
    if dims is None or (index >= len(dims)).any() or (index < -len(dims)).any():
        return []
    return [dims[i] for i in index.reshape(-1)]


def _source(m: Match, dims: Sequence[Element]) -> tuple[Edge, list[int]] | None:
    """The first input of the model that has these dimensions, and where; None where x is an input itself."""
    graph = m.x.graph
    if graph.in_function or m.x.producer is None or not dims:
        return None
    for source in graph.model.main.inputs:
        if source.shape is not None and all(dim in source.shape for dim in dims):
            return source, [source.shape.index(dim) for dim in dims]
    return None


def _can_pick(m: Match) -> bool:
    """Whether x is made by the model, and one of its inputs has the dimensions that are asked for."""
    return _source(m, _picked(m)) is not None


def _whole(m: Match) -> tuple[Edge, dict[str, int]] | None:
    """The input that has all dimensions side by side, and the attributes of the Shape that takes them."""
    found = _source(m, elements(m.shape.outputs[0]) or [])
    if found is None:
        return None
    source, places = found
    begin, end = places[0], places[-1] + 1
    if places != list(range(begin, end)):
        return None
    if begin == 0 and end == source.rank:
        return source, {}
    return (source, {"start": begin, "end": end}) if m.x.graph.opset >= _SHAPE_OF_SOME_AXES else None


def _can_take(m: Match) -> bool:
    """Whether x is made by the model, and one of its inputs has all dimensions, side by side."""
    return _whole(m) is not None


def _shape(m: Match, new: Tape) -> Result:
    source, bounds = _whole(m)
    return new.Shape(source, **bounds)


class ShapeOfInputPass(Pass):
    """Dimensions are taken from an input of the model that has them, and from nothing that is computed.

    before   Gather(Shape(x), i), Shape(x), where an input of the model has the same dimensions
    after    Gather(Shape(input), j), Shape(input): equal ones become one, and what shapes alone kept apart, heads of an
             attention say, is free to be fused
    refuses  nothing of its own
    never    inside of functions, which do not see the inputs of the model
    algebra  two dimensions of one symbol are of one size
    source   exporters ask each tensor for its shape; onnxruntime's attention fusions look through such Shapes
    """

    patterns = (
        Pattern("ShapeGather", op.Gather(keep(op.Shape(x, _as="shape")), const("index")), where=_can_pick),
        Pattern("Shape", op.Shape(x, _as="shape"), _shape, where=_can_take),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        source, places = _source(m, _picked(m))
        return new.Gather(new.Shape(source), new.const(np.array(places, np.int64).reshape(m.index.shape)))
