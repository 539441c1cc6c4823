"""Operations and bytes of single operators, counted by hand."""

from __future__ import annotations

import pytest
from harness import parse

from fusionc.model.graph import Node
from fusionc.report.node_cost import UnknownSize, bytes_moved_by, operations_of
from fusionc.shapes.inference import typed_model


def the_node(text: str, opset: int = 23) -> Node:
    return typed_model(parse(text, opset), "").main.ordered()[-1]


@pytest.mark.parametrize(
    ("inputs", "call", "operations"),
    [
        ("float[2,3,4] x, float[4,5] w", "MatMul (x, w)", 2 * 2 * 3 * 5 * 4),
        ("float[4,3] x, float[4,5] w", "Gemm <transA = 1> (x, w)", 2 * 3 * 5 * 4),
        (
            "float[2,3,32] x, uint8[5,1,16] w, float[5] s",
            "com.microsoft.MatMulNBits <K = 32, N = 5, bits = 4, block_size = 32> (x, w, s)",
            2 * 2 * 3 * 5 * 32,
        ),
        (
            "float[1,4,8,8] x, float[6,2,3,3] w",
            "Conv <group = 2> (x, w)",
            2 * (6 * 6 * 6) * (2 * 3 * 3),
        ),
        (
            "float[1,4,8,8] x, float[4,6,3,3] w",
            "ConvTranspose (x, w)",
            2 * (4 * 8 * 8) * (6 * 3 * 3),
        ),
        ("float[1,4,8,8] x", "MaxPool <kernel_shape = [2, 2]> (x)", 4 * 7 * 7 * 4),
        (
            "float[2,3,4] x, float[2,4,5] w",
            'Einsum <equation = "bij,bjk->bik"> (x, w)',
            2 * 2 * 3 * 4 * 5,
        ),
        (
            "float[7,2,5] x, float[1,16,5] w, float[1,16,4] r",
            "LSTM <hidden_size = 4> (x, w, r)",
            2 * 7 * 2 * 16 * 9,
        ),
        (
            "float[2,4,6,8] x, float[2,4,9,8] k, float[2,4,9,8] v",
            "Attention (x, k, v)",
            4 * (2 * 4 * 6 * 8) * 9,
        ),
        (
            "float[2,4,6,8] x, float[2,4,9,8] k, float[2,4,9,8] v, float[2,4,5,8] p",
            "Attention (x, k, v, , p, p)",
            4 * (2 * 4 * 6 * 8) * (5 + 9),
        ),
        ("float[2,3] x", "ReduceSum (x)", 6),
        ("float[2,1] x, float[3] w", "Add (x, w)", 6),
        ("float[2,3] x", "Transpose (x)", 0),
    ],
)
def test_operations(inputs: str, call: str, operations: int) -> None:
    assert operations_of(the_node(f"agraph ({inputs}) => (float y) {{ y = {call} }}")) == operations


@pytest.mark.parametrize(
    ("inputs", "call", "moved"),
    [
        ("float[2,3] x", "Relu (x)", 2 * 24),
        ("float[2,3] x", "Mul (x, x)", 2 * 24),  # what is read twice comes once
        ("float16[2,3] x", "Relu (x)", 2 * 12),
        ("float[2,3] x, int64[2] shape", "Reshape (x, shape)", 0),
        ("float[1000,4] x, int64[2] at", "Gather (x, at)", 2 * 32 + 16),
        ("float[2,3] x", "Cast <to = 10> (x)", 24 + 12),
    ],
)
def test_bytes(inputs: str, call: str, moved: int) -> None:
    assert bytes_moved_by(the_node(f"agraph ({inputs}) => (float y) {{ y = {call} }}")) == moved


def test_what_has_no_size_is_not_guessed() -> None:
    node = the_node("agraph (float[n,3] x) => (float[n,3] y) { y = Relu (x) }")
    with pytest.raises(UnknownSize):
        operations_of(node)
    with pytest.raises(UnknownSize):
        bytes_moved_by(node)
