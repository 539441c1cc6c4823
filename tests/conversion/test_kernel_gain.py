"""What a conversion without kernels says that kernels would gain."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import fusionc
from fusionc.conversion import kernel_gain as room
from fusionc.conversion.kernel_gain import gain_wanted, kernel_gain
from fusionc.passes import PASSES
from fusionc.shapes.inference import typed_model

ENABLED = frozenset(p.name for p in PASSES)


def products(count: int) -> onnx.ModelProto:
    """Products of rows, each with two operators that one loop computes."""
    size = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [64, 256])
    result = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [64, 256])
    weights = np.random.default_rng(0).standard_normal((256, 256)).astype(np.float32) / 16
    nodes = []
    value = "x"
    for at in range(count):
        nodes.append(helper.make_node("MatMul", [value, "w"], [f"p{at}"]))
        nodes.append(helper.make_node("Tanh", [f"p{at}"], [f"t{at}"]))
        value = "y" if at == count - 1 else f"g{at}"
        nodes.append(helper.make_node("Mul", [f"t{at}", f"p{at}"], [value]))
    graph = helper.make_graph(nodes, "g", [size], [result], [numpy_helper.from_array(weights, "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_the_estimate_is_that_of_the_areas_and_changes_nothing() -> None:
    proto = products(4)
    before = proto.SerializeToString()
    gain = kernel_gain(typed_model(proto, ""), ENABLED)
    assert (gain.operators, gain.of_operators, gain.has_products) == (8, 12, False)
    assert 0 < gain.after < gain.before and 1 <= gain.percent <= 99
    assert proto.SerializeToString() == before
    none = kernel_gain(typed_model(proto, ""), frozenset())  # no pass may make an area
    assert none.operators == 0 and none.percent == 0


def test_only_who_shows_the_estimate_pays_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    onnx.save(products(2), tmp_path / "m.onnx")
    monkeypatch.setattr(room, "_LEAST_BYTES", 0)
    monkeypatch.setattr(room, "_LONGEST_WAIT", 1000.0)
    source = tmp_path / "m.onnx"
    output = tmp_path / "o.onnx"
    assert fusionc.convert(source, output=output).kernel_gain is None
    with gain_wanted():
        gain = fusionc.convert(source, output=output).kernel_gain
        assert gain is not None and gain.operators == 4
        assert fusionc.convert(source, output=output, verify=False).kernel_gain is None
        portable = fusionc.convert(source, output=output, target="onnx")
        assert portable.kernel_gain is None and not portable.may_get_kernels
        monkeypatch.setattr(room, "_MOST_NODES", 5)
        assert fusionc.convert(source, output=output).kernel_gain is None


def test_a_fault_of_the_estimate_costs_only_the_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    onnx.save(products(2), tmp_path / "m.onnx")
    monkeypatch.setattr(room, "_LEAST_BYTES", 0)
    monkeypatch.setattr(room, "kernel_gain", lambda *_: 1 // 0)
    with gain_wanted():
        report = fusionc.convert(tmp_path / "m.onnx", output=tmp_path / "o.onnx")
    assert report.kernel_gain is None and report.may_get_kernels
