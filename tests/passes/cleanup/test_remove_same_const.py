from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from harness import Fires, Stays, effected, optimize, parse, pass_of, tables
from onnx import TensorProto, helper, numpy_helper

GRAPH = "agraph (float[N,3] x) => (float[N,3] y{}) <{}> {{ a = Add (x, c) y = Mul (a, d) {} }}"

STAYS = [
    Stays(
        "other numbers", GRAPH.format("", "float[3] c = {1,2,3}, float[3] d = {1,2,4}", ""), None
    ),
    Stays(
        "other shapes", GRAPH.format("", "float[3] c = {1,2,3}, float[1,3] d = {1,2,3}", ""), None
    ),
    Stays(
        "zeros of other signs", GRAPH.format("", "float[1] c = {0}, float[1] d = {-0.0}", ""), None
    ),
    Stays(
        "other types",
        "agraph (float[N] x, double[N] z) => (float[N] y, double[N] w) "
        "<float[1] c = {0}, double[1] d = {0}> { y = Add (x, c) w = Add (z, d) }",
        None,
    ),
    Stays(
        "a default that the caller may override",
        "agraph (float[N,3] x, float[3] c = {1,2,3}) => (float[N,3] y) "
        "<float[3] d = {1,2,3}> { a = Add (x, c) y = Mul (a, d) }",
        None,
    ),
    Stays(
        "the other one is a graph output",
        GRAPH.format(", float[3] d", "float[3] c = {1,2,3}, float[3] d = {1,2,3}", ""),
        "the result is a graph output and needs a name of its own",
    ),
]

FIRES = [
    Fires(
        "two",
        GRAPH.format("", "float[3] c = {1,2,3}, float[3] d = {1,2,3}", ""),
        ["Add", "Mul"],
        inside_if=False,
    ),
    Fires(
        "integers",
        GRAPH.format("", "int32[3] c = {1,2,3}, int32[3] d = {1,2,3}", "").replace(
            "(float[", "(int32["
        ),
        ["Add", "Mul"],
        inside_if=False,
    ),
]  # the constants stay outside the If, so that there is one rewrite, not two

# It merges initializers; in a function constants are nodes.
test_stays, test_fires = tables("RemoveSameConstPass", STAYS, FIRES, in_functions="never")


def test_constants_that_differ_in_the_middle_only() -> None:
    model = parse("""agraph (float[N,1000] x) => (float[N,1000] y) <float[1000] c, float[1000] d> {
        a = Add (x, c) y = Mul (a, d) }""")
    same = numpy_helper.to_array(model.graph.initializer[0])
    other = same.copy()
    other[500] = np.nextafter(other[500], np.float32(9))
    for array, times in ((other, 0), (same, 1)):
        model.graph.initializer[1].CopyFrom(numpy_helper.from_array(array, "d"))
        result, counts = optimize(model, [pass_of("RemoveSameConstPass")])
        assert effected(counts) == times and len(result.graph.initializer) == 2 - times


def test_a_constant_that_an_annotation_names_stays() -> None:
    model = parse(GRAPH.format("", "float[3] c = {1,2,3}, float[3] d = {1,2,3}", ""))
    entries = model.graph.quantization_annotation.add(tensor_name="y").quant_parameter_tensor_names
    entries.add(key="SCALE_TENSOR", value="d")
    result, counts = optimize(model, [pass_of("RemoveSameConstPass")])
    assert effected(counts) == 0 and result == model


@pytest.mark.parametrize("kind", [TensorProto.FLOAT, TensorProto.INT4])
def test_constants_in_a_file_are_one_wherever_they_begin(tmp_path: Path, kind: int) -> None:
    model = parse("""agraph (int64[64] x) => (int64[64] z) {
        c7 = Cast <to = 7> (c) d7 = Cast <to = 7> (d) y = Add (x, c7) z = Add (y, d7) }""")
    content = b"\0"
    for name in ("c", "d"):
        data = numpy_helper.to_array(helper.make_tensor(name, kind, [64], np.arange(64) % 8))
        raw = numpy_helper.from_array(data).raw_data
        tensor = model.graph.initializer.add(name=name, dims=[64], data_type=kind)
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in (
            ("location", tmp_path / "data"),
            ("offset", len(content)),
            ("length", len(raw)),
        ):
            tensor.external_data.add(key=key, value=str(value))
        content += raw + b"\0\0"
    (tmp_path / "data").write_bytes(content)
    _, counts = optimize(model, [pass_of("RemoveSameConstPass")])
    assert effected(counts) == 1


QUANTIZED = """agraph (float[4,2] x) => (float[4,2] y)
    <float s = {{0.5}}, float t = {{0.25}}, {0} a = {{1}}, {0} b = {{1}}> {{
        p = QuantizeLinear (x, s, a) q = DequantizeLinear (p, s, a) r = Relu (q)
        u = QuantizeLinear (r, t, b) y = DequantizeLinear (u, t, b)
    }}"""
WEIGHTS = """agraph (uint8[4,2] x) => (int32[4,2] y, int32[4,2] z)
    <{0}[2,2] a = {{1,2,3,4}}, {0}[2,2] b = {{1,2,3,4}}> {{
        y = MatMulInteger (x, a) z = MatMulInteger (x, b)
    }}"""


@pytest.mark.parametrize("graph", [QUANTIZED, WEIGHTS])
def test_what_onnxruntime_makes_unsigned_stays_apart(graph: str) -> None:
    """It makes a tensor of the same name once for each operator that reads it, and cannot load the model then."""
    for elements, times in (("int8", 0), ("uint8", 1)):
        _, counts = optimize(parse(graph.format(elements)), [pass_of("RemoveSameConstPass")])
        assert effected(counts) == times
