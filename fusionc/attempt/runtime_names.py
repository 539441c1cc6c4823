"""Constants whose names onnxruntime may give to new constants when it loads a model.

onnxruntime's optimizer MatMulAddFusion adds Reshapes and chooses names for the constants with their
shapes. It only avoids the names of nodes, not those of constants. A model that onnxruntime has
saved before already has constants with such names. If a new name equals one of these, the model
cannot be loaded ("Attempt to replace the existing tensor", onnxruntime 1.32). Whether names are
equal depends on how many nodes are fused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from onnx import GraphProto, ModelProto

from fusionc.protos import fresh_name, graphs_in, own_names

_GIVEN = re.compile(r"gemm_(input|output)_shape(_token_\d+)?")


def avoid_names_of_the_runtime(model: ModelProto) -> None:
    """Give other names to the constants of the main graph that onnxruntime may give to its own."""
    graph = model.graph
    declared = {value.name for value in (*graph.input, *graph.output)}
    names = [t.name for t in graph.initializer if _GIVEN.fullmatch(t.name)]
    if not names:
        return
    taken = dict.fromkeys(own_names(graph), 1)
    renamed = {name: fresh_name(f"kept_{name}", taken) for name in names if name not in declared}
    for named in (*graph.initializer, *graph.value_info):
        named.name = renamed.get(named.name, named.name)
    for annotation in graph.quantization_annotation:
        annotation.tensor_name = renamed.get(annotation.tensor_name, annotation.tensor_name)
        for parameter in annotation.quant_parameter_tensor_names:
            parameter.value = renamed.get(parameter.value, parameter.value)
    for inner in graphs_in(graph):
        _rename_reads(inner, renamed)


def _rename_reads(graph: GraphProto, renamed: Mapping[str, str]) -> None:
    for node in graph.node:
        for place, name in enumerate(node.input):
            if name in renamed:
                node.input[place] = renamed[name]
    for value in graph.output:  # a constant may be the output of a branch
        value.name = renamed.get(value.name, value.name)
