"""What a caller of a model sees of it."""

from onnx import TensorProto, helper

from fusionc.verify.interface import tensor_dims


def test_dimensions_that_an_exporter_does_not_know_are_each_their_own() -> None:
    value = helper.make_tensor_value_info(
        "x", TensorProto.FLOAT, ["?", 3, "?", "None", "-1", None, "N"]
    )
    assert tensor_dims(value) == ("x[0]", 3, "x[2]", "x[3]", "x[4]", "x[5]", "N")
