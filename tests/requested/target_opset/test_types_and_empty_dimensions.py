"""What onnx's converter does for float, and for dimensions that are not empty, holds for the others as well."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from harness import parse, session
from onnx import ModelProto

from fusionc.requested.target_opset import raise_opset

DTYPES = {"float16": np.float16, "double": np.float64, "float": np.float32}


def raised(model: ModelProto, version: int) -> ModelProto:
    copy = ModelProto()
    copy.CopyFrom(model)
    result = raise_opset(copy, version)
    onnx.checker.check_model(result, full_check=True)
    return result


CLIPS = ["<min = 0.1, max = 6.0>", "<min = -0.5>", "<max = 0.3>", ""]


@pytest.mark.parametrize("bounds", CLIPS)
@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize("opset", [7, 10])
def test_clip(kind: str, bounds: str, opset: int) -> None:
    """onnxruntime has a Clip of attributes for float alone: what that would be is computed here."""
    text = f"""({kind}[12] x, bool c) => ({kind}[12] y, {kind}[12] z) {{
        y = Clip {bounds} (x)
        z = If (c) <then_branch = t () => ({kind}[12] p) {{ p = Clip {bounds} (x) }},
                    else_branch = e () => ({kind}[12] q) {{ q = Identity (x) }}> }}"""
    model = parse(f"agraph {text}", opset)
    model.graph.node[0].name = "the Clip"
    result = raised(model, 18)
    assert next(node.name for node in result.graph.node if node.op_type == "Clip") == "the Clip"
    x = np.array([-9, -1, -0.5, 0, 0.1, 0.25, 0.3, 1, 6, 9, 60000, -60000], DTYPES[kind])
    y, z = session(result).run(None, {"x": x, "c": np.array(True)})
    given = {a.name: np.array(a.f).astype(x.dtype) for a in model.graph.node[0].attribute}
    np.testing.assert_array_equal(
        y, np.clip(x, given.get("min", -np.inf), given.get("max", np.inf))
    )
    np.testing.assert_array_equal(z, y)


def test_bounds_that_are_not_given_are_those_of_float() -> None:
    for kind, expected in (
        ("float16", [np.inf, -np.inf]),
        ("double", np.float64(np.float32([3.4028235e38, -3.4028235e38]))),
    ):
        result = raised(parse(f"agraph ({kind}[2] x) => ({kind}[2] y) {{ y = Clip (x) }}", 7), 13)
        (y,) = session(result).run(None, {"x": np.array([np.inf, -np.inf], DTYPES[kind])})
        np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("kind", DTYPES)
def test_pad(kind: str) -> None:
    text = f"({kind}[2,3] x) => ({kind}[2,5] y) {{ y = Pad <pads = [0,1,0,1], value = 0.5> (x) }}"
    result = raised(parse(f"agraph {text}", 10), 18)
    x = np.arange(6).reshape(2, 3).astype(DTYPES[kind])
    np.testing.assert_array_equal(
        session(result).run(None, {"x": x})[0], np.pad(x, ((0, 0), (1, 1)), constant_values=0.5)
    )


SHAPES = {
    "[8,4,0,1]": [(8, 4, 0, 1)],
    "[N,4,0]": [(2, 4, 0), (0, 4, 0)],
    "[N,M,K]": [(2, 3, 4), (2, 3, 0), (0, 3, 2)],
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax", "Hardmax"])
@pytest.mark.parametrize("axis", [0, 1])
def test_empty_dimensions(op: str, shape: str, axis: int) -> None:
    model = parse(
        f"agraph (float{shape} x) => (float{shape} y) {{ y = {op} <axis = {axis}> (x) }}", 10
    )
    result = session(raised(model, 18))
    original = session(model)
    for sizes in SHAPES[shape]:
        x = np.random.default_rng(0).standard_normal(sizes).astype(np.float32)
        (ours,) = result.run(None, {"x": x})
        (theirs,) = original.run(None, {"x": x})
        np.testing.assert_array_equal(ours, theirs)


NEG = "n = Neg (x) p = Clip <max = 0.5> (n)"
HIDDEN = {
    "behind an operator that onnx does not know": "y = com.microsoft.QuickGelu (x)  n = Neg (y)  p = Clip <max = 0.5> (n)",
    "in a subgraph": f"""p = If (c) <then_branch = t () => (float16[12] a) {{ {NEG.replace("p =", "a =")} }},
        else_branch = e () => (float16[12] b) {{ b = Neg (x) }}>""",
}


@pytest.mark.parametrize("case", HIDDEN)
def test_types_that_onnx_does_not_infer(case: str) -> None:
    text = f"agraph (float16[12] x, bool c) => (float16[12] p) {{ {HIDDEN[case]} }}"
    model = parse(text, 10)
    result = raised(model, 18)
    x = np.linspace(-3, 3, 12).astype(np.float16)
    feeds = {"x": x, "c": np.array(True)}
    expected = session(parse(text.replace("Clip <max = 0.5> (n)", "Identity (n)"), 18)).run(
        None, feeds
    )[0]
    np.testing.assert_array_equal(
        session(result).run(None, feeds)[0], np.minimum(expected, np.float16(0.5))
    )
