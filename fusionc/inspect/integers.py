"""Quantized models: integer operators that onnxruntime computes slowly on a CPU."""

from __future__ import annotations

from collections.abc import Iterator

from onnx import TensorProto

from fusionc.inspect.dry_run import DryRun
from fusionc.inspect.finding import Finding, counted
from fusionc.model.graph import Model, Node
from fusionc.operators.facts import Trait, names_with

_QUANTIZING = names_with(Trait.QUANTIZES)


def findings(model: Model, dry: DryRun) -> Iterator[Finding]:
    """Findings on integer convolutions, and on signed activations."""
    nodes = [node for graph in model.graphs for node in graph.ordered()]
    if slow := [node.label() for node in nodes if _stays_slow(node, dry)]:
        yield Finding(
            "convolutions of integers",
            f"{counted(len(slow), 'ConvInteger')}: onnxruntime computes them image by image, "
            "often more slowly than "
            "convolutions of float32; such a model spends most of its time in them",
            "quantize the model statically, with QuantizeLinear and DequantizeLinear around "
            "Conv, or leave its "
            "convolutions in float32 and quantize only its matrix products",
            tuple(slow),
        )
    # A pass may replace such a node by a QuantizeLinear with the same name: see `taken`.
    if signed := [
        node.label() for node in nodes if _makes_signed(node) and node.label() not in dry.taken
    ]:
        yield Finding(
            "signed activations",
            (
                f"{counted(len(signed), 'activation')} quantized to int8: onnxruntime's fast "
                "products on x86 take uint8"
            ),
            "quantize activations to uint8 (activation_type QuantType.QUInt8) and weights to int8",
            tuple(signed),
        )


def _stays_slow(node: Node, dry: DryRun) -> bool:
    """Whether a node is still a ConvInteger after the passes. A node with one group always is:
    passes change only its types.
    """
    return node.is_op("ConvInteger") and (node.attr("group", 1) == 1 or dry.keeps(node.label()))


def _makes_signed(node: Node) -> bool:
    if not node.is_op(*_QUANTIZING) or node.inputs[0] is None or node.inputs[0].is_constant:
        return False
    made = node.outputs[0]
    return made is not None and made.elem_type == TensorProto.INT8
