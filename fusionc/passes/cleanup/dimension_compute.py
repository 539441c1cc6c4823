import numpy as np

from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, const, keep, op, rest, var
from fusionc.shapes.elements import Element, elements
from fusionc.shapes.expressions import is_static

x = var("x")
_SHAPE = keep(op.Shape(x, _as="shape"))


def _picked(m: Match) -> list[Element] | None:
    """The dimensions in the result of the Shape, Gather or Slice; None if unknown."""
    if m.index is None:
        return elements(m.outputs[0])
    dims = elements(m.shape.outputs[0])
    index = m.index.constant()
    if dims is None or (index >= len(dims)).any() or (index < -len(dims)).any():
        return None
    return [dims[i] for i in index.reshape(-1)]


def _is_known(m: Match) -> bool:
    """Whether the dimensions in the result are known."""
    picked = _picked(m)
    return picked is not None and all(isinstance(d, int) for d in picked)


def _size_is_known(m: Match) -> bool:
    """Whether all dimensions of x are known."""
    return is_static(m.x.shape)


def _size(m: Match, new: Tape) -> Result:
    return new.const(np.array(np.prod(m.x.shape, dtype=np.int64), np.int64))


class DimensionComputePass(Pass):
    """Dimensions that are known before the model runs become constants.

    before   Shape(x), Gather(Shape(x), i), Slice(Shape(x), …), Size(x), if the dimensions in the
             result are known
    after    a constant
    refuses  only what every pass refuses
    never    a dimension that the model declares, but that onnx does not infer although onnx has a
             rule of shape inference for the operator
    algebra  an inferred dimension is the same for every input
    source   CANN's DimensionComputePass and ShapeOperateOpRemovePass
    """

    aliases = ("ShapeOperateOpRemovePass",)
    patterns = (
        Pattern("Shape", op.Shape(x, _as="shape"), where=_is_known),
        Pattern("ShapeGather", op.Gather(_SHAPE, const("index")), where=_is_known),
        Pattern("ShapeSlice", op.Slice(_SHAPE, rest("bounds")), where=_is_known),
        Pattern("Size", op.Size(x), _size, where=_size_is_known),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        picked = np.array(_picked(m), np.int64)
        return new.const(picked.reshape(m.index.shape) if m.index is not None else picked)
