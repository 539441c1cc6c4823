"""What asks for the dimensions of large weights alone does not read them: here, they are not there."""

from __future__ import annotations

import onnx
import pytest
from harness import effected, optimize, parse, pass_of

CONV = "agraph (float[1,64,8,8] x) => (float[1,640,6,6] y) { y = Conv (x, w) }"
FLATTENED = """agraph (float[2,3,640] x) => (float[2,3,960] y) <int64[2] f = {-1, 640}, int64[3] s = {2, 3, 960}> {
    r = Reshape (x, f) p = MatMul (r, w) y = Reshape (p, s) }"""


@pytest.mark.parametrize(
    ("name", "text", "dims", "times"),
    [
        ("Conv1dToConv2dPass", CONV, (640, 64, 3, 3), 0),
        ("FewChannelsConvPass", CONV, (640, 64, 3, 3), 0),
        ("BatchMatMulV2ReshapeFusionPass", FLATTENED, (640, 960), 1),
    ],
)
def test_they_are_not_read(name: str, text: str, dims: tuple[int, ...], times: int) -> None:
    model = parse(text)
    weights = model.graph.initializer.add(name="w", dims=dims, data_type=onnx.TensorProto.FLOAT)
    weights.data_location = onnx.TensorProto.EXTERNAL
    weights.external_data.add(key="location", value="nowhere")
    weights.external_data.add(key="offset", value="1")
    _, counts = optimize(model, [pass_of(name)])
    assert effected(counts) == times
