from collections.abc import Iterator
from typing import Any

from fusionc.model.graph import Graph, Node
from fusionc.passes._shared.constants import require_own
from fusionc.passes._shared.slice_split_concat import new_split
from fusionc.passes.convolution._blocked_layout import are_for_blocks
from fusionc.passes.convolution._joined_convolutions import conv_key, elementwise_key, one_conv
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape


def _activation(conv: Node) -> Node | None:
    """The elementwise operator that alone uses a Conv."""
    value = conv.outputs[0]
    if value is None or value.is_output or value.use_count != 1:
        return None
    (user,) = value.outputs
    return (
        user
        if user.graph is conv.graph and user.inputs[0] is value and elementwise_key(user)
        else None
    )


def _find(graph: Graph) -> Iterator[Match]:
    """How many Convs there are is not a question for a formula."""
    groups: dict[tuple[Any, ...], list[Node]] = {}
    for conv in graph.of_operator("Conv"):
        key = conv_key(conv)
        if key is not None and not key[0].is_constant:
            groups.setdefault(key, []).append(conv)
    for convs in groups.values():
        if len(convs) < 2:
            continue
        found = [_activation(conv) for conv in convs]
        activations = [node for node in found if node is not None]
        if (
            len(activations) < len(convs)
            or len({elementwise_key(node) for node in activations}) > 1
        ):
            activations = []
        outputs = [node.outputs[0] for node in activations or convs]
        if graph.model.is_for_onnxruntime and are_for_blocks(
            [value for value in outputs if value is not None]
        ):
            continue
        captures = {"convs": convs, "activation": activations[0] if activations else None}
        yield Match(graph, [*convs, *activations], outputs, captures)


class SameInputConv2dPass(Pass):
    """Convolutions of one value that differ in their weights become one convolution, and a Split.

    before   Conv(x, W₁, B₁?), Conv(x, W₂, B₂?), …, also with the same activation behind each Conv
    after    Split(Conv(x, Concat(W₁, W₂, …), Concat(B₁, B₂, …))), the activation before the Split
    refuses  large weights that are used elsewhere
    never    Convs that differ in kernel, strides, pads or dilations, or have groups; weights that
             are no constants; results that onnxruntime's blocked layout of images has parts of
             (ConvSplitPass)
    algebra  each output channel of a Conv depends on its own weights alone
    source   CANN's SameInputConv2dPass; off by default: on onnxruntime the Split costs more than
             one Conv saves (1.00 to 1.09 of the time), since it takes the images out of the blocked
             layout
    """

    numerics = "rounding"
    default = "off"
    aliases = ("SameInputConv2dFixpipePass",)
    patterns = (Pattern("SameInputConv", find=_find, operators=("Conv",)),)

    def rewrite(self, m: Match, new: Tape) -> Result:
        require_own(m, *(conv.inputs[1] for conv in m.convs))
        result, sizes = one_conv(new, m.convs, m.activation)
        return new_split(new, result, sizes, 1)
