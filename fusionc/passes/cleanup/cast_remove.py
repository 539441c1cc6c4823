import math

import numpy as np
from onnx import TensorProto

from fusionc.model.tensors import numpy_type, to_array, to_proto
from fusionc.passes._shared.cast_types import casts_nothing, holds
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, op, refuse, var

x = var("x")


def _cast_cast(m: Match, new: Tape) -> Result:
    before = m.x.elem_type
    between = m.inner.attr("to")
    after = m.outer.attr("to")
    if not before:
        refuse("the element type is unknown")
    if not holds(between, before):
        refuse("the inner Cast may change a number")
    if after == TensorProto.STRING and between != before:
        refuse("the number may be spelled differently in the other type")
    return m.x if before == after else new.Cast(m.x, like=m.outer)


def _constant_of_shape(m: Match, new: Tape) -> Result:
    """The ConstantOfShape, with its value converted to the type of the Cast."""
    written = m.fill.attr("value")
    to = m.cast.attr("to")
    value = np.zeros(1, np.float32) if written is None else to_array(written, "")
    number = value.item()
    dtype = numpy_type(to)
    if dtype is None or not {value.dtype.kind, dtype.kind} <= set("fiub"):
        refuse("the value is not a number of a common type")
    if dtype.kind in "iu":
        is_held = (
            math.isfinite(number)
            and np.iinfo(dtype).min <= math.trunc(number) <= np.iinfo(dtype).max
        )
    else:  # some runtimes round float64 to float32 before they round it to float16
        is_held = (
            to != TensorProto.FLOAT16
            or value.astype(np.float32).item() == number
            or math.isnan(number)
        )
    if not is_held:
        refuse("the other type cannot hold the value")
    return new.ConstantOfShape(m.x, value=to_proto(value.astype(dtype), "value"))


class CastRemovePass(Pass):
    """A Cast that changes nothing is removed; a Cast of ConstantOfShape is folded into its value.

    before   Cast(x) to the type of x; Cast(Cast(x)), if the inner type holds every number of the
             type of x; Cast(ConstantOfShape(s))
    after    x; the outer Cast of x; ConstantOfShape(s) with its value in the other type
    refuses  an unknown type; an inner Cast to a type of smaller range or precision; a Cast
             to text after a Cast to another type; a value of ConstantOfShape that is NaN, infinite
             or too large for an integer type, that is cast to float16 and has more digits than
             float32, or whose type numpy lacks
    algebra  a number does not change in a type that can represent it
    source   CANN's CastRemovePass
    """

    aliases = ("CastRemoveFusionPass",)
    patterns = (
        Pattern("CastToSame", op.Cast(x, _as="cast"), where=casts_nothing),
        Pattern("CastCast", op.Cast(op.Cast(x, _as="inner"), _as="outer"), _cast_cast),
        Pattern(
            "CastConstantOfShape",
            op.Cast(op.ConstantOfShape(x, _as="fill"), _as="cast"),
            _constant_of_shape,
        ),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        return m.x
