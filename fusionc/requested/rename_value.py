"""Rename values of a model, and make room for nodes between an input and its consumers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from onnx import ModelProto, NodeProto, ValueInfoProto

from fusionc.protos import bodies_of, nodes_of, own_names, tensors_of


def all_names(model: ModelProto) -> Iterator[str]:
    """The names of all values, nodes and tensors."""
    for node in nodes_of(model):
        yield from (node.name, *node.input, *node.output)
    bodies = (body for node in nodes_of(model) for body in bodies_of(node))
    for graph in (model.graph, *bodies):
        yield from (value.name for value in (*graph.input, *graph.value_info))
    yield from (tensor.name for tensor in tensors_of(model))


def rename_value(nodes: Iterable[NodeProto], old: str, new: str) -> None:
    """Rename a value in all nodes, also in subgraphs, except in a subgraph that defines another
    value with this name.
    """
    for node in nodes:
        for names in (node.input, node.output):
            if old in names:
                names[:] = [new if name == old else name for name in names]
        for body in bodies_of(node):
            if old not in own_names(body):
                rename_value(body.node, old, new)
                for value in body.output:
                    if value.name == old:
                        value.name = new


def separate_input(model: ModelProto, value: ValueInfoProto, inner: str) -> None:
    """Let all consumers of an input read the value `inner` instead. `inner` gets the declaration of
    the input. The caller must add the node that computes `inner`.
    """
    declared = model.graph.value_info.add()
    declared.CopyFrom(value)
    declared.name = inner
    rename_value(model.graph.node, value.name, inner)
    for annotation in model.graph.quantization_annotation:
        if annotation.tensor_name == value.name:
            annotation.tensor_name = inner
