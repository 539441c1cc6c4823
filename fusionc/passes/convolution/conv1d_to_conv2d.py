from collections.abc import Collection, Sequence

import numpy as np

from fusionc.model.graph import Edge, Node
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

_ATTRIBUTES = ("kernel_shape", "strides", "dilations")  # 1 along the new axis
_AXIS = 2  # the new one, after batch and channels
_DEPTH = 5  # operators between two convolutions that are looked through
_CONVOLUTIONS = ("Conv", "FusedConv")
# Products per number moved into the other layout that make moving faster (AVX-512, two threads;
# a third of it with AVX2). A window of one place is a matrix product.
_WORTH_MOVING = 400
_WORTH_MOVING_A_POINT = 768
# activations, and operators with which exporters write them
_ACTIVATIONS = (*sorted(names_with(Trait.ACTIVATION)), "Abs", "Erf", "Exp", "Neg", "Sin", "Sqrt")
_ARITHMETIC = ("Add", "Sub", "Mul", "Div", "Pow", "PRelu", "Max", "Min")
_CONTRIB = (*sorted(names_with(Trait.ACTIVATION, domain=MICROSOFT)), "FastGelu")
_BEFORE_SQUEEZE = frozenset((*_ACTIVATIONS, *_ARITHMETIC, *_CONTRIB))
# Operators for which onnxruntime does not leave the faster layout.
_IN_LAYOUT = frozenset((*IN_BLOCKS, "QuickGelu", "Add", "Mul"))

_squeezed = op.Squeeze(var("x"), rest("axes"), _as="squeeze")


def _is_of_convolution(m: Match) -> bool:
    """Whether a convolution over two axes, the first of size 1, computes the squeezed value,
    perhaps followed by elementwise operators.
    """
    return _is_squeeze(m.squeeze) and _comes_from_conv(m.x, _BEFORE_SQUEEZE)


def _comes_from_conv(value: Edge, through: Collection[str], depth: int = _DEPTH) -> bool:
    """Whether such a convolution computes a value, perhaps followed by operators in `through`."""
    node = value.producer
    if node is None:
        return False
    if node.op in _CONVOLUTIONS:
        kernel = shape_of(node.inputs[1]) or ()
        return len(kernel) == 4 and kernel[2] == 1
    if not depth or not (node.op in through or _is_squeeze(node)):
        return False
    operands = [v for v in node.inputs if v is not None and not v.is_constant]
    return any(_comes_from_conv(operand, through, depth - 1) for operand in operands)


def _is_squeeze(node: Node) -> bool:
    return node.op == "Squeeze" and axes_of(node) == [_AXIS]


def _is_convolved(value: Edge, depth: int = _DEPTH) -> bool:
    """Whether a convolution reads a value, perhaps after operators in the faster layout."""
    for user in value.outputs:
        if user.op in _CONVOLUTIONS and user.inputs[0] is value:
            return True
        if not depth or user.op not in _IN_LAYOUT:
            continue
        if any(_is_convolved(v, depth - 1) for v in user.outputs if v):
            return True
    return False


def _require_gain(m: Match, kernel: Sequence[int]) -> None:
    """Refuse if moving into the other layout and back costs more than the convolution gains."""
    outputs, inputs, columns = kernel
    group = int(m.conv.attr("group", 1))
    if group > 1 and columns > 1:
        return
    stride = int((m.conv.attr("strides") or [1])[0])
    moved = 0 if _comes_from_conv(m.x, _IN_LAYOUT) else inputs * group * stride
    moved += 0 if m.Z is None or _comes_from_conv(m.Z, _IN_LAYOUT) else outputs
    moved += 0 if _is_convolved(m.conv.outputs[0]) else outputs
    limit = _WORTH_MOVING if columns > 1 else _WORTH_MOVING_A_POINT
    if outputs * inputs * columns < moved * limit:
        refuse("the convolution gains less in the other layout than moving there and back costs")


def _has_one_axis(m: Match) -> bool:
    """Whether the weights have one spatial axis."""
    return len(dims_of(m.W)) == 3


def _sink(m: Match, new: Tape) -> Result:
    """An elementwise operator before the Squeeze instead of after it."""
    require_onnxruntime(m)
    result = new.node(m.node.op, [m.x, *m.limits], domain=m.node.domain, like=m.node)
    return new_unsqueeze(new, result, [_AXIS], "Squeeze")


def _sink_both(m: Match, new: Tape) -> Result:
    """An operator of two values before the Squeeze; the other value gets the additional axis."""
    require_onnxruntime(m)
    m.x.require_rank(4)
    m.require_opset(BROADCASTING, "operators may align their operands in another way")
    other = _add_axis(new, m.other)
    operands = [m.x, other] if m.node.inputs[0] is m.squeeze.outputs[0] else [other, m.x]
    return new_unsqueeze(new, new.node(m.node.op, operands, like=m.node), [_AXIS], "Squeeze")


def _add_axis(new: Tape, value: Edge) -> Edge:
    array = value.constant()
    if array is not None and array.ndim < 2:
        return value
    if array is not None and array.ndim < 4:
        return new.const(np.expand_dims(array, -2), like=value)
    value.require_rank(3, of="the other operand")
    return new_unsqueeze(new, value, [_AXIS])


class Conv1dToConv2dPass(UBFusionPass):
    """A convolution over one axis becomes one over two, for which onnxruntime has a faster layout.

    before   Conv(x, W, B?) of [N, C, L], and FusedConv
    after    Squeeze(Conv(Unsqueeze(x, 2), W of [M, C/g, 1, K], B?), 2); the Squeeze moves after
             elementwise operators, where it meets the Unsqueeze of the next convolution
    refuses  elements other than float32; large weights that others use; few channels without
             convolutions before and after: moving into the layout would cost more than it gains
    never    weights that are not constant
    algebra  the added axis has one place, on which the window of size 1 lies
    source   onnxruntime's NchwcTransformer only takes convolutions over two axes; 0.7 to 0.95 of
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
        # not m.x: the results of onnxruntime's own operators have unknown types
        if weights.dtype != np.float32:
            refuse("the elements are not float32")
        require_own(m, m.W)
        _require_gain(m, weights.shape)
        written = {name: m.conv.attr(name) for name in _ATTRIBUTES}
        attributes = {name: [1, *values] for name, values in written.items() if values}
        if pads := m.conv.attr("pads"):
            begin, end = pads
            attributes["pads"] = [0, begin, 0, end]
        attributes["kernel_shape"] = [1, weights.shape[2]]
        weight = new.const(weights[:, :, None], like=m.W)
        addends = [] if m.Z is None else [new_unsqueeze(new, m.Z, [_AXIS])]
        inputs = [new_unsqueeze(new, m.x, [_AXIS]), weight, m.B, *addends]
        result = new.node(m.conv.op, inputs, domain=m.conv.domain, like=m.conv, **attributes)
        return new_unsqueeze(new, result, [_AXIS], "Squeeze")
