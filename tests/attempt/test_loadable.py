"""Every result is loaded once at onnxruntime's default level, verified or not."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import onnx
import pytest
from harness import operators, parse

import fusionc
from fusionc.passes.convolution.conv_batchnorm_fusion import ConvBatchnormFusionPass
from fusionc.rewrite import Match, Tape

pytestmark = pytest.mark.usefixtures("in_a_folder_of_its_own")

MODEL = """agraph (float[1,1,4,4] x) => (float[1,1,4,4] y)
    <float[1,1,1,1] W = {1}, float[1] s = {1}, float[1] b = {0}, float[1] m = {0}, float[1] v = {1}> {
        c = Conv (x, W) y = BatchNormalization <epsilon = 0.0> (c, s, b, m, v) }"""
# microsoft/onnxruntime#32413, of 1.31 and 1.32: its optimizers make an invalid graph of this.
NOT_LOADED = """agraph (float[4] x) => (float[4] y) <float zero = {0}, float one = {1}> {
    m = Identity (x) f = Div (one, one) w = Mul (m, f) y = Add (w, zero) }"""
ONLY = {
    "Switch": {
        "GraphFusion": {"ALL": "off", "ConvBatchnormFusionPass": "on"},
        "UBFusion": {"ALL": "off"},
    }
}


@pytest.fixture
def only() -> Path:
    path = Path("only.json")
    path.write_text(json.dumps(ONLY))
    return path


def _not_at_the_default_level(self: ConvBatchnormFusionPass, m: Match, new: Tape) -> Any:
    same = new.Identity(m.x)
    one = new.const(1.0, dtype="float32")
    return new.Add(new.Mul(same, new.Div(one, one)), new.const(0.0, dtype="float32"))


PASS = """
from fusionc.rewrite import Pass, Pattern, op, var

class Nowhere(Pass):
    \"\"\"Pads as nobody can.\"\"\"

    patterns = (Pattern("relu", op.Relu(var("x"))),)

    def rewrite(self, m, new):
        return new.Conv(m.x, new.const([[[[1.0]]]], like=m.x), auto_pad="NOWHERE")
"""


def _nowhere(self: ConvBatchnormFusionPass, m: Match, new: Tape) -> Any:
    return new.Conv(m.x, m.W, auto_pad="NOWHERE")


@pytest.mark.parametrize(
    ("wrong", "options"),
    [
        (_nowhere, {}),
        (_not_at_the_default_level, {}),
        (_not_at_the_default_level, {"target": "onnx"}),
        (_not_at_the_default_level, {"verify": True, "runtime_level": ["disabled"]}),
    ],
)
def test_what_cannot_be_loaded_is_left_out(
    monkeypatch: pytest.MonkeyPatch, only: Path, wrong: Any, options: dict[str, Any]
) -> None:
    monkeypatch.setattr(ConvBatchnormFusionPass, "rewrite", wrong)
    onnx.save(parse(MODEL), "in.onnx")
    report = fusionc.convert(
        "in.onnx", output="out.onnx", fusion_switch_file=only, **{"verify": False, **options}
    )
    assert operators(onnx.load("out.onnx")) == operators(parse(MODEL))
    reason = "the result could not be loaded with this rewrite"
    assert any(
        "ConvBatchnormFusionPass left" in text and text.endswith(reason) for text in report.notices
    )


def test_a_users_pass_is_named_and_nothing_is_written() -> None:
    onnx.save(parse("agraph (float[1,1,4,4] x) => (float[1,1,4,4] y) { y = Relu (x) }"), "in.onnx")
    Path("nowhere.py").write_text(PASS)
    with pytest.raises(fusionc.VerificationError) as caught:
        fusionc.convert("in.onnx", output="out.onnx", custom_passes=["nowhere.py"], verify=False)
    assert "onnxruntime cannot load the result" in caught.value.what and caught.value.exit_code == 3
    assert "Nowhere" in caught.value.where and "nowhere.py" in caught.value.where
    assert not os.path.exists("out.onnx")


def test_a_model_that_cannot_be_loaded_itself_is_converted(only: Path) -> None:
    onnx.save(parse(NOT_LOADED), "in.onnx")
    fusionc.convert("in.onnx", output="out.onnx", fusion_switch_file=only, verify=False)
    assert operators(onnx.load("out.onnx")) == operators(parse(NOT_LOADED))
