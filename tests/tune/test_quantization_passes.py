"""A tuning tries each pass for integers that takes effect: it finds them in the registry."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from harness import parse
from onnx import numpy_helper

from fusionc.api import convert
from fusionc.options import Options
from fusionc.report import Report
from fusionc.tune.candidates import Facts, groups_of
from fusionc.tune.configuration import Configuration
from fusionc.tune.effects import effects

MODEL = """agraph (float[1,8,6,6] x) => (float[1,8,6,6] y)
    <float s = {0.1}, int8 z = {-5}, float ws = {0.05}, int8 wz = {0}> {
    q = QuantizeLinear (x, s, z) d = DequantizeLinear (q, s, z)
    w = DequantizeLinear (W, ws, wz) c = Conv (d, w)
    r = QuantizeLinear (c, s, z) y = DequantizeLinear (r, s, z) }"""


def test_passes_for_integers_are_changes_to_try(tmp_path: Path) -> None:
    model = parse(MODEL)
    weights = np.random.default_rng(0).integers(-60, 60, (8, 8, 1, 1)).astype(np.int8)
    model.graph.initializer.append(numpy_helper.from_array(weights, "W"))
    source = tmp_path / "m.onnx"
    onnx.save(model, source)

    def converted(configuration: Configuration, target: Path) -> Report:
        options = configuration.options(Options(source, target), target)
        switches = options.optimization_switch
        return convert(source, output=target, optimization_switch=switches, verify=False)

    facts = effects(Options(source, tmp_path / "o.onnx"), Configuration(), converted, tmp_path)
    assert facts["passes"]["QuantizedSignednessPass"] == "quantization"
    changes = [change for group in groups_of(Facts(**facts, optimizers=()), ()) for change in group.changes()]  # fmt: skip
    assert any(change.off == frozenset({"QuantizedSignednessPass"}) for change in changes)
