import math

import numpy as np

from fusionc.passes._shared.constants import array_of, require_own
from fusionc.passes.convolution._channels import bias_or_zero, shift_inputs
from fusionc.passes.convolution._windows import window_of
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, const, maybe, op, refuse, var


def _is_pointwise(m: Match, which: str) -> bool:
    """Whether the inner, or outer, Conv reads one place for each place of its result."""
    node = getattr(m, which)
    weight = getattr(m, "V" if which == "inner" else "W").constant()
    return set(weight.shape[2:]) <= {1} and window_of(node, weight.ndim - 2).is_plain


def _outer_mixes_channels_only(m: Match) -> bool:
    """Whether the second Conv reads one place for each place of its result."""
    return _is_pointwise(m, "outer")


def _inner_mixes_channels_only(m: Match) -> bool:
    """Whether the first Conv reads one place for each place of its result."""
    return _is_pointwise(m, "inner")


def _check(m: Match, product: tuple[int, ...]) -> None:
    first = m.V.constant()
    second = m.W.constant()
    if m.inner.attr("group") != 1 or m.outer.attr("group") != 1:
        refuse("one of the convolutions has groups")
    if first.shape[0] != second.shape[1]:
        refuse("the channels do not match")
    if math.prod(product) >= first.size + second.size:
        refuse("the product of the weights has as many elements as both weights, or more")
    require_own(m, m.V, m.W)


def _outer_is_pointwise(m: Match, new: Tape) -> Result:
    first = m.V.constant().astype(np.float64)
    second = m.W.constant().astype(np.float64)
    _check(m, (second.shape[0], *first.shape[1:]))
    mix = second.reshape(second.shape[:2])
    bias = None
    if m.A is not None or m.B is not None:
        exact = mix @ bias_or_zero(m.A, first.shape[0]) + bias_or_zero(m.B, second.shape[0])
        bias = new.const(exact, dtype=array_of(m.W).dtype, like=m.B or m.A)
    weight = new.const(np.tensordot(mix, first, 1), dtype=array_of(m.V).dtype, like=m.V)
    return new.Conv(m.x, weight, bias, like=m.inner)


def _inner_is_pointwise(m: Match, new: Tape) -> Result:
    first = m.V.constant().astype(np.float64)
    second = m.W.constant().astype(np.float64)
    _check(m, (second.shape[0], first.shape[1], *second.shape[2:]))
    mix = first.reshape(first.shape[:2])
    bias = None
    if m.A is not None or m.B is not None:
        shift = shift_inputs(m.outer, m.W, bias_or_zero(m.A, first.shape[0]))
        bias = new.const(
            bias_or_zero(m.B, second.shape[0]) + shift, dtype=array_of(m.W).dtype, like=m.B or m.A
        )
    exact = np.moveaxis(np.tensordot(second, mix, ([1], [0])), -1, 1)
    weight = new.const(exact, dtype=array_of(m.W).dtype, like=m.W)
    return new.Conv(m.x, weight, bias, like=m.outer)


class Conv1x1ReassociationPass(Pass):
    """Two consecutive convolutions, one of them pointwise, become one if that is less work.

    before   Conv(Conv(x, V, A?), W, B?), where W or V has a kernel of 1 (and no pads, no strides)
    after    Conv(x, W·V, W·A + B)
    refuses  groups; a W·V with as many elements as V and W together, or more: bottlenecks are
             written in two parts on purpose; a bias A before padding; large weights that are used
             elsewhere
    algebra  (W·V)∗x = W∗(V∗x) if one of them only mixes channels at one place
    source   the distributive law; off by default, since rounding differs by as much as one of the
             Convs is wide
    """

    numerics = "rounding"
    default = "off"
    patterns = tuple(
        Pattern(
            name,
            op.Conv(
                op.Conv(var("x"), const("V"), maybe(const("A")), _as="inner"),
                const("W"),
                maybe(const("B")),
                _as="outer",
            ),
            rewrite,
            where=where,
        )
        for name, rewrite, where in (
            ("ConvConv1x1", _outer_is_pointwise, _outer_mixes_channels_only),
            ("Conv1x1Conv", _inner_is_pointwise, _inner_mixes_channels_only),
        )
    )
