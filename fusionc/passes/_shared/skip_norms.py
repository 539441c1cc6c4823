"""A sum and its normalization: onnxruntime has one operator for both."""

from __future__ import annotations

from collections.abc import Sequence

from onnx import TensorProto

from fusionc.model.graph import Edge, Shape
from fusionc.model.operators import MICROSOFT
from fusionc.passes._shared.constants import shape_of
from fusionc.passes._shared.meeting_shapes import all_meet
from fusionc.passes._shared.reduce_axes import trailing_axis
from fusionc.passes._shared.written_norms import epsilon_of, root_mean_square
from fusionc.rewrite import Match, Pattern, Result, Tape, either, maybe, op, refuse, var
from fusionc.rewrite.pattern import Formula, OpFormula
from fusionc.shapes.equality import same_shape

_TYPES = ({TensorProto.FLOAT}, {TensorProto.FLOAT16})
gamma = var("gamma")
SUM = op.Add(var("x"), var("skip"), _as="sum")


def rms_norm(value: Formula) -> Formula:
    """The root mean square normalization of a value as an operator, or written out as it must be
    below opset 23.
    """
    return either(op.RMSNormalization(value, gamma, _as="norm"), root_mean_square(value) * gamma)


def layer_norm(value: Formula) -> OpFormula:
    """The layer normalization of a value, as `joined` wants it."""
    return op.LayerNormalization(value, gamma, maybe(var("beta")), _as="norm")


def patterns_of(name: str, formula: Formula, sum_: OpFormula = SUM) -> tuple[Pattern, Pattern]:
    """One pattern where the sum is used elsewhere as well, and is a result, too, and one where it
    is not.
    """
    return (
        Pattern(f"{name}AndSum", (formula, sum_), where=_is_shared),
        Pattern(name, formula, where=_is_private),
    )


def _is_private(m: Match) -> bool:
    """Whether nobody else uses the sum."""
    return not _is_shared(m)


def _is_shared(m: Match) -> bool:
    """Whether somebody else uses the sum, too."""
    value = m.sum.outputs[0]
    inside = set(m.nodes)
    return value.is_output or any(user not in inside for user in value.outputs)


def epsilon_of_last(m: Match) -> float:
    """The epsilon of the captured normalization. Refuses one of more than the last axis."""
    value: Edge = m.sum.outputs[0]
    if value.rank is None:
        refuse("the rank is unknown")
    norm = m.norm
    if norm is None:
        axis = trailing_axis(m.mean, value)
        epsilon = epsilon_of(m)
        is_wide = m.mean.outputs[0].elem_type == TensorProto.FLOAT
    else:
        axis = norm.attr("axis") % max(value.rank, 1)
        epsilon = norm.attr("epsilon")
        is_wide = norm.attr("stash_type") == TensorProto.FLOAT
    if not is_wide:
        refuse("the normalization does not compute in float32")
    if axis != value.rank - 1:
        refuse("more than the last axis is normalized")
    if not epsilon >= 0:
        refuse("epsilon is negative")
    return float(epsilon)


def joined(
    m: Match, new: Tape, operator: str, vectors: Sequence[Edge | None], epsilon: float
) -> Result:
    """The sum and its normalization as one operator; the sum is its fourth output where it is
    needed.

    `vectors` are its inputs along the last axis: the scale, and what is added.
    """
    whole, other = _operands(m)
    given = [value for value in vectors if value is not None]
    if {value.elem_type for value in (whole, other, *given)} not in _TYPES:
        refuse("the elements are neither float32 nor float16")
    last = None if whole.shape is None else whole.shape[-1]
    if not isinstance(last, int) or last < 1:  # the kernel divides by it
        refuse("the size of what is normalized is unknown")
    if not all(same_shape(shape_of(value), (last,)) for value in given):
        refuse("the scale or an addend is not one number for each element of the last axis")
    inputs = [whole, other, *vectors]
    if len(m.outputs) == 1:
        return new.node(operator, inputs, domain=MICROSOFT, epsilon=epsilon)
    wanted = (True, False, False, True)
    first, _, _, total = new.node(
        operator, inputs, domain=MICROSOFT, outputs=wanted, epsilon=epsilon
    )
    return [first, total]


def _operands(m: Match) -> tuple[Edge, Edge]:
    """What is added: first what is as large as the sum, then what the kernel can repeat for each
    batch.
    """
    for whole, other in ((m.x, m.skip), (m.skip, m.x)):
        shape = shape_of(whole)
        small = shape_of(other)
        if shape is None or small is None:
            refuse("the rank is unknown")
        if len(shape) not in (2, 3) and len(shape) >= len(small):
            refuse("the rank is neither 2 nor 3")
        total: Shape | None = m.sum.outputs[0].shape
        repeats = len(shape) == 3 and (small == shape[1:] or all_meet(small, (1, *shape[1:])))
        if (all_meet(small, shape) or repeats) and (
            small == shape or total is None or all_meet(shape, total)
        ):
            return whole, other
    refuse("the shapes are not known to be equal")
