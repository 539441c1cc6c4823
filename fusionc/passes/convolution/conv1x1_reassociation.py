import math

import numpy as np

from fusionc.passes._shared.constants import array_of, require_own
from fusionc.passes.convolution._channels import bias_or_zero, shift_inputs
from fusionc.passes.convolution._windows import window_of
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, const, maybe, op, refuse, var


def _is_pointwise(m: Match, name: str) -> bool:
    """Whether the Conv that the match calls `name` has a kernel of size 1, without pads and
    strides.
    """
    node = getattr(m, name)
    weight = getattr(m, "V" if name == "inner" else "W").constant()
    return set(weight.shape[2:]) <= {1} and window_of(node, weight.ndim - 2).is_plain


def _is_outer_pointwise(m: Match) -> bool:
    """Whether the second Conv has a kernel of size 1, without pads and strides."""
    return _is_pointwise(m, "outer")


def _is_inner_pointwise(m: Match) -> bool:
    """Whether the first Conv has a kernel of size 1, without pads and strides."""
    return _is_pointwise(m, "inner")


def _require_smaller_product(m: Match, product: tuple[int, ...]) -> None:
    first = m.V.constant()
    second = m.W.constant()
    if m.inner.attr("group") != 1 or m.outer.attr("group") != 1:
        refuse("one of the convolutions has groups")
    if first.shape[0] != second.shape[1]:
        refuse("the channels of the two convolutions do not match")
    if math.prod(product) >= first.size + second.size:
        refuse("the product of the weights has as many elements as both weights, or more")
    require_own(m, m.V, m.W)


def _join_outer_pointwise(m: Match, new: Tape) -> Result:
    first = m.V.constant().astype(np.float64)
    second = m.W.constant().astype(np.float64)
    _require_smaller_product(m, (second.shape[0], *first.shape[1:]))
    mix = second.reshape(second.shape[:2])
    bias = None
    if m.A is not None or m.B is not None:
        exact = mix @ bias_or_zero(m.A, first.shape[0]) + bias_or_zero(m.B, second.shape[0])
        bias = new.const(exact, dtype=array_of(m.W).dtype, like=m.B or m.A)
    weight = new.const(np.tensordot(mix, first, 1), dtype=array_of(m.V).dtype, like=m.V)
    return new.Conv(m.x, weight, bias, like=m.inner)


def _join_inner_pointwise(m: Match, new: Tape) -> Result:
    first = m.V.constant().astype(np.float64)
    second = m.W.constant().astype(np.float64)
    _require_smaller_product(m, (second.shape[0], first.shape[1], *second.shape[2:]))
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
    """Two Convs in a row, one of them with a kernel of size 1, become one Conv with smaller
    weights.

    before   Conv(Conv(x, V, A?), W, B?), where W or V has a kernel of size 1, without pads and
             strides
    after    Conv(x, W·V, W·A + B)
    refuses  Convs with groups; a W·V with at least as many elements as V and W together (models
             write bottlenecks as two Convs on purpose); a bias A if the second Conv has padding;
             large weights that are used elsewhere
    algebra  (W·V)∗x = W∗(V∗x) if W or V mixes only the channels of one pixel
    source   the distributive law. Off by default, because the rounding error grows with the number
             of channels between the two Convs
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
            ("ConvConv1x1", _join_outer_pointwise, _is_outer_pointwise),
            ("Conv1x1Conv", _join_inner_pointwise, _is_inner_pointwise),
        )
    )
