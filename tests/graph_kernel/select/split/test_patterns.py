"""The patterns that need operators of their own, and shapes that are not known."""

from __future__ import annotations

import pytest
from harness import parse

from fusionc.graph_kernel.select.split.split_patterns import PATTERNS
from fusionc.graph_kernel.select.split.splitter import split
from fusionc.shapes.inference import typed_model

CASES = [
    (  # equal symbols are equal sizes
        "agraph (float[N,M] a, float[N,M] b) => (float[N,M] y) { s = Exp (a)  y = Add (s, b) }",
        "elemwise_broadcast_fwd_depth",
        ["s y"],
    ),
    (  # other symbols may be any sizes
        "agraph (float[N,M] a, float[K,M] b) => (float[?,M] y) { s = Exp (a)  y = Add (s, b) }",
        "elemwise_broadcast_fwd_depth",
        ["s", "y"],
    ),
    (
        "agraph (float[N,M] a, float[K,M] b) => (float[?,M] y) { s = Exp (a)  y = Add (s, b) }",
        "elemwise_broadcast_bwd_depth",
        ["s y"],
    ),
    (  # scalar constants do not broadcast
        (
            "agraph (float[N,M] a) => (float[N,M] y) <float[1] c = {2.0}> { s = Exp (a)  y = Mul "
            "(c, s) }"
        ),
        "elemwise_broadcast_fwd_depth",
        ["s y"],
    ),
    (  # of neighbours of one kind a user
        "agraph (float[8,4] a) => (float[32] y) <int64[1] shape = {32}> {"
        "e = Exp (a)  r = Reshape (e, shape)  y = Neg (r) }",
        "reshape",
        ["e", "r y"],
    ),
    (  # of several kinds the lowest
        "agraph (float[8,4] a, float[1] b) => (float[32] y) <int64[1] shape = {32}> {"
        "e = Exp (a)  r = Reshape (e, shape)  s = Neg (b)  y = Add (r, s) }",
        "reshape",
        ["e r", "s", "y"],
    ),
    (
        "agraph (float[8] a) => (float[8] y, float[8] z) { s = Exp (a)  y = Neg (s)  z = Abs (s) }",
        "elemwise_broadcast_fwd_depth",
        ["s", "y", "z"],
    ),
    (  # a broadcast, even where it makes nothing larger
        (
            "agraph (float[8,4] a) => (float[8,4] y) <int64[2] shape = {8, 4}> { s = Exp (a)  y "
            "= Expand (s, shape) }"
        ),
        "elemwise_broadcast_fwd_depth",
        ["s", "y"],
    ),
    (
        "agraph (float[8,4] a) => (float[8,1] y, float[8,4] z) <int64[1] axes = {1}> {"
        "s = Exp (a)  y = ReduceSum (s, axes)  z = Neg (s) }",
        "reduce_fwd_depth",
        ["s", "y", "z"],
    ),
    (  # the sum with its product needs the other product, which needs what both read
        "agraph (float[4,4] a) => (float[4,1] y) <int64[1] axes = {1}> {"
        "s = Exp (a)  m = MatMul (s, a)  p = Mul (s, m)  y = ReduceSum (p, axes) }",
        "reduce_fwd_width",
        ["s", "m", "p y"],
    ),
    (
        "agraph (float[8,1] a, float[8,4] b) => (float[8,1] y, float[8,4] z)"
        "{ s = Exp (a)  y = Neg (s)  z = Add (s, b) }",
        "elemwise_broadcast_bwd_width",
        ["s", "y", "z"],
    ),
    (
        (
            "agraph (float[4,4] a) => (float[4,4] y) { s = Exp (a)  n = Neg (s)  m = MatMul (n, "
            "n)  y = Add (s, m) }"
        ),
        "elemwise_broadcast_bwd_width",
        ["s", "n", "m", "y"],
    ),
    (
        "agraph (float[8,4] a, float[4] b) => (float[8,1] y) <int64[1] axes = {1}> {"
        "p = Exp (b)  s = Add (a, p)  y = ReduceSum (s, axes) }",
        "elemwise_broadcast_bwd_depth",
        ["p s", "y"],
    ),
    (
        "agraph (float[N,8] a) => (float[N,4] y) <int64[1] f = {0}, int64[1] t = {4}, int64[1] x "
        "= {1}>"
        "{ s = Slice (a, f, t, x)  y = Exp (s) }",
        "slice",
        ["s y"],
    ),
    (
        "agraph (float[N,8] a, float[4] b) => (float[N,4] y) <int64[1] f = {0}, int64[1] t = "
        "{4}, int64[1] x = {1}>"
        "{ s = Slice (a, f, t, x)  q = Neg (b)  y = Add (s, q) }",
        "slice",
        ["s", "q", "y"],
    ),
    (
        "agraph (float[4,8] a) => (float[4,4] y) <int64[1] f = {0}, int64[1] t = {4}, int64[1] x "
        "= {1}>"
        "{ s = Slice (a, f, t, x)  m = MatMul (s, s)  y = Add (s, m) }",
        "slice",
        ["s", "m", "y"],
    ),
    (
        "agraph (float[8,4] a, float[4,6] w) => (float[8,6] y, float[8,6] z)"
        "{ p = MatMul (a, w)  y = Exp (p)  z = Neg (p) }",
        "matmul_depth",
        ["p y z"],
    ),
    (
        "agraph (float[8,4] a, float[4,1] w) => (float[8,1] y) { p = MatMul (a, w)  y = Exp (p) }",
        "matmul_depth",
        ["p", "y"],
    ),
    (
        "agraph (float[8,4] a, float[4,6] w) => (float[48] y) <int64[1] shape = {48}>"
        "{ p = MatMul (a, w)  y = Reshape (p, shape) }",
        "matmul_depth",
        ["p", "y"],
    ),
    (
        (
            "agraph (float[8,4] a) => (float y) { n = IsNaN (a)  f = Cast <to = 1> (n)y = "
            "ReduceMax <keepdims = 0> (f) }"
        ),
        "elemany_addn",
        ["n f y"],
    ),
    (
        "agraph (float[8,4] a) => (float y) { e = Exp (a)  y = ReduceMax <keepdims = 0> (e) }",
        "elemany_addn",
        ["e", "y"],
    ),
    (
        "agraph (float[8,4] a) => (float[4] y) <int64[1] axes = {0}, int64[2] shape = {8, 4}>"
        "{ r = Reshape (a, shape)  y = ReduceSum <keepdims = 0> (r, axes) }",
        "isolate_reshape",
        ["r y"],
    ),
    (  # what is no kernel of its own is no better with another such
        "agraph (float[8,4] a) => (float y) <int64[1] one = {32}, int64[2] two = {4, 8}> {"
        "r = Reshape (a, one)  s = Reshape (r, two)  y = ReduceSum <keepdims = 0> (s) }",
        "isolate_reshape",
        ["r", "s y"],
    ),
    (  # fused, the two would need each other
        (
            "agraph (float[8,4] a, float[4,4] w) => (float[8,4] y) { e = Exp (a)  m = MatMul (e, "
            "w)  y = Add (e, m) }"
        ),
        "elemwise_broadcast_fwd_width",
        ["e", "m", "y"],
    ),
]


@pytest.mark.parametrize(("graph", "pattern", "expected"), CASES)
def test_pattern(graph: str, pattern: str, expected: list[str]) -> None:
    main = typed_model(parse(graph), "").main
    regions, (count,) = split(
        main, [p for p in PATTERNS if p.name == pattern], lambda node: None, 200
    )
    names = [
        [n.outputs[0].name for n in sorted(r.nodes, key=lambda n: n.position)] for r in regions
    ]
    assert [" ".join(group) for group in names] == expected
    assert (count.effected > 0) == (max(map(len, names)) > 1)


def test_what_no_kernel_can_contain_is_not_fused() -> None:
    main = typed_model(
        parse("agraph (float[8] a) => (float[8] y) { b = Exp (a)  c = Neg (b)  y = Abs (c) }"), ""
    ).main
    regions, _ = split(main, PATTERNS, lambda node: "no" if node.op == "Neg" else None, 200)
    assert [len(region.nodes) for region in regions] == [1, 1, 1]
