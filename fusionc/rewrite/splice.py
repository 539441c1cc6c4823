"""The only module that changes a graph: it inserts a replacement that `check` accepted as sound.

Graph outputs keep their names. Nodes and constants that are no longer needed are removed. New nodes
get names and provenance. A moved node keeps its subgraphs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import onnx

from fusionc.model import operators
from fusionc.model.build import add_node, add_value, build_graph, topological_order
from fusionc.model.graph import Constant, Edge, Graph, Model, Node
from fusionc.model.graphsurgeon import replace_in
from fusionc.model.operators import MICROSOFT
from fusionc.rewrite.match import Match
from fusionc.rewrite.provenance import stamp
from fusionc.rewrite.soundness import Replacement, node_in

_FUNCTIONS_IR = 8  # the first IR version in which models have functions


def splice(match: Match, new: Replacement, pass_name: str) -> None:
    """Replace a match by its replacement."""
    graph = match.graph
    model = graph.model
    _import_domains(graph, new)
    inputs = [value for node in match.nodes for value in node.inputs if value is not None]
    _name(match, new)
    for node in match.nodes:
        _release(node)
    users = [old.outputs for old, _ in new.pairs]
    _free_names(new)
    for constant in new.constants:
        add_value(graph, constant)
    for node, position in zip(new.nodes, new.positions, strict=True):
        add_node(graph, node, position)
        if node in new.tape.moved:
            _adopt(node, *new.tape.moved[node])
    for (old, value), users_of_old in zip(new.pairs, users, strict=True):
        _replace_value(old, value, users_of_old)
    for node in match.nodes:
        _remove(node)
    stamp(new.nodes, match.nodes, pass_name, model.ir_version)
    for drop in match.drops:
        _drop(drop)
    _sweep(inputs)
    graph.changed = True
    model.version += 1
    model.types.note_commit(new.pairs, new.nodes)
    _keep_order(graph, new, users)


def _import_domains(graph: Graph, new: Replacement) -> None:
    """Define the called functions. Import their domains, and com.microsoft, at version 1."""
    for function in new.tape.functions:
        _define(graph.model, function)
    domains = {MICROSOFT, *(function.domain for function in new.tape.functions)}
    for domain in [node.domain for node in new.nodes if node.domain in domains]:
        graph.opsets.setdefault(domain, 1)
        graph.model.opsets.setdefault(domain, 1)


def _free_names(new: Replacement) -> None:
    """Remove the replaced values from the graph. An existing value that becomes a graph output
    takes over the name of the old output.
    """
    for old, value in new.pairs:
        _drop_value(old)
        value.is_pinned |= old.is_pinned  # the new value takes over the pinned name
    for old, value in new.pairs:
        if old.is_output and value not in new.added:
            _rename(value, old.name)


def _keep_order(graph: Graph, new: Replacement, users: Iterable[Iterable[Node]]) -> None:
    """Renumber all nodes if a new value is produced after one of its consumers."""
    for (_, value), users_of_old in zip(new.pairs, users, strict=True):
        if any(_comes_too_late(value, user) for user in users_of_old):
            for position, node in enumerate(topological_order(graph, graph.ordered())):
                node.position = position
            return


def _comes_too_late(value: Edge, user: Node) -> bool:
    """Whether a value is produced after a node that uses it."""
    node = node_in(value.graph, user)
    if node is None or value.producer is None:
        return False
    return node.position <= value.producer.position


def _name(match: Match, new: Replacement) -> None:
    """Name the new values and nodes. Results take over the names of the replaced values. A new node
    takes over the name of a replaced node that has the same operator.
    """
    unique_name = match.graph.model.unique_name
    results = {value: old.name for old, value in new.pairs}
    base = match.outputs[0].name if match.outputs else ""
    # for each operator, the name of its first replaced node
    names = {node.operator: node.name for node in reversed(match.nodes) if node.name}
    for node in new.nodes:
        node.proto.name = names.pop(node.operator, "") or unique_name(f"{base}_{node.op}")
        for value in filter(None, node.outputs):
            value.name = results.get(value) or unique_name(f"{base}_{node.op.lower()}")
    for constant in filter(new.added.__contains__, new.tape.constants):
        preferred = (new.tape.constants[constant] or base).removesuffix("_fused")
        constant.name = results.get(constant) or unique_name(f"{preferred}_fused")


def _rename(value: Edge, name: str) -> None:
    _drop_value(value)
    value.name = name
    add_value(value.graph, value)
    for user in value.outputs:
        user.graph.changed = True


def _adopt(node: Node, old: Node, values: Mapping[Edge, Edge]) -> None:
    """Move the subgraphs of the old node to the new node. `values` maps the values to replace
    in these subgraphs to the new values.
    """
    node.bodies = old.bodies
    old.bodies = ()
    del node.proto.metadata_props[:]
    node.proto.doc_string = ""
    for body in node.bodies:
        body.parent = node.graph
        body.owner = node
    for body in node.subgraphs(recursive=True):
        for inner in body.nodes:
            for value in dict.fromkeys(inner.inputs):
                if value is not None and value in values:
                    _replace_input(inner, value, values[value])
        for value in [value for value in body.outputs if value in values]:
            value.output_of.remove(body)
            values[value].output_of.append(body)
            replace_in(body, "outputs", value, values[value])
            body.changed = True


def _replace_value(old: Edge, new: Edge, users: Iterable[Node]) -> None:
    """Replace `old` by `new` in its consumers and in the outputs of graphs."""
    for user in users:
        _replace_input(user, old, new)
    if old.is_output:
        for graph in old.output_of:
            replace_in(graph, "outputs", old, new)
        new.output_of = old.output_of
        old.output_of = []


def _drop_value(value: Edge) -> None:
    if value.graph.values.get(value.name) is value:
        del value.graph.values[value.name]


def _drop(drop: Constant | Graph) -> None:
    if isinstance(drop, Constant):
        _drop_value(drop)
        drop.graph.changed = True
    else:
        del drop.model.functions[drop.function_key]


def _sweep(values: Iterable[Edge]) -> None:
    """Remove constants and pure nodes that are no longer needed: the producers of these values, and
    then the producers of their inputs.
    """
    stack = list(values)
    while stack:
        value = stack.pop()
        if value.is_used or value.graph.values.get(value.name) is not value:
            continue
        producer = value.producer
        if isinstance(value, Constant):
            _drop(value)
        elif producer is not None and is_dead(producer):
            stack.extend(v for v in (*producer.inputs, *producer.captures()) if v is not None)
            _remove(producer)
            producer.graph.changed = True


def is_dead(node: Node) -> bool:
    """Whether a node of the graph is not needed: its outputs are unused, and it has no side effect.

    False in a graph without declared outputs: such a graph does not say which nodes are needed.
    """
    is_needed = not node.graph.proto.output or any(
        output is not None and output.is_used for output in node.outputs
    )
    return node.is_in_graph and not is_needed and operators.is_pure(node)


def _release(node: Node) -> None:
    """Remove `node` from the consumers of its inputs."""
    for value in filter(None, node.inputs):
        value._uses.pop(node, None)


def _remove(node: Node) -> None:
    """Remove a node with unused outputs. Nodes in its subgraphs no longer count as consumers."""
    graph = node.graph
    del graph.nodes[node]
    graph.by_operator.get(node.operator, {}).pop(node, None)
    node.is_in_graph = False
    _release(node)
    for output in node.outputs:
        if output is not None and output.producer is node:
            output.producer = None
            _drop_value(output)
    for body in node.subgraphs(recursive=True):
        for inner in body.nodes:
            _release(inner)
        for value in body.outputs:
            value.output_of.remove(body)


def _replace_input(node: Node, old: Edge, new: Edge) -> None:
    """Replace all inputs `old` of `node` by `new`."""
    del old._uses[node]
    new._uses[node] = None
    replace_in(node, "inputs", old, new)
    node.graph.changed = True


def _define(model: Model, function: onnx.FunctionProto) -> None:
    """Add a function to the model, and raise the IR version if functions need that."""
    key = (operators.canonical_domain(function.domain), function.name, function.overload)
    if key not in model.functions:
        model.proto.functions.append(function)
        model.functions[key] = build_graph(model, model.proto.functions[-1], None)
        model.proto.ir_version = max(model.ir_version, _FUNCTIONS_IR)
