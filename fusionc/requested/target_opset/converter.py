"""Apply onnx's version converter to each graph separately.

The converter loses metadata, copies weights, and handles subgraphs only in some versions. Therefore
it gets one graph at a time, without large weights. Nodes that the converter does not change are
taken from the original model. Nodes that it replaces pass their names on to the new nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import onnx
import onnx.version_converter
from onnx import GraphProto, ModelProto, NodeProto, TypeProto, ValueInfoProto

from fusionc.model.operators import canonical_domain, schema
from fusionc.protos import IR_VERSION, bodies_of, fresh_name, graphs_of, is_small, reads_of
from fusionc.requested.target_opset.limits import raising_error
from fusionc.requested.target_opset.meanings import Meanings
from fusionc.requested.target_opset.unknown import hidden_domain, hide, is_unknown


class Converter:
    """Converts nodes from opset `old` to `new`. `names` are the names in use in the model, and
    `imports` are the opset imports of other domains.
    """

    def __init__(
        self, names: dict[str, int], imports: Iterable[onnx.OperatorSetIdProto], old: int, new: int
    ) -> None:
        self.names = names
        self.imports = list(imports)
        self.old = old
        self.new = new

    def graph(self, graph: GraphProto, outer: Mapping[str, TypeProto]) -> None:
        """Convert the nodes of a graph and of its subgraphs in place. `outer` are the types of the
        values of outer graphs.
        """
        types = _types_in(graph, outer)
        originals = {tuple(node.output): node for node in graph.node}
        meanings = Meanings(graph, types, self.old, self.new)
        meanings.write_out(_used(graph), self.fresh)
        originals = {tuple(node.output): node for node in graph.node} | originals
        converted = self.converted(graph, types)
        meanings.complete(converted, self.fresh)
        nodes = [_restore(node, originals.get(tuple(node.output))) for node in converted.node]
        self.rename_values(nodes, _outputs_of(nodes) - _outputs_of(graph.node))
        self.rename(nodes, originals.values())
        known = {tensor.name for tensor in graph.initializer}
        graph.initializer.extend(t for t in converted.initializer if t.name not in known)
        del graph.node[:]
        graph.node.extend(nodes)
        for node in graph.node:
            for body in bodies_of(node):
                self.graph(body, types)

    def converted(self, graph: GraphProto, types: Mapping[str, TypeProto]) -> GraphProto:
        """The graph after onnx's conversion. The converter is not called if no node changes,
        because it rebuilds all its tables for each call.
        """
        if not any(map(self.changes, graph.node)):
            return graph
        try:
            return onnx.version_converter.convert_version(self.alone(graph, types), self.new).graph
        except Exception as error:  # onnx raises many types, including RuntimeError
            raise raising_error(self.old, self.new, error) from error

    def alone(self, graph: GraphProto, types: Mapping[str, TypeProto]) -> ModelProto:
        """A model of this graph alone, without its large weights. Every value of a node that
        changes is an output.
        """
        alone = GraphProto(name=graph.name or "graph")
        alone.node.extend(graph.node)
        alone.initializer.extend(tensor for tensor in graph.initializer if is_small(tensor))
        inner = _outputs_of(graph.node)
        stored = {tensor.name for tensor in alone.initializer}
        outputs = {value.name for value in graph.output}
        inputs = (_used(graph) - inner - stored) | ({value.name for value in graph.input} - stored)
        # The converter renames the values of nodes that it replaces, except model outputs.
        changing = _outputs_of(filter(self.changes, graph.node))
        alone.input.extend(_values(sorted(inputs), types))
        alone.output.extend(_values([value.name for value in graph.output], types))
        alone.output.extend(_values(sorted(changing - outputs), types))
        hide(alone.node, self.old)
        model = ModelProto(ir_version=IR_VERSION, graph=alone)
        model.opset_import.extend(
            [onnx.helper.make_opsetid("", self.old), *self.imports, hidden_domain()]
        )
        return model

    def changes(self, node: NodeProto) -> bool:
        """Whether the operator of a node changes between the opsets. Operators that onnx does not
        know do not change.
        """
        if canonical_domain(node.domain) or is_unknown(node, self.old):
            return False
        before, after = (schema(node.op_type, "", version) for version in (self.old, self.new))
        return before is None or after is None or before.since_version != after.since_version

    def rename_values(self, nodes: Iterable[NodeProto], values: Iterable[str]) -> None:
        """Give new values, which the converter added, names that are unique in the model."""
        names = {name: self.fresh(name) for name in values}
        for node in nodes:
            node.input[:] = [names.get(name, name) for name in node.input]
            node.output[:] = [names.get(name, name) for name in node.output]

    def rename(self, nodes: Sequence[NodeProto], originals: Iterable[NodeProto]) -> None:
        """Give each new node a unique name, because the converter gives several nodes the same
        name.
        """
        kept = set(map(id, originals))
        taken = {node.name for node in nodes if id(node) in kept} | {""}
        for node in (node for node in nodes if id(node) not in kept):
            if node.name in taken:
                node.name = node.name and self.fresh(f"{node.name}_{node.op_type}")
            taken.add(node.name)

    def fresh(self, name: str) -> str:
        """A new name for a value that the converter added, because the name that the converter
        chose may be in use in another graph.
        """
        return fresh_name(f"opset{self.new}_{name}", self.names)


def _restore(node: NodeProto, original: NodeProto | None) -> NodeProto:
    """The original node if the converter changed nothing. Otherwise the new node with the metadata
    of the original.
    """
    if original is None:
        return node
    # The original subgraphs are restored, because `graph` converts them later.
    bodies = {old.name: old for old in original.attribute if graphs_of(old)}
    for attribute in node.attribute:
        if attribute.name in bodies:
            attribute.CopyFrom(bodies[attribute.name])
    if _form(node) == _form(original):
        return original
    node.name = original.name
    node.doc_string = original.doc_string
    node.metadata_props.extend(p for p in original.metadata_props if p not in node.metadata_props)
    return node


def _form(node: NodeProto) -> object:
    """The operator, inputs and attributes of a node."""
    attributes = {a.name: a.SerializeToString(deterministic=True) for a in node.attribute}
    return node.op_type, list(node.input), attributes


def _types_in(graph: GraphProto, outer: Mapping[str, TypeProto]) -> dict[str, TypeProto]:
    """The known types of the values that the nodes of a graph may read."""
    weights = {
        tensor.name: onnx.helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
        for tensor in graph.initializer
    }
    declared = (*graph.value_info, *graph.output, *graph.input)
    return {**outer, **weights, **{value.name: value.type for value in declared}}


def _used(graph: GraphProto) -> set[str]:
    """The names that the nodes of a graph read, and the names of its outputs."""
    read = set[str]().union(*map(reads_of, graph.node))
    return read | {value.name for value in graph.output}


def _outputs_of(nodes: Iterable[NodeProto]) -> set[str]:
    return {name for node in nodes for name in node.output if name}


def _values(names: Iterable[str], types: Mapping[str, TypeProto]) -> Iterator[ValueInfoProto]:
    """Declarations of these values, with their types if they are known."""
    for name in names:
        value = ValueInfoProto(name=name)
        if name in types:
            value.type.CopyFrom(types[name])
        yield value
