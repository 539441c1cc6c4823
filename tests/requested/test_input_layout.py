"""--input_format NHWC: a Transpose after each input with images."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from harness import operators, parse, session

import fusionc
from fusionc.errors import UsageError
from fusionc.requested.image_inputs import ImageInputs, change_images
from fusionc.requested.input_layout import NHWC, image_inputs

pytestmark = pytest.mark.usefixtures("in_a_folder_of_its_own")

MODEL = """agraph (float[N,3,H,W] x, float[1,1,4,4] mask, float[2,3,1,1] w) => (float[N,2,H,W] y,
    float[1,1,4,4] z) { a = Add (x, x) p = Clip (a) y = Conv (p, w) z = Softmax (mask) }"""


def model() -> onnx.ModelProto:
    return parse(MODEL)


def shape(value: onnx.ValueInfoProto) -> list[Any]:
    return [dim.dim_value or dim.dim_param for dim in value.type.tensor_type.shape.dim]


def test_images_are_told_from_other_inputs_of_rank_4() -> None:
    assert image_inputs(model()) == ["x"]


def test_the_result_takes_the_other_layout() -> None:
    onnx.save(model(), "in.onnx")
    fusionc.convert(
        "in.onnx", output="out.onnx", input_format="NHWC", input_shape={"x": ((1, 3), 3, 5, 4)}
    )
    result = onnx.load("out.onnx")
    assert shape(result.graph.input[0]) == ["N", 5, 4, 3]
    assert operators(result)["Transpose"] == 1
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 5, 4, 3)).astype(np.float32)
    rest = {"mask": np.ones((1, 1, 4, 4), np.float32)}
    rest["w"] = rng.standard_normal((2, 3, 1, 1)).astype(np.float32)
    (y, _) = session(result).run(None, {"x": x, **rest})
    (wanted, _) = session(model()).run(None, {"x": np.moveaxis(x, 3, 1), **rest})
    np.testing.assert_allclose(y, wanted, rtol=1e-5, atol=1e-5)


def test_sizes_and_axes_follow() -> None:
    images = ImageInputs(names=["x"])
    assert images.shape("x", (1, 3, 5, 4)) == (1, 5, 4, 3)
    assert images.shape("mask", (1, 3, 5, 4)) == (1, 3, 5, 4)
    assert [images.axis("x", axis) for axis in range(4)] == [0, 3, 1, 2]


def test_notices_name_the_new_layout() -> None:
    images = change_images(model(), (), NHWC)
    assert images.notices() == ["x takes images in the layout (N, H, W, C)"]


def test_fixed_sizes_that_become_open() -> None:
    """The model is run with other sizes in the new layout, too."""
    fixed = parse("""agraph (float[1,3,5,4] x, float[2,3,1,1] w) => (float[1,2,5,4] y)
        { y = Conv (x, w) }""")
    onnx.save(fixed, "in.onnx")
    fusionc.convert("in.onnx", output="out.onnx", input_format="NHWC", free_dim={"x": (0, 2)})
    assert shape(onnx.load("out.onnx").graph.input[0]) == ["batch", "dim_2", 4, 3]


@pytest.mark.parametrize("layout", ["NCHW", "ND", "NCDHW", None])
def test_other_formats_change_nothing(layout: str | None) -> None:
    proto = model()
    assert change_images(proto, (), layout) == ImageInputs({}, []) and proto == model()


def test_no_images() -> None:
    proto = parse("agraph (float[1,1,4,4] x) => (float[1,1,4,4] y) { y = Softmax (x) }")
    with pytest.raises(UsageError, match="no input of the model is an image") as raised:
        change_images(proto, (), NHWC)
    assert (raised.value.exit_code, raised.value.code) == (2, "E10001")


def test_an_unknown_format() -> None:
    with pytest.raises(UsageError, match="input_format is 'NWHC'") as raised:
        fusionc.convert("in.onnx", input_format="NWHC")
    assert raised.value.code == "E10001"


def test_an_input_that_is_an_output() -> None:
    proto = parse("""agraph (float[1,3,5,4] x, float[2,3,1,1] w) => (float[1,2,5,4] y,
        float[1,3,5,4] x) { y = Conv (x, w) }""")
    with pytest.raises(UsageError, match="the input x is also an output"):
        change_images(proto, (), NHWC)
