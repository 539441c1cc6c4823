"""What onnx's checker says is a sentence, whatever it raises."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from harness import parse

from fusionc.disk.onnx_checker import fault_of, require_as_valid
from fusionc.errors import VerificationError


def test_a_cast_to_no_type() -> None:
    """onnx raises a ValueError of its shape inference."""
    model = parse("agraph (float[N] x) => (int8[N] y) { y = Cast <to = 2> (x) }")
    model.graph.node[0].attribute[0].i = 0
    assert "data type 0" in (fault_of(model) or "")


def test_a_result_that_is_not_valid_is_rejected_where_the_model_is(tmp_path: Path) -> None:
    good = parse("agraph (float[N,4] x) => (float[N,4] y) { a = Neg (x) b = Exp (a) y = Abs (b) }")
    bad = onnx.ModelProto()
    bad.CopyFrom(good)
    bad.graph.node[2].input[0] = "nobody"
    onnx.save(good, tmp_path / "good.onnx")
    onnx.save(bad, tmp_path / "bad.onnx")
    require_as_valid(tmp_path / "good.onnx", tmp_path / "good.onnx")
    require_as_valid(tmp_path / "bad.onnx", tmp_path / "bad.onnx")  # it was not valid before
    with pytest.raises(VerificationError, match="not a valid ONNX model"):
        require_as_valid(tmp_path / "bad.onnx", tmp_path / "good.onnx")
