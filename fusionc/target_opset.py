"""A model of a newer opset: onnx's own version converter, applied to each scope, and nothing else changed.

The converter loses metadata, copies weights, and only some of its versions know subgraphs. So it sees one graph at a
time, without large weights; what it leaves as it was stays the original node, what it writes anew keeps its name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache

import onnx
import onnx.inliner
import onnx.version_converter
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, TypeProto, ValueInfoProto

from fusionc.errors import FusioncError, UsageError
from fusionc.model.graph import opsets_of
from fusionc.model.operators import canonical_domain
from fusionc.model.walk import graphs_of, nodes_of, reads_of
from fusionc.runtime.errors import RunError
from fusionc.runtime.runner import Runner

_SMALL = 1024  # elements; larger tensors are never axes, sizes or the like
_OPTION = "--target_opset"


def raise_opset(model: ModelProto, version: int) -> ModelProto:
    """The model at this version of the standard operator set; the model itself where it has that already.

    Calls of model-local functions are inlined. Raises UsageError where the version is older than the model's or newer
    than what onnxruntime accepts, FusioncError where onnx cannot convert one of the operators.
    """
    current = opsets_of(model).get("", 0)
    if version == current or not current:
        return model
    if version < current:
        raise UsageError(
            f"the model's opset is {current} already: it can be raised, not lowered",
            where=_OPTION,
            hint=f"give {current} to {newest_opset()}, or leave the option out",
            code="E10001",
        )
    if version > newest_opset():
        raise UsageError(
            f"the installed onnxruntime runs models up to opset {newest_opset()}, not {version}",
            where=_OPTION,
            hint=f"give at most {newest_opset()}",
            code="E10001",
        )
    if model.functions:
        model = onnx.inliner.inline_local_functions(model)
    imports = [entry for entry in model.opset_import if canonical_domain(entry.domain)]
    _Raising(model, imports, current, version).graph(model.graph, {})
    if model.ir_version < 4:  # there, initializers had to be inputs; from then on it means that callers may give them
        stored = {tensor.name for tensor in model.graph.initializer}
        callers = [value for value in model.graph.input if value.name not in stored]
        del model.graph.input[:]
        model.graph.input.extend(callers)
    for entry in model.opset_import:
        if not canonical_domain(entry.domain):
            entry.version = version
    model.ir_version = max(
        model.ir_version, onnx.helper.find_min_ir_version_for([onnx.helper.make_opsetid("", version)])
    )
    return model


@cache
def newest_opset() -> int:
    """The newest standard operator set that the installed onnxruntime and onnx both know."""
    for version in range(onnx.defs.onnx_opset_version(), 0, -1):
        value = onnx.helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])
        graph = onnx.helper.make_graph([], "empty", [value], [value])
        imports = [onnx.helper.make_opsetid("", version)]
        probe = onnx.helper.make_model(graph, opset_imports=imports, ir_version=8)
        try:
            Runner(probe.SerializeToString()).close()
        except RunError:
            continue
        return version
    raise FusioncError("onnxruntime runs no model at all", hint="install it again: pip install onnxruntime")


class _Raising:
    """One model on its way to another opset."""

    def __init__(self, model: ModelProto, imports: Iterable[onnx.OperatorSetIdProto], old: int, new: int) -> None:
        self.imports, self.old, self.new = list(imports), old, new
        self.names = {name for node in nodes_of(model) for name in [*node.input, *node.output]}

    def graph(self, graph: GraphProto, outer: Mapping[str, TypeProto]) -> None:
        """Convert the nodes of a graph in place, those of its subgraphs last."""
        types = dict(outer)
        types.update({t.name: onnx.helper.make_tensor_type_proto(t.data_type, t.dims) for t in graph.initializer})
        types.update({v.name: v.type for v in [*graph.value_info, *graph.output, *graph.input]})
        converted = self.converted(graph, types)
        originals = {tuple(node.output): node for node in graph.node}
        nodes = [_restored(node, originals.get(tuple(node.output))) for node in converted.node]
        renamed = {name: self.fresh(name) for name in _made(nodes) - _made(graph.node)}
        for node in nodes:
            node.input[:] = [renamed.get(name, name) for name in node.input]
            node.output[:] = [renamed.get(name, name) for name in node.output]
        known = {tensor.name for tensor in graph.initializer}
        graph.initializer.extend(t for t in converted.initializer if t.name not in known)
        del graph.node[:]
        graph.node.extend(nodes)
        for node in graph.node:
            for attribute in node.attribute:
                for body in graphs_of(attribute):
                    self.graph(body, types)

    def converted(self, graph: GraphProto, types: Mapping[str, TypeProto]) -> GraphProto:
        """What onnx makes of the graph by itself, without its large weights."""
        alone = GraphProto(name=graph.name or "graph")
        alone.node.extend(graph.node)
        alone.initializer.extend(t for t in graph.initializer if _is_small(t))
        held = {tensor.name for tensor in alone.initializer}
        given = {name for node in graph.node for name in reads_of(node)} - _made(graph.node) - held
        alone.input.extend(_value(name, types) for name in sorted(given | {v.name for v in graph.input} - held))
        alone.output.extend(graph.output)
        model = ModelProto(ir_version=10, graph=alone)
        model.opset_import.extend([onnx.helper.make_opsetid("", self.old), *self.imports])
        try:
            return onnx.version_converter.convert_version(model, self.new).graph
        except Exception as error:  # onnx raises many types, RuntimeError among them
            raise FusioncError(
                f"onnx cannot raise the model from opset {self.old} to {self.new}: {error}",
                where=_OPTION,
                hint="give a lower one, or leave the option out",
                code="E10001",
            ) from error

    def fresh(self, name: str) -> str:
        """A name for a value that the converter made: its own may be taken in another scope."""
        number, wanted = 0, f"opset{self.new}_{name}"
        while wanted in self.names:
            number, wanted = number + 1, f"opset{self.new}_{name}_{number}"
        self.names.add(wanted)
        return wanted


def _restored(node: NodeProto, original: NodeProto | None) -> NodeProto:
    """The original where the converter changed nothing; else the new node with what it lost of the original."""
    if original is None:
        return node
    for old in original.attribute:  # onnx may have converted the subgraphs, too: that is done here, and only once
        for new in (a for a in node.attribute if a.name == old.name and graphs_of(old)):
            new.CopyFrom(old)
    attributes = {a.name: a.SerializeToString(deterministic=True) for a in node.attribute}
    before = {a.name: a.SerializeToString(deterministic=True) for a in original.attribute}
    if node.op_type == original.op_type and list(node.input) == list(original.input) and attributes == before:
        return original
    node.name, node.doc_string = original.name, original.doc_string
    node.metadata_props.extend(p for p in original.metadata_props if p not in node.metadata_props)
    return node


def _made(nodes: Iterable[NodeProto]) -> set[str]:
    return {name for node in nodes for name in node.output if name}


def _value(name: str, types: Mapping[str, TypeProto]) -> ValueInfoProto:
    value = ValueInfoProto(name=name)
    if name in types:
        value.type.CopyFrom(types[name])
    return value


def _is_small(tensor: TensorProto) -> bool:
    count = 1
    for dim in tensor.dims:
        count *= dim
    return count <= _SMALL and tensor.data_location != TensorProto.EXTERNAL
