"""Kernel packets: what is computed from sizes becomes one area, and what else does not."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from fused import fuse
from harness import assert_same_numbers, interface, parse

from fusionc.graph_kernel.flags.flag_table import Flags
from fusionc.graph_kernel.library.build_library import build

HEAD = """agraph (float[N,4,M] x, float[K] y) => (int64[P] z)
    <int64 i = {2}, int64[1] j = {0}, int64 one = {1}, int64 o = {0}>"""
COUNTED = f"{HEAD} {{ s = Shape (x)  d = Gather (s, i)  e = Mul (d, d)  z = Range (o, e, one) }}"

FIRES = {
    "one size": (COUNTED, "Shape+Gather+Mul"),
    "another rank": (
        COUNTED.replace("[N,4,M]", "[M]").replace("i = {2}", "i = {0}"),
        "Shape+Gather+Mul",
    ),
    "some of the sizes": (
        f"{HEAD} {{ s = Shape <start = -2> (x)  t = Gather (s, j)  u = Add (t, s)  w = ReduceMax "
        "<keepdims = 0> (u)"
        "  z = Range (o, w, one) }",
        "Shape+Gather+Add+ReduceMax",
    ),
    "a result that is put out": (
        "agraph (float[N,4] x) => (int64[2] z, float[P,Q] w) <int64[1] h = {2}> {"
        " s = Shape (x)  z = Mul (s, h)  w = ConstantOfShape (z) }",
        "Shape+Mul",
    ),
    "two sources, two results": (
        "agraph (float[N,4] x, float[K] y) => (float[P,Q] z, float[P] w) {"
        " s = Shape (x)  t = Shape (y)  a = Add (s, t)  b = Mul (t, t)"
        "  z = ConstantOfShape (a)  w = ConstantOfShape (b) }",
        None,
    ),
    "in a branch": (
        """agraph (float[N,4] x, bool c) => (float[P] z) {
            z = If (c) <
              then_branch = t () => (float[P] r) <int64 i = {0}, int64 o = {0}, int64 e = {1}, float[1] v = {0.5}> {
                s = Shape (x)  d = Gather (s, i)  u = Mul (d, d)  g = Range (o, u, e)  f = Cast <to = 1> (g)
                r = Add (f, v) },
              else_branch = e () => (float[P] q) <float[1] v = {0.5}> { q = Neg (v) }> }""",
        "Shape+Gather+Mul",
    ),
}
STAYS = {
    "a lone Shape": "agraph (float[N] x) => (float[N] z) { s = Shape (x)  z = ConstantOfShape (s) }",
    "no size": (
        "agraph (int64[1] x) => (float[P] z) { d = Neg (x)  e = Abs (d)  z = ConstantOfShape (e) }"
    ),
    "beside what is no size": "agraph (float[N] x, int64[1] k) => (float[P] z) {"
    " s = Shape (x)  t = Add (s, k)  z = ConstantOfShape (t) }",
    "what no kernel can contain": "agraph (float[N,4] x) => (int64[1,P] z) { s = Shape (x)  z = NonZero (s) }",
    "too many elements": "agraph (float[N] x) => (int64[17] z) <int64[1] n = {17}> {"
    " s = Shape (x)  z = Expand (s, n) }",
    "known sizes": (
        "agraph (float[2,4] x) => (float[P,Q] z) { s = Shape (x)  t = Mul (s, s)  z = "
        "ConstantOfShape (t) }"
    ),
}
FLAGS: list[tuple[Mapping[str, Any], bool]] = [
    ({}, True),
    ({"opt_level": 1}, True),
    ({"enable_packet_ops_only": ("Range",)}, True),
    ({"enable_packet_ops_only": ("Reshape", "Mul")}, False),
    ({"enable_packet_ops_only": ("Range", "Mul")}, True),
    ({"disable_packet_ops": ("Mul", "Rang")}, True),
    ({"disable_packet_ops": ("Range",)}, False),
    ({"disable_pass": ("8.0",)}, False),
    ({"disable_pass": ("kernelpacket.symbol_engine_extender",)}, False),
    ({"disable_cluster_ops": ("Mul", "Gather")}, False),
]


def packets(model: onnx.ModelProto) -> list[str]:
    found = [function for function in model.functions if "_packet_" in function.name]
    return [
        "+".join(node.op_type for node in function.node if node.op_type != "Constant")
        for function in found
    ]


@pytest.mark.parametrize("name", FIRES)
def test_what_becomes_a_packet(name: str) -> None:
    text, expected = FIRES[name]
    model = parse(text)
    result, _ = fuse(model)
    assert len(packets(result)) == 1 and expected in (None, *packets(result))
    onnx.checker.check_model(result, full_check=True)
    assert interface(result) == interface(model)
    for sizes in ({"N": 2, "M": 3, "K": 2}, {"N": 1, "M": 1, "K": 1}, {"N": 5, "M": 7, "K": 5}):
        assert_same_numbers(model, result, "exact", sizes)
    again, _ = fuse(result)
    assert again == result


@pytest.mark.parametrize("name", STAYS)
def test_what_does_not(name: str) -> None:
    assert not packets(fuse(parse(STAYS[name]))[0])


@pytest.mark.parametrize(("flags", "expected"), FLAGS)
def test_flags(flags: Mapping[str, Any], expected: bool) -> None:
    result, _ = fuse(parse(COUNTED), Flags(**{"opt_level": 2, **flags}))
    assert bool(packets(result)) == expected


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ({"enable_packet_ops_only": ("Range",)}, True),
        ({"enable_packet_ops_only": ("ConstantOfShape", "Mul")}, True),
        ({"enable_packet_ops_only": ("Mul",)}, False),
        ({"disable_packet_ops": ("Range",)}, False),
    ],
)
def test_flags_of_a_packet_that_two_operators_use(flags: Mapping[str, Any], expected: bool) -> None:
    shared = COUNTED.replace(
        "z = Range", "f = Reshape (e, h)  w = ConstantOfShape (f)  z = Range"
    ).replace("> {", ", int64[1] h = {1}> {")
    shared = re.sub(r"=> \(([^)]*)\)", r"=> (\1, float[P2] w)", shared)
    result, _ = fuse(parse(shared), Flags(**{"opt_level": 2, **flags}))
    assert bool(packets(result)) == expected


def test_what_an_area_has_taken() -> None:
    text = "s = Shape (x)  d = Gather (s, i)  f = Cast <to = 1> (d)  z = Div (y, f)"
    model = parse(
        f"agraph (float[N,4] x, float[K] y) => (float[K] z) <int64 i = {{0}}> {{ {text} }}"
    )
    result, fused = fuse(model, Flags(opt_level=3, enable_stitch_fusion=True))
    assert not packets(result) and all(count.matched == count.effected for count in fused.counts)


@pytest.mark.usefixtures("needs_a_compiler")
def test_sizes_of_one_symbol_may_differ() -> None:
    """onnxruntime does not ask whether they are equal, and nothing that reads sizes alone needs
    it.
    """
    model = parse(
        "agraph (float[N,N] x, float[N] y) => (int64[2] z) { s = Shape (x)  t = Shape (y)  z = "
        "Add (s, t) }"
    )
    result, fused = fuse(model)
    assert packets(result) == ["Shape+Shape+Add"]
    (area,) = fused.areas
    built = build([area])
    options = onnxruntime.SessionOptions()
    options.register_custom_ops_library(str(built.library))
    session = onnxruntime.InferenceSession(result.SerializeToString(), options)
    feeds = {"x": np.ones((2, 3), np.float32), "y": np.ones(5, np.float32)}
    assert session.run(None, feeds)[0].tolist() == [7, 8]
