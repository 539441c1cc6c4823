from __future__ import annotations

from pathlib import Path

import onnx
from harness import parse

from fusionc.bench.deployed_model import DeployedModel
from fusionc.bench.what_runs import what_runs
from fusionc.runtime.session_settings import SessionSettings

MODEL = "g (float[1,3,8,8] x) => (float[1,16,8,8] y) <float[16,3,1,1] w> {{ a = Conv (x, w) {} }}"


def test_the_operators_and_the_optimizers_that_changed_something(tmp_path: Path) -> None:
    for name, rest in (
        ("one", "y = Relu (a)"),
        ("same", "b = Identity (a)  y = Relu (b)"),
        ("other", "y = Tanh (a)"),
    ):
        model = parse(MODEL.format(rest))
        model.graph.initializer[0].raw_data = b"\0\0\x80?" * 48
        onnx.save(model, tmp_path / f"{name}.onnx")
    one, same, other = (
        what_runs(DeployedModel(tmp_path / f"{name}.onnx")) for name in ("one", "same", "other")
    )
    assert one.operators == same.operators != other.operators
    assert "ConvActivationFusion" in one.optimizers and one.operators.total() < 4
    plain = DeployedModel(
        tmp_path / "one.onnx",
        settings=SessionSettings(disabled_optimizers=("ConvActivationFusion",)),
    )
    assert "ConvActivationFusion" not in what_runs(plain).optimizers


def test_the_same_operators_in_another_order_are_others(tmp_path: Path) -> None:
    head = "g (float[9] x) => (float[2] y) <int64[2] i = {0, 1}>"
    texts = {
        "late": "{ a = Sin (x)  y = Gather (a, i) }",
        "early": "{ a = Gather (x, i)  y = Sin (a) }",
        "names": "{ other = Sin (x)  y = Gather (other, i) }",
    }
    for name, text in texts.items():
        onnx.save(parse(f"{head} {text}"), tmp_path / f"{name}.onnx")
    late, early, names = (
        what_runs(DeployedModel(tmp_path / f"{name}.onnx")).operators for name in texts
    )
    assert late == names != early and late.total() == early.total() == 2


def test_weights_that_are_subnormal_run_otherwise(tmp_path: Path) -> None:
    found = []
    for content in (b"\0\0\x80?", b"\0\0\0@", b"\1\0\0\0"):
        model = parse(MODEL.format("y = Relu (a)"))
        model.graph.initializer[0].raw_data = content * 48
        onnx.save(model, tmp_path / "in.onnx")
        found.append(what_runs(DeployedModel(tmp_path / "in.onnx")).operators)
    assert found[0] == found[1] != found[2]
