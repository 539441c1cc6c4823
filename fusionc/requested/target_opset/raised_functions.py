"""Functions with another opset than the model: the body of each call is raised separately and then
inlined.
"""

from __future__ import annotations

from collections.abc import Mapping

from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, TypeProto, ValueInfoProto
from onnx.helper import make_opsetid

from fusionc.errors import UsageError
from fusionc.model.functions import Key, called, drop_functions, fits, functions_of, nodes_of_call
from fusionc.model.operators import canonical_domain, opsets_of
from fusionc.protos import IR_VERSION, bodies_of, light_copy, reads_of
from fusionc.requested.target_opset.converter import Converter
from fusionc.requested.target_opset.limits import OPTION, raising_error
from fusionc.requested.target_opset.unknown import hide_unknown, require_same_operators
from fusionc.requested.target_opset.value_types import types_of


def inline_raised(model: ModelProto, version: int, names: dict[str, int]) -> None:
    """Inline the remaining calls of functions in a model that has been raised to this version.
    `names` are the names in use. Raises UsageError for a function with a newer opset.
    """
    types = types_of(hide_unknown(light_copy(model), version))
    _Inliner(functions_of(model), opsets_of(model), version, names).graph(model.graph, types)
    drop_functions(model)


class _Inliner:
    """Inlines the calls in a graph, and the calls in the inlined nodes."""

    def __init__(
        self,
        functions: Mapping[Key, FunctionProto],
        opsets: Mapping[str, int],
        version: int,
        names: dict[str, int],
    ) -> None:
        self.functions = functions
        self.opsets = opsets
        self.version = version
        self.names = names

    def graph(self, graph: GraphProto, outer: Mapping[str, TypeProto]) -> None:
        types = {**outer, **{value.name: value.type for value in (*graph.value_info, *graph.input)}}
        pending = list(reversed(graph.node))
        done = list[NodeProto]()
        while pending:
            node = pending.pop()
            function = called(node, self.functions)
            if function is None:
                for body in bodies_of(node):
                    self.graph(body, types)
                done.append(node)
                continue
            inlined = self.raised(node, function, types)
            pending += reversed(inlined.node)
            graph.initializer.extend(inlined.initializer)
            types.update(self.types_in(inlined, types))
        del graph.node[:]
        graph.node.extend(done)

    def types_in(self, body: GraphProto, types: Mapping[str, TypeProto]) -> dict[str, TypeProto]:
        """The types of the values in the inlined body of a call."""
        alone = ModelProto(ir_version=IR_VERSION, graph=body)
        read = {name for node in body.node for name in reads_of(node)} & types.keys()
        alone.graph.input.extend(
            ValueInfoProto(name=name, type=types[name]) for name in sorted(read)
        )
        alone.opset_import.append(make_opsetid("", self.version))
        return types_of(hide_unknown(alone, self.version))

    def raised(
        self, call: NodeProto, function: FunctionProto, types: Mapping[str, TypeProto]
    ) -> GraphProto:
        """The inlined body of one call, raised to the model's version."""
        own = opsets_of(function)
        old = own.get("", self.version)
        others = {domain: version for domain, version in self.opsets.items() if domain}
        if not fits(function, {**others, "": old}):
            raise raising_error(
                old, self.version, f"the function {function.name} has operators of other versions"
            )
        body = GraphProto(name=function.name, node=nodes_of_call(call, function, self.names))
        if old > self.version and not fits(function, self.opsets):
            raise UsageError(
                f"the function {function.name} of the model has opset {old}, and some of its "
                f"operators have another meaning at opset {self.version}",
                where=OPTION,
                hint=f"give at least {old}",
                code="E10001",
            )
        body.output.extend(ValueInfoProto(name=name) for name in call.output if name)
        if old < self.version:
            require_same_operators(body.node, old, self.version)
            imports = [entry for entry in function.opset_import if canonical_domain(entry.domain)]
            Converter(self.names, imports, old, self.version).graph(body, types)
        return body
