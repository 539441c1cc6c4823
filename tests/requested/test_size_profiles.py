"""--dynamic_batch_size, --dynamic_image_size and --dynamic_dims: open sizes, each of them verified."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest
from harness import parse

import fusionc
from fusionc.errors import UsageError
from fusionc.report.table import cost_text
from fusionc.requested.size_profiles import BATCH, DIMS, IMAGE, size_profiles

pytestmark = pytest.mark.usefixtures("in_a_folder_of_its_own")

CONV = """agraph (float[1,3,6,6] x, float[2,3,3,3] w) => (float[1,2,4,4] y) {
    c = Conv (x, w) y = Relu (c) }"""
# ends in a size of the batch
HELD = """agraph (float[N,2,2] x) => (float[K,4] y)
    <int64[2] s = {6, 4}> { y = Reshape (x, s) }"""


def shape(value: onnx.ValueInfoProto) -> list[Any]:
    return [dim.dim_value or dim.dim_param for dim in value.type.tensor_type.shape.dim]


def convert(model: str, **options: Any) -> tuple[fusionc.Report, onnx.ModelProto]:
    onnx.save(parse(model), "in.onnx")
    report = fusionc.convert("in.onnx", output="out.onnx", **options)
    return report, onnx.load("out.onnx")


def test_a_fixed_batch_becomes_open_and_each_size_is_verified() -> None:
    report, result = convert(CONV, input_shape={"x": (-1, 3, 6, 6)}, dynamic_batch_size=[1, 2, 4])
    assert shape(result.graph.input[0]) == ["batch", 3, 6, 6]
    assert shape(result.graph.output[0])[0] == "batch"
    assert report.cost is not None
    larger, _ = convert(CONV, input_shape={"x": (-1, 3, 6, 6)}, dynamic_batch_size=[4, 2])
    assert larger.cost is not None and larger.cost.macs == 4 * report.cost.macs
    assert cost_text(larger.cost).endswith(" (at the first size of --dynamic_batch_size)")
    assert report.verification.endswith("; equal at each of the 3 sizes of --dynamic_batch_size")
    assert not any("does not make sizes dynamic" in notice for notice in report.notices)


def test_images_in_another_layout() -> None:
    report, result = convert(
        CONV,
        input_shape={"x": (1, 3, -1, -1)},
        dynamic_image_size=[[6, 6], [5, 9]],
        input_format="NHWC",
    )
    assert shape(result.graph.input[0]) == [1, "dim_2", "dim_3", 3]
    assert report.verification.endswith("; equal at each of the 2 sizes of --dynamic_image_size")


def test_sizes_of_aipp_images_follow() -> None:
    text = "aipp_op { aipp_mode: static input_format: XRGB8888_U8 ax_swap_switch: true"
    Path("aipp.cfg").write_text(f"{text} }}")
    options = {"input_shape": {"x": (1, 3, -1, -1)}, "dynamic_image_size": [[6, 6], [5, 9]]}
    report, result = convert(CONV, insert_op_conf="aipp.cfg", **options)
    assert shape(result.graph.input[0]) == [1, "dim_2", "dim_3", 4]
    assert report.verification.endswith("; equal at each of the 2 sizes of --dynamic_image_size")
    Path("aipp.cfg").write_text(f"{text} padding: true top_padding_size: 1 }}")
    with pytest.raises(UsageError, match="changes the sizes of x, and AIPP crops or pads"):
        convert(CONV, insert_op_conf="aipp.cfg", **options)


@pytest.mark.parametrize(
    ("options", "shape"),
    [
        ({"dynamic_batch_size": [1, 2]}, "x:-1,3,6,6"),
        ({"dynamic_image_size": [[6, 6], [8, 8]]}, "x:1,3,-1,-1"),
    ],
)
def test_the_advice_names_the_models_own_input(options: dict[str, Any], shape: str) -> None:
    with pytest.raises(UsageError, match="and no dimension is -1") as error:
        convert(CONV, **options)
    assert error.value.hint == f'give them: --input_shape "{shape}"'


def test_the_users_sizes_come_in_addition() -> None:
    report, _ = convert(
        CONV,
        input_shape={"x": (-1, 3, 6, 6)},
        dynamic_batch_size=[2, 3],
        verify_shape={"x": (5, 3, 6, 6)},
    )
    assert report.verification.endswith("; equal at each of the 2 sizes of --dynamic_batch_size")


def test_a_size_at_which_the_model_does_not_run() -> None:
    with pytest.raises(UsageError, match="the model does not run at x:3,2,2: ") as raised:
        convert(HELD, input_shape={"x": (-1, 2, 2)}, dynamic_dims=[[6], [3]])
    assert raised.value.where == DIMS


def test_a_model_that_holds_a_size() -> None:
    with pytest.raises(UsageError, match="cannot change: the model needs exactly") as raised:
        convert(
            "agraph (float[2,3] x) => (float[2,3] y) <float[2,3] b = {1, 2, 3, 4, 5, 6}>"
            "{ y = Add (x, b) }",
            input_shape={"x": (-1, 3)},
            dynamic_batch_size=[2, 4],
        )
    assert raised.value.where == BATCH


TWO = "agraph ({} a, {} b) => (float[M,3] y, float[K,3] z) {{ y = Neg (a) z = Neg (b) }}"


def test_sizes_that_differ_get_symbols_of_their_own() -> None:
    """Although they are equal in the model."""
    shapes = {"a": (-1, 3), "b": (-1, 3)}
    text = TWO.format("float[2,3]", "float[2,3]")
    report, result = convert(text, input_shape=shapes, dynamic_dims=[[2, 4], [5, 1]])
    assert [shape(value) for value in result.graph.input] == [["batch", 3], ["batch_1", 3]]
    assert report.verification.endswith("; equal at each of the 2 sizes of --dynamic_dims")
    _, result = convert(text, input_shape=shapes, dynamic_dims=[[2, 2], [5, 5]], verify=False)
    assert [shape(value) for value in result.graph.input] == [["batch", 3], ["batch", 3]]


def test_sizes_of_one_symbol_that_differ() -> None:
    shapes = {"a": (-1, 3), "b": (-1, 3)}
    text = TWO.format("float[N,3]", "float[N,3]")
    with pytest.raises(UsageError, match="is 4, but both are N") as raised:
        convert(text, input_shape=shapes, dynamic_dims=[[2, 4], [5, 1]])
    assert (raised.value.code, raised.value.where) == ("E10001", DIMS)


def test_sizes_in_their_order() -> None:
    """With --dynamic_dims each -1 has its own size, otherwise inputs share them."""
    shapes = {"a": (-1, 8, -1), "b": (4,), "c": (-1,)}
    done = size_profiles(None, None, [(1, 2, 3), (4, 5, 6)], shapes)
    assert done is not None and done.shapes == [
        {"a": (1, 8, 2), "c": (3,)},
        {"a": (4, 8, 5), "c": (6,)},
    ]
    done = size_profiles((1, 2), None, None, {"a": (-1, 8), "c": (-1,)})
    assert done is not None and done.shapes == [{"a": (1, 8), "c": (1,)}, {"a": (2, 8), "c": (2,)}]
    assert size_profiles(None, None, None, shapes) is None


OPEN_BATCH = {"x": (-1, 3, 8, 8)}
OPEN_IMAGE = {"x": (1, 3, -1, -1)}
WRONG = {
    "two options": (
        ([1, 2], [[8, 8], [4, 4]], None, OPEN_BATCH),
        "the options exclude each other", f"{BATCH} and {IMAGE}"),
    "one profile": (([1], None, None, OPEN_BATCH), "the number of profiles is 1, not 2 to 100", BATCH),
    "many profiles": (
        ([*range(1, 102)], None, None, OPEN_BATCH), "the number of profiles is 101, not 2 to 100", BATCH),
    "no size": (([1, 0], None, None, OPEN_BATCH), "a size cannot be 0", BATCH),
    "twice": ((None, [[8, 8], [8, 8]], None, OPEN_IMAGE), "8,8 is given twice", IMAGE),
    "nothing open": (([1, 2], None, None, {"x": (1, 3)}), "and no dimension is -1", BATCH),
    "no shape": ((None, None, [[1], [2]], None), "and no dimension is -1", DIMS),
    "a range": (
        ([1, 2], None, None, {"x": (-1, (1, 4))}), "--input_shape has a range", BATCH),
    "not the batch": (([1, 2], None, None, {"x": (1, -1)}), "x[1] is -1", BATCH),
    "not an image": (
        (None, [[1, 2], [3, 4]], None, {"x": (-1, -1)}), "does not hold for x", IMAGE),
    "batch of images": (
        (None, [[1, 2], [3, 4]], None, {"x": (-1, 3, -1, -1)}), "does not hold for x", IMAGE),
    "one size of an image": (
        (None, [[8], [9]], None, OPEN_IMAGE), "in the profile 8 is 1, not 2", IMAGE),
    "too many sizes": (
        (None, None, [[1, 2], [3]], OPEN_BATCH), "in the profile 1,2 is 2, not 1", DIMS),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong_uses(name: str) -> None:
    arguments, what, where = WRONG[name]
    with pytest.raises(UsageError) as raised:
        size_profiles(*arguments)
    error = raised.value
    assert what in error.what and error.hint
    assert (error.exit_code, error.code, error.where) == (2, "E10001", where)
