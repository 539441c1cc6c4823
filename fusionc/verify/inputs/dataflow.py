"""The values of a model and their uses, through subgraphs and local functions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

import onnx

from fusionc.protos import infer_types, is_small, light_copy
from fusionc.verify.interface import Dim, tensor_dims


class ScopedName(NamedTuple):
    """A value: a name and the number of the graph or function that defines it."""

    scope: int
    name: str


class Use(NamedTuple):
    """An operand of a node, counted from 0, and the scope that holds the node."""

    node: onnx.NodeProto
    operand: int
    scope: int


class _Scope:
    def __init__(self, parent: int | None) -> None:
        self.parent = parent
        self.defined: set[str] = set()
        self.dims: dict[str, tuple[Dim, ...]] = {}
        self.constants: dict[str, onnx.TensorProto] = {}

    def add_constant(self, name: str, tensor: onnx.TensorProto) -> None:
        self.defined.add(name)
        self.constants[name] = tensor
        self.dims[name] = tuple(tensor.dims)


class Dataflow:
    """The uses of values. Building it takes time linear in the number of nodes."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self._model = model
        self._scopes: list[_Scope] = []
        self._uses: dict[ScopedName, list[Use]] = defaultdict(list)
        # for each result of a body or a function, the outputs that receive it
        self._leaves: dict[ScopedName, list[ScopedName]] = defaultdict(list)
        self._came_from: dict[ScopedName, ScopedName] = {}
        self._bodies: dict[tuple[int, str], list[tuple[int, onnx.GraphProto]]] = defaultdict(list)
        self._functions: dict[tuple[str, str, str], tuple[int, onnx.FunctionProto]] = {}
        self._inferred: dict[str, tuple[Dim, ...]] | None = None
        for function in model.functions:
            scope = self._open(None, function.input, function.node)
            self._functions[function.domain, function.name, function.overload] = (scope, function)
        self._main = self._add_graph(model.graph, None)
        for scope, function in self._functions.values():
            self._add_nodes(function.node, scope)

    def input(self, name: str) -> ScopedName:
        """The value of a graph input."""
        return ScopedName(self._main, name)

    def uses(self, value: ScopedName) -> list[Use]:
        """The uses of a value as an operand, in the graph that defines it and in inner graphs."""
        return self._uses.get(value, [])

    def reached(self, use: Use, *, comes_out: bool) -> list[ScopedName]:
        """The values that receive the used value: inputs of a body or function, outputs to which
        this body passes the value, and, if `comes_out`, all outputs of the node.
        """
        values = self._entered(use)
        if comes_out:
            values = [*values, *(ScopedName(use.scope, name) for name in use.node.output if name)]
        return [onward for value in values for onward in (value, *self._leaves.get(value, ()))]

    def added_constant(self, use: Use) -> int:
        """The largest number that the other operand of an Add or Sub adds. 0 if that operand is not
        a small constant.
        """
        if len(use.node.input) != 2:
            return 0
        tensor = self.constant(use.scope, use.node.input[1 - use.operand])
        if tensor is None:
            return 0
        values = onnx.numpy_helper.to_array(tensor)
        if values.dtype.kind not in "iu" or values.size == 0:
            return 0
        return int(values.max()) if use.node.op_type == "Add" else -int(values.min())

    def constant(self, scope: int, name: str) -> onnx.TensorProto | None:
        """The constant of this name, if it is small and stored in the model."""
        value = self._resolve(scope, name)
        tensor = self._scopes[value.scope].constants.get(value.name) if value else None
        return tensor if tensor is not None and is_small(tensor) else None

    def dims(self, scope: int, name: str) -> tuple[Dim, ...] | None:
        """The dimensions of a value as far as they are known. Symbols of graph inputs have the
        names of `Port`.
        """
        value = self._resolve(scope, name)
        while value is not None:
            known = self._scopes[value.scope].dims.get(value.name)
            if known is None and value.scope == self._main:
                if self._inferred is None:
                    self._inferred = _inferred_dims(self._model)
                known = self._inferred.get(value.name)
            if known is not None:
                return known
            value = self._came_from.get(value)
        return None

    def _entered(self, use: Use) -> list[ScopedName]:
        """The inputs of a body or function that receive the operand."""
        node, operand, outer_scope = use
        if called := self._function(node):
            scope, function = called
            return (
                [ScopedName(scope, function.input[operand])]
                if operand < len(function.input)
                else []
            )
        if node.op_type == "Scan" or (node.op_type == "Loop" and operand >= 2):
            bodies = self._bodies.get(_identity(node, outer_scope), [])
            return [
                ScopedName(scope, body.input[operand].name)
                for scope, body in bodies
                if operand < len(body.input)
            ]
        return []

    def _function(self, node: onnx.NodeProto) -> tuple[int, onnx.FunctionProto] | None:
        return self._functions.get((node.domain, node.op_type, node.overload))

    def _resolve(self, scope: int | None, name: str) -> ScopedName | None:
        while name and scope is not None:
            if name in self._scopes[scope].defined:
                return ScopedName(scope, name)
            scope = self._scopes[scope].parent
        return None

    def _open(
        self, parent: int | None, inputs: Iterable[str], nodes: Iterable[onnx.NodeProto]
    ) -> int:
        scope = _Scope(parent)
        self._scopes.append(scope)
        scope.defined.update(inputs)
        for node in nodes:
            scope.defined.update(node.output)
        return len(self._scopes) - 1

    def _add_graph(self, graph: onnx.GraphProto, parent: int | None) -> int:
        number = self._open(parent, (value.name for value in graph.input), graph.node)
        scope = self._scopes[number]
        for value in (*graph.input, *graph.value_info, *graph.output):
            if (dims := tensor_dims(value)) is not None:
                scope.dims.setdefault(value.name, dims)
        for tensor in graph.initializer:
            scope.add_constant(tensor.name, tensor)
        for sparse in graph.sparse_initializer:
            scope.defined.add(sparse.values.name)
            scope.dims[sparse.values.name] = tuple(sparse.dims)
        self._add_nodes(graph.node, number)
        return number

    def _add_nodes(self, nodes: Iterable[onnx.NodeProto], scope: int) -> None:
        for node in nodes:
            for attribute in node.attribute:
                if attribute.type == onnx.AttributeProto.GRAPH:
                    self._add_body(node, attribute.g, scope)
                elif attribute.name == "value" and node.op_type == "Constant":
                    self._scopes[scope].add_constant(node.output[0], attribute.t)
            for operand, name in enumerate(node.input):
                if value := self._resolve(scope, name):
                    use = Use(node, operand, scope)
                    self._uses[value].append(use)
                    for inner in self._entered(use):
                        self._came_from.setdefault(inner, value)
            if called := self._function(node):
                inner_scope, function = called
                for inner_name, outer_name in zip(function.output, node.output, strict=False):
                    self._leaves[ScopedName(inner_scope, inner_name)].append(
                        ScopedName(scope, outer_name)
                    )

    def _add_body(self, node: onnx.NodeProto, body: onnx.GraphProto, scope: int) -> None:
        inner_scope = self._add_graph(body, scope)
        self._bodies[_identity(node, scope)].append((inner_scope, body))
        results = body.output[1:] if node.op_type == "Loop" else body.output
        for value, outer_name in zip(results, node.output, strict=False):
            if inner := self._resolve(inner_scope, value.name):
                self._leaves[inner].append(ScopedName(scope, outer_name))


def _identity(node: onnx.NodeProto, scope: int) -> tuple[int, str]:
    # `id` is not enough, because Python objects of protobuf messages are temporary
    return scope, next(filter(None, node.output), node.name)


def _inferred_dims(model: onnx.ModelProto) -> dict[str, tuple[Dim, ...]]:
    """The dimensions that shape inference finds for the values of the main graph. Open dimensions
    get names.
    """
    light = light_copy(model)
    for value in light.graph.input:
        for dim, symbol in zip(
            value.type.tensor_type.shape.dim, tensor_dims(value) or (), strict=False
        ):
            if isinstance(symbol, str):
                dim.dim_param = symbol
    try:
        known = infer_types(light)
    except Exception:  # the model has no inferred shapes, and may run anyway
        return {}
    found = {value.name: tensor_dims(value) for value in known.graph.value_info}
    return {name: dims for name, dims in found.items() if dims is not None}
