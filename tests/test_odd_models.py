"""Models that onnx.checker rejects and onnxruntime runs: they are converted, and verified."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from harness import parse
from onnx import GraphProto, ModelProto, helper, numpy_helper

import fusionc


def two_initializers_of_one_name() -> ModelProto:
    """The last one counts: 2 + 1 is folded, not 1 + 1."""
    model = parse(
        "agraph (float[N] x) => (float[N] y) <float k = {1}, float one = {1}> { a = Add (k, "
        "one) y = Mul (x, a) }"
    )
    model.graph.initializer.append(numpy_helper.from_array(np.array(2, np.float32), "k"))
    return model


def an_if_of_nothing() -> ModelProto:
    model = parse("agraph (float[N] x) => (float[N] y) { y = Relu (x) }")
    nothing = GraphProto(name="nothing")
    model.graph.node.append(
        helper.make_node("If", [], [], then_branch=nothing, else_branch=nothing)
    )
    return model


@pytest.mark.parametrize(
    "make", [two_initializers_of_one_name, an_if_of_nothing], ids=lambda make: make.__name__
)
@pytest.mark.parametrize("kernels", [False, True], ids=["", "kernels"])
def test_they_are_converted(make: object, kernels: bool, tmp_path: Path) -> None:
    assert callable(make)
    model = make()
    with pytest.raises(onnx.checker.ValidationError):
        onnx.checker.check_model(model)
    onnx.save(model, tmp_path / "model.onnx")
    report = fusionc.convert(
        tmp_path / "model.onnx", output=tmp_path / "out.onnx", enable_graph_kernel=kernels
    )
    assert report.verification is not None and "equal" in report.verification
    assert sum(report.operators_after.values()) == 1
