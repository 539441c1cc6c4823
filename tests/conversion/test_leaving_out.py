"""A rewrite with which the result cannot be loaded is left out; the conversion does not fail for
it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest
from harness import operators, parse

import fusionc
from fusionc.errors import VerificationError
from fusionc.passes.convolution.conv_batchnorm_fusion import ConvBatchnormFusionPass
from fusionc.rewrite import Match, Tape
from fusionc.verify import verify

NORM = "BatchNormalization ({}, g, b, m, v)"
MODEL = f"""agraph (float[1,3,8,8] x) => (float[1,3,2,2] y)
    <float[3,3,3,3] W, float[3] g, float[3] b, float[3] m, float[3] v> {{
    c1 = Conv (x, W) n1 = {NORM.format("c1")} r1 = Relu (n1)
    c2 = Conv (r1, W) n2 = {NORM.format("c2")} r2 = Relu (n2)
    c3 = Conv (r2, W) y = {NORM.format("c3")} }}"""
REASON = "the result could not be loaded with this rewrite"


@pytest.fixture(autouse=True)
def _a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(parse(MODEL), "model.onnx")


def with_bogus_attributes(monkeypatch: pytest.MonkeyPatch, *outputs: str) -> None:
    """Let the rewrites that replace these values make nodes that no checker accepts."""
    right = ConvBatchnormFusionPass.rewrite

    def rewrite(self: ConvBatchnormFusionPass, m: Match, new: Tape) -> Any:
        result = right(self, m, new)
        if m.outputs[0].name in outputs:
            result.producer.proto.attribute.append(onnx.helper.make_attribute("bogus", 1))
        return result

    monkeypatch.setattr(ConvBatchnormFusionPass, "rewrite", rewrite)


@pytest.mark.parametrize("bogus", [("n2",), ("n1", "y")])
def test_what_makes_the_model_unloadable_is_left_out(
    bogus: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    with_bogus_attributes(monkeypatch, *bogus)
    report = fusionc.convert("model.onnx", output="out.onnx")
    assert operators(onnx.load("out.onnx"))["BatchNormalization"] == len(bogus)
    counts = [count for count in report.patterns if count.pass_name == "ConvBatchnormFusionPass"]
    assert [(count.effected, count.refused) for count in counts] == [
        (3 - len(bogus), {REASON: len(bogus)})
    ]
    assert report.verification is not None and report.verification.startswith("equal")
    told = [
        notice for notice in report.notices if notice.startswith("ConvBatchnormFusionPass left")
    ]
    assert len(told) == len(bogus) and all(
        "the result could not be loaded" in notice for notice in told
    )


def test_a_wrong_result_is_not_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    right = ConvBatchnormFusionPass.rewrite
    monkeypatch.setattr(
        ConvBatchnormFusionPass, "rewrite", lambda self, m, new: new.Abs(right(self, m, new))
    )
    with pytest.raises(VerificationError, match="ConvBatchnormFusionPass"):
        fusionc.convert("model.onnx", output="out.onnx")
    assert not Path("out.onnx").exists()


def test_what_onnxruntime_cannot_run_optimized_is_left_out() -> None:
    """Without the Identity, onnxruntime 1.31 takes the Transpose into the Gemm, although the graph
    hands it out.
    """
    text = """agraph (float[M,K] a, float[N,K] b) => (float[M,N] y, float[K,M] z) {
        p = Transpose (a) q = Transpose (b) y = Gemm <transA = 1> (p, q) z = Identity (p) }"""
    onnx.save(parse(text, 12), "gemm.onnx")
    report = fusionc.convert("gemm.onnx", output="out.onnx")
    assert report.verification is not None and report.verification.startswith("equal")
    assert verify(Path("gemm.onnx"), Path("out.onnx"), levels=["all"]).status == "equal"
