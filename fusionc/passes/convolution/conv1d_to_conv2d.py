from collections.abc import Collection, Sequence

import numpy as np

from fusionc.model.graph import Edge
from fusionc.operators.domains import MICROSOFT
from fusionc.operators.facts import Trait, names_with
from fusionc.passes._shared.constants import array_of, dims_of, require_own, shape_of
from fusionc.passes._shared.elementwise_operators import BROADCASTING
from fusionc.passes._shared.target import require_onnxruntime
from fusionc.passes._shared.transpose_and_reshape import axes_of, new_unsqueeze
from fusionc.passes.convolution._blocked_layout import IN_BLOCKS
from fusionc.rewrite import (
    Match,
    Pattern,
    Result,
    Tape,
    UBFusionPass,
    const,
    maybe,
    op,
    refuse,
    rest,
    var,
)
from fusionc.rewrite.pattern import ms

# with what stands before for the new axis
_ATTRIBUTES = {"kernel_shape": [1], "strides": [1], "dilations": [1]}
_AXIS = 2  # the new one, behind batch and channels
_DEPTH = 5  # operators between two convolutions that are looked through
_CONVOLUTIONS = ("Conv", "FusedConv")
# Products for each number that is moved, from which on that pays (AVX-512, two threads; with AVX2
# from a third of these on). 1×1 is one product of matrices.
_WORTH_MOVING = 400
_WORTH_MOVING_A_POINT = 768
# activations, and what exporters write them out with
_ACTIVATIONS = (*sorted(names_with(Trait.ACTIVATION)), "Abs", "Erf", "Exp", "Neg", "Sin", "Sqrt")
_ARITHMETIC = ("Add", "Sub", "Mul", "Div", "Pow", "PRelu", "Max", "Min")
_CONTRIB = (*sorted(names_with(Trait.ACTIVATION, domain=MICROSOFT)), "FastGelu")
_BEFORE_SQUEEZE = frozenset((*_ACTIVATIONS, *_ARITHMETIC, *_CONTRIB))
# Around others onnxruntime leaves the faster layout, and comes back.
_IN_LAYOUT = frozenset((*IN_BLOCKS, "QuickGelu", "Add", "Mul"))

_squeezed = op.Squeeze(var("x"), rest("axes"), _as="squeeze")


def _is_of_convolution(m: Match) -> bool:
    """Whether what is squeezed comes of a convolution over two axes, the first of size 1, or is
    computed from one element by element.
    """
    return axes_of(m.squeeze) == [_AXIS] and _comes_from_two_axes(m.x, _BEFORE_SQUEEZE)


def _comes_from_two_axes(value: Edge, through: Collection[str], depth: int = _DEPTH) -> bool:
    """Whether such a convolution makes a value, or makes what it is computed from by these
    operators.
    """
    node = value.producer
    if node is None:
        return False
    if node.op in _CONVOLUTIONS and len(node.inputs) > 1:
        kernel = shape_of(node.inputs[1])
        return kernel is not None and len(kernel) == 4 and kernel[2] == 1
    if not depth or not (node.op in through or (node.op == "Squeeze" and axes_of(node) == [_AXIS])):
        return False
    return any(
        _comes_from_two_axes(v, through, depth - 1)
        for v in node.inputs
        if v is not None and not v.is_constant
    )


def _is_convolved(value: Edge, depth: int = _DEPTH) -> bool:
    """Whether a convolution reads a value, or what is computed from it in the faster layout."""
    for user in value.outputs:
        if user.op in _CONVOLUTIONS and user.inputs[0] is value:
            return True
        if (
            depth
            and user.op in _IN_LAYOUT
            and any(_is_convolved(v, depth - 1) for v in user.outputs if v)
        ):
            return True
    return False


def _require_gain(m: Match, kernel: Sequence[int]) -> None:
    """Refuse where going into the other layout and coming out of it costs more than the convolution
    gains there.
    """
    made, taken, columns = kernel
    group = int(m.conv.attr("group", 1))
    if group > 1 and columns > 1:
        return
    stride = int((m.conv.attr("strides") or [1])[0])
    moved = 0 if _comes_from_two_axes(m.x, _IN_LAYOUT) else taken * group * stride
    moved += 0 if m.Z is None or _comes_from_two_axes(m.Z, _IN_LAYOUT) else made
    moved += 0 if _is_convolved(m.conv.outputs[0]) else made
    if made * taken * columns < moved * (_WORTH_MOVING if columns > 1 else _WORTH_MOVING_A_POINT):
        refuse("what it gains in another layout is less than what it takes to get there and back")


def _has_one_axis(m: Match) -> bool:
    """Whether the weights have one spatial axis."""
    return len(dims_of(m.W)) == 3


def _sink(m: Match, new: Tape) -> Result:
    """Squeeze behind an operator that computes element by element."""
    require_onnxruntime(m)
    made = new.node(m.node.op, [m.x, *m.limits], domain=m.node.domain, like=m.node)
    return new_unsqueeze(new, made, [_AXIS], "Squeeze")


def _sink_both(m: Match, new: Tape) -> Result:
    """The same of an operator that reads another value, too, which gets the axis that the Squeeze
    takes.
    """
    require_onnxruntime(m)
    if m.x.rank != 4:
        refuse("the image has not four axes")
    if m.opset < BROADCASTING:
        refuse("before opset 8 operators may align their operands in another way")
    other = _with_axis(new, m.other)
    operands = [m.x, other] if m.node.inputs[0] is m.squeeze.outputs[0] else [other, m.x]
    return new_unsqueeze(new, new.node(m.node.op, operands, like=m.node), [_AXIS], "Squeeze")


def _with_axis(new: Tape, value: Edge) -> Edge:
    array = value.constant()
    if array is not None and array.ndim < 2:
        return value
    if array is not None and array.ndim < 4:
        return new.const(np.expand_dims(array, -2), like=value)
    if value.rank != 3:
        refuse("the other operand has another rank")
    return new_unsqueeze(new, value, [_AXIS])


class Conv1dToConv2dPass(UBFusionPass):
    """A convolution over one axis becomes one over two, the first of size 1: for these onnxruntime
    has a faster layout.

    before   Conv(x, W, B?) of [N, C, L], and FusedConv
    after    Squeeze(Conv(Unsqueeze(x, 2), W of [M, C/g, 1, K], B?), 2); the Squeeze moves behind
             what is computed element by element, so that it meets the Unsqueeze of the next one
    refuses  elements other than float32; large weights that others use; few channels where no
             convolutions are in front of it and behind it: onnxruntime would move more than it
             gains
    never    weights that are no constants
    algebra  the added axis has one place, on which the window of size 1 lies
    source   onnxruntime's NchwcTransformer takes convolutions over two axes only; 0.7 to 0.95 of
             the time
    """

    numerics = "rounding"
    patterns = (
        Pattern(
            "Conv1d",
            op.Conv(var("x"), const("W"), maybe(var("B")), _as="conv"),
            where=_has_one_axis,
        ),
        Pattern(
            "FusedConv1d",
            ms.FusedConv(var("x"), const("W"), maybe(var("B")), maybe(var("Z")), _as="conv"),
            where=_has_one_axis,
        ),
        Pattern(
            "Elementwise",
            op[_ACTIVATIONS](_squeezed, rest("limits"), _as="node"),
            _sink,
            where=_is_of_convolution,
        ),
        Pattern(
            "Contrib",
            ms[_CONTRIB](_squeezed, rest("limits"), _as="node"),
            _sink,
            where=_is_of_convolution,
        ),
        Pattern(
            "First",
            op[_ARITHMETIC](_squeezed, var("other"), _as="node"),
            _sink_both,
            where=_is_of_convolution,
        ),
        Pattern(
            "Second",
            op[_ARITHMETIC](var("other"), _squeezed, _as="node"),
            _sink_both,
            where=_is_of_convolution,
        ),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        require_onnxruntime(m)
        weights = array_of(m.W)
        # what onnxruntime's own operators make has no type that onnx knows
        if weights.dtype != np.float32:
            refuse("the elements are not float32")
        require_own(m, m.W)
        _require_gain(m, weights.shape)
        wider = {
            name: [*first, *given]
            for name, first in _ATTRIBUTES.items()
            if (given := m.conv.attr(name))
        }
        if pads := m.conv.attr("pads"):
            begin, end = pads
            wider["pads"] = [0, begin, 0, end]
        wider["kernel_shape"] = [1, weights.shape[2]]
        weight = new.const(weights[:, :, None], like=m.W)
        addend = None if m.Z is None else new_unsqueeze(new, m.Z, [_AXIS])
        inputs = [
            new_unsqueeze(new, m.x, [_AXIS]),
            weight,
            m.B,
            *([addend] if addend is not None else []),
        ]
        made = new.node(m.conv.op, inputs, domain=m.conv.domain, like=m.conv, **wider)
        return new_unsqueeze(new, made, [_AXIS], "Squeeze")
