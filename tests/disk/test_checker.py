"""What onnx's checker says is a sentence, whatever it raises."""

from __future__ import annotations

from harness import parse

from fusionc.disk.checker import fault_of


def test_a_cast_to_no_type() -> None:
    """onnx raises a ValueError of its shape inference."""
    model = parse("agraph (float[N] x) => (int8[N] y) { y = Cast <to = 2> (x) }")
    model.graph.node[0].attribute[0].i = 0
    assert "data type 0" in (fault_of(model) or "")
