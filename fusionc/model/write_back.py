"""Write the graph in memory back into the original proto. Everything that no pass rewrote stays
unchanged, byte for byte.

Repeated fields are sorted in place and truncated, never rebuilt. Therefore weights are not copied,
and kept entries keep all their fields.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx

from fusionc.model import operators, tensors
from fusionc.model.build import topological_order
from fusionc.model.graph import GROWTH_KEY, Constant, Graph, Model, Node
from fusionc.protos import bodies_of


def write_back(model: Model) -> onnx.ModelProto:
    """Update the model's proto from its graphs, and return the proto."""
    for graph in model.graphs:
        if graph.changed:
            _write_graph(graph)
    kept = {id(function.proto) for function in model.functions.values()}
    keep(model.proto.functions, lambda function: id(function) in kept)
    scopes: list[Model | Graph] = [model, *model.functions.values()]
    for scope in scopes:
        for domain, version in sorted(
            scope.opsets.items() - operators.opsets_of(scope.proto).items()
        ):
            scope.proto.opset_import.add(domain=domain, version=version)
    # Constant folding may enlarge a model only up to a limit. The growth is stored in the model,
    # so that repeated conversions share one limit.
    if model.folding_growth:
        entries = {entry.key: entry for entry in model.proto.metadata_props}
        entry = entries.get(GROWTH_KEY) or model.proto.metadata_props.add(key=GROWTH_KEY)
        entry.value = str(model.folding_growth)
    return model.proto


def _write_graph(graph: Graph) -> None:
    proto = graph.proto
    new_constants = [c for c in graph.constants() if not isinstance(c.data, onnx.TensorProto)]
    if isinstance(proto, onnx.GraphProto):
        _write_constants(graph, proto, new_constants)
        keep(proto.quantization_annotation, lambda entry: entry.tensor_name in graph.values)
        new_constants = []
    keep(proto.value_info, lambda info: info.name in graph.values)
    _write_nodes(graph, new_constants)


def _write_constants(graph: Graph, proto: onnx.GraphProto, new_constants: list[Constant]) -> None:
    declared = {t.name for t in proto.initializer}
    # a new constant may take the name of an old one
    kept = graph.values.keys() - {constant.name for constant in new_constants}
    keep(proto.initializer, lambda tensor: tensor.name in kept)
    if graph.model.ir_version < 4:
        keep(proto.input, lambda info: info.name not in declared or info.name in kept)
    for constant in new_constants:
        _store(constant, proto.initializer.add())
        if graph.model.ir_version < 4:  # every initializer must be listed as an input
            proto.input.add(name=constant.name).type.CopyFrom(constant.known_type.proto)


def _store(constant: Constant, tensor: onnx.TensorProto) -> None:
    """Store a constant in a tensor of the proto, and drop its array, so that large weights exist in
    memory only once.
    """
    tensor.CopyFrom(tensors.to_proto(constant.values, constant.name))
    constant.data = tensor
    constant._elements = None


def _write_nodes(graph: Graph, as_nodes: list[Constant]) -> None:
    """Write all nodes in topological order. `as_nodes` are the new constants of a function body:
    they become Constant nodes, because a function has no initializers.
    """
    nodes = topological_order(graph, graph.ordered())
    place: dict[int, int] = {}
    fields = graph.proto.node
    existing = list(fields)  # keeps the entries alive: their ids stay valid
    known = {id(proto) for proto in existing}
    for constant in as_nodes:
        added = fields.add(op_type="Constant", output=[constant.name])
        existing.append(added)
        added.attribute.append(
            onnx.helper.make_attribute("value", tensors.to_proto(constant.values, constant.name))
        )
        place[id(added)] = len(place)
    new = [node for node in nodes if id(node.proto) not in known]
    if isinstance(graph.proto, onnx.GraphProto):
        _declare_outputs(
            [node for node in new if operators.is_foreign(node) and node.function is None],
            graph.proto,
        )
    for node in nodes:
        _write_edges(node)
        if id(node.proto) not in known:
            fields.append(node.proto)
            _rebind(node, fields[-1])
        place[id(node.proto)] = len(place)
    keep(fields, lambda proto: id(proto) in place, lambda proto: place[id(proto)])


def _declare_outputs(nodes: list[Node], proto: onnx.GraphProto) -> None:
    """Declare the output types of nodes for which onnx has no type inference, because quantizers
    and other tools need these types. A symbolic dimension is declared only if the model's inputs
    have the symbol.
    """
    if not nodes:
        return
    declared = {info.name for info in (*proto.value_info, *proto.output)}
    inputs = nodes[0].graph.model.proto.graph.input
    names = {dim.dim_param for info in inputs for dim in info.type.tensor_type.shape.dim}
    for value in (value for node in nodes for value in node.outputs if value is not None):
        if value.known_type.elem_type and value.name not in declared:
            known = value.known_type.with_symbols(names)
            proto.value_info.add(name=value.name).type.CopyFrom(known.proto)


def _rebind(node: Node, proto: onnx.NodeProto) -> None:
    """Let the node use `proto`, a copy of its proto, and let its subgraphs use the subgraphs of the
    copy. If a rewrite moved the subgraphs to another node, `node.bodies` is empty.
    """
    node.proto = proto
    for body, copy in zip(node.bodies, bodies_of(proto), strict=False):
        existing = list(body.proto.node)
        copies = {id(old): new for old, new in zip(existing, copy.node, strict=True)}
        body.proto = copy
        for inner in body.nodes:
            if id(inner.proto) in copies:  # new nodes are not in the proto yet
                _rebind(inner, copies[id(inner.proto)])


def _write_edges(node: Node) -> None:
    for field, values in ((node.proto.input, node.inputs), (node.proto.output, node.outputs)):
        names = ["" if value is None else value.name for value in values]
        if list(field) != names:
            field[:] = names


def keep(
    field: Any, is_kept: Callable[[Any], bool], order: Callable[[Any], int] | None = None
) -> None:
    """Keep only the entries of a repeated field that `is_kept` accepts. They keep their order, or
    are sorted by `order`.
    """
    # keeps the entries alive: their ids stay valid while they are sorted
    entries = list(field)
    kept = [entry for entry in entries if is_kept(entry)]
    if order is None and len(kept) == len(entries):
        return
    rank = {id(entry): order(entry) if order else i for i, entry in enumerate(kept)}
    field.sort(key=lambda entry: rank.get(id(entry), len(entries)))
    del field[len(kept) :]
