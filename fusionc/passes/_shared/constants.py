"""Constants: their elements, whether other nodes need them, and factors that move into them."""

from __future__ import annotations

import math

import numpy as np
from onnx import TensorProto

from fusionc.model.graph import Constant, Edge, Shape
from fusionc.model.tensors import Array, byte_size, float_info, numpy_type, to_array
from fusionc.rewrite import Match, Tape, refuse

_WIDEST = 40  # powers of two
COPIED = 1024  # elements; a constant up to this size may be stored once more
LARGE = 1 << 20  # bytes; smaller weights may be shared because equal ones have become one
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
    """The elements of a constant, to look at their bits. Those in a file are mapped, not read into
    memory.

    Do not compute with them: they may begin at an odd address, from which numpy sums in another
    order.
    """
    data = constant.data if isinstance(constant, Constant) else None
    if not isinstance(data, TensorProto) or data.data_location != TensorProto.EXTERNAL:
        return array_of(constant)
    dtype = numpy_type(data.data_type)
    if dtype is None or byte_size(data) != dtype.itemsize * math.prod(data.dims):
        return array_of(constant)
    place = TensorProto(
        data_type=TensorProto.UINT8, dims=[byte_size(data)], data_location=TensorProto.EXTERNAL
    )
    place.external_data.extend(data.external_data)
    return (
        np.asarray(to_array(place, constant.graph.model.folder))
        .view(dtype)
        .reshape(tuple(data.dims))
    )


def shape_of(value: Edge | None) -> Shape | None:
    """The shape of a value; of a constant also in a function body, whose types are unknown."""
    if value is None:
        return None
    shape = value.shape
    array = value.constant() if value.is_constant and value.shape is None else None
    return shape if array is None else array.shape


def would_double(constant: Edge, size: int) -> bool:
    """Whether a constant of that many elements, made from this one, would be stored in addition to
    it: other nodes need the original.
    """
    return size > COPIED and constant.use_count > 1


def require_own(m: Match, *weights: Edge | None) -> None:
    """Refuse to replace large weights that stay because other nodes use them."""
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
    """Weights times a factor that broadcasts into them. Refuses a factor that the weights cannot
    take.

    Weights that are computed from constants (`known`) are multiplied by a new Mul, so that the
    model stays small.
    """
    if not np.isfinite(factor).all():  # Σ w·∞·x is NaN where (Σ w·x)·∞ is infinite
        refuse("the factor is not finite")
    largest = np.abs(factor).max(initial=0)  # the small ones are those of dead channels
    if largest and abs(np.log2(largest)) > _WIDEST:
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
    if _is_coarse(product.values, exact):
        refuse("the scaled weights are too small for their type")
    return product if array is not None else new.Mul(weight, product)


def require_range(weights: Array) -> None:
    """Refuses weights that are so large that a sum of products may overflow before they change, but
    not after.
    """
    sizes = np.abs(weights)
    if sizes.max(where=_where(np.isfinite(sizes)), initial=0) > 2.0**_WIDEST:
        refuse(
            "the weights are so large that intermediate results may leave the range of their type"
        )


def _is_coarse(rounded: Array, exact: Array) -> bool:
    """Whether rounding cost more than the type's precision, as it does below its smallest normal
    number.

    Only an error that is large compared with the largest element counts.
    """
    where = _where(np.isfinite(exact))
    error = rounded.astype(np.float64)
    error -= exact
    worst = np.abs(error, out=error).max(where=where, initial=0)
    largest = np.abs(exact, out=error).max(where=where, initial=0)
    return bool(worst > float(float_info(rounded.dtype).eps) * largest)


def _where(mask: Array) -> Array | bool:
    """The mask, or True if it is true everywhere, with which numpy takes a fifth of the time."""
    return True if mask.all() else mask
