"""The formula of a ConvInteger whose sums are cast and scaled: onnxruntime's quantize_dynamic
writes convolutions in this form.

The data q have the scale s and the zero point z. The weights W have the scale t and the zero
point w.
"""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from fusionc.model.graph import Edge
from fusionc.passes._shared.constants import array_of, dims_of
from fusionc.rewrite import Tape, const, either, maybe, op, refuse, var

q = var("q")
W = const("W")
t = const("t")
w = maybe(const("w"))
bias = const("bias")
SUM = op.Cast(op.ConvInteger(q, W, maybe(var("z")), w, _as="conv"), to=TensorProto.FLOAT)
SCALED = either(SUM * (var("s") * t), (SUM * var("s")) * t, (SUM * t) * var("s"))


def one_for_each_channel(value: Edge, weights: Edge, new: Tape) -> Edge:
    """A constant that broadcasts into the result of a convolution, as a scalar or as a vector with
    one number for each channel. Refuses constants of other shapes.
    """
    array = array_of(value)
    rank = len(dims_of(weights))
    channels = dims_of(weights)[0]
    if array.size == 1 and array.ndim <= rank:
        return value if array.ndim == 0 else new.const(array.reshape(()), like=value)
    if (1,) * (rank - array.ndim) + array.shape != (1, channels, *(1,) * (rank - 2)):
        refuse("a constant has neither one number nor one number for each channel")
    return new.const(array.reshape(channels), like=value)


def bias_of_channels(value: Edge | None, weights: Edge, new: Tape) -> Edge | None:
    """An addend as a vector with one number for each channel; None if it is omitted."""
    if value is None:
        return None
    addend = one_for_each_channel(value, weights, new)
    if dims_of(addend):
        return addend
    return new.const(np.full(dims_of(weights)[0], array_of(addend)), like=value)
