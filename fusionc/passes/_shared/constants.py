"""Constants: their elements and shapes, whether other nodes use them, and how to scale them."""

from __future__ import annotations

import math

import numpy as np
from onnx import TensorProto

from fusionc.model.graph import Constant, Edge, Shape
from fusionc.model.tensors import Array, byte_size, float_info, numpy_type, to_array
from fusionc.rewrite import Match, Tape, refuse

# with factors above 2^40 or below 2^−40, intermediate results may leave the range of their type
_MAX_EXPONENT = 40
COPIED = 1024  # a second copy of a constant with at most this many elements is acceptable
LARGE = 1 << 20  # a second copy of weights with at most this many bytes is acceptable
SHARED = "large weights are used elsewhere: the model would grow"


def array_of(constant: Edge) -> Array:
    """The elements of a value that is known to be a constant."""
    array = constant.constant()
    assert array is not None
    return array


def dims_of(constant: Edge) -> tuple[int, ...]:
    """The dimensions of a constant, without reading its elements."""
    data = constant.data if isinstance(constant, Constant) else array_of(constant)
    return tuple(data.dims) if isinstance(data, TensorProto) else data.shape


def bits_of(constant: Edge) -> Array:
    """The elements of a constant, for bitwise inspection. Elements in an external file are mapped,
    not read into memory.

    Do not compute with them: a mapped array may be unaligned, and numpy sums unaligned arrays in
    another order.
    """
    data = constant.data if isinstance(constant, Constant) else None
    if not isinstance(data, TensorProto) or data.data_location != TensorProto.EXTERNAL:
        return array_of(constant)
    dtype = numpy_type(data.data_type)
    if dtype is None or byte_size(data) != dtype.itemsize * math.prod(data.dims):
        return array_of(constant)
    raw_bytes = TensorProto(
        data_type=TensorProto.UINT8, dims=[byte_size(data)], data_location=TensorProto.EXTERNAL
    )
    raw_bytes.external_data.extend(data.external_data)
    return (
        np.asarray(to_array(raw_bytes, constant.graph.model.folder))
        .view(dtype)
        .reshape(tuple(data.dims))
    )


def shape_of(value: Edge | None) -> Shape | None:
    """The shape of a value; None if it is unknown. If the declared shape of a constant is unknown,
    as in a function body, the elements determine it.
    """
    if value is None:
        return None
    shape = value.shape
    array = value.constant() if value.is_constant and value.shape is None else None
    return shape if array is None else array.shape


def would_double(constant: Edge, size: int) -> bool:
    """Whether replacing a constant by a new one of `size` elements would store both, because other
    nodes use the original.
    """
    return size > COPIED and constant.use_count > 1


def require_own(m: Match, *weights: Edge | None) -> None:
    """Refuse to replace large weights that stay in the model because other nodes use them."""
    nodes = set(m.nodes)
    for weight in weights:
        if weight is None or array_of(weight).nbytes <= LARGE:
            continue
        if (
            weight.is_output
            or weight.use_count > len(nodes)
            or any(user not in nodes for user in weight.outputs)
        ):
            refuse(SHARED)


def scaled(new: Tape, weight: Edge, factor: Array) -> Edge:
    """Weights times a factor that broadcasts into them. Refuses if the scaled weights would be
    infinite or inexact, and large weights that other nodes use, too.

    If the weights are not stored but computed from constants when the model runs, a new Mul scales
    them, so that the file stays small.
    """
    if not np.isfinite(factor).all():  # Σ w·∞·x may be NaN although (Σ w·x)·∞ is infinite
        refuse("the factor is not finite")
    # only the largest factor counts: a dead channel may have a very small one
    largest = np.abs(factor).max(initial=0)
    if largest and abs(np.log2(largest)) > _MAX_EXPONENT:
        refuse(
            "the factor is so large or so small that intermediate results may leave the range of "
            "their type"
        )
    array = weight.constant()
    if array is not None and array.nbytes > LARGE and weight.use_count > 1:
        refuse(SHARED)
    if array is not None:
        require_range(array)
    exact = factor
    if array is not None:
        exact = array.astype(np.float64)
        exact *= factor
    product = new.const(exact, dtype=weight.dtype, like=None if array is None else weight)
    if _loses_precision(product.values, exact):
        refuse("the scaled weights are too small for their type")
    return product if array is not None else new.Mul(weight, product)


def require_range(weights: Array) -> None:
    """Refuse weights so large that sums of their products may overflow before the rewrite but not
    after it.
    """
    sizes = np.abs(weights)
    if sizes.max(where=_mask_or_true(np.isfinite(sizes)), initial=0) > 2.0**_MAX_EXPONENT:
        refuse(
            "the weights are so large that intermediate results may leave the range of their type"
        )


def _loses_precision(rounded: Array, exact: Array) -> bool:
    """Whether a rounding error exceeds the precision of the type, as it may for subnormal numbers.

    The errors are compared with the largest element.
    """
    where = _mask_or_true(np.isfinite(exact))
    error = rounded.astype(np.float64)
    error -= exact
    worst = np.abs(error, out=error).max(where=where, initial=0)
    largest = np.abs(exact, out=error).max(where=where, initial=0)
    return bool(worst > float(float_info(rounded.dtype).eps) * largest)


def _mask_or_true(mask: Array) -> Array | bool:
    """The mask, or True if all its elements are true: with True, numpy is five times as fast."""
    return True if mask.all() else mask
