"""What is in a model, without running it: the modes 1 (model to JSON) and 6 (model information) of
ATC, Ascend's model converter.
"""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

from google.protobuf.json_format import MessageToJson
from onnx import ModelProto, TensorProto, TensorShapeProto, TypeProto

from fusionc.model.operators import KERNELS, MICROSOFT, qualified
from fusionc.model.tensors import byte_size
from fusionc.protos import infer_types, inputs_to_feed, is_external, nodes_of, tensors_of
from fusionc.report.table import size_text

# The JSON form has the data only of tensors up to this size, such as shapes, axes and scales.
SMALL_TENSOR_BYTES = 1024
_MAX_LENGTH = 40  # characters of a dimension's text

_DATA_FIELDS = (
    "raw_data",
    "float_data",
    "int32_data",
    "string_data",
    "int64_data",
    "double_data",
    "uint64_data",
)


def information(model: ModelProto) -> list[tuple[str, str]]:
    """Facts to print, as (name, value): versions, interface, operators, parameters, size."""
    nodes = list(nodes_of(model))
    operators = Counter(
        f"{node.domain}.{node.op_type}".removeprefix("ai.onnx.").lstrip(".") for node in nodes
    )
    tensors = list(tensors_of(model))
    parameters = sum(math.prod(tensor.dims) for tensor in tensors)
    external = sum(map(byte_size, filter(is_external, tensors)))
    size = model.ByteSize()
    return [
        ("IR version", str(model.ir_version)),
        (
            "opsets",
            ", ".join(
                f"{opset.domain or 'ai.onnx'} {opset.version}" for opset in model.opset_import
            ),
        ),
        ("producer", f"{model.producer_name} {model.producer_version}".strip() or "not given"),
        ("graph", model.graph.name or "not named"),
        *(
            ("input", f"{value.name}  {_type_text(value.type)}")
            for value in inputs_to_feed(model.graph)
        ),
        *(("output", f"{value.name}  {_type_text(value.type)}") for value in model.graph.output),
        ("nodes", str(len(nodes))),
        (
            "operators",
            ", ".join(f"{name} {count}" for name, count in sorted(operators.items())) or "none",
        ),
        ("parameters", f"{parameters:,}"),
        (
            "size",
            (
                f"{size_text(size + external)} (model {size_text(size)}, external data "
                f"{size_text(external)})"
            ),
        ),
    ]


def model_as_json(model: ModelProto, *, shapes: bool = False) -> str:
    """The model in protobuf's JSON form, with the field names of onnx.proto. The data of tensors
    above SMALL_TENSOR_BYTES is removed from `model` itself, because a copy would double the memory
    for weights. `shapes` adds the inferred types and shapes of intermediate values.
    """
    drop_large_data(model)
    if shapes:
        model = infer_types(model)
    return str(MessageToJson(model, preserving_proto_field_name=True, ensure_ascii=False)) + "\n"


def drop_large_data(model: ModelProto) -> None:
    """Remove the data of tensors above SMALL_TENSOR_BYTES from the model; their types and
    dimensions stay.
    """
    for tensor in tensors_of(model):
        if tensor.ByteSize() > SMALL_TENSOR_BYTES:
            for name in _DATA_FIELDS:
                tensor.ClearField(name)


def operator_counts(model: ModelProto) -> dict[str, int]:
    """The number of nodes by operator, including nodes in subgraphs and functions. An area (a group
    of operators with one generated kernel) counts as one node.
    """
    inside = Counter(
        node.op_type for f in model.functions if f.domain == KERNELS for node in f.node
    )
    return dict(Counter(node.op_type for node in nodes_of(model)) - inside)


def runtime_operators(model: ModelProto) -> set[str]:
    """The operators of onnxruntime in a model, except those inside areas: com.microsoft.Gelu."""
    inside = Counter(
        node.op_type
        for f in model.functions
        if f.domain == KERNELS
        for node in f.node
        if node.domain == MICROSOFT
    )
    every = Counter(node.op_type for node in nodes_of(model) if node.domain == MICROSOFT)
    return {qualified(name, MICROSOFT) for name in every - inside}


def bytes_on_disk(model: ModelProto, path: Path) -> int:
    """The size of a model file with the external data that the model uses."""
    return path.stat().st_size + sum(map(byte_size, filter(is_external, tensors_of(model))))


def _element_name(data_type: int) -> str:
    known = data_type in TensorProto.DataType.values()
    return TensorProto.DataType.Name(data_type) if known else f"type {data_type}"


def _type_text(kind: TypeProto) -> str:
    """A type in short form: float[batch,3,224,224]."""
    match kind.WhichOneof("value"):
        case "tensor_type":
            return _tensor_text(kind.tensor_type)
        case "sparse_tensor_type":
            return f"sparse {_tensor_text(kind.sparse_tensor_type)}"
        case "sequence_type":
            return f"sequence({_type_text(kind.sequence_type.elem_type)})"
        case "optional_type":
            return f"optional({_type_text(kind.optional_type.elem_type)})"
        case "map_type":
            key = _element_name(kind.map_type.key_type).lower()
            return f"map({key}, {_type_text(kind.map_type.value_type)})"
        case _:
            return "type not given"


def _tensor_text(tensor: TypeProto.Tensor | TypeProto.SparseTensor) -> str:
    element = _element_name(tensor.elem_type).lower()
    if not tensor.HasField("shape"):
        return f"{element}, shape not given"
    return f"{element}[{','.join(map(dimension_text, tensor.shape.dim))}]"


def dimension_text(dim: TensorShapeProto.Dimension) -> str:
    """A dimension in short form: its size, its symbol, or "?". A long symbol is cut."""
    text = str(dim.dim_value) if dim.HasField("dim_value") else dim.dim_param or "?"
    return text if len(text) <= _MAX_LENGTH else f"{text[: _MAX_LENGTH - 1]}…"
