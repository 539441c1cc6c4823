"""Faults planted in passes, for tests of the tools that must find them. Each fault spoils one
rewrite of one pass.

with planted(FAULTS[0]) as (plant,):
    fusionc.convert(model, verify=False)
plant.labels  # the nodes of the one rewrite that went wrong
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from harness import parse, pass_of

from fusionc.rewrite import Match, Tape

SAMPLES = Path(__file__).parents[1] / "sample_models"
# Spoils the contents of a tape, and returns the results of the rewrite. Returns None if the tape has
# nothing of the right kind.
Spoil = Callable[[Tape, Sequence[Any]], Sequence[Any] | None]


@dataclass(frozen=True)
class Fault:
    """A fault of a pass, and a model that shows it: the name of a sample model, or ONNX text."""

    pass_name: str
    what: str
    spoil: Spoil
    model: str = "transformer_block"

    def __str__(self) -> str:
        return f"{self.pass_name}: {self.what}"


@dataclass
class Plant:
    """A fault at one place: the rewrite that replaces the value of this name, or the first rewrite
    that can be spoiled.
    """

    fault: Fault
    value: str = ""
    pattern: str = ""
    labels: tuple[str, ...] = ()

    def spoiled(self, pattern: str, m: Match, new: Tape, results: Any) -> Any:
        """The spoiled results of the pass. The place stays the same in all later conversions."""
        place = (m.outputs[0].name if m.outputs else "", pattern, _labels(m))
        known = (self.value, self.pattern, self.labels)
        if any(own and own != there for own, there in zip(known, place, strict=True)):
            return results
        wrong = self.fault.spoil(new, results if isinstance(results, tuple | list) else (results,))
        if wrong is None:
            return results
        if not self.labels:
            self.value, self.pattern, self.labels = place
        return tuple(wrong) if isinstance(results, tuple | list) else wrong[0]


def _labels(m: Match) -> tuple[str, ...]:
    return tuple(node.label() for node in m.nodes)


def model_of(fault: Fault) -> onnx.ModelProto:
    """The model that shows a fault."""
    return (
        parse(fault.model)
        if fault.model.startswith("agraph")
        else onnx.load(SAMPLES / f"{fault.model}.onnx")
    )


@contextmanager
def planted(*faults: Fault | Plant) -> Iterator[tuple[Plant, ...]]:
    """A context manager in which passes have these faults, each at one place."""
    plants = tuple(fault if isinstance(fault, Plant) else Plant(fault) for fault in faults)
    with pytest.MonkeyPatch.context() as patch:
        for plant in plants:
            pass_ = pass_of(plant.fault.pass_name)

            def with_fault(pattern: Any, plant: Plant = plant, pass_: Any = pass_) -> Any:
                right = pattern.rewrite or pass_.rewrite
                return replace(
                    pattern,
                    rewrite=lambda m, new: plant.spoiled(pattern.name, m, new, right(m, new)),
                )

            patch.setattr(type(pass_), "patterns", tuple(map(with_fault, pass_.patterns)))
        yield plants


# -- kinds of faults
# --------------------------------------------------------------------------------------------------


def constant(change: Callable[[np.ndarray], np.ndarray], at: int = 0) -> Spoil:
    """One of the new constants has other elements."""

    def spoil(new: Tape, results: Sequence[Any]) -> Sequence[Any] | None:
        if len(new.constants) <= at:
            return None
        wrong = list(new.constants)[at]
        wrong.data = wrong._elements = np.asarray(change(wrong.values), wrong.values.dtype)
        return results

    return spoil


def attribute(op: str, name: str, change: Callable[[Any], Any], only: Any = None) -> Spoil:
    """An attribute of a new node has another value. With `only`, a node whose attribute has this
    value is chosen.
    """

    def spoil(new: Tape, results: Sequence[Any]) -> Sequence[Any] | None:
        for node in new.nodes:
            values = {a.name: onnx.helper.get_attribute_value(a) for a in node.proto.attribute}
            if node.op == op and name in values and only in (None, values[name]):
                for old in [a for a in node.proto.attribute if a.name == name]:
                    node.proto.attribute.remove(old)
                node.proto.attribute.append(onnx.helper.make_attribute(name, change(values[name])))
                return results
        return None

    return spoil


def inputs(op: str, change: Callable[[list[Any]], list[Any]]) -> Spoil:
    """A new node reads other inputs."""

    def spoil(new: Tape, results: Sequence[Any]) -> Sequence[Any] | None:
        node = next((node for node in new.nodes if node.op == op), None)
        if node is None or change(list(node.inputs)) == list(node.inputs):
            return None
        node.inputs = type(node.inputs)(change(list(node.inputs)))
        return results

    return spoil


def without(op: str, at: int) -> Spoil:
    """A new node has lost an optional input."""
    return inputs(op, lambda values: values[:at] if len(values) == at + 1 else values)


def swapped(op: str, a: int, b: int) -> Spoil:
    """A new node reads two inputs in exchanged places."""

    def change(values: list[Any]) -> list[Any]:
        values[a], values[b] = values[b], values[a]
        return values

    return inputs(op, change)


def behind(op: str) -> Spoil:
    """An additional operator changes the result."""
    return lambda new, results: [new.node(op, [results[0]]), *results[1:]]


def in_reverse(_: Tape, results: Sequence[Any]) -> Sequence[Any] | None:
    """The results are in reverse order."""
    return results[::-1] if len(results) > 1 else None


NORM = """agraph (float[B,8] x) => (float[B,8] y)
    <int64[1] last = {-1}, float two = {2}, float eps = {0.00001}, float[8] g, float[8] b> {
    m = ReduceMean (x, last) d = Sub (x, m) p = Pow (d, two) v = ReduceMean (p, last) e = Add (v, eps) s = Sqrt (e)
    q = Div (d, s) h = Mul (q, g) y = Add (h, b) }"""
TWICE_TURNED = """agraph (float[N,4,4,4] x) => (float[N,4,4,4] y) {
    a = Transpose <perm = [0, 2, 1, 3]> (x) b = Transpose <perm = [0, 3, 1, 2]> (a) y = Relu (b) }"""
MADE_TWICE = """agraph (float[N,8] x) => (float[N,8] y) {
    a = Tanh (x) b = Tanh (x) c = Mul (a, a) y = Sub (b, c) }"""
GATED = "agraph (float[N,8] x) => (float[N,8] y) { s = Sigmoid (x) y = Mul (x, s) }"
HEADS = """agraph (float[N,S,8] x) => (float[N,S,a,b] y) <int64 zero = {0}, int64 one = {1}, int64[1] first = {0},
    int64[1] two = {2}, int64[1] four = {4}> {
    s = Shape (x) n = Gather (s, zero) m = Gather (s, one) u = Unsqueeze (n, first) v = Unsqueeze (m, first)
    t = Concat <axis = 0> (u, v, two, four) y = Reshape (x, t) }"""
PICKED = """agraph (float[N,3,8] x) => (float[N,1,8] y) <int64[3] turned = {2, 0, 1}, int64[1] first = {0}> {
    g = Gather <axis = 1> (x, turned) y = Gather <axis = 1> (g, first) }"""
PADDED = """agraph (float[1,4] x) => (float[3,4] y) <float[1,4] a, float[1,4] b> { y = Concat <axis = 0> (x, a, b) }"""

FAULTS = (
    Fault("ConstantFoldingPass", "a wrong fold", constant(lambda c: c + 1), "matmul_bias"),
    Fault("ConvBatchnormFusionPass", "a scale squared", constant(lambda w: w * 2), "conv_bn"),
    Fault("ConvBatchnormFusionPass", "a lost bias", without("Conv", 2), "conv_bn"),
    Fault(
        "ConvBatchnormFusionPass",
        "a bias of the wrong sign",
        constant(np.negative, 1),
        "control_flow",
    ),
    Fault(
        "PadConv2dFusionPass",
        "pads off by one",
        attribute("Conv", "pads", lambda p: [0, p[1], 2, p[3]]),
        "conv_bn",
    ),
    Fault(
        "Conv2DTransposeBatchnormFusionPass", "a lost bias", without("ConvTranspose", 2), "conv_bn"
    ),
    Fault(
        "ConvScaleFusionPass",
        "a channel's scale at the next",
        constant(lambda w: np.roll(w, 1, 0)),
        "conv_bn",
    ),
    Fault(
        "AABiasaddConvFusion",
        "a channel's bias at the next",
        constant(lambda b: np.roll(b, 1)),
        "conv_bn",
    ),
    Fault(
        "TbeConvElemwiseFusionPass",
        "another activation",
        attribute("FusedConv", "activation", lambda _: "Tanh", only=b"Relu"),
        "conv_bn",
    ),
    Fault(
        "TbeConvElemwiseFusionPass",
        "a lower limit",
        attribute("FusedConv", "activation_params", lambda _: [0.0, 0.5], only=[0.0, 6.0]),
        "conv_bn",
    ),
    Fault("MatMulBiasAddFusionPass", "a lost bias", without("Gemm", 2), "matmul_bias"),
    Fault("GemmScaleFusionPass", "a scale inverted", constant(lambda w: w * 100), "matmul_bias"),
    Fault(
        "ATbeMatMulElemwiseFusionPass",
        "another activation",
        attribute("FusedGemm", "activation", lambda _: "Sigmoid"),
        "matmul_bias",
    ),
    Fault(
        "ASplitConv2dConcatPass",
        "groups in another order",
        constant(lambda w: np.roll(w, 4, 0), 1),
        "split_concat",
    ),
    Fault("ZConcatv2dFusionPass", "a swapped operand", swapped("Concat", 0, 1), "split_concat"),
    Fault("ZSplitVDFusionPass", "pieces in reverse", in_reverse, "split_concat"),
    Fault("SplitConcatFusionPass", "a sign too many", behind("Neg"), "split_concat"),
    Fault(
        "CommonSubexpressionEliminationPass",
        "merged with its absolute value",
        behind("Abs"),
        MADE_TWICE,
    ),
    Fault(
        "LayerNormFusionPass",
        "a dropped epsilon",
        attribute("LayerNormalization", "epsilon", lambda _: 0.0),
        NORM,
    ),
    Fault("LayerNormFusionPass", "scale and bias swapped", swapped("LayerNormalization", 1, 2)),
    Fault("SameInputMatMulPass", "pieces in reverse", in_reverse),
    Fault("ZConcatExt2FusionPass", "joined in reverse", constant(lambda c: c[::-1]), PADDED),
    Fault("GatherFusionPass", "an index off by one", constant(lambda i: i - 1), PICKED),
    Fault(
        "TransOpSymmetryEliminationPass",
        "a wrong perm",
        attribute("Transpose", "perm", lambda p: [*p[:2], p[3], p[2]]),
        TWICE_TURNED,
    ),
    Fault("ShapeReshapePass", "sizes swapped", constant(lambda s: s[[0, 1, 3, 2]]), HEADS),
    Fault("MultiHeadAttentionFusionPass", "a lost mask", without("MultiHeadAttention", 5)),
    Fault(
        "MultiHeadAttentionFusionPass",
        "a scale inverted",
        attribute("MultiHeadAttention", "scale", lambda s: 1 / s),
    ),
    Fault(
        "ResidualSumPass", "one operand twice", inputs("Sum", lambda values: [values[0], values[0]])
    ),
    Fault("BiasGeluFusionPass", "negative numbers lost", behind("Relu")),
    Fault(
        "QuickGeluFusionPass",
        "alpha of another formula",
        attribute("QuickGelu", "alpha", lambda _: 1.702),
        GATED,
    ),
)
