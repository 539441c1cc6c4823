"""Find the values that an option of ATC names: by the name of the value, or as "conv1:0" for output
0 of the node conv1.
"""

from __future__ import annotations

from collections.abc import Sequence

from onnx import ModelProto, NodeProto, ValueInfoProto

from fusionc.errors import FusioncError, UsageError, advice
from fusionc.requested.types_of_a_run import TypesOfARun
from fusionc.shapes.inference import typed_model


def find_value(model: ModelProto, name: str, option: str) -> str:
    """The name of the value of the main graph that `name` means. `name` is the name of a value, or
    a node and the index of one of its outputs. Raises UsageError if `name` means no value, or
    several values.
    """
    values = {output for node in model.graph.node for output in node.output} - {""}
    outputs = {value.name for value in model.graph.output}
    if name in values | outputs:
        return name
    node_name, colon, index = name.rpartition(":")
    is_place = bool(colon) and index.isdecimal()
    nodes = [node for node in model.graph.node if node.name == node_name]
    if is_place and nodes:
        return _output_of(nodes, int(index), name, option)
    places = [f"{node.name}:0" for node in model.graph.node if node.name]
    otherwise = f"the outputs of the model are: {', '.join(sorted(outputs))}."
    hint = advice(name, [*values, *places], otherwise)
    what = f"no node of the model computes {name}"
    raise UsageError(
        what, where=option, hint=f"{hint} Give node:index or the name of a value", code="E10016"
    )


def _output_of(nodes: Sequence[NodeProto], index: int, name: str, option: str) -> str:
    """The output with this index of the only node that has such an output. `nodes` are all nodes
    with the same name, and `name` is the text of the user.

    Raises UsageError if none or several of the nodes have an output with this index.
    """
    values: set[str] = {node.output[index] for node in nodes if index < len(node.output)} - {""}
    if len(values) == 1:
        return values.pop()
    what = f"the node {nodes[0].name} has no output {index}"
    hint = f"the outputs of the node are: {', '.join(filter(None, nodes[0].output))}"
    if values:
        what = f"{name} means several values: {', '.join(sorted(values))}"
        hint = "give the name of the value itself"
    raise UsageError(what, where=option, hint=hint, code="E10016")


def declarations_of(
    model: ModelProto, names: Sequence[str], folder: str, ran: TypesOfARun
) -> list[ValueInfoProto]:
    """Declarations of values of the main graph: from the model, from inference, or from a run.
    Raises FusioncError if the type or the rank of a value is unknown.
    """
    declared = {
        v.name: v for v in (*model.graph.value_info, *model.graph.output) if v.HasField("type")
    }
    declared |= _inferred(
        model, [name for name in names if not _is_whole(declared.get(name))], folder
    )
    in_part = [name for name in names if not _is_whole(declared.get(name))]
    types = ran.of(model, in_part, folder) if in_part else {}
    declared |= {name: ValueInfoProto(name=name, type=type_) for name, type_ in types.items()}
    result = []
    for name in names:
        if not _is_whole(declared.get(name)):
            what = f"the type of {name} is not known"
            hint = (
                "declare it in the value_info of the model, or give --inputs on which the model "
                "runs, or choose another output"
            )
            raise FusioncError(what, where=f"the value {name}", hint=hint, code="E10001")
        result.append(ValueInfoProto())
        result[-1].CopyFrom(declared[name])
    return result


def _is_whole(value: ValueInfoProto | None) -> bool:
    """Whether a declaration has everything that an output must declare."""
    if value is None or value.type.WhichOneof("value") is None:
        return False
    tensor = value.type.tensor_type
    return not value.type.HasField("tensor_type") or (
        tensor.elem_type != 0 and tensor.HasField("shape")
    )


def _inferred(model: ModelProto, names: Sequence[str], folder: str) -> dict[str, ValueInfoProto]:
    if not names:
        return {}
    built = typed_model(model, folder)
    own = {dim.dim_param for value in model.graph.input for dim in value.type.tensor_type.shape.dim}
    result = {
        name: ValueInfoProto(name=name, type=built.types.of(built.main.values[name]).proto)
        for name in names
    }
    for value in result.values():
        for dim in value.type.tensor_type.shape.dim:
            # Symbols that the model does not have come from the inference, so they are removed.
            if dim.dim_param not in own:
                dim.ClearField("dim_param")
    return result
