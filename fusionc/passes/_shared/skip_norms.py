"""A residual sum x + skip and its normalization: onnxruntime can compute both in one operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from onnx import TensorProto

from fusionc.model.graph import Edge, Shape
from fusionc.model.operators import MICROSOFT
from fusionc.passes._shared.constants import shape_of
from fusionc.passes._shared.meeting_shapes import all_meet
from fusionc.passes._shared.reduce_axes import trailing_axis
from fusionc.passes._shared.written_norms import epsilon_of, root_mean_square
from fusionc.rewrite import (
    Match,
    Pattern,
    Result,
    Tape,
    either,
    maybe,
    op,
    refuse,
    require_known,
    var,
)
from fusionc.rewrite.pattern import Formula, OpFormula
from fusionc.shapes.equality import same_shape

_TYPES = ({TensorProto.FLOAT}, {TensorProto.FLOAT16})
gamma = var("gamma")
SUM = op.Add(var("x"), var("skip"), _as="sum")


def rms_norm(value: Formula) -> Formula:
    """Root mean square normalization of a value: the operator RMSNormalization (since opset 23), or
    its formula written out.
    """
    return either(op.RMSNormalization(value, gamma, _as="norm"), root_mean_square(value) * gamma)


def layer_norm(value: Formula) -> OpFormula:
    """Layer normalization of a value. Captures the scale as gamma and the offset as beta."""
    return op.LayerNormalization(value, gamma, maybe(var("beta")), _as="norm")


def patterns_of(
    name: str,
    formula: Formula,
    sum_: OpFormula = SUM,
    *where: Callable[[Match], bool],
) -> tuple[Pattern, Pattern]:
    """Two patterns of a normalized sum. The first pattern matches a sum that other nodes use, too,
    so it has two results: the normalized sum and the sum. The second pattern matches a sum that
    only the normalization uses.
    """
    return (
        Pattern(f"{name}AndSum", (formula, sum_), where=(_is_shared, *where)),
        Pattern(name, formula, where=(_is_private, *where)),
    )


def _is_private(m: Match) -> bool:
    """Whether only the match uses the sum."""
    return not _is_shared(m)


def _is_shared(m: Match) -> bool:
    """Whether nodes outside the match use the sum, too."""
    value = m.sum.outputs[0]
    inside = set(m.nodes)
    return value.is_output or any(user not in inside for user in value.outputs)


def epsilon_of_last(m: Match) -> float:
    """The epsilon of the captured normalization. Refuses a negative epsilon, and a normalization
    that covers several axes or does not compute in float32.
    """
    value: Edge = m.sum.outputs[0]
    rank = value.require_rank()
    norm = m.norm
    if norm is None:
        axis = trailing_axis(m.mean, value)
        epsilon = epsilon_of(m)
        is_wide = m.mean.outputs[0].elem_type == TensorProto.FLOAT
    else:
        axis = norm.attr("axis") % max(rank, 1)
        epsilon = norm.attr("epsilon")
        is_wide = norm.attr("stash_type") == TensorProto.FLOAT
    if not is_wide:
        refuse("the normalization does not compute in float32")
    if axis != rank - 1:
        refuse("the normalization covers more than the last axis")
    if not epsilon >= 0:
        refuse("epsilon is negative")
    return float(epsilon)


def joined(
    m: Match, new: Tape, operator: str, vectors: Sequence[Edge | None], epsilon: float
) -> Result:
    """The sum and its normalization as one operator. If other nodes use the sum, it becomes the
    fourth output of the operator. Refuses shapes and types that the operator does not accept.

    `vectors` are the inputs that follow the addends, such as scale and bias: vectors along the
    last axis. An omitted input is None.
    """
    whole, other = _ordered_addends(m)
    present = [value for value in vectors if value is not None]
    if {value.elem_type for value in (whole, other, *present)} not in _TYPES:
        refuse("the elements are not all float32 or all float16")
    last = whole.require_size(-1, "the length of the last axis")
    if last < 1:  # the kernel divides by it
        refuse("the last axis is empty")
    if not all(same_shape(shape_of(value), (last,)) for value in present):
        refuse(
            "the scale or an addend does not have exactly one number for each element of the last "
            "axis"
        )
    inputs = [whole, other, *vectors]
    if len(m.outputs) == 1:
        return new.node(operator, inputs, domain=MICROSOFT, epsilon=epsilon)
    wanted = (True, False, False, True)
    first, _, _, total = new.node(
        operator, inputs, domain=MICROSOFT, outputs=wanted, epsilon=epsilon
    )
    return [first, total]


def _ordered_addends(m: Match) -> tuple[Edge, Edge]:
    """The two addends: first the one that has the shape of the sum, then the other one, which may
    be smaller. Refuses addends that the kernel does not accept.
    """
    total: Shape | None = m.sum.outputs[0].shape
    for whole, other in ((m.x, m.skip), (m.skip, m.x)):
        shape = require_known(shape_of(whole), "the rank")
        small = require_known(shape_of(other), "the rank")
        if len(shape) not in (2, 3) and len(shape) >= len(small):
            refuse("the rank is not 2 or 3")
        is_total = small == shape or total is None or all_meet(shape, total)
        if is_total and _accepts_addend(small, shape):
            return whole, other
    refuse("the shapes are not known to be equal")


def _accepts_addend(small: Shape, shape: Shape) -> bool:
    """Whether the kernel accepts an addend of shape `small` for a sum of this shape. The addend
    must have the shape of the sum or of one batch of it, which the kernel repeats for each batch.
    """
    is_row = len(shape) == 3 and (small == shape[1:] or all_meet(small, (1, *shape[1:])))
    return is_row or all_meet(small, shape)
