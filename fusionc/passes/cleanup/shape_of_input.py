from collections.abc import Iterator
from typing import Any

import numpy as np

from fusionc.model.graph import Edge, Node
from fusionc.passes._shared.shape_of_some_axes import can_take_some_axes
from fusionc.protos import initialized
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, const, keep, op, rest, var
from fusionc.shapes.elements import elements

x = var("x")
_KEPT = keep(op.Shape(x, _as="shape"))


def _sources(shape: Node) -> Iterator[tuple[Edge, list[Any]]]:
    """The required inputs of the model and their dimensions; none if the Shape reads one itself."""
    value = shape.inputs[0]
    main = shape.graph.model.main
    if value is None or value.producer is None or shape.graph.in_function:
        return
    stored = initialized(main.proto)
    yield from (
        (source, list(source.shape))
        for source in main.inputs
        if source.shape and source.name not in stored
    )


def _places(shape: Node, taken: Edge | None) -> tuple[Edge, list[int]] | None:
    """The first input with all dimensions that are taken from a Shape, and their axes there."""
    wanted = elements(taken) or []
    for source, dims in _sources(shape) if wanted else ():
        if all(dim in dims for dim in wanted):
            return source, [dims.index(dim) for dim in wanted]
    return None


def _can_pick(m: Match) -> bool:
    """Whether inputs of the model have all dimensions that are taken from the Shape."""
    dims: Edge = m.shape.outputs[0]
    takers = [
        taker
        for taker in dims.outputs
        if taker.is_op("Gather", "Slice") and taker.inputs[0] is dims
    ]
    is_all = len(takers) == dims.use_count and not dims.is_output
    return is_all and all(_places(m.shape, taker.outputs[0]) is not None for taker in takers)


def _whole(m: Match) -> tuple[Edge, dict[str, int]] | None:
    """The first input with all dimensions of the Shape in a row, and the attributes that take
    them.
    """
    wanted = elements(m.outputs[0]) or []
    for source, dims in _sources(m.shape) if wanted else ():
        if wanted == dims:
            return source, {}
        for start in range(len(dims) - len(wanted) + 1 if can_take_some_axes(m.shape.graph) else 0):
            if dims[start : start + len(wanted)] == wanted:
                return source, {"start": start, "end": start + len(wanted)}
    return None


def _can_take(m: Match) -> bool:
    """Whether an input of the model has all dimensions in a row."""
    return _whole(m) is not None


def _shape(m: Match, new: Tape) -> Result:
    whole = _whole(m)
    assert whole is not None
    source, bounds = whole
    return new.Shape(source, **bounds)


class ShapeOfInputPass(Pass):
    """Dimensions that an input of the model also has are taken from that input.

    before   Shape(x), Gather(Shape(x), i), Slice(Shape(x), …), if an input of the model has the
             same dimensions
    after    Shape(input), Gather(Shape(input), j): equal ones become one, and parts that only
             shapes kept separate, such as the heads of an attention, can be fused
    refuses  only what every pass refuses
    never    by default: if a tensor has no elements, a 0 among the computed sizes of a Reshape
             means a dimension of its input, which may have another size; a Shape from which other
             dimensions are taken as well; inside functions, which do not see the inputs of the
             model; an input with a default
    algebra  dimensions with the same symbol have the same size
    source   exporters take the shape of each tensor; onnxruntime's attention fusions look through
             such Shapes
    """

    numerics = "approximate"
    default = "off"
    patterns = (
        Pattern("Shape", op.Shape(x, _as="shape"), _shape, where=_can_take),
        Pattern("ShapeGather", op.Gather(_KEPT, const("index")), where=_can_pick),
        Pattern("ShapeSlice", op.Slice(_KEPT, rest("bounds")), where=_can_pick),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        taken = _places(m.shape, m.outputs[0])
        assert taken is not None
        source, places = taken
        index = np.array(places, np.int64)
        return new.Gather(new.Shape(source), new.const(index if m.outputs[0].rank else index[0]))
