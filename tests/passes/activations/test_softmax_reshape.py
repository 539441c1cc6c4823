from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from harness import Fires, Stays, optimize, parse, pass_of, tables

ONE = "agraph (float[{0}] x) => (float[{0}] y) {{ y = Softmax <axis = {1}> (x) }}"
WRITTEN_OUT = ["Reshape", "Softmax", "Reshape"]
COMPUTED = ["Shape", "Reshape", "Softmax", "Reshape"]
ALL_COMPUTED = ["Shape", "ReduceProd", "Shape", "Concat", "Shape", "Reshape", "Softmax", "Reshape"]
UNKNOWN = "before opset 15 Shape lacks start and end"

STAYS = [
    Stays("one axis behind", ONE.format("N,4,6", 1), None),
    Stays("the last axis", ONE.format("N,4,6,5", -1), None),
    Stays("nothing behind", ONE.format("N,4,1,1", 1), "fewer than two axes follow the axis of the Softmax"),
    Stays("few elements", ONE.format("1,4,6,4", 1), "the Softmax has few elements"),
    Stays("a batch and sizes that are unknown", ONE.format("N,4,H,6", 1), UNKNOWN, 14),
    Stays("no elements", ONE.format("0,4,H,6", 1), UNKNOWN, 14),
    Stays("no elements behind", ONE.format("N,4,5,0", 1), "fewer than two axes follow the axis of the Softmax"),
    Stays("no elements behind, a size unknown", ONE.format("1,4,0,W", 1), "fewer than two axes follow the axis of the Softmax"),
    Stays("two unknown sizes", ONE.format("2,4,H,W", 1), UNKNOWN, 14),
    Stays("below opset 13, where an axis means another thing", ONE.format("2,4,6,5", 1), None, 12),
    Stays("an unknown rank", "agraph (float[2,4,6,5] x, int64[R] s) => (float y) { r = Reshape (x, s) y = Softmax <axis = 1> (r) }", None),
    Stays("another operator", "agraph (float[2,4,6,5] x) => (float[2,4,6,5] y) { y = Hardmax <axis = 1> (x) }", None),
    Stays("another target", ONE.format("2,4,6,5", 1), "for target onnx no gain is known", target="onnx"),
]  # fmt: skip

FIRES = [
    Fires("channels", ONE.format("2,4,6,5", 1), WRITTEN_OUT),
    Fires("channels of any batch", ONE.format("N,4,6,5", 1), WRITTEN_OUT),
    Fires("an unknown width", ONE.format("1,4,6,W", 1), WRITTEN_OUT),
    Fires("an unknown size", ONE.format("1,4,H,W", 1), COMPUTED),
    Fires("any size", ONE.format("N,C,H,W", 1), ALL_COMPUTED),
    Fires("any batch and height", ONE.format("N,4,H,5", 1), ALL_COMPUTED),
    Fires("any number of channels", ONE.format("N,C,6,5", 1), WRITTEN_OUT),
    Fires("counted from the end", ONE.format("N,4,6,5", -3), WRITTEN_OUT),
    Fires("the first axis", ONE.format("4,6,5", 0), WRITTEN_OUT),
    Fires("behind two others", ONE.format("2,N,3,4,5,1", 2), WRITTEN_OUT),
    Fires("opset 13", ONE.format("2,4,6,5", 1), WRITTEN_OUT, opset=13),
    Fires("its logarithm", ONE.format("2,4,6,5", 1).replace("Softmax", "LogSoftmax"), ["Reshape", "LogSoftmax", "Reshape"]),
    Fires("double", ONE.format("2,4,6,5", 1).replace("float", "double"), WRITTEN_OUT),
    Fires("float16", ONE.format("2,4,6,5", 1).replace("float", "float16"), WRITTEN_OUT),
]  # fmt: skip

test_stays, test_fires = tables("SoftmaxReshapePass", STAYS, FIRES, in_functions="never")


@pytest.mark.parametrize("sizes", ["N,C,6,5", "N,C,H,W"])
@pytest.mark.parametrize("shape", [(0, 4, 6, 5), (3, 0, 6, 5)])
def test_nothing_stays_nothing(sizes: str, shape: tuple[int, ...]) -> None:
    result, _ = optimize(parse(ONE.format(sizes, 1), 18), [pass_of("SoftmaxReshapePass")])
    session = onnxruntime.InferenceSession(result.SerializeToString())
    (y,) = session.run(None, {"x": np.zeros(shape, np.float32)})
    assert y.shape == shape
