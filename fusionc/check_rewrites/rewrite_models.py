"""A rewrite as two small models with the same inputs and outputs: one with the original nodes, and
one with their replacement.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import onnx
from onnx import TensorProto

from fusionc.model.graph import Constant, Edge, Node
from fusionc.model.operators import MICROSOFT, is_pure
from fusionc.model.tensors import to_proto
from fusionc.protos import IR_VERSION, part_model
from fusionc.rewrite.match import Match
from fusionc.rewrite.soundness import Replacement
from fusionc.rewrite.tape import Tape
from fusionc.shapes.onnx_inference import graphs_called

_SUB_BYTE = (TensorProto.INT2, TensorProto.UINT2, TensorProto.INT4, TensorProto.UINT4)


@dataclass(frozen=True)
class RewriteModels:
    """Two models that should compute the same, and the values of the graph that are their
    inputs.
    """

    before: onnx.ModelProto
    after: onnx.ModelProto
    inputs: tuple[Edge, ...]


class RewriteOnItsOwn:
    """A match and its replacement, before the rewrite takes effect.

    `outputs` are the values that are replaced. `reason` says why the rewrite cannot be modelled; it
    is empty if it can.
    """

    def __init__(self, match: Match, new: Replacement, tape: Tape) -> None:
        self._match = match
        self._new = new
        self._tape = tape
        self.outputs = [old for old, _ in new.pairs if old.is_used]
        nodes = [*match.nodes, *new.nodes]
        self.reason = ""
        if match.graph.in_function:
            self.reason = "it is in a function, and the types in a function depend on the call"
        elif tape.moved or any(
            body.changed for node in nodes for body in node.subgraphs(recursive=True)
        ):
            self.reason = "it moves or holds subgraphs that have been rewritten"

    def inputs(self, context: Collection[Node] = ()) -> list[Edge]:
        """The values that the models read and that none of their nodes computes. Values that only
        the replacement reads come last.
        """
        inside = {*self._match.nodes, *context}
        values = [v for node in (*context, *self._match.nodes) for v in _values_read_by(node)]
        values += [v for node in self._new.nodes for v in self._tape.reads(node) if v is not None]
        values += [new for _, new in self._new.pairs]
        outside = (
            v for v in dict.fromkeys(values) if v not in self._new.added and not v.is_constant
        )
        return [v for v in outside if v.producer not in inside]

    def only_after(self) -> list[Edge]:
        """The inputs that only the replacement reads."""
        before = {v for node in self._match.nodes for v in _values_read_by(node)}
        return [v for v in self.inputs() if v not in before]

    def may_be_context(self, node: Node) -> bool:
        """Whether both models may contain a node that computes one of their inputs."""
        is_whole = not any(body.changed for body in node.subgraphs(recursive=True))
        return is_pure(node) and is_whole and not node.graph.in_function and not node.has_references

    def models(self, context: Collection[Node] = ()) -> RewriteModels:
        """The two models. `context` are nodes before the rewrite that both models contain."""
        shared = sorted(context, key=lambda node: node.position)
        inputs = tuple(self.inputs(context))
        return RewriteModels(self._before(inputs, shared), self._after(inputs, shared), inputs)

    def _before(self, inputs: Sequence[Edge], shared: Sequence[Node]) -> onnx.ModelProto:
        nodes = sorted({*shared, *self._match.nodes}, key=lambda node: node.position)
        model = self._model(inputs, {node: _values_read_by(node) for node in nodes}, {})
        for value in self.outputs:
            if value.producer is None:  # the rewrite merges two equal constants
                _add_constants(model, [value])
        return model

    def _after(self, inputs: Sequence[Edge], shared: Sequence[Node]) -> onnx.ModelProto:
        nodes = self._new.nodes
        renamed = {new: old.name for old, new in reversed(self._new.pairs) if new.producer in nodes}
        reads = {node: _values_read_by(node) for node in shared}
        reads |= {node: _present(self._tape.reads(node)) for node in nodes}
        model = self._model(inputs, reads, renamed)
        for old, new in self._new.pairs:
            if old.is_used and renamed.get(new) != old.name:
                _add_constants(model, [new])
                model.graph.node.append(_copy_to_name(renamed.get(new, new.name), old))
        known = set(map(_function_key, model.functions))  # two equal areas share one function
        model.functions.extend(f for f in self._tape.functions if _function_key(f) not in known)
        _add_opsets(model)
        return model

    def _model(
        self,
        inputs: Sequence[Edge],
        reads: Mapping[Node, Sequence[Edge]],
        names: Mapping[Edge, str],
    ) -> onnx.ModelProto:
        """A model of these nodes, each with its inputs. `names` are new names of values."""
        graph = self._match.graph
        model = part_model(
            "rewrite",
            (_named(node, names) for node in reads),
            {MICROSOFT: 1, **graph.opsets},
            map(_declared, inputs),
            map(_declared, self.outputs),
            functions=_called_functions(reads),
            ir_version=max(graph.model.ir_version, IR_VERSION),
        )
        model.producer_name = "fusionc"  # bisect recognizes its own files by it
        values = (value for values in reads.values() for value in values)
        _add_constants(model, (value for value in values if value.producer not in reads))
        return model


def _add_opsets(model: onnx.ModelProto) -> None:
    """Import the domains that only new nodes use."""
    declared = {"ai.onnx", *(entry.domain for entry in model.opset_import)}
    for domain in sorted({node.domain for node in model.graph.node} - declared):
        model.opset_import.add(domain=domain, version=1)


def _function_key(function: onnx.FunctionProto) -> tuple[str, str, str]:
    return function.domain, function.name, function.overload


def _named(node: Node, names: Mapping[Edge, str]) -> onnx.NodeProto:
    """The node with the current names of its values, or the new ones in `names`."""
    copy = onnx.NodeProto()
    copy.CopyFrom(node.proto)
    copy.input[:] = ["" if v is None else names.get(v, v.name) for v in node.inputs]
    copy.output[:] = ["" if v is None else names.get(v, v.name) for v in node.outputs]
    return copy


def _values_read_by(node: Node) -> list[Edge]:
    """The values that a node and its subgraphs read."""
    return _present((*node.inputs, *node.captures()))


def _present(values: Iterable[Edge | None]) -> list[Edge]:
    """The values without the omitted ones."""
    return [value for value in values if value is not None]


def _copy_to_name(name: str, value: Edge) -> onnx.NodeProto:
    """A node that copies the value `name` to another name. For types of 2 and 4 bits, onnxruntime
    lacks Identity, so this is a Cast.
    """
    kind = value.known_type.elem_type
    if kind in _SUB_BYTE:
        return onnx.helper.make_node("Cast", [name], [value.name], to=kind)
    return onnx.helper.make_node("Identity", [name], [value.name])


def _declared(value: Edge) -> onnx.ValueInfoProto:
    """The value with its known type. A new inference would change the types that passes see."""
    return onnx.ValueInfoProto(name=value.name, type=value.known_type.proto)


def _called_functions(nodes: Iterable[Node]) -> list[onnx.FunctionProto]:
    """The functions that the nodes and their subgraphs call."""
    with_inner = [
        m
        for node in nodes
        for m in (node, *(m for b in node.subgraphs(recursive=True) for m in b.nodes))
    ]
    called = dict.fromkeys(graph for node in with_inner for graph in graphs_called(node))
    return [graph.proto for graph in called if isinstance(graph.proto, onnx.FunctionProto)]


def _add_constants(model: onnx.ModelProto, values: Iterable[Edge]) -> None:
    """Add the constants among the values, except those that the model already has."""
    known = {tensor.name for tensor in model.graph.initializer}
    for value in values:
        array = value.constant() if value.is_constant and value.name not in known else None
        if array is None:
            continue
        known.add(value.name)
        data = value.data if isinstance(value, Constant) else None
        if isinstance(data, onnx.TensorProto) and data.data_location != onnx.TensorProto.EXTERNAL:
            model.graph.initializer.add().CopyFrom(data)
        else:
            model.graph.initializer.append(to_proto(array, value.name))
