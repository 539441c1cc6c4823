import numpy as np

from fusionc.passes._shared.constants import require_own
from fusionc.passes._shared.slice_split_concat import are_all_pieces, axis_of
from fusionc.passes.convolution._channels import bias_or_zero
from fusionc.rewrite import (
    Match,
    Pass,
    Pattern,
    Result,
    Tape,
    const,
    each,
    maybe,
    op,
    refuse,
    rest,
    same,
    var,
)

_PIECE = same(op.Split(var("x"), rest("sizes"), _as="split"))[...]
_ATTRIBUTES = ("auto_pad", "dilations", "group", "pads", "strides")


def _has_one_conv_per_piece(m: Match) -> bool:
    """Whether one Conv reads each output of the Split, in order."""
    return len(m.convs) > 1 and are_all_pieces([conv.inputs[0] for conv in m.convs], m.split)


class ASplitConv2dConcatPass(Pass):
    """Convs of all parts of a Split become one grouped Conv if their results are concatenated
    again.

    before   Concat(Conv(Split(x)[0], W₀, B₀?), …, Conv(Split(x)[n−1], Wₙ₋₁, Bₙ₋₁?)), all along the
             channels
    after    Conv(x, Concat(W₀ … Wₙ₋₁), Concat(B₀ … Bₙ₋₁)) with n times the groups
    refuses  an axis other than the channels; Convs with weights of different shapes, or with
             different strides, pads, dilations or groups; large weights that are used elsewhere
    algebra  the definition of a grouped convolution
    source   CANN's ASplitConv2dConcatPass. For other Splits before Convs, CANN's
             SplitConvConcatFusionPass changes the layout of the tensors
    """

    numerics = "rounding"
    aliases = ("SplitConvConcatFusionPass",)
    patterns = (
        Pattern(
            "SplitConvConcat",
            op.Concat(
                each(op.Conv(_PIECE, const("weights"), maybe(const("biases")), _as="convs")),
                _as="concat",
            ),
            where=_has_one_conv_per_piece,
        ),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        first = m.convs[0]
        weights = [weight.constant() for weight in m.weights]
        rank = weights[0].ndim
        if axis_of(m.split, rank) != 1 or axis_of(m.concat, rank) != 1:
            refuse("the axis is not that of the channels")
        if any(weight.shape != weights[0].shape for weight in weights):
            refuse("the weights have different shapes")
        if any(conv.attr(name) != first.attr(name) for conv in m.convs for name in _ATTRIBUTES):
            refuse("the convolutions have different attributes")
        require_own(m, *m.weights)
        bias = None
        if any(m.biases):
            channels = weights[0].shape[0]
            bias = new.const(
                np.concatenate([bias_or_zero(b, channels) for b in m.biases]),
                dtype=weights[0].dtype,
            )
        groups = len(m.convs) * int(first.attr("group"))
        return new.Conv(
            m.x,
            new.const(np.concatenate(weights), like=m.weights[0]),
            bias,
            like=first,
            group=groups,
        )
