"""--out_nodes "conv1:0;relu2:1": replace the outputs of a model by these values, in this order, and
remove nodes that only the former outputs need.

All inputs stay, including unused inputs, because callers should feed the model as before.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from onnx import ModelProto

from fusionc.errors import UsageError
from fusionc.model.write_back import keep
from fusionc.protos import initialized, needed_nodes, reads_of
from fusionc.requested.exact_names import names_of_values, split_values
from fusionc.requested.types_of_a_run import TypesOfARun
from fusionc.requested.value_names import declarations_of, find_value

_OPTION = "--out_nodes"


def set_outputs(
    model: ModelProto, out_nodes: str | Sequence[str], folder: str, ran: TypesOfARun | None = None
) -> None:
    """Make these values of the main graph its outputs. The external data of the model is in
    `folder`.

    `out_nodes` is a text that names several values, or a sequence of names. If shape inference does
    not find the type of a value, a run of the model finds it.

    Raises UsageError if a value does not exist or is named twice, and FusioncError if its type is
    unknown.
    """
    graph = model.graph
    if model.training_info:
        what = "the model has training information, which needs the present outputs"
        hint = "leave the option out, or export the model without training information"
        raise UsageError(what, where=_OPTION, hint=hint, code="E10001")
    names = _names(model, out_nodes)
    outputs = declarations_of(model, names, folder, ran or TypesOfARun())
    # a former output becomes an intermediate value
    graph.value_info.extend(value for value in graph.output if value.name not in names)
    del graph.output[:]
    graph.output.extend(outputs)
    _drop_unused(model, set(names))


def _names(model: ModelProto, out_nodes: str | Sequence[str]) -> list[str]:
    """The names of the requested outputs. Raises UsageError if a value is named twice, or if none
    is named.
    """
    parts = (
        split_values(out_nodes, names_of_values(model), str)
        if isinstance(out_nodes, str)
        else out_nodes
    )
    names = [find_value(model, part, _OPTION) for part in parts]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        what = f"{twice} is named twice"
        raise UsageError(what, where=_OPTION, hint="name each value once", code="E10001")
    if not names:
        hint = 'write it as "conv1:0;relu2:1"'
        raise UsageError("no output is named", where=_OPTION, hint=hint, code="E10001")
    return names


def _drop_unused(model: ModelProto, names: Set[str]) -> None:
    """Remove everything that these values do not need."""
    graph = model.graph
    nodes = list(graph.node)  # keeps the Python objects alive, so that their ids stay valid
    kept = needed_nodes(nodes, names)
    unused = {
        name for node in nodes if id(node) not in kept for name in [*node.output, *reads_of(node)]
    }
    unused -= {
        name for node in nodes if id(node) in kept for name in [*node.output, *reads_of(node)]
    } | names
    if model.ir_version >= 4:
        unused -= {value.name for value in graph.input}
    stored = initialized(graph)
    keep(graph.node, lambda node: id(node) in kept)
    keep(graph.initializer, lambda tensor: tensor.name not in unused)
    keep(graph.input, lambda value: value.name not in unused or value.name not in stored)
    keep(graph.value_info, lambda value: value.name not in unused and value.name not in names)
    keep(graph.quantization_annotation, lambda annotation: annotation.tensor_name not in unused)
