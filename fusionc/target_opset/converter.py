"""onnx's version converter, applied to each scope.

It loses metadata, copies weights, and only some of its versions know subgraphs. So it sees one
graph at a time, without large weights; what it leaves as it was stays the original node, what it
writes anew keeps its name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import onnx
import onnx.version_converter
from onnx import GraphProto, ModelProto, NodeProto, TypeProto, ValueInfoProto

from fusionc.model.operators import canonical_domain, schema
from fusionc.protos import IR_VERSION, fresh_name, graphs_of, is_small, reads_of
from fusionc.target_opset.limits import cannot
from fusionc.target_opset.meanings import Meanings
from fusionc.target_opset.unknown import hidden_domain, hide, is_unknown


class Converter:
    """Nodes on their way to another opset; `names` are those that are taken in their model."""

    def __init__(
        self, names: dict[str, int], imports: Iterable[onnx.OperatorSetIdProto], old: int, new: int
    ) -> None:
        self.names = names
        self.imports = list(imports)
        self.old = old
        self.new = new

    def graph(self, graph: GraphProto, outer: Mapping[str, TypeProto]) -> None:
        """Convert the nodes of a graph in place, those of its subgraphs last."""
        types = dict(outer)
        types.update(
            {
                t.name: onnx.helper.make_tensor_type_proto(t.data_type, t.dims)
                for t in graph.initializer
            }
        )
        types.update({v.name: v.type for v in [*graph.value_info, *graph.output, *graph.input]})
        originals = {tuple(node.output): node for node in graph.node}
        meanings = Meanings(graph, types, self.old, self.new)
        used = [name for node in graph.node for name in reads_of(node)]
        meanings.write_out([*used, *(value.name for value in graph.output)], self.fresh)
        originals = {tuple(node.output): node for node in graph.node} | originals
        converted = self.converted(graph, types)
        meanings.complete(converted, self.fresh)
        nodes = [_restored(node, originals.get(tuple(node.output))) for node in converted.node]
        renamed = {name: self.fresh(name) for name in _made(nodes) - _made(graph.node)}
        for node in nodes:
            node.input[:] = [renamed.get(name, name) for name in node.input]
            node.output[:] = [renamed.get(name, name) for name in node.output]
        self.rename(nodes, originals.values())
        known = {tensor.name for tensor in graph.initializer}
        graph.initializer.extend(t for t in converted.initializer if t.name not in known)
        del graph.node[:]
        graph.node.extend(nodes)
        for node in graph.node:
            for attribute in node.attribute:
                for body in graphs_of(attribute):
                    self.graph(body, types)

    def converted(self, graph: GraphProto, types: Mapping[str, TypeProto]) -> GraphProto:
        """What onnx makes of the graph by itself.

        It builds all tables of its converter anew for each graph, so that one in which nothing
        changes goes without.
        """
        if not any(map(self.changes, graph.node)):
            return graph
        try:
            return onnx.version_converter.convert_version(self.alone(graph, types), self.new).graph
        except Exception as error:  # onnx raises many types, RuntimeError among them
            raise cannot(self.old, self.new, error) from error

    def alone(self, graph: GraphProto, types: Mapping[str, TypeProto]) -> ModelProto:
        """The graph as a model, without its large weights, and with an output for all that
        changes.
        """
        alone = GraphProto(name=graph.name or "graph")
        alone.node.extend(graph.node)
        alone.initializer.extend(t for t in graph.initializer if is_small(t))
        held = {tensor.name for tensor in alone.initializer}
        outputs = {value.name for value in graph.output}
        given = {name for node in graph.node for name in reads_of(node)} | outputs
        given -= _made(graph.node) | held
        alone.input.extend(
            _value(name, types) for name in sorted(given | {v.name for v in graph.input} - held)
        )
        alone.output.extend(_value(value.name, types) for value in graph.output)
        # What its converter writes anew loses its name otherwise.
        changing = _made(node for node in graph.node if self.changes(node))
        alone.output.extend(_value(name, types) for name in sorted(changing - outputs))
        hide(alone.node, self.old)
        model = ModelProto(ir_version=IR_VERSION, graph=alone)
        model.opset_import.extend(
            [onnx.helper.make_opsetid("", self.old), *self.imports, hidden_domain()]
        )
        return model

    def changes(self, node: NodeProto) -> bool:
        """Whether the operator of a node is another one at the new opset. What onnx does not know
        is none of it.
        """
        if canonical_domain(node.domain) or is_unknown(node, self.old):
            return False
        before, after = (schema(node.op_type, "", version) for version in (self.old, self.new))
        return before is None or after is None or before.since_version != after.since_version

    def rename(self, nodes: Sequence[NodeProto], originals: Iterable[NodeProto]) -> None:
        """Give each node that the converter made a name of its own: it gives several the name of
        one.
        """
        kept = set(map(id, originals))
        taken = {node.name for node in nodes if id(node) in kept} | {""}
        for node in (node for node in nodes if id(node) not in kept):
            if node.name in taken:
                node.name = node.name and self.fresh(f"{node.name}_{node.op_type}")
            taken.add(node.name)

    def fresh(self, name: str) -> str:
        """A name for a value that the converter made: its own may be taken in another scope."""
        return fresh_name(f"opset{self.new}_{name}", self.names)


def _restored(node: NodeProto, original: NodeProto | None) -> NodeProto:
    """The original where the converter changed nothing; else the new node with what it lost of the
    original.
    """
    if original is None:
        return node
    # onnx may have converted the subgraphs, too: that is done here, and only once
    for old in original.attribute:
        for new in (a for a in node.attribute if a.name == old.name and graphs_of(old)):
            new.CopyFrom(old)
    attributes = {a.name: a.SerializeToString(deterministic=True) for a in node.attribute}
    before = {a.name: a.SerializeToString(deterministic=True) for a in original.attribute}
    if (
        node.op_type == original.op_type
        and list(node.input) == list(original.input)
        and attributes == before
    ):
        return original
    node.name = original.name
    node.doc_string = original.doc_string
    node.metadata_props.extend(p for p in original.metadata_props if p not in node.metadata_props)
    return node


def _made(nodes: Iterable[NodeProto]) -> set[str]:
    return {name for node in nodes for name in node.output if name}


def _value(name: str, types: Mapping[str, TypeProto]) -> ValueInfoProto:
    value = ValueInfoProto(name=name)
    if name in types:
        value.type.CopyFrom(types[name])
    return value
