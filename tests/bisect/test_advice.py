"""What an error advises where an area computes with fewer multiplications, at the price of larger
rounding errors.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import numpy_helper

import fusionc

CHANNELS = 128


def deep() -> onnx.ModelProto:
    shape = f"float[1,{CHANNELS},16,16]"
    model = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 17]> deep ({shape} x) => ({shape} y) {{
          a = Conv<pads = [1, 1, 1, 1]>(x, w)
          b = Relu(a)
          c = Conv<pads = [1, 1, 1, 1]>(b, v)
          y = Relu(c)
        }}"""
    )
    rng = np.random.default_rng(0)
    for name in ("w", "v"):
        values = rng.standard_normal((CHANNELS, CHANNELS, 3, 3)).astype(np.float32) / 30
        model.graph.initializer.append(numpy_helper.from_array(values, name))
    return model


@pytest.mark.usefixtures("needs_a_compiler")
def test_the_algorithm_is_switched_off_before_the_area(tmp_path: Path) -> None:
    """One number is so large that what it leaves in its tile is more than all else there."""
    x = np.random.default_rng(1).standard_normal((1, CHANNELS, 16, 16)).astype(np.float32)
    x[0, 3, 5, 7] = 1e10
    model = tmp_path / "m.onnx"
    inputs = tmp_path / "x.npz"
    onnx.save(deep(), model)
    np.savez(inputs, x=x)
    options = {"output": tmp_path / "out.onnx", "enable_graph_kernel": True, "inputs": inputs}
    with pytest.raises(
        fusionc.VerificationError,
        match='"WinogradConvolutionPass:off", which gives smaller rounding errors',
    ) as error:
        fusionc.convert(model, **options)
    assert '"BlockedConvolutionFusionPass:off"' in str(error.value)
    report = fusionc.convert(model, optimization_switch="WinogradConvolutionPass:off", **options)
    assert any(
        "blocked" in function.name for function in onnx.load(tmp_path / "out.onnx").functions
    )
    assert report.verification is not None and "equal in" in report.verification
