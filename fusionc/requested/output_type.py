"""--output_type FP16, or "conv1:0:FP16;relu2:0:FP32": add a Cast after outputs of other types.

The outputs keep their names, and the values before the Cast get new names. The Cast is added after
the verification, because it could make small rounding differences large: 2.9999999 becomes the
integer 2 and 3.0 becomes 3, or a number becomes infinite in float16. Such differences say nothing
about the passes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from onnx import GraphProto, ModelProto, TensorProto, ValueInfoProto, helper

from fusionc.errors import UsageError
from fusionc.model.operators import opsets_of
from fusionc.model.tensors import type_name
from fusionc.protos import fresh_name
from fusionc.requested.exact_names import leading_name, names_of_values, split_values
from fusionc.requested.rename_value import all_names, rename_value
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
    """The outputs that get another element type, and this type (a TensorProto.DataType) for each.
    `output_type` is one type for all outputs, a text with several outputs and types, or a mapping
    from outputs to types. Raises UsageError for a type or an output that does not exist, and for an
    output that a Cast cannot convert.
    """
    opset = opsets_of(model).get("", 0)
    if opset < 6:
        what = f"a Cast needs opset 6 or newer, and the model has opset {opset or 'none'}"
        raise UsageError(
            what,
            where=_OPTION,
            hint="raise the model with onnx.version_converter first",
            code="E10001",
        )
    requested = _requested_types(model, output_type)
    stored = {value.name for value in (*model.graph.input, *model.graph.initializer)}
    types = {value.name: value.type.tensor_type.elem_type for value in model.graph.output}
    requested = {name: type_ for name, type_ in requested.items() if types[name] != type_}
    for name in requested:
        if types[name] in _NOT_NUMBERS or name in stored:
            reason = (
                "is itself an input or a weight" if name in stored else "is not a tensor of numbers"
            )
            hint = "name only the other outputs, each with its type"
            raise UsageError(f"the output {name} {reason}", where=_OPTION, hint=hint, code="E10001")
    return requested


def cast_outputs(model: ModelProto, types: Mapping[str, int]) -> None:
    """Add a Cast for each of these outputs."""
    names = dict.fromkeys(all_names(model), 1)
    outputs = {output.name: output for output in model.graph.output}
    for name in [name for name in outputs if name in types]:
        _cast(model.graph, outputs[name], types[name], names)
    for output in model.graph.output:  # the same output may be listed twice
        if output.name in types:
            output.type.tensor_type.elem_type = types[output.name]


def _requested_types(model: ModelProto, output_type: str | Mapping[str, str]) -> dict[str, int]:
    """The requested types, by output name."""
    if (
        isinstance(output_type, str)
        and (only := output_type.strip("; "))
        and not set(only) & {":", ";"}
    ):
        return dict.fromkeys((value.name for value in model.graph.output), _type_of(only))
    types: dict[str, int] = {}
    pairs = _types_in(model, output_type) if isinstance(output_type, str) else output_type.items()
    for place, type_ in pairs:
        name = find_value(model, place, _OPTION)
        if name not in {value.name for value in model.graph.output}:
            hint = "also name it in --out_nodes"
            raise UsageError(
                f"{place} is not an output of the model", where=_OPTION, hint=hint, code="E10001"
            )
        if types.setdefault(name, _type_of(type_)) != _type_of(type_):
            raise UsageError(
                f"{name} has two types", where=_OPTION, hint="give one type", code="E10001"
            )
    if not types:
        raise UsageError(
            "no type is given",
            where=_OPTION,
            hint=f"give one of {', '.join(_TYPES)}",
            code="E10001",
        )
    return types


def _types_in(model: ModelProto, text: str) -> Iterator[tuple[str, str]]:
    """The values and types in a text such as "conv1:0:FP16;logits:FP32"."""
    for part in split_values(text, names_of_values(model), leading_name):
        place = leading_name(part)
        if not place:
            hint = 'give one type for all outputs, or write "conv1:0:FP16;logits:FP32"'
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
    rename_value(graph.node, output.name, inner)
    for tensor in (*graph.initializer, *(sparse.values for sparse in graph.sparse_initializer)):
        # if passes have folded the output into a constant, the constant gets the new name
        if tensor.name == output.name:
            tensor.name = inner
    for annotation in graph.quantization_annotation:
        if annotation.tensor_name == output.name:
            annotation.tensor_name = inner
    declared = graph.value_info.add()
    declared.CopyFrom(output)
    declared.name = inner
    name = fresh_name(f"{output.name}_cast", taken)
    graph.node.append(helper.make_node("Cast", [inner], [output.name], name=name, to=type_))
