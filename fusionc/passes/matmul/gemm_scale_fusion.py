from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fusionc.model.graph import Edge, Node
from fusionc.model.tensors import Array
from fusionc.operators.facts import Trait, names_with
from fusionc.passes._shared.batchnorm import affine, batchnorm_of
from fusionc.passes._shared.constants import array_of, dims_of, scaled
from fusionc.passes._shared.target import FLOATS, require_floats
from fusionc.passes._shared.written_gelu import keep_gelu
from fusionc.passes._shared.written_norms import keep_scale
from fusionc.rewrite import (
    Match,
    Pass,
    Pattern,
    Result,
    Tape,
    const,
    either,
    maybe,
    op,
    refuse,
    rest,
    var,
)
from fusionc.rewrite.pattern import Formula
from fusionc.shapes.equality import broadcasts_into


def _linear_of(x: Formula) -> Formula:
    """A linear map of x: Gemm, MatMul, or MatMul and Add. Captures `linear` (the MatMul or Gemm),
    `W` and `B`.
    """
    product = op.MatMul(x, const("W"), _as="linear")
    return either(
        product + const("B"), op.Gemm(x, const("W"), maybe(const("B")), _as="linear"), product
    )


LINEAR = _linear_of(var("x"))


def _columns(m: Match) -> int:
    """The number of columns of the weights. Refuses weights that are vectors."""
    shape = dims_of(m.W)
    if len(shape) < 2:
        refuse("the weights are a vector")
    return int(shape[-2] if m.linear.attr("transB") else shape[-1])


def _scale_columns(m: Match, new: Tape, factor: Array, addend: Array | None = None) -> Edge:
    """The linear map, in which column n is multiplied by factor[n], and addend[n] is then added.
    Both arrays are float64; the new weights and bias are rounded once.

    Refuses a bias that would become larger, and factors that would make the weights inexact.
    """
    count = _columns(m)
    bias = m.B
    is_gemm = m.linear.op == "Gemm"
    column_factor = factor.reshape(-1, 1) if m.linear.attr("transB") else factor
    weight = scaled(new, m.W, column_factor)
    new_bias = None
    if bias is not None or addend is not None:
        array = np.zeros(1) if bias is None else bias.constant().astype(np.float64)
        new_array = array * factor + (0 if addend is None else addend / _beta(m))
        if new_array.size > max(array.size, count):
            refuse("the bias would become larger")
        new_bias = new.const(new_array, dtype=m.W.dtype, like=bias)
    if is_gemm:
        return new.Gemm(m.x, weight, new_bias, like=m.linear)
    product = new.MatMul(m.x, weight)
    return product if new_bias is None else new.Add(product, new_bias)


def _beta(m: Match) -> float:
    beta = float(m.linear.attr("beta")) if m.linear.op == "Gemm" else 1.0
    if beta == 0:
        refuse("the Gemm ignores its bias")
    return beta


def _factor_before_transposes(array: Array, moves: Sequence[Node], rank: int) -> Array:
    """A factor before the Transposes that has the same effect as `array` after them.

    `rank` is the rank of the transposed value, and at least that of `array`.
    """
    for move in reversed(moves):
        order = move.attr("perm") or list(reversed(range(rank)))
        array = array.reshape((1,) * (rank - array.ndim) + array.shape).transpose(np.argsort(order))
    return array


def _column_numbers(array: Array, count: int, rank: int | None) -> Array:
    """A constant as one float64 number for each of `count` columns of a tensor of this rank.

    Refuses a constant that varies along another axis, or that would raise the rank of the tensor.
    """
    array = array.astype(np.float64)
    if array.ndim > (1 if rank is None else rank):
        refuse("the constant may enlarge the value that it is combined with")
    if any(size != 1 for size in array.shape[:-1]) or array.size not in (1, count):
        refuse("the constant has neither one number nor one number for each column")
    return np.broadcast_to(array.reshape(-1), (count,))


x = var("x")
c = const("c")
# the least scale of query and key in attention, for heads of 2²⁴ elements
_SMALLEST_SCALE = 2**-6


def _moved(formula: Formula, name: str) -> Formula:
    """The formula, or the formula followed by an operator that only moves elements."""
    moving = op["Transpose", *sorted(names_with(Trait.RESHAPES))]
    return either(moving(formula, rest(f"{name}_options"), _as=name), formula)


_MOVED = _moved(_moved(LINEAR, "inner"), "outer")


def _scale(m: Match, new: Tape) -> Result:
    require_floats(m.x)
    moves = [getattr(m, name) for name in ("inner", "outer") if getattr(m, name) is not None]
    factor = _factor(m, moves)
    result = _scale_columns(m, new, 1 / factor if m.root.op == "Div" else factor)
    for move in moves:
        result = new.node(move.op, [result, *move.inputs[1:]], like=move)
    return result


def _factor(m: Match, moves: list[Node]) -> Array:
    """The constant as one number for each column of the product. The operators `moves` between the
    product and the constant may move the columns.
    """
    count = _columns(m)
    value = next(v for v in m.root.inputs if v is not None and not v.is_constant)
    constant = array_of(m.c)
    rank = value.rank
    if not moves:
        return _column_numbers(constant, count, rank)
    are_transposes = all(move.op == "Transpose" for move in moves)
    if are_transposes and rank is not None and constant.ndim <= rank:
        return _column_numbers(_factor_before_transposes(constant, moves, rank), count, rank)
    if constant.size == 1 and broadcasts_into(constant.shape, value.shape):
        return np.full(count, constant.item(), np.float64)
    refuse("the constant after a Reshape is not a single number")


def _batchnorm(m: Match, new: Tape) -> Result:
    m.bn.inputs[0].require_rank(2)  # BatchNormalization scales axis 1, which must be the last one
    return _scale_columns(m, new, *affine(m, _columns(m)))


def _scale_before(m: Match, new: Tape) -> Result:
    keep_gelu(m.x)
    keep_scale(m.x, m.c)
    require_floats(m.x)
    shape = dims_of(m.W)
    array = array_of(m.c)
    if len(shape) < 2:
        refuse("the weights are a vector")
    is_column = bool(m.linear.attr("transB"))
    depth = shape[-1] if is_column else shape[-2]
    if array.size > 1 and (m.linear.attr("transA") or not m.x.shape or m.x.shape[-1] != depth):
        refuse("the constant has neither one number nor one number for each row of the weights")
    factor = _column_numbers(array, depth, m.x.rank)
    weight = scaled(new, m.W, factor if is_column else factor.reshape(-1, 1))
    return new.node(m.linear.op, [m.x, weight, *m.linear.inputs[2:]], like=m.linear)


def _scale_both(m: Match, new: Tape) -> Result:
    first = m.c.constant().astype(np.float64)
    second = m.d.constant().astype(np.float64)
    if first.size != 1 or second.size != 1 or m.a.elem_type not in FLOATS:
        refuse("the scales are not two single numbers")
    if not all(_SMALLEST_SCALE <= abs(scale.item()) <= 1 for scale in (first, second)):
        refuse(
            "a scale above 1 or below 1/64 may keep intermediate results in the range of their type"
        )
    if not (broadcasts_into(first.shape, m.a.shape) and broadcasts_into(second.shape, m.b.shape)):
        refuse("the constant may enlarge the value that it is combined with")
    return new.MatMul(new.Mul(m.a, new.const((first * second).reshape(first.shape), like=m.c)), m.b)


class GemmScaleFusionPass(Pass):
    """Constant factors before or after a product with constant weights are folded into the weights.

    before   (x·W + B)·c or /c, with MatMul or Gemm, directly or after Reshape and Transpose;
             (x·c)·W; BatchNormalization(x·W + B); (a·c)·(b·d) with two single numbers
    after    x·(W·c) + B·c; x·(c·W); (a·cd)·b
    refuses  a constant after the product that has neither one number nor one number for each
             column; a constant before the product that has neither one number nor one number for
             each row of W; a constant after a Reshape that is not a single number; two single
             numbers if one of them is above 1 or below 1/64; weights that are not constant, or that
             a narrow type cannot hold; integers; a constant that would enlarge the result; a
             BatchNormalization of rank other than 2; the factor ½ of Gelu, and the scale of a
             normalization that is written out, because runtimes recognize them
    algebra  ((x·W + B)·c)ₙ = x·(W·c)ₙ + Bₙ·cₙ; single numbers commute with the product, and with
             operators that move its elements
    source   CANN's GemmScaleFusionPass and FullyConnectionPowerPass; torch exports
             scaled_dot_product_attention with a scale on both operands
    """

    numerics = "rounding"
    aliases = ("FullyConnectionPowerPass",)
    patterns = (
        Pattern("LinearMul", op.Mul(_MOVED, c, _as="root"), _scale),
        Pattern("LinearDiv", op.Div(_MOVED, c, _as="root"), _scale),
        Pattern("LinearBatchnorm", batchnorm_of(LINEAR), _batchnorm),
        Pattern(
            "MulLinear",
            op["MatMul", "Gemm"](x * c, const("W"), rest("bias"), _as="linear"),
            _scale_before,
        ),
        Pattern("MulMatMulMul", op.MatMul(var("a") * c, var("b") * const("d")), _scale_both),
    )
