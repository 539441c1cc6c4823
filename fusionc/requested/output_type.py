"""--output_type FP16, or "conv1:0:FP16;relu2:0:FP32": a Cast after outputs that have another type.

The outputs keep their names; the values before the Cast get new ones. The Cast is added last, to a
model that was verified without it: a number that is rounded otherwise may become another integer, 2
for 2.9999999, or infinite as a float16, and neither says anything about the passes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper

from fusionc.errors import UsageError
from fusionc.model.operators import opsets_of
from fusionc.model.tensors import type_name
from fusionc.protos import bodies_of, fresh_name, nodes_of, own_names, tensors_of
from fusionc.requested.exact_names import leading_name, names_of_values, split_values
from fusionc.requested.value_names import find_value

_OPTION = "--output_type"
_TYPES: dict[str, int] = {
    "FP32": TensorProto.FLOAT,
    "FP16": TensorProto.FLOAT16,
    "DOUBLE": TensorProto.DOUBLE,
    "BOOL": TensorProto.BOOL,
    **{
        name: TensorProto.DataType.Value(name)
        for bits in (8, 16, 32, 64)
        for name in (f"UINT{bits}", f"INT{bits}")
    },
}
_NOT_NUMBERS = (
    TensorProto.UNDEFINED,
    TensorProto.STRING,
    TensorProto.COMPLEX64,
    TensorProto.COMPLEX128,
)


def types_of_outputs(model: ModelProto, output_type: str | Mapping[str, str]) -> dict[str, int]:
    """The outputs that get another element type, with that (a TensorProto.DataType). A text may
    name several, a mapping has types by name. Raises UsageError for a type or an output that does
    not exist, and for an output that cannot be converted.
    """
    opset = opsets_of(model).get("", 0)
    if opset < 6:
        what = (
            "a Cast needs version 6 of the standard operators or newer, the model has "
            f"{opset or 'none'}"
        )
        raise UsageError(
            what,
            where=_OPTION,
            hint="raise the model with onnx.version_converter first",
            code="E10001",
        )
    wanted = _requested_types(model, output_type)
    stored = {value.name for value in (*model.graph.input, *model.graph.initializer)}
    types = {value.name: value.type.tensor_type.elem_type for value in model.graph.output}
    wanted = {name: type_ for name, type_ in wanted.items() if types[name] != type_}
    for name in wanted:
        if types[name] in _NOT_NUMBERS or name in stored:
            reason = (
                "is an input, or a weight, itself"
                if name in stored
                else "is not a tensor of numbers"
            )
            hint = "name the other outputs only, each with its type"
            raise UsageError(f"the output {name} {reason}", where=_OPTION, hint=hint, code="E10001")
    return wanted


def cast_outputs(model: ModelProto, types: Mapping[str, int]) -> None:
    """Put a Cast after each of these outputs."""
    names = dict.fromkeys(_names_in(model), 1)
    outputs = {output.name: output for output in model.graph.output}
    for name in [name for name in outputs if name in types]:
        _cast(model.graph, outputs[name], types[name], names)
    for output in model.graph.output:  # the same one may be listed twice
        if output.name in types:
            output.type.tensor_type.elem_type = types[output.name]


def _names_in(model: ModelProto) -> Iterator[str]:
    """The names of all values, nodes and tensors."""
    for node in nodes_of(model):
        yield from (node.name, *node.input, *node.output)
    bodies = (body for node in nodes_of(model) for body in bodies_of(node))
    for graph in (model.graph, *bodies):
        yield from (value.name for value in (*graph.input, *graph.value_info))
    yield from (tensor.name for tensor in tensors_of(model))


def _requested_types(model: ModelProto, output_type: str | Mapping[str, str]) -> dict[str, int]:
    """The type of each output that is to have one."""
    if (
        isinstance(output_type, str)
        and (only := output_type.strip("; "))
        and not set(only) & {":", ";"}
    ):
        return dict.fromkeys((value.name for value in model.graph.output), _type_of(only))
    wanted: dict[str, int] = {}
    given = _types_in(model, output_type) if isinstance(output_type, str) else output_type.items()
    for place, type_ in given:
        name = find_value(model, place, _OPTION)
        if name not in {value.name for value in model.graph.output}:
            hint = "name it in --out_nodes, too"
            raise UsageError(
                f"{place} is not an output of the model", where=_OPTION, hint=hint, code="E10001"
            )
        if wanted.setdefault(name, _type_of(type_)) != _type_of(type_):
            raise UsageError(
                f"{name} is to have two types", where=_OPTION, hint="give one", code="E10001"
            )
    if not wanted:
        raise UsageError(
            "no type is given",
            where=_OPTION,
            hint=f"give one of {', '.join(_TYPES)}",
            code="E10001",
        )
    return wanted


def _types_in(model: ModelProto, text: str) -> Iterator[tuple[str, str]]:
    """The values that "conv1:0:FP16;logits:FP32" names, and the type of each."""
    for part in split_values(text, names_of_values(model), leading_name):
        place = leading_name(part)
        if not place:
            hint = 'give one type for all, or write "conv1:0:FP16;logits:FP32"'
            raise UsageError(f"{part} names no output", where=_OPTION, hint=hint, code="E10001")
        yield place, part.rpartition(":")[2].strip()


def _type_of(name: str) -> int:
    if name.upper() not in _TYPES:
        hint = f"give one of {', '.join(_TYPES)}"
        raise UsageError(
            f"{name!r} is not a type of outputs", where=_OPTION, hint=hint, code="E10001"
        )
    return _TYPES[name.upper()]


def _cast(graph: GraphProto, output: ValueInfoProto, type_: int, taken: dict[str, int]) -> None:
    inner = fresh_name(f"{output.name}_{type_name(output.type.tensor_type.elem_type)}", taken)
    _rename(graph.node, output.name, inner)
    for tensor in (*graph.initializer, *(sparse.values for sparse in graph.sparse_initializer)):
        if tensor.name == output.name:  # an output that passes have folded
            tensor.name = inner
    for annotation in graph.quantization_annotation:
        if annotation.tensor_name == output.name:
            annotation.tensor_name = inner
    declared = graph.value_info.add()
    declared.CopyFrom(output)
    declared.name = inner
    name = fresh_name(f"{output.name}_cast", taken)
    graph.node.append(helper.make_node("Cast", [inner], [output.name], name=name, to=type_))


def _rename(nodes: Iterable[NodeProto], old: str, new: str) -> None:
    """Rename a value where it is made and read, also in subgraphs unless they use the name for a
    value of their own.
    """
    for node in nodes:
        for names in (node.input, node.output):
            if old in names:
                names[:] = [new if name == old else name for name in names]
        for body in bodies_of(node):
            if old not in own_names(body):
                _rename(body.node, old, new)
                for value in body.output:
                    if value.name == old:
                        value.name = new
