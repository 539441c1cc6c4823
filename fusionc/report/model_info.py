"""What a model file holds, without running or changing it: ATC's modes 1 (model to JSON) and 6 (model information)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import onnx
from google.protobuf.json_format import MessageToJson
from google.protobuf.message import DecodeError
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, TypeProto

from fusionc.errors import FusioncError
from fusionc.report.table import size_text

# Tensors up to this size are shapes, axes and scales, which a reader of the JSON wants to see.
SMALL_TENSOR_BYTES = 1024

_DATA_FIELDS = ("raw_data", "float_data", "int32_data", "string_data", "int64_data", "double_data", "uint64_data")
_BITS = {"INT2": 2, "UINT2": 2, "INT4": 4, "UINT4": 4, "FLOAT4E2M1": 4}


def load_model(path: Path) -> ModelProto:
    """Load a model, its external data left where they are.

    Raises FusioncError: E10410 it does not exist, E13001 it cannot be opened, E13005 it is not an ONNX model,
    E16004 it has no graph.
    """
    hint = "give the path of an ONNX model"
    try:
        model = onnx.load(str(path), format="protobuf", load_external_data=False)
    except FileNotFoundError as error:
        raise FusioncError(f"file {path} does not exist", where="--model", hint=hint, code="E10410") from error
    except OSError as error:
        what = f"file {path} cannot be opened: {error.strerror}"
        raise FusioncError(what, where="--model", hint=hint, code="E13001") from error
    except DecodeError as error:
        raise FusioncError(f"file {path} is not an ONNX model", where="--model", hint=hint, code="E13005") from error
    if not model.HasField("graph"):
        raise FusioncError(f"file {path} has no graph", where="--model", hint=hint, code="E16004")
    return model


def information(model: ModelProto) -> list[tuple[str, str]]:
    """Names and values to print: versions, interface, operators, parameters, size."""
    initializers = {tensor.name for tensor in model.graph.initializer}
    nodes = list(_nodes(model))
    operators = Counter(f"{node.domain}.{node.op_type}".removeprefix("ai.onnx.").lstrip(".") for node in nodes)
    tensors = list(_tensors(model))
    parameters = sum(math.prod(tensor.dims) for tensor in tensors)
    external = sum(map(_external_bytes, tensors))
    size = model.ByteSize()
    return [
        ("IR version", str(model.ir_version)),
        ("opsets", ", ".join(f"{opset.domain or 'ai.onnx'} {opset.version}" for opset in model.opset_import)),
        ("producer", f"{model.producer_name} {model.producer_version}".strip() or "not given"),
        ("graph", model.graph.name or "not named"),
        *(
            ("input", f"{value.name}  {_type_text(value.type)}")
            for value in model.graph.input
            if value.name not in initializers
        ),
        *(("output", f"{value.name}  {_type_text(value.type)}") for value in model.graph.output),
        ("nodes", str(len(nodes))),
        ("operators", ", ".join(f"{name} {count}" for name, count in sorted(operators.items())) or "none"),
        ("parameters", f"{parameters:,}"),
        ("size", f"{size_text(size + external)} (model {size_text(size)}, external data {size_text(external)})"),
    ]


def model_as_json(model: ModelProto) -> str:
    """The model in protobuf's JSON form, under the field names of onnx.proto.

    The data of tensors above SMALL_TENSOR_BYTES are left out: they are removed from `model` itself, so that weights
    are never in memory twice.
    """
    for tensor in _tensors(model):
        if tensor.ByteSize() > SMALL_TENSOR_BYTES:
            for name in _DATA_FIELDS:
                tensor.ClearField(name)
    return str(MessageToJson(model, preserving_proto_field_name=True, ensure_ascii=False)) + "\n"


def _graphs(model: ModelProto) -> Iterator[GraphProto]:
    yield model.graph
    for training in model.training_info:
        yield training.initialization
        yield training.algorithm


def _nodes(model: ModelProto) -> Iterator[NodeProto]:
    """Every node: of the graph, of the functions, and of the graphs that nodes hold."""
    pending: list[Iterable[NodeProto]] = [function.node for function in reversed(model.functions)]
    pending += [graph.node for graph in reversed(list(_graphs(model)))]
    while pending:
        for node in pending.pop():
            yield node
            pending += [graph.node for attribute in node.attribute for graph in _graphs_of(attribute)]


def _graphs_of(attribute: AttributeProto) -> list[GraphProto]:
    return [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]


def _tensors(model: ModelProto) -> Iterator[TensorProto]:
    """Every tensor: initializers and attributes, dense and sparse, wherever they are."""
    for graph in _graphs(model):
        yield from _initializers(graph)
    for node in _nodes(model):
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
            sparse = [attribute.sparse_tensor] if attribute.HasField("sparse_tensor") else []
            for tensor in [*sparse, *attribute.sparse_tensors]:
                yield tensor.values
            for graph in _graphs_of(attribute):
                yield from _initializers(graph)


def _initializers(graph: GraphProto) -> Iterator[TensorProto]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield sparse.values


def _external_bytes(tensor: TensorProto) -> int:
    if tensor.data_location != TensorProto.EXTERNAL:
        return 0
    lengths = [entry.value for entry in tensor.external_data if entry.key == "length"]
    if lengths and lengths[0].isdecimal():
        return int(lengths[0])
    numpy_type = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)
    bits: int = _BITS.get(_element_name(tensor.data_type), numpy_type.itemsize * 8)
    elements: int = math.prod(tensor.dims)
    return (elements * bits + 7) // 8


def _element_name(data_type: int) -> str:
    known = data_type in TensorProto.DataType.values()
    return TensorProto.DataType.Name(data_type) if known else f"type {data_type}"


def _type_text(kind: TypeProto) -> str:
    """A type as people write it: float[batch,3,224,224]."""
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
    dims = [str(dim.dim_value) if dim.HasField("dim_value") else dim.dim_param or "?" for dim in tensor.shape.dim]
    return f"{element}[{','.join(dims)}]"
