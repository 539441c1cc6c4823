from pathlib import Path

import onnx
import pytest
from harness import parse

import fusionc

# A convolution that onnxruntime computes in a layout of its own, weights that a kernel packs, and
# weights that end inside a cache line.
MODEL = """g (float[N,3,8,8] x, int64[M] at) => (float[N,40] y, int8[M] z) <
    float[16,3,3,3] k, float[16] b, float[1024,40] w, float[40] c, int8[1027] odd>
{
    v = Conv <pads = [1, 1, 1, 1]> (x, k, b)
    r = Relu (v)
    f = Flatten (r)
    m = MatMul (f, w)
    y = Add (m, c)
    z = Gather (odd, at)
}"""


@pytest.fixture(scope="session")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with in.onnx and the files of its conversion with a ready form: out.onnx and the files
    next to it.
    """
    folder = tmp_path_factory.mktemp("ready")
    onnx.save(parse(MODEL), folder / "in.onnx")
    report = fusionc.convert(folder / "in.onnx", output=folder / "out.onnx", ready=True, log="null")
    assert report.ready == folder / "out.session.json"
    assert any("the ready form (equal to the bit in" in notice for notice in report.notices)
    return folder
