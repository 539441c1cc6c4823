"""Attributes whose absence means something else in a newer opset: the table is complete, raised
models keep theirs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import onnx
import pytest
from harness import parse, session
from onnx import ModelProto

from fusionc.operators.changed_defaults import CHANGED_DEFAULTS
from fusionc.requested.target_opset import newest_opset, raise_opset

# Attributes that became possible, or were written otherwise, where a node without them means what
# it meant before.
SAME = {
    "ArgMax": "select_last_index",
    "ArgMin": "select_last_index",
    "Attention": "left_window_size right_window_size",
    "AveragePool": "ceil_mode count_include_pad",
    "BatchNormalization": "training_mode",
    "Cast": "round_mode saturate",
    "CastLike": "round_mode saturate",
    "DepthToSpace": "mode",
    "DequantizeLinear": "axis block_size output_dtype",
    "GRU": "direction layout linear_before_reset",
    "GatherND": "batch_dims",
    "GridSample": "mode",
    "LSTM": "layout",
    "LpPool": "ceil_mode dilations",
    "MaxPool": "ceil_mode storage_order",
    "QuantizeLinear": "axis block_size output_dtype saturate",
    "RNN": "layout",
    "Range": "stash_type",
    "Reshape": "allowzero",
    "Resize": "antialias cubic_coeff_a exclude_outside extrapolation_value "
    "keep_aspect_ratio_policy",
    "ScatterElements": "reduction",
    "ScatterND": "reduction",
    "Shape": "start",
    "SpaceToDepth": "mode",
    "Split": "axis",
    "TopK": "largest sorted",
    "Clip": "max min",
    **{
        f"Reduce{kind}": "noop_with_empty_axes"
        for kind in (
            "L1",
            "L2",
            "LogSum",
            "LogSumExp",
            "Max",
            "Mean",
            "Min",
            "Prod",
            "Sum",
            "SumSquare",
        )
    },
}
# What fusionc.requested.target_opset and onnx's converter write by other means.
WRITTEN_OTHERWISE = {
    "Hardmax": "axis",
    "LogSoftmax": "axis",
    "Resize": "nearest_mode",
    "Softmax": "axis",
    "Selu": "alpha gamma",
}


def changed() -> Iterator[tuple[str, str]]:
    """The attributes that have got a default or another one, and their operators."""
    versions: dict[str, dict[int, Any]] = defaultdict(dict)
    for schema in onnx.defs.get_all_schemas_with_history():
        if not schema.domain and not schema.deprecated:
            versions[schema.name][schema.since_version] = {
                name: onnx.helper.get_attribute_value(attribute.default_value)
                for name, attribute in schema.attributes.items()
                if attribute.default_value.type
            }
    for op, by_version in versions.items():
        defaults = [by_version[version] for version in sorted(by_version)]
        for before, after in pairwise(defaults):
            yield from ((op, name) for name, value in after.items() if before.get(name) != value)


def test_the_table_has_every_default_that_changes_a_meaning() -> None:
    known = {(row.op, row.attribute) for row in CHANGED_DEFAULTS}
    known |= {
        (op, name)
        for rows in (SAME, WRITTEN_OTHERWISE)
        for op, names in rows.items()
        for name in names.split()
    }
    assert set(changed()) - known == set()


IMAGE = "float[1,2,6,6] x"
MODELS = {
    "RoiAlign": (
        f"({IMAGE}) => (float[1,2,2,2] y) <float[1,4] r = {{0.3,0.2,3.9,3.3}}, int64[1] k = {{0}}> "
        "{ "
        "y = RoiAlign <output_height = 2, output_width = 2> (x, r, k) }",
        10,
        21,
    ),
    "Resize": (
        f"({IMAGE}) => (float[1,2,9,9] y) <float[4] k = {{1,1,1.5,1.5}}> {{ "
        'y = Resize <mode = "linear"> (x, k) }',
        10,
        26,
    ),
    "Upsample": (
        f"({IMAGE}) => (float[1,2,9,9] y) <float[4] k = {{1,1,1.5,1.5}}> {{ "
        'y = Upsample <mode = "linear"> (x, k) }',
        9,
        26,
    ),
    "GroupNormalization": (
        "(double[1,4,6,6] x) => (double[1,4,6,6] y) <double[2] s, double[2] b> { "
        "y = GroupNormalization <num_groups = 2> (x, s, b) }",
        18,
        26,
    ),
}


def raised(model: ModelProto, version: int) -> ModelProto:
    copy = ModelProto()
    copy.CopyFrom(model)
    return raise_opset(copy, min(version, newest_opset()))


@pytest.mark.parametrize("op", MODELS)
def test_a_raised_model_means_what_it_meant(op: str) -> None:
    text, old, new = MODELS[op]
    model = parse(f"agraph {text}", old)
    tensor = model.graph.input[0].type.tensor_type
    dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    shape = [dim.dim_value for dim in tensor.shape.dim]
    x = np.random.default_rng(0).standard_normal(shape).astype(dtype)
    (ours,), (theirs,) = (session(each).run(None, {"x": x}) for each in (raised(model, new), model))
    np.testing.assert_array_equal(ours, theirs)


def quantize(declared: str = "float16") -> ModelProto:
    """Of float16, by a scale that does not divide what lies between its steps; `declared` is the
    type of its input.
    """
    text = f"agraph ({declared}[N] x) => (int8[N] y) <int8 z = {{3}}> {{"
    cast = "h = Cast <to = 10> (x)" if declared == "float" else "h = Identity (x)"
    model = parse(f"{text} {cast} y = QuantizeLinear (h, s, z) }}", 19)
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array(0.0123, np.float16), "s"))
    return model


@pytest.mark.parametrize("declared", ["float16", "float"])
def test_quantization_of_float16_divides_in_float(declared: str) -> None:
    model = quantize(declared)
    ties = (np.arange(-200, 200) * 0.0123 / 2).astype(
        np.float16 if declared == "float16" else np.float32
    )
    result = raised(model, 26)
    (ours,), (theirs,) = (session(each).run(None, {"x": ties}) for each in (result, model))
    np.testing.assert_array_equal(ours, theirs)
    del result.graph.node[1].attribute[:]
    assert (session(result).run(None, {"x": ties})[0] != theirs).any()  # the test would see it


def test_what_is_written_stays() -> None:
    text = (
        f"agraph ({IMAGE}) => (float[1,2,1,1] y) <float[1,4] r, int64[1] k> {{ y = "
        f"RoiAlign <{{}}> (x, r, k) }}"
    )
    model = parse(text.replace("{}", 'coordinate_transformation_mode = "half_pixel"'), 16)
    assert raised(model, 21).graph.node == model.graph.node


def test_no_attribute_where_nothing_changes() -> None:
    text = (
        "agraph (float[N] x) => (int8[N] y) <float s = {0.5}, int8 z = {3}> { y = "
        "QuantizeLinear (x, s, z) }"
    )
    model = parse(text, 19)
    assert not raised(model, 26).graph.node[0].attribute
