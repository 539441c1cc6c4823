from __future__ import annotations

from collections.abc import Iterator

from fusionc.model.graph import Edge, Graph, Node
from fusionc.passes._shared.target import require_onnxruntime
from fusionc.rewrite import Match, Miss, Pattern, Result, Tape, UBFusionPass, refuse

_ACTIVATIONS = ("Clip", "Relu")


def _matches(graph: Graph) -> Iterator[Match | Miss]:
    """A match for each DynamicQuantizeLinear after a Transpose, with or without activations in
    between.
    """
    for quantize in graph.of_operator("DynamicQuantizeLinear"):
        activations, transpose = _chain_before(quantize)
        if transpose is not None and transpose.is_op("Transpose"):
            captures = {"quantize": quantize, "turn": transpose, "activations": activations}
            yield Match(graph, (quantize, *activations), quantize.outputs, captures)
        else:
            before = "its input" if transpose is None else f"{transpose.op} before it"
            yield Miss(
                quantize,
                f"{before} is neither a Transpose nor a Clip or Relu that only one operator reads",
            )


def _shared_activations(graph: Graph) -> Iterator[Match]:
    """A match for each activation after a Transpose whose result both a DynamicQuantizeLinear and
    other operators read.
    """
    for node in [node for name in _ACTIVATIONS for node in graph.of_operator(name)]:
        transpose = _maker(node)
        result = node.outputs[0]
        if transpose is None or not transpose.is_op("Transpose") or result is None:
            continue
        if result.use_count > 1 and any(u.is_op("DynamicQuantizeLinear") for u in result.outputs):
            captures = {"turn": transpose, "activation": node}
            yield Match(graph, (node, transpose), node.outputs, captures)


def _activate_first(m: Match, new: Tape) -> Result:
    require_onnxruntime(m)
    inputs = [m.turn.inputs[0], *m.activation.inputs[1:]]
    return new.Transpose(new.node(m.activation.op, inputs, like=m.activation), like=m.turn)


def _chain_before(quantize: Node) -> tuple[list[Node], Node | None]:
    """The activations directly before a DynamicQuantizeLinear that no other node reads, in the
    order of the graph, and the node before them.
    """
    activations: list[Node] = []
    before = _maker(quantize)
    while before is not None and before.is_op(*_ACTIVATIONS) and _is_private(before.outputs[0]):
        activations.append(before)
        before = _maker(before)
    return activations[::-1], before


def _maker(node: Node) -> Node | None:
    value = node.inputs[0]
    maker = None if value is None else value.producer
    return maker if maker is not None and maker.graph is node.graph else None


def _is_private(value: Edge | None) -> bool:
    return value is not None and value.use_count == 1 and not value.is_output


class QuantizeBeforeTransposePass(UBFusionPass):
    """Values that are transposed and then quantized are quantized first, so that the Transpose
    moves bytes instead of floats.

    before   DynamicQuantizeLinear(act(Transpose(x))), where act is Relu, Clip or nothing
    after    q, s, z = DynamicQuantizeLinear(act(x)); Transpose(q); also Transpose(act(x)), if other
             operators read the activation
    refuses  a Transpose that other operators read, unless the integers are transposed again;
             integers that a ConvInteger reads, because DynamicConvSignednessPass converts these
             integers to int8; targets other than onnxruntime
    never    other activations
    algebra  scale and zero point depend only on the smallest and the largest element
    source   1×1 convolutions in quantize_dynamic's models, which become products over the last
             axis. Moving a byte takes 0.2 to 0.5 of the time of moving a float, and the Transposes
             between two such convolutions cancel
    """

    # If an element is NaN, the results of Min and Max depend on the order of the elements.
    is_for_finite = True
    patterns = (
        Pattern("DynamicQuantizeOfTranspose", find=_matches, operators=("DynamicQuantizeLinear",)),
        Pattern(
            "ActivationOfTranspose",
            rewrite=_activate_first,
            find=_shared_activations,
            operators=("DynamicQuantizeLinear",),
        ),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        require_onnxruntime(m)
        integers = m.quantize.outputs[0]
        users = list(integers.outputs)
        is_turned = not integers.is_output and all(user.is_op("Transpose") for user in users)
        if not is_turned and not _is_private(m.turn.outputs[0]):
            refuse("other operators read the transposed values")
        if any(user.is_op("ConvInteger") for user in users):
            refuse("a ConvInteger reads the integers, and another pass converts them to int8")
        value = m.turn.inputs[0]
        for activation in m.activations:
            value = new.node(activation.op, [value, *activation.inputs[1:]], like=activation)
        wanted = [made is not None for made in m.quantize.outputs]
        outputs = new.node("DynamicQuantizeLinear", [value], outputs=wanted)
        moved = new.Transpose(outputs[0], like=m.turn)
        return [made for made in (moved, *outputs[1:]) if made is not None]
