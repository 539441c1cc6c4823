"""Validate a loaded model. All other code relies on these properties: names are UTF-8, element
types exist, the lengths of weights follow from their shapes, and functions can be inlined.

onnx.checker is stricter, and rejects models that onnxruntime runs. This check rejects only a few
such models, because of:

- names that are not UTF-8, which onnxruntime's Python API cannot return either
- ONNX operators in a model that does not import an ONNX opset
- references to attributes of a function, outside functions
- flags (attributes that are 0 or 1) with other values
- weights in segments, which onnx cannot read
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from math import prod

from onnx import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    TypeProto,
    ValueInfoProto,
    helper,
)

from fusionc import protos
from fusionc.disk.expansion import require_expandable
from fusionc.disk.validate_nodes import fault_of_call
from fusionc.errors import FusioncError
from fusionc.model.operators import canonical_domain

_ELEMENT_TYPES = frozenset(TensorProto.DataType.values()) - {TensorProto.UNDEFINED}
# the number of elements in one entry of a typed field such as int32_data; 1 for types not listed
_PER_ENTRY: dict[int, int] = {
    **dict.fromkeys((TensorProto.INT4, TensorProto.UINT4, TensorProto.FLOAT4E2M1), 2),
    **dict.fromkeys((TensorProto.INT2, TensorProto.UINT2), 4),
}
_VERSION_LIMIT = 1 << 31  # opset versions have 32 bits
_ELEMENT_LIMIT = 1 << 63  # element counts have 64 bits
_COMPLEX = (TensorProto.COMPLEX64, TensorProto.COMPLEX128)
_HINT = "export the model again, or correct it there"


def validate(model: ModelProto, file: str) -> None:
    """Raise FusioncError E13005 if the model is not valid. The message names the place in `file`.
    Weights inside the model are read once, one after the other.
    """
    try:
        _require_text(
            file, "the imported opsets", lambda: (entry.domain for entry in model.opset_import)
        )
        for entry in model.opset_import:
            if abs(entry.version) >= _VERSION_LIMIT:
                raise _wrong(
                    f"it imports version {entry.version} of the domain {entry.domain!r}", file
                )
        graphs = list(_graphs(model))
        for graph in graphs:
            _check_names(graph, file)
        for graph in graphs:
            _check_types(graph, file)
        _check_weights(model, file)
        require_expandable(model, file)
        _check_nodes(model, file)
    except UnicodeDecodeError as error:  # in a field that is not checked above
        raise _wrong(f"the name {error.object!r} is not UTF-8", file) from None


def _wrong(what: str, where: str) -> FusioncError:
    return FusioncError(f"the model is not valid: {what}", where=where, hint=_HINT, code="E13005")


def _graphs(model: ModelProto) -> Iterator[GraphProto | FunctionProto]:
    """The graph of the model, its functions, and all subgraphs in these."""
    for root in (model.graph, *model.functions):
        yield from _graphs_in(root)


def _graphs_in(root: GraphProto | FunctionProto) -> Iterator[GraphProto | FunctionProto]:
    pending = [root]
    while pending:
        graph = pending.pop()
        yield graph
        for node in graph.node:
            for attribute in node.attribute:
                pending += protos.graphs_of(attribute)


def _label(node: NodeProto) -> str:
    name = node.name or next(iter(node.output), "")
    return f"node {name!r} ({node.op_type})"


def _require_text(file: str, place: str, names: Callable[[], Iterable[str]]) -> None:
    """Raise FusioncError if a name is not UTF-8. Protobuf returns such a name as bytes, or raises
    UnicodeDecodeError.
    """
    try:
        "".join(names())
    except UnicodeDecodeError as error:
        bad: object = error.object
    except TypeError:
        bad = next(name for name in names() if not isinstance(name, str))
    else:
        return
    raise _wrong(f"the name {bad!r} is not UTF-8", f"{file}, {place}")


def _names_of_node(node: NodeProto) -> Iterator[str]:
    yield from (node.name, node.op_type, node.domain, node.overload, *node.input, *node.output)
    for attribute in node.attribute:
        yield attribute.name
        yield attribute.ref_attr_name


def _names_of_graph(graph: GraphProto) -> Iterator[str]:
    yield graph.name
    for value in (*graph.input, *graph.output, *graph.value_info):
        yield value.name
        yield from _symbols(value.type)
    for tensor in graph.initializer:
        yield tensor.name
        yield from (text for entry in tensor.external_data for text in (entry.key, entry.value))
    for sparse in graph.sparse_initializer:
        yield from (sparse.values.name, sparse.indices.name)
    for annotation in graph.quantization_annotation:
        yield annotation.tensor_name
        yield from (
            text
            for entry in annotation.quant_parameter_tensor_names
            for text in (entry.key, entry.value)
        )


def _names_of_function(function: FunctionProto) -> Iterator[str]:
    yield from (function.name, function.domain, function.overload)
    yield from (*function.input, *function.output, *function.attribute)
    yield from (attribute.name for attribute in function.attribute_proto)
    yield from (entry.domain for entry in function.opset_import)
    for value in function.value_info:
        yield value.name
        yield from _symbols(value.type)


def _check_names(graph: GraphProto | FunctionProto, file: str) -> None:
    if isinstance(graph, FunctionProto):
        _require_text(file, "a function", partial(_names_of_function, graph))
    else:
        _require_text(file, "a graph", partial(_names_of_graph, graph))
    for number, node in enumerate(graph.node):
        # To save time, all names of the node are checked at once, and one by one only if that
        # fails.
        try:
            "".join(
                (node.name, node.op_type, node.domain, node.overload, *node.input, *node.output)
            )
            if node.attribute:
                "".join([attribute.name + attribute.ref_attr_name for attribute in node.attribute])
        except (TypeError, UnicodeDecodeError):
            kind = "function" if isinstance(graph, FunctionProto) else "graph"
            place = f"node {number} of the {kind} {graph.name!r}"
            _require_text(file, place, partial(_names_of_node, node))


def _check_nodes(model: ModelProto, file: str) -> None:
    imported = _opsets(model)
    for root in (model.graph, *model.functions):
        is_function = isinstance(root, FunctionProto)
        opsets = imported | _opsets(root) if is_function else imported
        for graph in _graphs_in(root):
            for node in graph.node:
                fault = _fault_of_node(node, opsets, is_in_function=is_function)
                if fault is not None:
                    raise _wrong(f"the {_label(node)} {fault}", f"{file}, graph {graph.name!r}")


def _fault_of_node(
    node: NodeProto, opsets: Mapping[str, int], *, is_in_function: bool
) -> str | None:
    """The fault of a node, as the rest of a sentence about the node. `None` if the node is valid.
    `opsets` are the imported opsets.
    """
    if not is_in_function and any(attribute.ref_attr_name for attribute in node.attribute):
        return "refers to an attribute of a function, but is not in a function"
    fault = fault_of_call(node, opsets)
    if fault is None and node.output and "" not in opsets and not canonical_domain(node.domain):
        return "is an ONNX operator, but the model does not import an ONNX opset"
    return fault


def _opsets(proto: ModelProto | FunctionProto) -> dict[str, int]:
    return {canonical_domain(entry.domain): entry.version for entry in proto.opset_import}


def _tensor_types(kind: TypeProto) -> Iterator[TypeProto.Tensor | TypeProto.SparseTensor]:
    """The tensor type of a value type, which may be inside sequences, optionals and maps."""
    which = kind.WhichOneof("value")
    while which in ("sequence_type", "optional_type", "map_type"):
        kind = kind.map_type.value_type if which == "map_type" else getattr(kind, which).elem_type
        which = kind.WhichOneof("value")
    if which == "tensor_type":
        yield kind.tensor_type
    elif which == "sparse_tensor_type":
        yield kind.sparse_tensor_type


def _symbols(kind: TypeProto) -> Iterator[str]:
    return (dim.dim_param for tensor in _tensor_types(kind) for dim in tensor.shape.dim)


def _check_types(graph: GraphProto | FunctionProto, file: str) -> None:
    """Check the declared element types. Declarations of values that do not exist are ignored."""
    if isinstance(graph, FunctionProto):
        ports = []
        outputs = list(graph.output)
    else:
        ports = [*graph.input, *graph.output]
        outputs = [value.name for value in graph.output]
    if not all(outputs):
        raise _wrong("an output has no name", f"{file}, graph {graph.name!r}")
    wrong = dict(_wrong_types([*ports, *graph.value_info]))
    if not wrong:
        return
    names = (*(value.name for value in ports), *(o for node in graph.node for o in node.output))
    bad = next((name for name in names if name in wrong), None)
    if bad is not None:
        what = f"the value {bad!r} has element type {wrong[bad]}, which does not exist"
        raise _wrong(what, f"{file}, graph {graph.name!r}")


def _wrong_types(values: Iterable[ValueInfoProto]) -> Iterator[tuple[str, int]]:
    """The declared values whose element types do not exist, and these element types."""
    for value in values:
        for tensor in _tensor_types(value.type):
            if tensor.elem_type not in _ELEMENT_TYPES:
                yield value.name, tensor.elem_type


def _check_weights(model: ModelProto, file: str) -> None:
    used: frozenset[str] | None = None
    for tensor, place in _tensors(model):
        if tensor.data_type not in _ELEMENT_TYPES:
            what = f"{place} has element type {tensor.data_type}, which does not exist"
            raise _wrong(what, file)
        fault = _fault(tensor)
        if fault is not None:
            used = _used(model) if used is None else used
            # A faulty initializer that no node uses is accepted, because onnxruntime never reads
            # it.
            if tensor.name in used or place.startswith("node"):
                raise _wrong(f"{place} {fault}", file)


def _tensors(model: ModelProto) -> Iterator[tuple[TensorProto, str]]:
    """All weights that a conversion may read, each with a description for messages."""
    for graph in _graphs(model):
        if isinstance(graph, GraphProto):
            for tensor in graph.initializer:
                yield tensor, f"the weight {tensor.name!r}"
        for node in graph.node:
            for attribute in node.attribute if node.op_type == "Constant" else ():
                if attribute.type == AttributeProto.TENSOR and not attribute.ref_attr_name:
                    yield attribute.t, f"{_label(node)}: the value"


def _fault(tensor: TensorProto) -> str | None:
    """The fault in the dimensions of a tensor, or in the number of its elements, as the rest of a
    sentence. `None` if the tensor is valid.
    """
    dims = list(tensor.dims)
    if any(dim < 0 for dim in dims) or prod(dim for dim in dims if dim) >= _ELEMENT_LIMIT:
        return f"has the shape {dims}"
    if tensor.HasField("segment"):
        return "is a segment of a tensor, which onnx cannot read"
    if tensor.data_location == TensorProto.EXTERNAL:
        return None
    length, needed, unit = _lengths(tensor, prod(dims))
    if length == needed:
        return None
    return f"of the shape {dims} has {length:,} {unit}, not {needed:,}"


def _lengths(tensor: TensorProto, count: int) -> tuple[int, int, str]:
    """The length of a tensor's data, the length that `count` elements need, and the unit of
    both.
    """
    if tensor.HasField("raw_data") and tensor.data_type != TensorProto.STRING:
        return len(tensor.raw_data), (count * _bits(tensor.data_type) + 7) // 8, "bytes"
    field = helper.tensor_dtype_to_field(tensor.data_type)
    numbers = count * (2 if tensor.data_type in _COMPLEX else 1)
    needed = -(-numbers // _PER_ENTRY.get(tensor.data_type, 1))
    return len(getattr(tensor, field)), needed, f"numbers in {field}"


def _bits(data_type: int) -> int:
    per_byte = _PER_ENTRY.get(data_type)
    return 8 // per_byte if per_byte else helper.tensor_dtype_to_np_dtype(data_type).itemsize * 8


def _used(model: ModelProto) -> frozenset[str]:
    """The names of all values that a node reads or a graph returns."""
    names: set[str] = set()
    for graph in _graphs(model):
        names.update(name for node in graph.node for name in node.input)
        if isinstance(graph, GraphProto):
            names.update(value.name for value in graph.output)
    return frozenset(names)
