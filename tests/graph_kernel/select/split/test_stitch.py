"""Reductions and what needs them are one area, as far as they go over the same row."""

from __future__ import annotations

import pytest
from harness import parse

from fusionc.graph_kernel.select.split.split_patterns import PATTERNS
from fusionc.graph_kernel.select.split.splitter import split
from fusionc.graph_kernel.select.split.stitch import STITCH
from fusionc.shapes.inference import typed_model

CASES = [
    (
        "softmax, written out",
        "agraph (float[N,8] x) => (float[N,8] y) <int64[1] axes = {-1}> { m = ReduceMax (x, "
        "axes)  s = Sub (x, m)"
        "e = Exp (s)  t = ReduceSum (e, axes)  y = Div (e, t) }",
        ["m s e t y"],
    ),
    (
        "softmax with mask",
        "agraph (float[B,H,S,T] x, float[B,1,1,T] m) => (float[B,H,S,T] y) <float c = {0.1}>"
        "{ s = Mul (x, c)  t = Add (s, m)  y = Softmax (t) }",
        ["s t y"],
    ),
    (
        "residual and LayerNormalization",
        "agraph (float[N,S,8] a, float[N,S,8] b, float[8] g) => (float[N,S,8] y, float[N,S,8] s)"
        "{ s = Add (a, b)  y = LayerNormalization (s, g) }",
        ["s y"],
    ),
    (
        "rotary embedding",
        "agraph (float[B,H,S,8] x, float[B,1,S,8] cos, float[B,1,S,8] sin) => (float[B,H,S,8] y)"
        "<int64[1] zero = {0}, int64[1] four = {4}, int64[1] eight = {8}, int64[1] last = {3}> {"
        "l = Slice (x, zero, four, last)  r = Slice (x, four, eight, last)  n = Neg (r)"
        "h = Concat <axis = -1> (n, l)  p = Mul (x, cos)  q = Mul (h, sin)  y = Add (p, q) }",
        ["l r n h p q y"],
    ),
    (
        "rows of different lengths",
        "agraph (float[N,8,4] x) => (float[N,8] y) <int64[1] last = {-1}> {"
        "a = ReduceMax <keepdims = 0> (x, last)  y = Softmax (a) }",
        ["a", "y"],
    ),
    (
        "a normalization that would be computed for each head",
        "agraph (float[N,S,8] x, float[8] g) => (float[N,2,S,4] y) <int64[4] shape = {0, 0, 2, "
        "4}> {"
        "n = LayerNormalization (x, g)  r = Reshape (n, shape)  y = Transpose <perm = [0, 2, 1, "
        "3]> (r) }",
        ["n", "r y"],
    ),
    (
        "a reduction across rows",
        "agraph (float[N,8,4] x) => (float[N,1,4] y) <int64[1] axes = {1}> { e = "
        "LayerNormalization (x, x)"
        "y = ReduceMean (e, axes) }",
        ["e", "y"],
    ),
    (
        "what would be computed again for each head",
        "agraph (float[B,1,S,8] p, float[B,H,S,8] x) => (float[B,H,S,8] y, float[B,1,S,8] c)"
        "{ c = Cos (p)  y = Mul (x, c) }",
        ["c", "y"],
    ),
    (
        "rows of different lengths in two operands",
        "agraph (float[N,8] x, float[N,8,4] z) => (float[N,8] y) <int64[1] last = {-1}> {"
        "p = Softmax (x)  q = ReduceMax <keepdims = 0> (z, last)  y = Add (p, q) }",
        ["p y", "q"],
    ),
    (
        "a row of which some are picked",
        "agraph (float[4,8] x) => (float[3,8] y) <int64[3] picks = {0, 0, 1}> {"
        "p = Softmax (x)  y = Gather (p, picks) }",
        ["p", "y"],
    ),
    (
        "a reduction over nothing",
        (
            "agraph (float[N,8] x) => (float[N,8] y) { r = ReduceSum <noop_with_empty_axes = 1> "
            "(x)  y = Neg (r) }"
        ),
        ["r", "y"],
    ),
    (
        "a transposition that takes elements apart",
        (
            "agraph (float[N,M] x) => (float[M,N] y) { e = Exp (x)  y = Transpose <perm = [1, "
            "0]> (e) }"
        ),
        ["e", "y"],
    ),
]


@pytest.mark.parametrize(
    ("graph", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_stitch(graph: str, expected: list[str]) -> None:
    regions, _ = split(
        typed_model(parse(graph), "").main, [*PATTERNS, STITCH], lambda node: None, 200
    )
    names = [
        [n.outputs[0].name for n in sorted(r.nodes, key=lambda n: n.position)] for r in regions
    ]
    assert [" ".join(group) for group in names] == expected


@pytest.mark.parametrize(("opset", "expected"), [(12, ["p", "y"]), (13, ["p y"])])
def test_the_row_of_an_older_softmax_has_all_axes(opset: int, expected: list[str]) -> None:
    text = (
        "agraph (float[N,8,4] x) => (float[N,8,1] y) { p = Softmax <axis = AXIS> (x)  y = "
        "ReduceMax <axes = [2]> (p) }"
    )
    main = typed_model(
        parse(text.replace("AXIS", "1" if opset < 13 else "2"), opset=opset), ""
    ).main
    regions, _ = split(main, [STITCH], lambda node: None, 200)
    assert [
        " ".join(n.outputs[0].name for n in region.nodes[::-1]) for region in regions
    ] == expected
