"""What everything else relies on in a model that was read: names are text, element types exist,
weights are as long as their shapes say, functions can be expanded.

It is less than onnx.checker asks for, because onnxruntime runs more. Of what it runs only this is
refused here: names that are not UTF-8, which its Python interface cannot give back either,
operators of ONNX in no version at all, attributes that refer to the call of a function outside of
one, flags that are neither 0 nor 1, and weights that are segments, which onnx cannot read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
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
    helper,
)

from fusionc import protos
from fusionc.disk.expansion import require_expandable
from fusionc.disk.validate_nodes import fault_of_call
from fusionc.errors import FusioncError
from fusionc.model.operators import canonical_domain

_ELEMENT_TYPES = frozenset(TensorProto.DataType.values()) - {TensorProto.UNDEFINED}
_PER_ENTRY: dict[int, int] = {  # elements in one entry of a typed field; one where it is not here
    **dict.fromkeys((TensorProto.INT4, TensorProto.UINT4, TensorProto.FLOAT4E2M1), 2),
    **dict.fromkeys((TensorProto.INT2, TensorProto.UINT2), 4),
}
_VERSIONS = 1 << 31  # opsets are numbers of 32 bits
_ELEMENTS = 1 << 63  # the elements of a tensor are counted in 64
_COMPLEX = (TensorProto.COMPLEX64, TensorProto.COMPLEX128)
_HINT = "export the model again, or correct it there"


def validate(model: ModelProto, file: str) -> None:
    """Raise FusioncError E13005 where the model is wrong; it names the place in `file`. Reads every
    inline weight once, one after the other.
    """
    try:
        _require_text(
            file, "the imported opsets", lambda: (entry.domain for entry in model.opset_import)
        )
        for entry in model.opset_import:
            if abs(entry.version) >= _VERSIONS:
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
    except UnicodeDecodeError as error:  # in a field that is not looked at above
        raise _wrong(f"the name {error.object!r} is not UTF-8", file) from None


def _wrong(what: str, where: str) -> FusioncError:
    return FusioncError(f"the model is not valid: {what}", where=where, hint=_HINT, code="E13005")


def _graphs(model: ModelProto) -> Iterator[GraphProto | FunctionProto]:
    """The graph of the model, its functions, and all graphs inside."""
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
    """Protobuf gives bytes for text that is not UTF-8, or an error."""
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
        try:  # at once, and in detail only where something is wrong: there may be very many nodes
            "".join(
                (node.name, node.op_type, node.domain, node.overload, *node.input, *node.output)
            )
            if node.attribute:
                "".join([attribute.name + attribute.ref_attr_name for attribute in node.attribute])
        except (TypeError, UnicodeDecodeError):
            place = f"node {number} of the {'function' if isinstance(graph, FunctionProto) else 'graph'} {graph.name!r}"
            _require_text(file, place, partial(_names_of_node, node))


def _check_nodes(model: ModelProto, file: str) -> None:
    imported = _opsets(model)
    for root in (model.graph, *model.functions):
        opsets = imported | _opsets(root) if isinstance(root, FunctionProto) else imported
        for graph in _graphs_in(root):
            for node in graph.node:
                fault = fault_of_call(node, opsets)
                if (
                    fault is None
                    and "" not in opsets
                    and not canonical_domain(node.domain)
                    and node.output
                ):
                    fault = "is an operator of ONNX, of which no opset is imported"
                if root is model.graph and any(
                    attribute.ref_attr_name for attribute in node.attribute
                ):
                    fault = "takes an attribute from the call of a function, which it is not in"
                if fault is not None:
                    raise _wrong(f"the {_label(node)} {fault}", f"{file}, graph {graph.name!r}")


def _opsets(proto: ModelProto | FunctionProto) -> dict[str, int]:
    return {canonical_domain(entry.domain): entry.version for entry in proto.opset_import}


def _tensor_types(kind: TypeProto) -> Iterator[TypeProto.Tensor | TypeProto.SparseTensor]:
    """The types of tensors that a type is or holds."""
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
    """Of declared values; a declaration of a value that there is not means nothing."""
    ports = [] if isinstance(graph, FunctionProto) else [*graph.input, *graph.output]
    if not all(output if isinstance(output, str) else output.name for output in graph.output):
        raise _wrong("an output has no name", f"{file}, graph {graph.name!r}")
    wrong = {
        value.name: tensor.elem_type
        for value in (*ports, *graph.value_info)
        for tensor in _tensor_types(value.type)
        if tensor.elem_type not in _ELEMENT_TYPES
    }
    if not wrong:
        return
    for name in (
        *(value.name for value in ports),
        *(name for node in graph.node for name in node.output),
    ):
        if name in wrong:
            what = f"the value {name!r} has element type {wrong[name]}, which there is not"
            raise _wrong(what, f"{file}, graph {graph.name!r}")


def _check_weights(model: ModelProto, file: str) -> None:
    used: frozenset[str] | None = None
    for tensor, place in _tensors(model):
        if tensor.data_type not in _ELEMENT_TYPES:
            raise _wrong(f"{place} has element type {tensor.data_type}, which there is not", file)
        fault = _fault(tensor)
        if fault is not None:
            used = _used(model) if used is None else used
            # onnxruntime never reads an initializer of no use
            if tensor.name in used or place.startswith("node"):
                raise _wrong(f"{place} {fault}", file)


def _tensors(model: ModelProto) -> Iterator[tuple[TensorProto, str]]:
    """Every weight that a conversion may read, and what to call it."""
    for graph in _graphs(model):
        if isinstance(graph, GraphProto):
            for tensor in graph.initializer:
                yield tensor, f"the weight {tensor.name!r}"
        for node in graph.node:
            for attribute in node.attribute if node.op_type == "Constant" else ():
                if attribute.type == AttributeProto.TENSOR and not attribute.ref_attr_name:
                    yield attribute.t, f"{_label(node)}: the value"


def _fault(tensor: TensorProto) -> str | None:
    """What is wrong with the dimensions of a tensor, or with the length of what it holds."""
    dims = list(tensor.dims)
    if any(dim < 0 for dim in dims) or prod(dim for dim in dims if dim) >= _ELEMENTS:
        return f"has the shape {dims}"
    if tensor.HasField("segment"):
        return "is a segment of a tensor, which onnx cannot read"
    count = prod(dims)
    if tensor.data_location == TensorProto.EXTERNAL:
        return None
    field = "string_data" if tensor.data_type == TensorProto.STRING else "raw_data"
    if tensor.HasField("raw_data") and field == "raw_data":
        size = (count * _bits(tensor.data_type) + 7) // 8
        unit = "bytes"
        found = len(tensor.raw_data)
    else:
        field = helper.tensor_dtype_to_field(tensor.data_type)
        per_entry = _PER_ENTRY.get(tensor.data_type, 1)
        size = -(-count * (2 if tensor.data_type in _COMPLEX else 1) // per_entry)
        unit = f"numbers in {field}"
        found = len(getattr(tensor, field))
    return None if found == size else f"of the shape {dims} has {found:,} {unit}, not {size:,}"


def _bits(data_type: int) -> int:
    per_byte = _PER_ENTRY.get(data_type)
    return 8 // per_byte if per_byte else helper.tensor_dtype_to_np_dtype(data_type).itemsize * 8


def _used(model: ModelProto) -> frozenset[str]:
    """The names of all values that are used somewhere."""
    found: set[str] = set()
    for graph in _graphs(model):
        found.update(name for node in graph.node for name in node.input)
        if isinstance(graph, GraphProto):
            found.update(value.name for value in graph.output)
    return frozenset(found)
