"""What is said of onnxruntime's own operators is what it defines, and what it computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from harness import session
from numpy.typing import NDArray
from onnx import helper, numpy_helper
from onnxruntime.capi import onnxruntime_pybind11_state as state

from fusionc.operators.broadcast_shapes import broadcast
from fusionc.operators.runtime_operators import ELEMENT_TYPES
from fusionc.shapes.inference import typed_model

OWN = "com.microsoft"
Shape = tuple["int | str | None", ...]


def definitions() -> dict[tuple[str, str], Any]:
    """The newest one of each operator."""
    found = state.get_all_operator_schema()
    return {(d.domain, d.name): d for d in sorted(found, key=lambda d: d.since_version)}


def test_the_element_types_are_those_of_the_definitions() -> None:
    known = definitions()
    rows = {key: types for key, types in ELEMENT_TYPES.items() if key[0] == OWN and key in known}
    assert len(rows) > 80
    for key, types in rows.items():
        defined = known[key]
        allowed = {c.type_param_str: c.allowed_type_strs for c in defined.type_constraints}
        for source, output in zip(types, defined.outputs, strict=False):
            if source.isdigit():
                assert defined.inputs[int(source)].typeStr == output.typeStr, (key, output.name)
            elif source != "-":
                only = allowed.get(output.typeStr, [output.typeStr])
                assert f"tensor({source})" in only, (key, output.name)


# Of each call: attributes, of each input its type and sizes, and the shape of what it makes where N
# is not known.
CALLS: list[tuple[str, dict[str, Any], list[str], Shape]] = [
    ("QuickGelu", {}, ["f4 N,3"], ("N", 3)),
    ("FastGelu", {}, ["f4 N,3,4", "f4 4"], ("N", 3, 4)),
    ("BiasGelu", {}, ["f4 N,3,4", "f4 4"], ("N", 3, 4)),
    ("SkipLayerNormalization", {}, ["f4 N,3,4", "f4 N,3,4", "f4 4", "f4 4"], ("N", 3, 4)),
    ("SkipSimplifiedLayerNormalization", {}, ["f4 N,3,4", "f4 N,3,4", "f4 4"], ("N", 3, 4)),
    ("FusedMatMul", {"transA": 1}, ["f4 N,4,3", "f4 4,5"], ("N", 3, 5)),
    ("FusedMatMul", {"transB": 1}, ["f4 2,N,4", "f4 1,5,4"], (2, "N", 5)),
    (
        "MatMulNBits",
        {"K": 16, "N": 8, "bits": 4, "block_size": 16},
        ["f4 2,N,16", "u1 8,1,8", "f4 8"],
        (2, "N", 8),
    ),
    ("MatMulIntegerToFloat", {}, ["u1 N,3,4", "u1 4,5", "f4 1", "f4 1"], ("N", 3, 5)),
    ("DynamicQuantizeMatMul", {}, ["f4 N,3,4", "u1 4,5", "f4 1"], ("N", 3, 5)),
    (
        "GatherBlockQuantized",
        {"block_size": 16, "quantize_axis": 1},
        ["u1 4,8", "i8 N,3", "f4 4,1"],
        ("N", 3, 16),
    ),
    ("Attention", {"num_heads": 2}, ["f4 N,3,8", "f4 8,24", "f4 24"], ("N", 3, 8)),
    ("RotaryEmbedding", {}, ["f4 2,2,3,8", "i8 2,3", "f4 6,4", "f4 6,4"], (2, 2, 3, 8)),
    ("QLinearAdd", {}, ["u1 N,3,4", "f4", "u1", "u1 3,4", "f4", "u1", "f4", "u1"], ("N", 3, 4)),
    ("QLinearMul", {}, ["u1 N,3,4", "f4", "u1", "u1 N,1,1", "f4", "u1", "f4", "u1"], ("N", 3, 4)),
    ("QLinearSigmoid", {}, ["u1 N,3", "f4", "u1", "f4", "u1"], ("N", 3)),
    (
        "QLinearWhere",
        {},
        ["b1 2,1", "u1 2,N", "f4", "u1", "u1 N", "f4", "u1", "f4", "u1"],
        (2, "N"),
    ),
    ("QuantizeLinear", {}, ["f4 N,3", "f4", "u1"], ("N", 3)),
    ("DequantizeLinear", {}, ["u1 N,3", "f4", "u1"], ("N", 3)),
    ("CDist", {"metric": "euclidean"}, ["f4 N,4", "f4 5,4"], ("N", 5)),
]


@pytest.mark.parametrize(
    ("op", "attributes", "inputs", "shape"), CALLS, ids=lambda x: x if isinstance(x, str) else ""
)
def test_what_is_inferred_is_what_is_computed(
    op: str, attributes: dict[str, Any], inputs: list[str], shape: Shape
) -> None:
    model, feeds = model_of(op, attributes, inputs)
    found = typed_model(model, "").main.values["y"]
    assert found.shape == shape
    (result,) = session(model).run(None, feeds)
    assert found.elem_type == helper.np_dtype_to_tensor_dtype(result.dtype)
    assert tuple(2 if dim == "N" else dim for dim in shape) == result.shape


def model_of(
    op: str, attributes: dict[str, Any], inputs: list[str]
) -> tuple[onnx.ModelProto, dict[str, NDArray[Any]]]:
    """The call, with the inputs that hold an N as those of the model; N is 2."""
    graph = onnx.GraphProto(name="g")
    feeds = {}
    for at, text in enumerate(inputs):
        kind, _, sizes = text.partition(" ")
        dims = [size if size == "N" else int(size) for size in sizes.split(",") if size]
        array = filled(kind, [2 if dim == "N" else int(dim) for dim in dims])
        if at and "N" not in dims:
            graph.initializer.append(numpy_helper.from_array(array, f"x{at}"))
            continue
        feeds[f"x{at}"] = array
        elem_type = helper.np_dtype_to_tensor_dtype(array.dtype)
        graph.input.append(helper.make_tensor_value_info(f"x{at}", elem_type, dims))
    names = [f"x{at}" for at in range(len(inputs))]
    graph.node.append(helper.make_node(op, names, ["y"], domain=OWN, **attributes))
    graph.output.append(onnx.ValueInfoProto(name="y"))
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(OWN, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10), feeds


def filled(kind: str, shape: list[int]) -> NDArray[Any]:
    if kind == "f4":
        return np.linspace(0.5, 1.5, int(np.prod(shape))).reshape(shape).astype(kind)
    return np.asarray((np.arange(np.prod(shape, dtype=int)) % 4).reshape(shape), kind)


def test_what_is_declared_stays_where_no_rule_says_more() -> None:
    """onnxruntime's definition says nothing of the fourth output, and the model does."""
    text = """<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]> agraph (float[N,3,8]
        q) => (float[N,3,8] y)
        <float16[N,2,3,3] s> { y, k, v, s = com.microsoft.MultiHeadAttention <num_heads = 2> (q, q,
        q) }"""
    values = typed_model(onnx.parser.parse_model(text), "").main.values
    assert values["s"].elem_type == onnx.TensorProto.FLOAT16 and values["s"].shape == ("N", 2, 3, 3)
    assert values["k"].elem_type == onnx.TensorProto.FLOAT


def test_an_input_that_is_left_out_says_nothing() -> None:
    text = """<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]> agraph (float[2,3] x)
        => (int64[a,b] y)
        { q = com.microsoft.QuantizeLinear (x, x) y = Cast <to = 7> (q) }"""
    assert typed_model(onnx.parser.parse_model(text), "").main.values["q"].elem_type == 0


def test_shapes_that_become_one() -> None:
    assert broadcast(("N", 1), (3,)) == ("N", 3)
    assert broadcast((2, "M"), ("N", "M")) == (2, "M")
    assert broadcast(("N",), ("M",)) == (None,)
    assert broadcast((1, 0), ("N", 1)) == ("N", 0)
    assert broadcast((), (4,)) == (4,)
