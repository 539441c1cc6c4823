"""How large tensors are, and what tells them apart."""

from __future__ import annotations

import tracemalloc

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, numpy_helper
from onnx.helper import make_tensor

from fusionc.model.tensors import byte_size, element_digest

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
        assert byte_size(numpy_helper.from_array(numpy_helper.to_array(tensor))) == byte_size(
            tensor
        )
        assert len(numpy_helper.from_array(numpy_helper.to_array(tensor)).raw_data) == byte_size(
            tensor
        )


def test_strings_are_as_large_as_their_bytes() -> None:
    assert (
        byte_size(
            TensorProto(dims=[2], data_type=TensorProto.STRING, string_data=[b"ab", "ü".encode()])
        )
        == 4
    )


@pytest.mark.parametrize(
    "one",
    [
        np.arange(6, dtype=np.float32),
        np.arange(6).astype(ml_dtypes.bfloat16),
        np.array(["a", "b"] * 3, object),
    ],
    ids=lambda array: str(array.dtype),
)
def test_a_digest_tells_elements_apart_wherever_they_lie(one: np.ndarray) -> None:
    pairs = one.reshape(2, 3)
    assert (
        element_digest(one)
        == element_digest(pairs)
        == element_digest(pairs.copy("F"))
        != element_digest(pairs.T)
    )
    assert element_digest(one[:5]) != element_digest(one) and element_digest(
        one[:0]
    ) == element_digest(one[6:])


def test_a_digest_needs_no_copy_of_the_elements() -> None:
    large = np.zeros(1 << 22)
    tracemalloc.start()
    element_digest(large)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < large.nbytes / 100
