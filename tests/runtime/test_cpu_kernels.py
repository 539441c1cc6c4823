"""Which kernels the installed onnxruntime has, for the types of all inputs."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

from fusionc.model.operators import MICROSOFT
from fusionc.runtime.cpu_kernels import has_cpu_kernel, way_to_run

FLOAT = TensorProto.FLOAT
HALF = TensorProto.FLOAT16
DOUBLE = TensorProto.DOUBLE
U8 = TensorProto.UINT8
I8 = TensorProto.INT8
I32 = TensorProto.INT32
I64 = TensorProto.INT64
BOOL = TensorProto.BOOL


@pytest.mark.parametrize(
    ("operator", "version", "types", "there"),
    [
        ("QuickGelu", 1, (FLOAT,), True),
        ("QuickGelu", 1, (HALF,), False),
        ("QuickGelu", 1, (DOUBLE,), False),
        ("BiasGelu", 1, (FLOAT, FLOAT), True),
        ("FusedMatMul", 1, (DOUBLE, DOUBLE), True),
        ("FusedMatMul", 1, (HALF, HALF), False),
        ("FusedMatMul", 1, (FLOAT, DOUBLE), False),
        ("SkipLayerNormalization", 1, (HALF, HALF, HALF, HALF), True),
        ("MatMulIntegerToFloat", 1, (U8, I8, FLOAT, FLOAT, U8, I8, FLOAT), True),
        ("MatMulIntegerToFloat", 1, (I8, U8, FLOAT, FLOAT), False),
        ("MatMulIntegerToFloat", 1, (U8, U8, HALF, HALF), False),
        ("MatMulIntegerToFloat", 1, (U8, U8, FLOAT, FLOAT, 0, 0, FLOAT), True),
        ("DynamicQuantizeMatMul", 1, (FLOAT, I8, FLOAT), True),
        ("DynamicQuantizeMatMul", 1, (HALF, I8, HALF), False),
        ("RotaryEmbedding", 1, (HALF, I64, HALF, HALF), True),
        ("RotaryEmbedding", 1, (HALF, I32, HALF, HALF), False),
        ("BiasSoftmax", 1, (FLOAT, FLOAT), False),
        ("NoSuchOperator", 1, (FLOAT,), False),
    ],
)
def test_of_onnxruntimes_own(
    operator: str, version: int, types: tuple[int, ...], there: bool
) -> None:
    assert has_cpu_kernel(operator, MICROSOFT, version, *types) == there


@pytest.mark.parametrize(
    ("operator", "version", "types", "there"),
    [
        ("Gelu", 20, (FLOAT,), True),
        ("Gelu", 20, (HALF,), False),
        ("Gelu", 19, (FLOAT,), False),
        ("RMSNormalization", 23, (HALF, HALF), True),
        ("LayerNormalization", 17, (DOUBLE, DOUBLE), True),
        ("GroupNormalization", 21, (FLOAT, FLOAT, FLOAT), False),
        ("Sum", 13, (FLOAT, FLOAT, FLOAT, FLOAT), True),  # its one input may be there several times
        ("Where", 16, (BOOL, I8, I8), True),
        ("Where", 16, (BOOL, BOOL, BOOL), False),
    ],
)
def test_of_standard_operators(
    operator: str, version: int, types: tuple[int, ...], there: bool
) -> None:
    assert has_cpu_kernel(operator, "", version, *types) == there


@pytest.mark.parametrize(
    "types", [(U8, U8, FLOAT), (I8, I8, FLOAT), (U8, I8, FLOAT), (I8, U8, FLOAT)]
)
def test_onnxruntime_agrees(types: tuple[int, int, int]) -> None:
    names = ("a", "b", "s", "t")
    kinds = (*types, FLOAT)
    inputs = [
        helper.make_tensor_value_info(n, k, [1, 1] if n in "ab" else [])
        for n, k in zip(names, kinds, strict=True)
    ]
    node = helper.make_node("MatMulIntegerToFloat", names, ["y"], domain=MICROSOFT)
    graph = helper.make_graph(
        [node], "g", inputs, [helper.make_tensor_value_info("y", FLOAT, None)]
    )
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid(MICROSOFT, 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    feeds = {
        n: np.ones([1, 1] if n in "ab" else [], helper.tensor_dtype_to_np_dtype(k))
        for n, k in zip(names, kinds, strict=True)
    }
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, feeds)
        runs = True
    except Exception:  # onnxruntime raises many types
        runs = False
    assert runs == has_cpu_kernel("MatMulIntegerToFloat", MICROSOFT, 1, *kinds)


def test_a_kernel_for_an_older_version_is_none_for_a_newer_one() -> None:
    """onnxruntime has had none for RoiAlign since the operator changed in opset 22."""
    assert has_cpu_kernel("RoiAlign", "", 21, FLOAT, FLOAT, TensorProto.INT64) and has_cpu_kernel(
        "Relu", "", 23, FLOAT
    )
    assert not has_cpu_kernel("RoiAlign", "", 22, FLOAT, FLOAT, TensorProto.INT64)


@pytest.mark.parametrize(
    ("operator", "types", "way"),
    [
        ("Erf", (FLOAT,), "kernel"),
        ("Erf", (HALF,), "float32"),
        ("Erf", (TensorProto.BFLOAT16,), "none"),
        ("Erf", (DOUBLE,), "none"),
        ("HardSwish", (DOUBLE,), "parts"),
        ("Softmax", (HALF,), "parts"),
    ],
)
def test_how_an_operator_runs(operator: str, types: tuple[int, ...], way: str) -> None:
    assert way_to_run(operator, "", 18, types) == way
