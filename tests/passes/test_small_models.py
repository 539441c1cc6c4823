"""Small models on which other optimizers make mistakes, with all passes together."""

from __future__ import annotations

from dataclasses import dataclass, field

import onnx
import pytest
from harness import assert_same_numbers, effected, interface, operators, optimize, parse
from onnx import ModelProto

from fusionc.passes import PASSES as REGISTRY

ALL = [p for p in REGISTRY if p.numerics != "approximate" and p.name != "FunctionInlinePass"]


@dataclass(frozen=True)
class Small:
    name: str
    graph: str
    has: dict[str, int]  # how many nodes of these operators the result has
    opset: int = 18
    sizes: dict[str, int] = field(default_factory=dict)
    runs: bool = True  # whether both models compute the same: not where something is random


CASES = [
    Small(
        "the shape of an input, from an axis on",
        "agraph (float[N,3,K] x) => (int64 y) <int64 i = {0}> { s = Shape <start = 1> (x) y = Gather (s, i) }",
        {},
    ),
    Small(
        "a mask that is used",
        "agraph (float[N,3] x) => (float[N,3] y, bool[N,3] z) { y, m = Dropout (x) z = Not (m) }",
        {"Dropout": 1},
    ),
    Small(
        "a random operator",
        "agraph (float[N,3] x) => (float[N,3] y) "
        "{ r = RandomUniformLike (x) s = RandomUniformLike (x) y = Sub (r, s) }",
        {"RandomUniformLike": 2},
        runs=False,
    ),
    Small(
        "Constant value_float",
        "agraph (float[N] x) => (float[N] y) { c = Constant <value_float = 0.1> () y = Add (x, c) }",
        {"Constant": 0},
    ),
    Small(
        "text",
        'agraph (string[N] x) => (bool[N] y) { c = Constant <value_string = "1"> () d = Identity (c) '
        "y = Equal (x, d) }",
        {"Constant": 0, "Identity": 0, "Equal": 1},
        opset=19,
    ),
    Small(
        "an If of which the condition is known and a branch is a constant",
        """agraph (float[3] x) => (float[3] y) <bool c = {1}, float[3] k> {
            b = If (c) <then_branch = t () => (float[3] p) { p = Identity (k) },
                        else_branch = e () => (float[3] q) <float[3] q = {1, 2, 3}> { }>
            y = Add (x, b)
        }""",
        {},
    ),
    Small(
        "4 MB out of 16 bytes",
        "agraph (float[N,1000] x) => (float[N,1000] y) <int64[2] s = {1000, 1000}> "
        "{ c = ConstantOfShape <value = float[1] {0.001}> (s) y = MatMul (x, c) }",
        {"ConstantOfShape": 1, "MatMul": 1},
    ),
    Small(
        "batch normalization of a convolution",
        """agraph (float[N,3,6,6] x) => (float[N,a,b,c] y)
           <float[4,3,3,3] W, float[4] s, float[4] o, float[4] m, float[4] v> {
            a = Conv (x, W)
            y = BatchNormalization (a, s, o, m, v)
        }""",
        {"Conv": 1, "BatchNormalization": 0},
    ),
    Small(
        "weights of 4 bits",  # two in each number
        """agraph (float[N,4] x) => (float[N,2] y) <float[2] s = {0.5, 0.25}> {
            w = Constant <value = int4[4,2] {33, 195, 165, 135}> ()
            d = DequantizeLinear <axis = 1> (w, s)
            y = MatMul (x, d)
        }""",
        {"DequantizeLinear": 1, "MatMul": 1},
        opset=21,
    ),
    Small(
        "what can be computed, and Identity, inside a branch",
        """agraph (float[3] x, bool c) => (float[3] y) <float[3] j, float[3] k> {
            y = If (c) <then_branch = t () => (float[3] p) { a = Add (j, k) b = Identity (x) p = Mul (a, b) },
                        else_branch = e () => (float[3] q) { q = Neg (x) }>
        }""",
        {"Add": 0, "Identity": 0, "Mul": 1, "Neg": 1},
    ),
]


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_small_model(case: Small) -> None:
    model = parse(case.graph, case.opset)
    onnx.checker.check_model(right_result(model, case), full_check=True)
    for (
        output
    ) in model.graph.output:  # onnxruntime runs models that do not say the shape of an output
        output.type.tensor_type.ClearField("shape")
    right_result(model, case)


def right_result(model: ModelProto, case: Small) -> ModelProto:
    result, counts = optimize(model, ALL)
    assert all(count.matched == count.effected + sum(count.refused.values()) for count in counts)
    assert interface(result) == interface(model)
    assert {op: operators(result)[op] for op in case.has} == case.has
    if case.runs:
        assert_same_numbers(model, result, "rounding", case.sizes)
    again, counts = optimize(result, ALL)
    assert effected(counts) == 0 and again == result
    return result


def test_a_function_that_is_called_stays() -> None:
    model = onnx.parser.parse_model("""
        <ir_version: 10, opset_import: ["" : 18, "functions" : 1]>
        agraph (float[N,3] x) => (float[N,3] y) { y = functions.own (x) }
        <domain: "functions", opset_import: ["" : 18]> own (a) => (b) { c = Identity (a) b = Relu (c) }
    """)
    result, _ = optimize(model, ALL)
    assert operators(result) == {"own": 1, "Relu": 1}
    assert_same_numbers(model, result, "bitwise", {})
