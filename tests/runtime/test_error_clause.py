"""Messages of onnxruntime 1.32, and the clause that each is cut to."""

from __future__ import annotations

import pytest

from fusionc.runtime.error_clause import error_clause

SOURCE = "/onnxruntime_src/onnxruntime/core"
LOAD = "[ONNXRuntimeError] : 1 : FAIL : Load model from /tmp/a b/m.onnx failed:"
RUN = "[ONNXRuntimeError] : 1 : FAIL : Non-zero status code returned while running "


@pytest.mark.parametrize(
    ("message", "clause"),
    [
        (
            f"{LOAD}{SOURCE}/graph/model_load_utils.h:46 void onnxruntime::model_load_utils::"
            "ValidateOpsetForDomain(const std::unordered_map<std::__cxx11::basic_string<char>, int>"
            "&, const onnxruntime::logging::Logger&, bool, const std::string&, int) ONNX Runtime "
            "only *guarantees* support for models stamped with official released onnx opset "
            "versions. Opset 99 is under development and support for this is limited. The operator "
            "schemas and or other functionality may change before next ONNX release and in this "
            "case ONNX Runtime will not guarantee backward compatibility. Current official support "
            "for domain ai.onnx is till opset 28.",
            "opset 99 of ai.onnx is newer than the last that onnxruntime supports, which is 28",
        ),
        (
            f"{LOAD}{SOURCE}/graph/model.cc:256 onnxruntime::Model::Model(onnx::ModelProto&&, const "
            "onnxruntime::ModelOptions&) Unsupported model IR version: 99, max supported IR "
            "version: 14\n",
            "Unsupported model IR version: 99, max supported IR version: 14",
        ),
        (
            '[ONNXRuntimeError] : 10 : INVALID_GRAPH : Load model from m.onnx failed:This is an '
            'invalid model. In Node, ("n", Foo, "", -1) : ("x": tensor(float),) -> ("y": '
            "tensor(float),) , Error No Op registered for Foo with domain_version of 17",
            'Foo "n": No Op registered for Foo with domain_version of 17',
        ),
        (
            f"{LOAD}Fatal error: my:Foo(-1) is not a registered function/op",
            "my:Foo(-1) is not a registered function/op",
        ),
        (
            f"{LOAD}Node (n) Op (Add) [ShapeInferenceError] Incompatible dimensions",
            "Node (n) Op (Add) [ShapeInferenceError] Incompatible dimensions",
        ),
        (
            f"{RUN}Reshape node. Name:'' Status Message: {SOURCE}/providers/cpu/tensor/"
            "reshape_helper.h:91 onnxruntime::ReshapeHelper::ReshapeHelper(const onnxruntime::"
            "TensorShape&, onnxruntime::TensorShapeVector&, bool) input_shape_size == "
            "requested_shape_size was false. The input tensor cannot be reshaped to the requested "
            "shape. Input shape:{2,3}, requested shape:{7,11}\n",
            "Reshape: The input tensor cannot be reshaped to the requested shape. Input "
            "shape:{2,3}, requested shape:{7,11}",
        ),
        (
            f"{RUN}Gather node. Name:'g' Status Message: indices element out of data bounds, idx=99",
            'Gather "g": indices element out of data bounds, idx=99',
        ),
        (
            "[ONNXRuntimeError] : 9 : NOT_IMPLEMENTED : Could not find an implementation for "
            "Det(22) node with name 'd'",
            "Could not find an implementation for Det(22) node with name 'd'",
        ),
        (
            f"{SOURCE}/framework/x.cc:5 onnxruntime::A::B(int) const::<lambda(auto:1)> [with T = "
            "float] The size is wrong",
            "The size is wrong",
        ),
        (f"{SOURCE}/framework/x.cc:5 a == b was false.", "a == b was false."),
        ("it takes longer than 3 s", "it takes longer than 3 s"),
    ],
)  # fmt: skip
def test_a_message_is_cut_to_its_clause(message: str, clause: str) -> None:
    assert error_clause(message) == clause
    assert error_clause(clause) == clause
