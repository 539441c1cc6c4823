import numpy as np

from fusionc.exactness.signs import is_at_least_zero
from fusionc.model.graph import Edge
from fusionc.passes._shared.clipping import Interval, interval_of, largest_of
from fusionc.passes._shared.constant_arithmetic import check_zeros, require_attribute
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, const, either, op, refuse, rest, var
from fusionc.rewrite.pattern import Formula
from fusionc.shapes.equality import broadcasts_into


def _limited(value: Formula, name: str) -> Formula:
    """Relu, Clip, Min or Max of a value, captured under `name`."""
    return either(
        op.Relu(value, _as=name),
        op.Clip(value, rest(f"{name}_limits"), _as=name),
        op["Min", "Max"](value, const(f"{name}_limit"), _as=name),
    )


x = var("x")
_LIMIT = const("limit")
_ABOVE = either(
    op["Greater", "GreaterOrEqual"](x, _LIMIT, _as="is_above"),
    op["Less", "LessOrEqual"](_LIMIT, x, _as="is_above"),
)
_BELOW = either(op["Less", "LessOrEqual"](x, _LIMIT), op["Greater", "GreaterOrEqual"](_LIMIT, x))


def _replaced(m: Match, new: Tape) -> Result:
    """The one limit of a Where that replaces all elements beyond it."""
    number = m.limit.require_number("a limit")
    if number != m.chosen.require_number("the replacement"):
        refuse("the replacement is not the limit")
    if not all(broadcasts_into(constant.shape, m.x.shape) for constant in (m.limit, m.chosen)):
        refuse("the constant may enlarge the result")
    if number != number:
        refuse("a limit is NaN")
    return _limited_to(
        Interval(low=number) if m.is_above is None else Interval(high=number), m, new
    )


def _is_at_least_zero(m: Match) -> bool:
    """Whether no element of x is negative."""
    return is_at_least_zero(m.x)


def _unchanged(m: Match, new: Tape) -> Result:
    check_zeros(m)
    return m.x


class ClipFusionPass(Pass):
    """Consecutive limits become one Clip or Relu.

    before   two of Relu, Clip, and Min or Max with a constant, one after the other; Max(x, 0);
             Where(x > 6, 6, x); Abs of a value that is never negative
    after    Clip(x, low, high), or Relu(x); the value
    refuses  limits that are not single known numbers, or are NaN; a lower limit above the upper
             one; a constant that may enlarge the result by broadcasting; element types that Clip or
             Relu does not support in the model's opset; a limit of 0 if a later division depends on
             the sign of zero; a Clip before opset 6; before opset 11, for doubles, limits that
             float32 cannot hold
    algebra  two limits in a row are equal to one, and NaN stays NaN; if Clip omits a limit, that
             limit is the largest finite number. If the operands are 0 and −0, Max and Min return
             their constant, but Relu and Clip return the other operand
    source   onnxscript's min_max_to_clip and fuse_relus_clips
    """

    numerics = "rounding"
    patterns = (
        Pattern("Limits", _limited(_limited(x, "first"), "second"), is_exact=True),
        Pattern("MaxZero", op.Max(x, const("first_limit", 0.0), _as="first"), is_exact=True),
        Pattern("WhereAbove", op.Where(_ABOVE, const("chosen"), x), _replaced, is_exact=True),
        Pattern("WhereBelow", op.Where(_BELOW, const("chosen"), x), _replaced, is_exact=True),
        Pattern("NeverNegative", op.Abs(x), _unchanged, where=_is_at_least_zero, is_exact=True),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        return _limited_to(_limits(m), m, new)


def _limited_to(limits: Interval, m: Match, new: Tape) -> Edge:
    """m.x within these limits."""
    if 0 in (limits.low, limits.high) and (m.x.dtype is None or m.x.dtype.kind not in "iu"):
        check_zeros(m)
    if limits == Interval(low=0.0):
        return new.Relu(m.x)
    if m.opset < 6:
        refuse("before opset 6, Clip has a different form")
    return _new_clip(m.x, limits, new)


def _limits(m: Match) -> Interval:
    """The interval to which the captured operators (one or two) together limit a value."""
    limits = Interval()
    for name in ("first", "second"):
        node = getattr(m, name)
        limit = getattr(m, f"{name}_limit")
        if limit is not None and not broadcasts_into(limit.shape, m.x.shape):
            refuse("the constant may enlarge the result")
        if node is not None:
            limits = limits.then(interval_of(node, limit))
    return limits


def _new_clip(x: Edge, limits: Interval, new: Tape) -> Edge:
    """A new Clip. The limits are attributes or inputs, depending on the graph's opset."""
    largest = largest_of(x)
    low = None if limits.low == -largest else limits.low
    high = None if limits.high == largest else limits.high
    if new.graph.opset >= 11:
        bounds = (None if b is None else new.const(np.array(b, x.dtype)) for b in (low, high))
        return new.Clip(x, *bounds)
    for number in (low, high):
        require_attribute(number, x)
    return new.Clip(x, min=low, max=high)
