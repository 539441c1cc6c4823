"""`fusionc why`: lines in a pipe, JSON, exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import onnx
import pytest
from harness import parse

SAMPLE = Path(__file__).parents[2] / "sample_models/conv_bn.onnx"
GELU = """agraph (float[N,4] x) => (float[N,4] y)
    <float half = {0.5}, float one = {1}, float root = {1.43}> {
    [d] d = Div (x, root) [e] e = Erf (d) [a] a = Add (e, one) [h] h = Mul (x, half)
    ["\x1by"] y = Mul (h, a) }"""


@pytest.fixture
def gelu(tmp_path: Path) -> str:
    onnx.save(parse(GELU, 20), tmp_path / "gelu.onnx")
    return str(tmp_path / "gelu.onnx")


def test_a_pipe_gets_whole_lines(run: Any, gelu: str) -> None:
    result = run("why", "--model", str(SAMPLE), "ConvBatchnormFusionPass")
    assert result.exit_code == 0
    nodes = "batchnormalization_1, conv_0"
    assert result.stdout.splitlines() == [
        "pass   ConvBatchnormFusionPass: on",
        (
            f"fired  rewrite 2, ConvBatchnormFusionPass, pattern ConvBatchnorm, at {nodes}; 1 "
            "more like this"
        ),
    ]
    text = "Div ‹d›: second operand ‹root› is 1.43, not 1.4142135623730951"
    assert run("why", "--model", gelu, "GeluFusionPass").stdout.splitlines()[-1] == (
        f"near miss  {text} (pattern Gelu at Mul ‹\\x1by›, 5 of 5 operators fit)"
    )


def test_what_another_optimizer_did_not_fuse_either(run: Any, gelu: str) -> None:
    lines = run("why", "--model", gelu, "--expected", gelu).stdout.splitlines()
    assert lines == ["expected  the other optimizer fused nothing more"]
    result = run("why", "--model", gelu)
    example = f"for example: fusionc why GeluFusionPass --model {gelu} (fusionc convert shows"
    assert result.exit_code == 2 and example in " ".join(result.stderr.split())


def test_why_dequantizations_stay(run: Any, gelu: str, tmp_path: Path) -> None:
    model = parse("""agraph (float[2,8] x) => (float[2,8] y) <float s = {0.1}, uint8 z = {3}> {
        q = QuantizeLinear (x, s, z) [one] d = DequantizeLinear (q, s, z) e = Erf (d)
        f = Sin (d) r = QuantizeLinear (e, s, z) [two] g = DequantizeLinear (r, s, z)
        y = Max (f, g) }""")
    onnx.save(model, tmp_path / "m.onnx")
    text = "onnxruntime does not compute this operator in integers"
    assert run("why", "--model", "m.onnx", "DequantizeLinear").stdout.splitlines() == [
        f"stays  one: Erf ‹Erf:e›: {text}",
        f"stays  two: Max ‹Max:y›: {text}",
    ]
    lines = run("why", "--model", gelu, "DequantizeLinear").stdout.splitlines()
    assert lines == ["stays  the converted model has no DequantizeLinear"]


def test_a_pass_that_is_off_and_would_have_made_what_is_expected(run: Any, gelu: str) -> None:
    onnx.save(parse(GELU.replace("1.43", "1.41421356"), 20), "gelu.onnx")
    onnx.save(
        parse('agraph (float[N,4] x) => (float[N,4] y) { ["y"] y = Gelu (x) }', 20), "other.onnx"
    )
    off = "GeluFusionPass:off;BiasGeluFusionPass:off"
    lines = run(
        "why", "--model", "gelu.onnx", "--expected", "other.onnx", "--optimization_switch", off
    ).stdout.splitlines()
    assert "would fire  Mul ‹\\x1by›: it would take effect (pattern Gelu)" in lines


def test_an_area_that_is_expected_needs_graph_kernels(run: Any, gelu: str) -> None:
    area = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["" : 20, "fusionc.gk" : 1]>
        agraph (float[N,4] x) => (float[N,4] y) { y = fusionc.gk.area (x) }
        <domain: "fusionc.gk", opset_import: ["" : 20]> area (x) => (y) {
        a = Exp (x) y = Exp (a) }"""
    )
    onnx.save(area, "area.onnx")
    lines = run("why", "--model", gelu, "--expected", "area.onnx").stdout.splitlines()
    assert lines[-1].startswith("note ") and "--enable_graph_kernel" in lines[-1], lines


def test_json(run: Any, gelu: str) -> None:
    (answer,) = json.loads(run("why", "--model", gelu, "GeluFusionPass", "--json").stdout)["passes"]
    assert (answer["name"], answer["fired"], answer["taken"]) == ("GeluFusionPass", [], [])
    assert answer["reasons"][0]["fitting"] == 5


def test_exit_codes(run: Any, gelu: str) -> None:
    assert run("why", "--model", gelu, "GeluFusionPas").exit_code == 2
    assert run("why", "--model", gelu, "GeluFusionPass", "--node", "dd").exit_code == 2
    assert run("why", "--model", "nothing.onnx", "GeluFusionPass").exit_code == 2
    Path("no.onnx").write_text("no model")
    assert run("why", "--model", "no.onnx", "GeluFusionPass").exit_code == 1


@pytest.mark.parametrize(
    "options",
    [
        ["--enable_graph_kernel"],
        ["--enable_graph_kernel=true"],
        ["--jit_level=O1"],
        ["--graph_kernel_flags=--opt_level=2"],
    ],
    ids="".join,
)
def test_options_of_graph_kernels(run: Any, gelu: str, options: list[str]) -> None:
    words = ["why", "--model", gelu, "TbeEltwiseFusionPass", "--target", "onnx"]
    switched_off = ["--optimization_switch", "GeluFusionPass:off"]
    assert "note  this pass takes effect only with --enable" in run(*words).stdout
    lines = run(*words, *switched_off, *options).stdout.splitlines()
    assert any(line.startswith("fired ") and "pattern area" in line for line in lines), lines
