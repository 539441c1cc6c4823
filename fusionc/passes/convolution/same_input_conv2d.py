from collections.abc import Iterator
from typing import Any

from fusionc.model.graph import Graph, Node
from fusionc.passes._shared.constants import require_own
from fusionc.passes._shared.slice_split_concat import new_split
from fusionc.passes.convolution._blocked_layout import are_for_blocks
from fusionc.passes.convolution._joined_convolutions import (
    conv_key,
    elementwise_key,
    one_conv,
)
from fusionc.rewrite import Match, Miss, Pass, Pattern, Refused, Result, Tape


def _activation(conv: Node) -> Node | None:
    """The activation that is the only user of a Conv; None if the Conv has another user."""
    value = conv.outputs[0]
    if value is None or value.is_output or value.use_count != 1:
        return None
    (user,) = value.outputs
    is_elementwise = user.inputs[0] is value and elementwise_key(user)
    return user if user.graph is conv.graph and is_elementwise else None


def _find(graph: Graph) -> Iterator[Match | Miss]:
    """A match for each group of Convs that read the same value and differ only in their weights. No
    formula can express such groups, because the number of nodes of a formula is fixed.
    """
    groups: dict[tuple[Any, ...], list[Node]] = {}
    for conv in graph.of_operator("Conv"):
        try:
            key = conv_key(conv)
        except Refused as refusal:
            yield Miss(conv, refusal.reason)
            continue
        if key[0].is_constant:
            yield Miss(conv, "the input is a constant")
        else:
            groups.setdefault(key, []).append(conv)
    for convs in groups.values():
        yield _joined(convs)


def _joined(convs: list[Node]) -> Match | Miss:
    """The match of a group of Convs, with their activations."""
    if len(convs) < 2:
        return Miss(convs[0], "no other Conv of its input has the same kernel, strides and pads")
    graph = convs[0].graph
    activations = _equal_activations(convs)
    outputs = [node.outputs[0] for node in activations or convs]
    values = [value for value in outputs if value is not None]
    if graph.model.is_for_onnxruntime and are_for_blocks(values):
        return Miss(convs[0], "ConvSplitPass would split the joint Conv again")
    captures = {"convs": convs, "activation": activations[0] if activations else None}
    return Match(graph, [*convs, *activations], outputs, captures)


def _equal_activations(convs: list[Node]) -> list[Node]:
    """The activation of each Conv if all Convs have the same activation; else none."""
    activations = [node for conv in convs if (node := _activation(conv)) is not None]
    are_equal = len({elementwise_key(node) for node in activations}) == 1
    return activations if are_equal and len(activations) == len(convs) else []


class SameInputConv2dPass(Pass):
    """Convs that read the same value and differ only in their weights become one Conv and a Split.

    before   Conv(x, W₁, B₁?), Conv(x, W₂, B₂?), …, also with the same activation after each Conv
    after    Split(Conv(x, Concat(W₁, W₂, …), Concat(B₁, B₂, …))), with the activation before the
             Split
    refuses  large weights that are used elsewhere
    never    Convs that differ in kernel, strides, pads or dilations, or have groups; weights that
             are not constant; Convs that ConvSplitPass would split again to keep them in
             onnxruntime's blocked layout
    algebra  each output channel of a Conv depends only on its own weights
    source   CANN's SameInputConv2dPass. Off by default: onnxruntime leaves its blocked layout for
             the Split, which costs more than the joint Conv saves (1.00 to 1.09 of the time)
    """

    numerics = "rounding"
    default = "off"
    aliases = ("SameInputConv2dFixpipePass",)
    patterns = (Pattern("SameInputConv", find=_find, operators=("Conv",)),)

    def rewrite(self, m: Match, new: Tape) -> Result:
        require_own(m, *(conv.inputs[1] for conv in m.convs))
        result, sizes = one_conv(new, m.convs, m.activation)
        return new_split(new, result, sizes, 1)
