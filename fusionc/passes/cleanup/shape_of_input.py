from collections.abc import Iterator
from typing import Any

import numpy as np

from fusionc.model.graph import Edge, Node
from fusionc.passes._shared.shape_of_some_axes import can_take_some_axes
from fusionc.protos import initialized
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, const, keep, op, rest, var
from fusionc.shapes.elements import elements

x = var("x")
_SHAPE = keep(op.Shape(x, _as="shape"))


def _sources(shape: Node) -> Iterator[tuple[Edge, list[Any]]]:
    """The inputs of the model that have no default value, and their dimensions; none if the Shape
    reads an input itself, or is in a function.
    """
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


def _axes_in_input(shape: Node, dimensions: Edge | None) -> tuple[Edge, list[int]] | None:
    """The first model input that has all `dimensions`, and their axes in that input."""
    wanted = elements(dimensions) or []
    for source, dims in _sources(shape) if wanted else ():
        if all(dim in dims for dim in wanted):
            return source, [dims.index(dim) for dim in wanted]
    return None


def _can_gather(m: Match) -> bool:
    """Whether model inputs have all dimensions that Gathers and Slices take from the Shape."""
    dims: Edge = m.shape.outputs[0]
    readers = [
        reader
        for reader in dims.outputs
        if reader.is_op("Gather", "Slice") and reader.inputs[0] is dims
    ]
    is_all = len(readers) == dims.use_count and not dims.is_output
    return is_all and all(
        _axes_in_input(m.shape, reader.outputs[0]) is not None for reader in readers
    )


def _input_range(m: Match) -> tuple[Edge, dict[str, int]] | None:
    """The first model input that has all dimensions of the Shape in a row, and the attributes start
    and end that select them.
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
    """Whether a model input has all dimensions of the Shape in a row."""
    return _input_range(m) is not None


def _shape(m: Match, new: Tape) -> Result:
    source_and_bounds = _input_range(m)
    assert source_and_bounds is not None
    source, bounds = source_and_bounds
    return new.Shape(source, **bounds)


class ShapeOfInputPass(Pass):
    """Dimensions that an input of the model also has are read from that input.

    before   Shape(x), Gather(Shape(x), i), Slice(Shape(x), …), if an input of the model has the
             same dimensions
    after    Shape(input), Gather(Shape(input), j). Equal shapes then become one, and subgraphs that
             differed only in their shapes, such as the heads of an attention, can be fused
    refuses  only what every pass refuses
    never    off by default, because a size that is computed for an empty tensor may be 0, and a
             Reshape to size 0 copies a dimension of its own input, which may be another one. Even
             if it is on: a Shape from which dimensions are taken that the input does not have;
             nodes in functions, which cannot read the inputs of the model; inputs with a default
             value
    algebra  dimensions with the same symbol have the same size
    source   exporters write a Shape for each tensor; onnxruntime's attention fusions look through
             such Shapes
    """

    numerics = "approximate"
    default = "off"
    patterns = (
        Pattern("Shape", op.Shape(x, _as="shape"), _shape, where=_can_take),
        Pattern("ShapeGather", op.Gather(_SHAPE, const("index")), where=_can_gather),
        Pattern("ShapeSlice", op.Slice(_SHAPE, rest("bounds")), where=_can_gather),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        source_and_axes = _axes_in_input(m.shape, m.outputs[0])
        assert source_and_axes is not None
        source, axes = source_and_axes
        index = np.array(axes, np.int64)
        return new.Gather(new.Shape(source), new.const(index if m.outputs[0].rank else index[0]))
