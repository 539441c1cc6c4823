"""Modes 1 and 6: what a model file holds."""

from __future__ import annotations

import json

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from fusionc.report.model_info import information, model_as_json


def model() -> onnx.ModelProto:
    large = numpy_helper.from_array(np.zeros((16, 32), np.float32), "large")
    small = numpy_helper.from_array(np.array([1, 2], np.int64), "small")
    inner = helper.make_graph(
        [helper.make_node("Constant", [], ["inner_out"], value=numpy_helper.from_array(np.ones(300), "c"))],
        "inner", [], [helper.make_tensor_value_info("inner_out", TensorProto.DOUBLE, [300])],
        [numpy_helper.from_array(np.zeros(50, np.int8), "unused")],
    )  # fmt: skip
    external = onnx.TensorProto(name="outside", data_type=TensorProto.INT4, dims=[5, 3])
    external.data_location = TensorProto.EXTERNAL
    external.external_data.add(key="location", value="missing.bin")
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "large"], ["y"]),
            helper.make_node("FusedConv", ["y"], ["z"], domain="com.microsoft"),
            helper.make_node("If", ["b"], ["w"], then_branch=inner, else_branch=inner),
        ],
        "main",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 16, None]),
            helper.make_tensor_value_info("b", TensorProto.BOOL, []),
            helper.make_tensor_value_info("s", TensorProto.FLOAT16, None),
            helper.make_value_info(
                "seq", helper.make_sequence_type_proto(helper.make_tensor_type_proto(1, [2]))
            ),
            helper.make_tensor_value_info("large", TensorProto.FLOAT, [16, 32]),
        ],
        [helper.make_tensor_value_info("w", TensorProto.DOUBLE, [300])],
        [large, small, external],
    )
    function = helper.make_function(
        "own",
        "F",
        ["a"],
        ["b"],
        [helper.make_node("Relu", ["a"], ["b"])],
        [helper.make_opsetid("", 17)],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(
        graph, opset_imports=opsets, ir_version=8, functions=[function], producer_name="me"
    )


def test_information() -> None:
    proto = model()
    size = proto.ByteSize()
    assert information(proto) == [
        ("IR version", "8"),
        ("opsets", "ai.onnx 17, com.microsoft 1"),
        ("producer", "me"),
        ("graph", "main"),
        ("input", "x  float[batch,16,?]"),
        ("input", "b  bool[]"),
        ("input", "s  float16, shape not given"),
        ("input", "seq  sequence(float[2])"),
        ("output", "w  double[300]"),
        ("nodes", "6"),
        ("operators", "Constant 2, If 1, MatMul 1, Relu 1, com.microsoft.FusedConv 1"),
        ("parameters", f"{16 * 32 + 2 + 15 + 2 * 350:,}"),
        ("size", f"{(size + 8) / 1024:.1f} KiB (model {size / 1024:.1f} KiB, external data 8 B)"),
    ]


def test_json_leaves_large_data_out() -> None:
    content = json.loads(model_as_json(model()))
    large, small, _ = content["graph"]["initializer"]
    assert large == {"dims": ["16", "32"], "data_type": 1, "name": "large"}
    assert small["raw_data"] == "AQAAAAAAAAACAAAAAAAAAA=="
    constant = content["graph"]["node"][2]["attribute"][0]["g"]["node"][0]["attribute"][0]["t"]
    assert constant == {"dims": ["300"], "data_type": 11, "name": "c"}
    assert content["ir_version"] == "8" and content["graph"]["node"][0]["op_type"] == "MatMul"
