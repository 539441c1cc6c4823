from typing import Any

from fusionc.model.graph import Node
from fusionc.passes._shared.constants import require_own
from fusionc.passes._shared.slice_split_concat import axis_of
from fusionc.passes.convolution._joined_convolutions import (
    ELEMENTWISE,
    conv_key,
    elementwise_key,
    one_conv,
)
from fusionc.rewrite import Match, Pass, Pattern, Refused, Result, Tape, each, op, refuse, rest, var

_CONVS = op.Conv(var("x"), rest("weights"), _as="convs")


def _are_several(m: Match) -> bool:
    """Whether the inputs of the Concat come from several Convs, all different."""
    return len(m.convs) > 1 and len(set(m.convs)) == len(m.convs)


def _key(conv: Node) -> tuple[Any, ...] | None:
    """The key of a Conv that can be joined with others; None for other Convs."""
    try:
        return conv_key(conv)
    except Refused:
        return None


def _have_constant_weights(m: Match) -> bool:
    """Whether the Convs are ungrouped and have constant weights."""
    return all(_key(conv) is not None for conv in m.convs)


def _differ_only_in_weights(m: Match) -> bool:
    """Whether the Convs read one value and differ only in their weights."""
    return len({_key(conv) for conv in m.convs}) == 1


def _have_one_activation(m: Match) -> bool:
    """Whether all activations compute the same function."""
    keys = {elementwise_key(node) for node in m.activations}
    return len(keys) == 1 and None not in keys


_SIBLINGS = (_are_several, _have_constant_weights, _differ_only_in_weights)


class ConvConcatFusionPass(Pass):
    """Convs that read the same value become one Conv if their results are concatenated along the
    channels.

    before   Concat(Conv(x, W₀, B₀?), …, Conv(x, Wₙ, Bₙ?)), also with the same activation after each
             Conv
    after    Conv(x, Concat(W₀ … Wₙ), Concat(B₀ … Bₙ)), then the activation once
    refuses  an axis other than the channels; large weights that are used elsewhere
    never    Convs that differ in kernel, strides, pads or dilations, or have groups; weights that
             are not constant; a Conv that is an input of the Concat twice
    algebra  each output channel of a Conv depends only on its own weights
    source   CANN's ConvConcatFusionPass, which lets the Convs write directly into the result of the
             Concat; ONNX has no means for that, so this pass joins them instead
    """

    numerics = "rounding"
    patterns = (
        Pattern("ConvConcat", op.Concat(each(_CONVS), _as="concat"), where=_SIBLINGS),
        Pattern(
            "ConvActivationConcat",
            op.Concat(
                each(op[ELEMENTWISE](_CONVS, rest("options"), _as="activations")), _as="concat"
            ),
            where=(*_SIBLINGS, _have_one_activation),
        ),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        if axis_of(m.concat, m.convs[0].inputs[1].rank) != 1:
            refuse("the axis is not that of the channels")
        require_own(m, *(conv.inputs[1] for conv in m.convs))
        activations = m.activations or [None]
        return one_conv(new, m.convs, activations[0])[0]
