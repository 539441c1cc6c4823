"""What MindSpore's rules for a CPU make of known networks, as its expanders write them: x is [8,
64].
"""

from __future__ import annotations

import pytest
from harness import parse

from fusionc.graph_kernel.flags.flag_table import Flags
from fusionc.graph_kernel.select.split.split_patterns import PATTERNS
from fusionc.graph_kernel.select.split.splitter import split
from fusionc.shapes.inference import typed_model

GELU = """agraph (float[8,64] x) => (float[8,64] y)
<float a = {0.044715}, float b = {0.7978846}, float half = {0.5}, float one = {1.0}> {
    xx = Mul (x, x)  xxx = Mul (xx, x)  s = Mul (xxx, a)  t = Add (x, s)  u = Mul (t, b)
    v = Tanh (u)  w = Add (v, one)  h = Mul (x, half)  y = Mul (h, w) }"""
RMS_NORM = """agraph (float[8,64] x, float[64] gamma) => (float[8,64] y)
<float n = {0.015625}, float eps = {1e-5}, int64[1] axes = {-1}> {
    xx = Mul (x, x)  mean = Mul (xx, n)  sum = ReduceSum (mean, axes)  var = Add (sum, eps)  std = Sqrt (var)
    rstd = Reciprocal (std)  scaled = Mul (x, rstd)  y = Mul (scaled, gamma) }"""
ADD_RMS_NORM = """agraph (float[8,64] a, float[8,64] b, float[64] gamma) => (float[8,64] y, float[8,64] x)
<float n = {0.015625}, float eps = {1e-5}, int64[1] axes = {-1}> {
    x = Add (a, b)  xx = Mul (x, x)  mean = Mul (xx, n)  sum = ReduceSum (mean, axes)  var = Add (sum, eps)
    std = Sqrt (var)  rstd = Reciprocal (std)  scaled = Mul (x, rstd)  y = Mul (scaled, gamma) }"""
SOFTMAX = """agraph (float[8,64] x) => (float[8,64] y) <int64[1] axes = {-1}> {
    max = ReduceMax (x, axes)  sub = Sub (x, max)  exp = Exp (sub)  sum = ReduceSum (exp, axes)  y = Div (exp, sum) }"""
LAYER_NORM = """agraph (float[8,64] x, float[64] gamma, float[64] beta) => (float[8,64] y)
<float n = {0.015625}, float eps = {1e-5}, int64[1] axes = {-1}> {
    sum = ReduceSum (x, axes)  mean = Mul (sum, n)  sub = Sub (x, mean)  square = Mul (sub, sub)
    sum2 = ReduceSum (square, axes)  variance = Mul (sum2, n)  safe = Add (variance, eps)  std = Sqrt (safe)
    rstd = Reciprocal (std)  norm = Mul (sub, rstd)  scaled = Mul (norm, gamma)  y = Add (scaled, beta) }"""
EASY_FUSE = """agraph (float[1,1024] x0, float[1024,1024] x1) => (float[1,1024] p, float[1024,1024] q) {
    root = Sqrt (x0)  p = Neg (root)  add = Add (x1, root)  q = Mul (add, add) }"""
RESHAPE_TRANSPOSE = """agraph (float[8,64] x, float[64] bias) => (float[16,32] y) <int64[2] shape = {32, 16}> {
    add = Add (x, bias)  reshaped = Reshape (add, shape)  exp = Exp (reshaped)
    turned = Transpose <perm = [1, 0]> (exp)  y = Neg (turned) }"""
BROADCAST_REDUCE = """agraph (float[8,1] x, float[8,1] y) => (float[8,1] neg, float[8,64] div, float[8,1] sum)
<int64[2] shape = {8, 64}, int64[1] axes = {-1}> {
    neg = Neg (x)  mul = Mul (neg, y)  wide = Expand (mul, shape)  div = Div (wide, x)  sum = ReduceSum (div, axes) }"""

EXAMPLES = [  # graph, the outputs of the operators of each area
    ("gelu", GELU, ["xx xxx s t u v w h y"]),
    ("rms norm", RMS_NORM, ["xx mean sum", "var std rstd scaled y"]),
    ("add and rms norm", ADD_RMS_NORM, ["x xx mean sum", "var std rstd scaled y"]),
    ("softmax", SOFTMAX, ["max", "sub exp", "sum", "y"]),
    (
        "layer norm",
        LAYER_NORM,
        ["sum", "mean sub square", "sum2", "variance safe std rstd norm scaled y"],
    ),
    ("easy fuse", EASY_FUSE, ["root p", "add q"]),
    ("reshape and transpose", RESHAPE_TRANSPOSE, ["add reshaped exp", "turned", "y"]),
    ("broadcast and reduce", BROADCAST_REDUCE, ["neg mul", "wide div", "sum"]),
]


def areas(graph: str, flags: Flags | None = None, most: int = 200) -> list[str]:
    main = typed_model(parse(graph), "").main
    patterns = [p for p in PATTERNS if (flags or Flags()).has_pattern(p.name)]
    regions, counts = split(main, patterns, lambda node: None, most)
    assert all(count.matched == count.effected + sum(count.refused.values()) for count in counts)
    names = [
        [n.outputs[0].name for n in sorted(r.nodes, key=lambda n: n.position)] for r in regions
    ]
    return [" ".join(group) for group in names]


@pytest.mark.parametrize(
    ("graph", "expected"), [e[1:] for e in EXAMPLES], ids=[e[0] for e in EXAMPLES]
)
def test_worked_examples(graph: str, expected: list[str]) -> None:
    assert areas(graph) == expected


@pytest.mark.parametrize(
    ("graph", "flags", "expected"),
    [
        (GELU, Flags(disable_fusion_pattern=("elemwise",)), 9),
        (GELU, Flags(enable_fusion_pattern_only=("reduce",)), 9),
        (GELU, Flags(disable_fusion_pattern=("elemwise_broadcast_fwd_width", "bwd_width")), 3),
        (RMS_NORM, Flags(disable_fusion_pattern=("reduce", "bwd_width")), 2),  # the other way round
        (RMS_NORM, Flags(disable_fusion_pattern=("bwd",)), 3),
        (RMS_NORM, Flags(disable_fusion_pattern=("reduce", "bwd")), 4),
        (RESHAPE_TRANSPOSE, Flags(disable_fusion_pattern=("reshape", "elemwise")), 5),
        (RESHAPE_TRANSPOSE, Flags(disable_fusion_pattern=("isolate",)), 3),
    ],
)
def test_each_pattern_switched_off_is_seen(graph: str, flags: Flags, expected: int) -> None:
    assert len(areas(graph, flags)) == expected


def test_the_number_of_operators_is_limited() -> None:
    assert max(len(area.split()) for area in areas(GELU, most=4)) == 4
    assert len(areas(GELU, most=1)) == 9


@pytest.mark.parametrize("switched_off", ["bwd", "reduce"])
@pytest.mark.parametrize(("count", "expected"), [(20, 1), (21, 2)])
def test_at_most_20_operators_are_in_front_of_a_reduction(
    switched_off: str, count: int, expected: int
) -> None:
    lines = [f"v{i + 1} = {('Exp', 'Neg')[i % 2]} (v{i})" for i in range(count)]
    graph = f"agraph (float[8,4] v0) => (float y) {{ {' '.join(lines)}  y = ReduceSum <keepdims = 0> (v{count}) }}"
    assert len(areas(graph, Flags(disable_fusion_pattern=(switched_off,)))) == expected


@pytest.mark.parametrize(("count", "expected"), [(5, 1), (6, 2), (8, 4)])
def test_a_product_takes_5_outputs(count: int, expected: int) -> None:
    outputs = ", ".join(f"float[8,4] y{i}" for i in range(count))
    sums = " ".join(f"y{i} = Add (p, b)" for i in range(count))
    graph = f"agraph (float[8,6] a, float[6,4] w, float[8,4] b) => ({outputs}) {{ p = MatMul (a, w) {sums} }}"
    assert len(areas(graph)) == expected


def test_a_product_takes_those_with_the_fewest_outputs() -> None:
    graph = """agraph (float[8,6] a, float[6,4] w)
    => (float[8,4] s, float[8,4] t, float[8,4] y1, float[8,4] y2, float[8,4] y3, float[8,4] y4) {
        p = MatMul (a, w)  s = Exp (p)  t = Neg (s)  y1 = Abs (p)  y2 = Neg (p)  y3 = Sin (p)  y4 = Cos (p) }"""
    assert areas(graph) == ["p y1 y2 y3 y4", "s t"]


def test_two_reshapes_are_not_isolated() -> None:
    graph = """agraph (float[8,4] a) => (float[4,8] y) <int64[1] one = {32}, int64[2] two = {4, 8}> {
        r = Reshape (a, one)  s = Reshape (r, two)  y = Softmax (s) }"""
    assert areas(graph) == ["r s", "y"]


def test_what_is_enlarged_later_is_not_taken_forward() -> None:
    graph = """agraph (float[1] a, float[4] b, float[8,4] x) => (float[8,4] y) <int64[2] shape = {1, 4}> {
        p = Neg (a)  q = Exp (b)  s = Add (p, q)  r = Reshape (s, shape)  w = Neg (x)  y = Add (r, w) }"""
    assert areas(graph, Flags(disable_fusion_pattern=("bwd",))) == ["p", "q s", "r w y"]


def test_where_not_all_fit_the_smallest_are_taken() -> None:
    graph = """agraph (float[8] a, float[8] b) => (float[8] y) {
        p = Exp (a)  q = Neg (p)  r = Abs (q)  s = Sin (b)  y = Add (r, s) }"""
    assert areas(graph, most=3) == ["p q r", "s y"]
