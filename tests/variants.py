"""The same model, written in another way."""

from __future__ import annotations

import onnx
from onnx import ModelProto, TensorProto, helper


def copy_of(model: ModelProto) -> ModelProto:
    copy = ModelProto()
    copy.CopyFrom(model)
    return copy


def can_have_constant_nodes(model: ModelProto) -> bool:
    """Whether Constant nodes can replace the initializers: before opset 9 they have only float
    elements.
    """
    is_new = all(entry.version >= 9 for entry in model.opset_import if not entry.domain)
    return is_new or all(
        tensor.data_type == TensorProto.FLOAT for tensor in model.graph.initializer
    )


def constants_as_nodes(model: ModelProto) -> ModelProto:
    variant = copy_of(model)
    constants = {tensor.name for tensor in model.graph.initializer}
    nodes = [
        helper.make_node("Constant", [], [tensor.name], value=tensor)
        for tensor in model.graph.initializer
    ]
    inputs = [value for value in model.graph.input if value.name not in constants]
    del variant.graph.initializer[:], variant.graph.input[:], variant.graph.node[:]
    variant.graph.input.extend(inputs)
    variant.graph.node.extend([*nodes, *model.graph.node])
    return variant


def inside_function(model: ModelProto) -> ModelProto:
    """A model with one call of a model-local function that contains the whole graph."""
    variant = constants_as_nodes(model)
    variant.ir_version = max(variant.ir_version, 8)  # the first version with functions
    inputs = [value.name for value in variant.graph.input]
    outputs = [value.name for value in variant.graph.output]
    function = helper.make_function(
        "own", "body", inputs, outputs, variant.graph.node, model.opset_import
    )
    variant.functions.append(function)
    variant.opset_import.append(helper.make_opsetid("own", 1))
    del variant.graph.node[:], variant.graph.value_info[:]
    variant.graph.node.append(helper.make_node("body", inputs, outputs, domain="own"))
    return variant


def wrap_in_if(model: ModelProto) -> ModelProto:
    """The same graph in both branches of an If, with a new input `branch` as the condition.
    Constants stay outside.
    """
    wrapped = ModelProto()
    wrapped.CopyFrom(model)
    graph = wrapped.graph
    inner = onnx.GraphProto(name="branch")
    inner.node.extend(graph.node)
    inner.value_info.extend(graph.value_info)
    inner.output.extend(graph.output)
    del graph.node[:], graph.value_info[:]
    branches = {}
    for which in ("then", "else"):
        branch = branches[which] = onnx.GraphProto()
        branch.CopyFrom(inner)
        names = {name: f"{name}_{which}" for node in branch.node for name in node.output if name}
        for node in branch.node:
            node.name = f"{node.name}_{which}" if node.name else ""
            _rename_inputs(node, names)
            node.output[:] = [names.get(name, name) for name in node.output]
        for value in [*branch.output, *branch.value_info]:
            value.name = names.get(value.name, value.name)
    graph.input.append(helper.make_tensor_value_info("branch", TensorProto.BOOL, []))
    outputs = [output.name for output in graph.output]
    graph.node.append(
        helper.make_node(
            "If", ["branch"], outputs, then_branch=branches["then"], else_branch=branches["else"]
        )
    )
    return wrapped


def _rename_inputs(node: onnx.NodeProto, names: dict[str, str]) -> None:
    """Rename the inputs of a node and of the nodes in its subgraphs. No test model shadows a name
    there.
    """
    node.input[:] = [names.get(name, name) for name in node.input]
    for attribute in node.attribute:
        for body in [attribute.g] if attribute.HasField("g") else []:
            for inner in body.node:
                _rename_inputs(inner, names)
            for output in body.output:
                output.name = names.get(output.name, output.name)
