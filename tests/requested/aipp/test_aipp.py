"""--insert_op_conf: what the result computes is AIPP's arithmetic before the original."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from harness import operators, parse, session

sys.path.insert(0, str(Path(__file__).parent))
from aipp_by_hand import SIZES, preprocessed

import fusionc
from fusionc.errors import Defect, UsageError
from fusionc.requested.aipp import aipp_operators
from fusionc.requested.aipp.aipp_file import aipp_blocks
from fusionc.requested.image_inputs import change_images

pytestmark = pytest.mark.usefixtures("in_a_folder_of_its_own")

NORMALIZED = {
    **{f"mean_chn_{c}": mean for c, mean in enumerate((124, 116, 104))},
    **{f"var_reci_chn_{c}": factor for c, factor in enumerate((0.0171247, 0.017507, 0.0174292))},
}


def matrix(*numbers: int) -> dict[str, int]:
    return {f"matrix_r{at // 3}c{at % 3}": number for at, number in enumerate(numbers)}


BT601 = {
    **matrix(298, 0, 409, 298, -100, -208, 298, 516, 0),
    **{"csc_switch": True, "input_bias_0": 16, "input_bias_1": 128, "input_bias_2": 128},
}
JPEG = {**matrix(256, 0, 359, 256, -88, -183, 256, 454, 0), "csc_switch": True}
TO_YUV = {
    **matrix(66, 129, 25, -38, -74, 112, 112, -94, -18),
    **{"csc_switch": True, "output_bias_0": 16, "output_bias_1": 128, "output_bias_2": 128},
}
GRAY = {**matrix(76, 150, 30, 0, 0, 0, 0, 0, 0), "csc_switch": True}
NV12 = {"input_format": "YUV420SP_U8", "src_image_size_w": 12, "src_image_size_h": 10}
CROPPED = {"crop": True, "load_start_pos_w": 2, "load_start_pos_h": 4}
PADDED = {"padding": True, "left_padding_size": 1, "right_padding_size": 2, "top_padding_size": 3}
# (keys, channels, height and width of the model's input, image's height and width)
CONFIGURATIONS = {
    "NV12 to RGB, cropped": (
        {**NV12, **CROPPED, "crop_size_w": 8, "crop_size_h": 6, **BT601, **NORMALIZED},
        (3, 6, 8), (10, 12),
    ),
    "NV21 to RGB of JPEG, padded": (
        {**NV12, "rbuv_swap_switch": True, **JPEG, "input_bias_1": 128, "input_bias_2": 128,
         "input_bias_0": 0, **PADDED, "padding_value": 0.5},
        (3, 13, 15), (10, 12),
    ),
    "NV12 as YUV444": ({**NV12, "var_reci_chn_1": 0.5}, (3, 10, 12), (10, 12)),
    "RGB, normalized": ({"input_format": "RGB888_U8", **NORMALIZED}, (3, 5, 7), (5, 7)),
    "RGB to BGR, cropped and padded": (
        {"input_format": "RGB888_U8", "rbuv_swap_switch": True, "src_image_size_w": 12,
         "src_image_size_h": 10, **CROPPED, "crop_size_w": 5, "crop_size_h": 6, **PADDED,
         "bottom_padding_size": 1, **NORMALIZED, "min_chn_0": 0.25},
        (3, 10, 8), (10, 12),
    ),
    "RGB to YUV": ({"input_format": "RGB888_U8", **TO_YUV, "min_chn_1": 1.5}, (3, 6, 4), (6, 4)),
    "BGR to gray": (
        {"input_format": "RGB888_U8", "rbuv_swap_switch": True, **GRAY, "output_bias_0": 0,
         "var_reci_chn_0": 0.00392},
        (1, 6, 4), (6, 4),
    ),
    "gray": (
        {"input_format": "YUV400_U8", "mean_chn_0": 128, "var_reci_chn_0": -0.0078125},
        (1, 6, 4), (6, 4),
    ),
    "XRGB to BGR": (
        {"input_format": "XRGB8888_U8", "ax_swap_switch": True, "rbuv_swap_switch": True,
         **NORMALIZED},
        (3, 4, 5), (4, 5),
    ),
    "XRGB to YUV": (
        {"input_format": "XRGB8888_U8", "ax_swap_switch": True, **TO_YUV}, (3, 4, 5), (4, 5),
    ),
    "XRGB as it is": (
        {"input_format": "XRGB8888_U8", "mean_chn_3": 3, "var_reci_chn_0": 2.0},
        (4, 4, 5), (4, 5),
    ),
}  # fmt: skip


def text_of(config: dict[str, Any]) -> str:
    words = {True: "true", False: "false"}
    lines = [
        f"  {key} : {words[value] if isinstance(value, bool) else value}  # a comment"
        for key, value in config.items()
    ]
    return "\n".join(["# AIPP", "aipp_op {", "  aipp_mode: static", *lines, "}"])


def source(channels: int, height: int, width: int) -> onnx.ModelProto:
    return parse(f"""agraph (float[N,{channels},{height},{width}] x, float[2,{channels},3,3] w)
        => (float[N,2,M,K] y, float[N,{channels},{height},{width}] z)
        {{ y = Conv (x, w) z = Neg (x) }}""")


def convert(model: onnx.ModelProto, config: str, **options: Any) -> onnx.ModelProto:
    onnx.save(model, "in.onnx")
    Path("aipp.cfg").write_text(config)
    fusionc.convert("in.onnx", output="out.onnx", insert_op_conf="aipp.cfg", **options)
    return onnx.load("out.onnx")


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_the_result_is_the_original_behind_aipp(name: str) -> None:
    config, (channels, *sizes), (rows, columns) = CONFIGURATIONS[name]
    model = source(channels, *sizes)
    result = convert(model, text_of(config), verify=name == "NV12 to RGB, cropped")
    rows = rows * 3 // 2 if config["input_format"] == "YUV420SP_U8" else rows
    shape = (2, rows, columns, SIZES[config["input_format"]])
    images = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    images[0, :3] = 255
    inputs = np.stack([preprocessed(image, config, channels) for image in images])
    weights = np.random.default_rng(1).standard_normal((2, channels, 3, 3)).astype(np.float32)
    y, z = session(result).run(None, {"x": images, "w": weights})
    wanted_y, wanted_z = session(model).run(None, {"x": inputs.astype(np.float32), "w": weights})
    steps = [abs(config.get(f"var_reci_chn_{c}", 1.0)) for c in range(channels)]
    assert z.shape == inputs.shape
    assert np.all(np.abs(z - wanted_z) <= 1e-4 * np.reshape(steps, (-1, 1, 1)))
    np.testing.assert_allclose(y, wanted_y, rtol=1e-5, atol=1e-3)
    (declared,) = (value for value in result.graph.input if value.name == "x")
    dims = [dim.dim_value or dim.dim_param for dim in declared.type.tensor_type.shape.dim]
    assert dims == ["N", *shape[1:]]
    assert declared.type.tensor_type.elem_type == onnx.TensorProto.UINT8


@pytest.mark.parametrize(("pads", "left"), [("0,0,0,0", set()), ("1,1,1,1", {"Add"})])
def test_the_scale_folds_into_the_convolution(pads: str, left: set[str]) -> None:
    """The mean only if padding does not come between."""
    model = parse(f"""agraph (float[1,3,8,8] x) => (float[1,2,A,B] y)
        <float[2,3,3,3] w = {{{",".join(["0.25"] * 54)}}}>
        {{ y = Conv <pads = [{pads}]> (x, w) }}""")
    result = convert(model, text_of({"input_format": "RGB888_U8", **NORMALIZED}), verify=False)
    assert set(operators(result)) == {"Transpose", "Cast", "Conv", *left}


def test_old_opsets_and_float16() -> None:
    """Slice, Clip and Pad had attributes, an initializer had to be an input, and the result is of
    the model's type.
    """
    model = parse(
        """agraph (float16[1,3,7,6] x) => (float16[1,3,7,6] y) { y = Neg (x) }""", opset=9
    )
    model.ir_version = 3
    config, _, _ = CONFIGURATIONS["NV12 to RGB, cropped"]
    config = {**config, "crop_size_w": 4, "crop_size_h": 4, **PADDED, "left_padding_size": 0}
    result = convert(model, text_of(config))
    images = np.random.default_rng(0).integers(0, 256, (1, 15, 12, 1), np.uint8)
    (y,) = session(result).run(None, {"x": images})
    assert {tensor.name for tensor in result.graph.initializer} <= {
        value.name for value in result.graph.input
    }
    np.testing.assert_array_equal(y[0], -preprocessed(images[0], config, 3).astype(np.float16))


def test_open_sizes_stay_open() -> None:
    model = parse("agraph (float[N,3,H,W] x) => (float[N,3,H,W] y) { y = Neg (x) }")
    result = convert(model, text_of({"input_format": "RGB888_U8"}), verify=False)
    dims = result.graph.input[0].type.tensor_type.shape.dim
    assert [dim.dim_value or dim.dim_param for dim in dims] == ["N", "H", "W", 3]


def test_two_inputs_and_a_subgraph() -> None:
    """Consumers inside subgraphs read the preprocessed value, too."""
    model = parse("""agraph (bool c, float[1,1,2,2] x, float[1,1,2,2] w) => (float[1,1,2,2] y) {
        y = If (c) <then_branch = t () => (float[1,1,2,2] a) { a = Sub (x, w) },
                    else_branch = e () => (float[1,1,2,2] b) { b = Add (x, w) }> }""")
    block = "aipp_op {{ aipp_mode: static input_format: YUV400_U8 {} }}\n"
    halved = block.format("related_input_rank: 1 var_reci_chn_0: 0.5")
    shifted = block.format('related_input_name: "w" mean_chn_0: 1')
    result = convert(model, halved + shifted, verify=False)
    ones = np.full((1, 2, 2, 1), 9, np.uint8)
    (y,) = session(result).run(None, {"c": np.array(True), "x": ones, "w": ones})
    assert np.all(y == 4.5 - 8)


def test_a_mistake_in_the_operators_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The result is not compared with the operators alone, but they with NumPy before."""
    right = aipp_operators.PreprocessingOperators._node

    def rounded(self: Any, op: str, *operands: str, **attributes: Any) -> str:
        return right(self, "Round" if op == "Floor" else op, *operands, **attributes)

    monkeypatch.setattr(aipp_operators.PreprocessingOperators, "_node", rounded)
    config, (channels, *sizes), _ = CONFIGURATIONS["NV12 to RGB, cropped"]
    with pytest.raises(Defect, match="do not compute what AIPP computes"):
        convert(source(channels, *sizes), text_of(config))


@pytest.mark.parametrize("verify", [True, False])
def test_notices_name_the_new_interface(verify: bool) -> None:
    """Once, also if the model is changed again for another attempt."""
    model = parse("agraph (float[1,1,2,2] x) => (float[1,1,2,2] y) { y = Neg (x) }")
    onnx.save(model, "in.onnx")
    Path("aipp.cfg").write_text(text_of({"input_format": "YUV400_U8"}))
    report = fusionc.convert("in.onnx", output="out.onnx", insert_op_conf="aipp.cfg", verify=verify)
    notices = [notice for notice in report.notices if " x " in f" {notice}"]
    assert notices == [
        "x takes images of uint8 in YUV400_U8: (N, 2, 2, 1)",
        *["the preprocessing of x computes what AIPP computes, up to 0 steps of uint8"] * verify,
    ]


NEEDED = "aipp_mode: static input_format: "
WRONG = {
    "nothing": ("", "the file of --insert_op_conf has no block aipp_op", "aipp.cfg"),
    "no text form": ("aipp_op {\n mean_chn_0: 1", "is not in protobuf's text form", "aipp.cfg:2"),
    "another block": ("aipp { }", "aipp is not a key of AIPP", "aipp.cfg:1"),
    "an unknown key": (
        "aipp_op { \n# x\n mean_chn_00: 1 }", "mean_chn_00 is not a key of AIPP", "aipp.cfg:3",
    ),
    "a key twice": (
        "aipp_op {\n crop: true\n crop: false }", "crop is given twice", "aipp.cfg:3"),
    "a value of another type": (
        "aipp_op {\n mean_chn_0: 123.5 }", "mean_chn_0 cannot be 123.5", "aipp.cfg:2"),
    "an unknown word": (
        "aipp_op {\n input_format: YUYV_U8 }", "input_format cannot be YUYV_U8", "aipp.cfg:2"),
    "no switch": ("aipp_op { crop: yes }", "crop cannot be yes", "aipp.cfg:1"),
    "no mode": ("aipp_op { input_format: RGB888_U8 }", "aipp_mode is missing", "aipp.cfg:1"),
    "dynamic alone": ("aipp_op { aipp_mode: dynamic }",
        "aipp_mode dynamic would make the preprocessing another input", "aipp.cfg:1"),
    "no format": ("aipp_op { aipp_mode: static }", "input_format is missing", "aipp.cfg:1"),
    "dynamic mode": (
        "aipp_op {\n input_format: RGB888_U8\n aipp_mode: dynamic }",
        "aipp_mode dynamic would make the preprocessing another input", "aipp.cfg:3"),
    "out of range": (
        f"aipp_op {{ {NEEDED} RGB888_U8\n mean_chn_1: 256 }}", "mean_chn_1 cannot be 256",
        "aipp.cfg:2"),
    "no number": (
        f"aipp_op {{ {NEEDED} RGB888_U8 var_reci_chn_0: nan }}", "var_reci_chn_0 cannot be nan",
        "aipp.cfg:1"),
    "resize": (
        f"aipp_op {{ {NEEDED} RGB888_U8 resize: true }}", "resize cannot be true: images are not",
        "aipp.cfg:1"),
    "no such rank": (
        f"aipp_op {{ {NEEDED} RGB888_U8\n related_input_rank: 7 }}", "the model has no input 7",
        "aipp.cfg:2"),
    "no such name": (
        f'aipp_op {{ {NEEDED} RGB888_U8 related_input_name: "k" }}', "the model has no input k",
        "aipp.cfg:1"),
    "two blocks for one input": (
        f"aipp_op {{ {NEEDED} RGB888_U8 }}\naipp_op {{ {NEEDED} RGB888_U8 }}",
        "two blocks preprocess the input x", "aipp.cfg:2"),
    "no image": (
        f"aipp_op {{ {NEEDED} RGB888_U8\n related_input_rank: 1 }}",
        "the input i is not an image: it has 1 dimensions of int64", "aipp.cfg:2"),
    "an output": (
        f"aipp_op {{ {NEEDED} RGB888_U8\n related_input_rank: 3 }}",
        "the input o is also an output of the model", "aipp.cfg:2"),
    "open channels": (
        f"aipp_op {{ {NEEDED} RGB888_U8 related_input_rank: 2 }}",
        "the number of channels of any is open", "aipp.cfg:1"),
    "too few channels": (
        f"aipp_op {{ {NEEDED} YUV400_U8 }}", "YUV400_U8 has 1 channels, and the model takes 3",
        "aipp.cfg:1"),
    "X among three": (
        f"aipp_op {{ {NEEDED} XRGB8888_U8 }}", "XRGB8888_U8 has 4 channels, and the model takes 3",
        "aipp.cfg:1"),
    "X of another format": (
        f"aipp_op {{ {NEEDED} RGB888_U8\n ax_swap_switch: true }}",
        "ax_swap_switch moves the channel X, which RGB888_U8 lacks", "aipp.cfg:2"),
    "colors of one": (
        f"aipp_op {{ {NEEDED} YUV400_U8\n csc_switch: true }}", "csc_switch needs an image of colors",
        "aipp.cfg:2"),
    "colors of one exchanged": (
        f"aipp_op {{ {NEEDED} YUV400_U8\n rbuv_swap_switch: true }}", "YUV400_U8 has one channel",
        "aipp.cfg:2"),
    "no crop": (
        f"aipp_op {{ {NEEDED} RGB888_U8\n src_image_size_w: 9 }}",
        "src_image_size_w does not fit: the image is 9 and the padding 0, but x takes 8",
        "aipp.cfg:2"),
    "crop of nothing": (
        f"aipp_op {{ {NEEDED} RGB888_U8 crop: true }}", "crop needs src_image_size_h",
        "aipp.cfg:1"),
    "crop outside": (
        f"aipp_op {{ {NEEDED} RGB888_U8 crop: true src_image_size_w: 9 src_image_size_h: 9\n"
        "load_start_pos_w: 2 }",
        "the part to crop ends at 10, and the image at 9", "aipp.cfg:2"),
    "padding that does not fit": (
        f"aipp_op {{ {NEEDED} RGB888_U8 crop: true src_image_size_w: 9 src_image_size_h: 9\n"
        "crop_size_h: 8 padding: true top_padding_size: 1 }",
        "crop_size_h does not fit: the image is 8 and the padding 1, but x takes 8", "aipp.cfg:2"),
    "odd": (
        f"aipp_op {{ {NEEDED} YUV420SP_U8 crop: true src_image_size_w: 10 src_image_size_h: 10\n"
        "load_start_pos_h: 1 }",
        "load_start_pos_h is 1, but in YUV420SP_U8", "aipp.cfg:2"),
    "an open size": (
        f"aipp_op {{ {NEEDED} YUV420SP_U8 related_input_rank: 4 }}",
        "YUV420SP_U8 needs src_image_size_h", "aipp.cfg:1"),
}  # fmt: skip
MODEL = """agraph (float[1,3,8,8] x, int64[2] i, float[1,C,8,8] any, float[1,3,8,8] o,
    float[1,3,H,W] open) => (float[1,3,8,8] y, float[1,3,8,8] o) { y = Neg (x) }"""


@pytest.mark.parametrize("name", WRONG)
def test_wrong_uses(name: str) -> None:
    text, what, where = WRONG[name]
    Path("aipp.cfg").write_text(text)
    with pytest.raises(UsageError) as raised:
        change_images(parse(MODEL), aipp_blocks(Path("aipp.cfg")), None)
    error = raised.value
    assert what in error.what and error.hint and error.exit_code == 2
    assert (error.code, error.where) == ("E10052", where)


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(UsageError, match="the file of --insert_op_conf does not exist") as error:
        aipp_blocks(Path("none.cfg"))
    assert error.value.code == "E10410"


def test_an_opset_that_is_too_old() -> None:
    Path("aipp.cfg").write_text(text_of({"input_format": "RGB888_U8"}))
    model = parse("agraph (float[1,3,8,8] x) => (float[1,3,8,8] y) { y = Neg (x) }", opset=6)
    with pytest.raises(UsageError, match="AIPP needs opset 7 or newer, and the model has opset 6"):
        change_images(model, aipp_blocks(Path("aipp.cfg")), None)
