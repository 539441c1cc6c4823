"""Shapes that are computed are known, and vectors that cannot be shapes are not listed."""

from __future__ import annotations

import pytest
from harness import parse

from fusionc.shapes.onnx_inference import infer


@pytest.mark.parametrize(
    ("inputs", "dims"),
    [
        ("float[4] x, float[7] v", [4, 4]),
        ("float[4] x, float[4000000000000] v", [4]),
        ("float[4] x, float[1000, 4000000000] m", [4, 4]),
    ],
)
def test_long_vectors_are_not_listed(inputs: str, dims: list[int]) -> None:
    more = "w = Neg (m)" if inputs.endswith("m") else "w = Mul (v, one_f)"
    model = parse(
        f"agraph ({inputs}) => (float y) <int64[1] one = {{4}}, float[1] one_f = {{1}}> "
        f"{{ s = Shape (x) t = Concat <axis = 0> (s, one) r = Expand (x, t) {more} y = ReduceSum <keepdims = 0> (r) }}"
    )
    types = {value.name: value.type.tensor_type for value in infer(model).graph.value_info}
    assert [dim.dim_value for dim in types["r"].shape.dim if dim.HasField("dim_value")] == dims
    assert types["w"].shape.dim[0].dim_value in (7, 4000000000000, 1000)
