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

_ATTRIBUTES = ("kernel_shape", "strides", "dilations")  # they get a 1 for the new axis
_AXIS = 2  # the new axis, after batch and channels
_MAX_DEPTH = 5  # the number of operators that a search for a convolution follows
_CONVOLUTIONS = ("Conv", "FusedConv")
# If a convolution computes fewer products per moved element, onnxruntime's blocked layout of images
# is slower. Measured with AVX-512 and two threads; with AVX2, a third is enough. A kernel of size 1
# needs more, because the one-dimensional Conv is then a fast matrix product.
_MIN_PRODUCTS = 400
_MIN_POINTWISE_PRODUCTS = 768
# activations, and the operators with which exporters write them out
_ACTIVATIONS = (*sorted(names_with(Trait.ACTIVATION)), "Abs", "Erf", "Exp", "Neg", "Sin", "Sqrt")
_ARITHMETIC = ("Add", "Sub", "Mul", "Div", "Pow", "PRelu", "Max", "Min")
_CONTRIB = (*sorted(names_with(Trait.ACTIVATION, domain=MICROSOFT)), "FastGelu")
_BEFORE_SQUEEZE = frozenset((*_ACTIVATIONS, *_ARITHMETIC, *_CONTRIB))
# Operators that onnxruntime computes in its blocked layout, which it has only for images.
_IN_LAYOUT = frozenset((*IN_BLOCKS, "QuickGelu", "Add", "Mul"))

_squeezed = op.Squeeze(var("x"), rest("axes"), _as="squeeze")


def _has_convolved_input(m: Match) -> bool:
    """Whether the squeezed value comes from a two-dimensional convolution, directly or through
    elementwise operators. The first spatial axis of that convolution has size 1.
    """
    return _is_squeeze(m.squeeze) and _comes_from_conv(m.x, _BEFORE_SQUEEZE)


def _comes_from_conv(value: Edge, through: Collection[str], depth: int = _MAX_DEPTH) -> bool:
    """Whether a value comes from a two-dimensional convolution, directly or through the operators
    in `through`.
    """
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


def _is_convolved(value: Edge, depth: int = _MAX_DEPTH) -> bool:
    """Whether a convolution reads a value, directly or through operators in the blocked layout."""
    for user in value.outputs:
        if user.op in _CONVOLUTIONS and user.inputs[0] is value:
            return True
        if not depth or user.op not in _IN_LAYOUT:
            continue
        if any(_is_convolved(v, depth - 1) for v in user.outputs if v):
            return True
    return False


def _require_gain(m: Match, kernel: Sequence[int]) -> None:
    """Refuse if moving the data into the blocked layout and back takes longer than the convolution
    saves.
    """
    outputs, inputs, columns = kernel
    group = int(m.conv.attr("group", 1))
    if group > 1 and columns > 1:
        return
    stride = int((m.conv.attr("strides") or [1])[0])
    moved = 0 if _comes_from_conv(m.x, _IN_LAYOUT) else inputs * group * stride
    moved += 0 if m.Z is None or _comes_from_conv(m.Z, _IN_LAYOUT) else outputs
    moved += 0 if _is_convolved(m.conv.outputs[0]) else outputs
    min_products = _MIN_PRODUCTS if columns > 1 else _MIN_POINTWISE_PRODUCTS
    if outputs * inputs * columns < moved * min_products:
        refuse("moving the data into the other layout and back costs more than the layout gains")


def _has_one_axis(m: Match) -> bool:
    """Whether the weights have one spatial axis."""
    return len(dims_of(m.W)) == 3


def _move_before_squeeze(m: Match, new: Tape) -> Result:
    """Move a unary elementwise operator from after the Squeeze to before it."""
    require_onnxruntime(m)
    result = new.node(m.node.op, [m.x, *m.limits], domain=m.node.domain, like=m.node)
    return new_unsqueeze(new, result, [_AXIS], "Squeeze")


def _move_binary_before_squeeze(m: Match, new: Tape) -> Result:
    """Move a binary operator before the Squeeze. Its other operand gets the additional axis."""
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
    """A one-dimensional convolution becomes two-dimensional, because onnxruntime has a faster
    layout, in blocks of channels, for images.

    before   Conv(x, W, B?) or FusedConv with x of shape [N, C, L]
    after    Squeeze(Conv(Unsqueeze(x, 2), W of [M, C/g, 1, K], B?), 2). The Squeeze then moves
             after elementwise operators, until it meets the Unsqueeze of the next convolution
    refuses  elements other than float32; large weights that are used elsewhere; convolutions with
             few channels and no convolution before or after them, because moving the data into the
             layout takes longer than the layout saves
    never    weights that are not constant
    algebra  the additional axis has size 1, and the window has size 1 along this axis
    source   onnxruntime's NchwcTransformer supports two-dimensional convolutions only; measured:
             0.7 to 0.95 of the time
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
            _move_before_squeeze,
            where=_has_convolved_input,
        ),
        Pattern(
            "Contrib",
            ms[_CONTRIB](_squeezed, rest("limits"), _as="node"),
            _move_before_squeeze,
            where=_has_convolved_input,
        ),
        Pattern(
            "First",
            op[_ARITHMETIC](_squeezed, var("other"), _as="node"),
            _move_binary_before_squeeze,
            where=_has_convolved_input,
        ),
        Pattern(
            "Second",
            op[_ARITHMETIC](var("other"), _squeezed, _as="node"),
            _move_binary_before_squeeze,
            where=_has_convolved_input,
        ),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        require_onnxruntime(m)
        weights = array_of(m.W)
        # The type of m.x may be unknown, because types are not inferred for onnxruntime's own
        # operators.
        if weights.dtype != np.float32:
            refuse("the elements are not float32")
        require_own(m, m.W)
        _require_gain(m, weights.shape)
        old_attributes = {name: m.conv.attr(name) for name in _ATTRIBUTES}
        attributes = {name: [1, *values] for name, values in old_attributes.items() if values}
        if pads := m.conv.attr("pads"):
            begin, end = pads
            attributes["pads"] = [0, begin, 0, end]
        attributes["kernel_shape"] = [1, weights.shape[2]]
        weight = new.const(weights[:, :, None], like=m.W)
        addends = [] if m.Z is None else [new_unsqueeze(new, m.Z, [_AXIS])]
        inputs = [new_unsqueeze(new, m.x, [_AXIS]), weight, m.B, *addends]
        result = new.node(m.conv.op, inputs, domain=m.conv.domain, like=m.conv, **attributes)
        return new_unsqueeze(new, result, [_AXIS], "Squeeze")
