"""How large tensors are."""

from __future__ import annotations

import pytest
from onnx import TensorProto, numpy_helper
from onnx.helper import make_tensor

from fusionc.model.tensors import byte_size

SIZES = {  # bytes of three elements
    "FLOAT": 12, "UINT8": 3, "INT8": 3, "UINT16": 6, "INT16": 6, "INT32": 12, "INT64": 24, "BOOL": 3, "FLOAT16": 6,
    "DOUBLE": 24, "UINT32": 12, "UINT64": 24, "COMPLEX64": 24, "COMPLEX128": 48, "BFLOAT16": 6, "FLOAT8E4M3FN": 3,
    "FLOAT8E4M3FNUZ": 3, "FLOAT8E5M2": 3, "FLOAT8E5M2FNUZ": 3, "FLOAT8E8M0": 3, "UINT4": 2, "INT4": 2, "FLOAT4E2M1": 2,
    "UINT2": 1, "INT2": 1,
}  # fmt: skip


@pytest.mark.parametrize(("name", "size"), SIZES.items(), ids=SIZES)
def test_how_large_elements_are(name: str, size: int) -> None:
    assert byte_size(TensorProto(dims=[3], data_type=TensorProto.DataType.Value(name))) == size
    for count in (0, 1, 5, 8):
        tensor = make_tensor("t", TensorProto.DataType.Value(name), [count], [0] * count)
        assert byte_size(numpy_helper.from_array(numpy_helper.to_array(tensor))) == byte_size(tensor)
        assert len(numpy_helper.from_array(numpy_helper.to_array(tensor)).raw_data) == byte_size(tensor)


def test_strings_are_as_large_as_their_bytes() -> None:
    assert byte_size(TensorProto(dims=[2], data_type=TensorProto.STRING, string_data=[b"ab", "ü".encode()])) == 4
