"""What the passes about MatMul and Gemm with constant weights have in common.

A linear map is MatMul(x, W), MatMul(x, W) + B or Gemm(x, W, B?): x·W + B with one column of W for each output.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fusionc.model.graph import Edge
from fusionc.passes.weights import array_of, scaled
from fusionc.rewrite import Match, Tape, const, either, maybe, op, refuse, var
from fusionc.rewrite.pattern import Formula

Array = np.ndarray[Any, Any]


def linear_of(x: Formula) -> Formula:
    """The three forms of a linear map of `x`, captured as `linear` (the MatMul or Gemm), `W` and `B`."""
    product = op.MatMul(x, const("W"), _as="linear")
    return either(product + const("B"), op.Gemm(x, const("W"), maybe(const("B")), _as="linear"), product)


LINEAR = linear_of(var("x"))


def columns(m: Match) -> int:
    """How many columns the weights have. Refuses weights that are vectors."""
    shape = m.W.constant().shape
    if len(shape) < 2:
        refuse("the weights are a vector")
    return int(shape[-2] if m.linear.attr("transB") else shape[-1])


def scale_columns(m: Match, new: Tape, factor: Array, addend: Array | None = None) -> Edge:
    """The linear map with column n multiplied by factor[n], and addend[n] added. float64 in, rounded once.

    Refuses a bias that would become larger by that, and weights that cannot take the factor.
    """
    count, bias = columns(m), m.captures.get("B")
    is_gemm = m.linear.op == "Gemm"
    along = factor.reshape(-1, 1) if m.linear.attr("transB") else factor
    weight = scaled(new, m.W, along)
    made = None
    if bias is not None or addend is not None:
        array = np.zeros(1) if bias is None else bias.constant().astype(np.float64)
        sum_ = array * factor + (0 if addend is None else addend / _beta(m))
        if sum_.size > max(array.size, count):
            refuse("the bias would become larger")
        made = new.const(sum_, dtype=m.W.dtype, like=bias)
    if is_gemm:
        result: Edge = new.Gemm(m.x, weight, made, like=m.linear)
        return result
    product: Edge = new.MatMul(m.x, weight)
    return product if made is None else new.Add(product, made)


def _beta(m: Match) -> float:
    beta = float(m.linear.attr("beta")) if m.linear.op == "Gemm" else 1.0
    if beta == 0:
        refuse("Gemm without its bias")
    return beta


def per_column(value: Edge, count: int, rank: int | None) -> Array:
    """A constant as one number for each of `count` columns of a tensor of that rank, in float64.

    Refuses where it varies along another axis, or would raise the rank.
    """
    array = array_of(value).astype(np.float64)
    if array.ndim > (1 if rank is None else rank):
        refuse("the constant may enlarge what it is combined with")
    if any(size != 1 for size in array.shape[:-1]) or array.size not in (1, count):
        refuse("the constant is not one number for each column")
    return np.broadcast_to(array.reshape(-1), (count,))
