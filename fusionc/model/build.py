"""Build the graph in memory from protos, with one Graph for each scope. Names are resolved to edges
by ONNX's scope rules.
"""

from __future__ import annotations

import heapq
from graphlib import CycleError, TopologicalSorter

import onnx

from fusionc.errors import FusioncError
from fusionc.model.graph import Constant, Edge, Graph, Model, Node, Value
from fusionc.model.graphsurgeon import ReadOnlyTuple
from fusionc.model.tensors import ValueType
from fusionc.protos import bodies_of, shapeless, training_nodes


def build(proto: onnx.ModelProto, folder: str, target: str = "onnxruntime-cpu") -> Model:
    """The model in memory, for the target runtime. It has no inferred types:
    `shapes.inference.typed_model` adds these. The proto stays unchanged until `write_back` writes
    the changes. Raises FusioncError for a model that is not in SSA form or has a cycle.
    """
    model = Model(proto, folder, target)
    build_graph(model, proto.graph, None)
    for function in proto.functions:
        graph = build_graph(model, function, None)
        model.functions[graph.function_key] = graph
    return model


def build_graph(
    model: Model, proto: onnx.GraphProto | onnx.FunctionProto, parent: Graph | None
) -> Graph:
    """Build a Graph of the model from a GraphProto or from the body of a function."""
    graph = Graph(model, proto, parent)
    if isinstance(proto, onnx.GraphProto):
        _declare_inputs_and_constants(graph, proto)
    else:
        for name in proto.input:
            _declare(graph, Value(name, graph))
        graph.inputs = ReadOnlyTuple(graph.values.values())
    nodes = [_declare_node(graph, node) for node in proto.node]
    # A new value may not take a name in value_info: it would get the type that is declared there.
    model.names |= {info.name: 1 for info in proto.value_info}
    _pin(graph)
    for node in nodes:
        # A subgraph may use any value of this scope, so all of them are declared first.
        _connect(node, graph)
    for position, node in enumerate(topological_order(graph, nodes)):
        add_node(graph, node, position)
    names = [output if isinstance(output, str) else output.name for output in proto.output]
    graph.outputs = ReadOnlyTuple(_resolve(graph, name, "an output") for name in names)
    for value in graph.outputs:
        value.output_of.append(graph)
    return graph


def _connect(node: Node, graph: Graph) -> None:
    """Resolve the inputs of a node, and build its subgraphs."""
    named = node.proto.input
    node.inputs = ReadOnlyTuple(
        _resolve(graph, name, node.label()) if name else None for name in named
    )
    node.bodies = tuple(build_graph(graph.model, body, graph) for body in bodies_of(node.proto))
    for body in node.bodies:
        body.owner = node


def add_value(graph: Graph, value: Edge) -> None:
    """Add a value to the graph under its name."""
    value.graph = graph
    graph.values[value.name] = value


def add_node(graph: Graph, node: Node, position: float) -> None:
    """Add a node to the graph, with its outputs and its uses of its inputs."""
    node.graph = graph
    node.position = position
    node.is_in_graph = True
    graph.nodes[node] = None
    if node.inputs or node.outputs:  # a node with neither does nothing, whatever its operator
        graph.by_operator.setdefault(node.operator, {})[node] = None
    for value in filter(None, node.inputs):
        value._uses[node] = None
    for output in filter(None, node.outputs):
        add_value(graph, output)


def _invalid(what: str, graph: Graph, place: str = "") -> FusioncError:
    hint = "the model is not valid ONNX; export it again"
    return FusioncError(what, where=f"graph {graph.proto.name!r}{place}", hint=hint, code="E13005")


def _declare(graph: Graph, value: Edge) -> None:
    if value.name in graph.values:
        raise _invalid(f"the name {value.name!r} is given to two values of one graph", graph)
    graph.model.names[value.name] = 1
    add_value(graph, value)


def _declare_inputs_and_constants(graph: Graph, proto: onnx.GraphProto) -> None:
    # Before IR version 4 every initializer had to be listed as an input. Since then an initializer
    # that is listed as an input is a default that the caller can override: it is not a constant.
    # If two initializers have the same name, onnxruntime takes the last one.
    initializers = {t.name: t for t in proto.initializer}
    listed_only_by_format = initializers if graph.model.ir_version < 4 else {}
    for declared in proto.input:
        if declared.name not in listed_only_by_format:
            value = Value(declared.name, graph)
            # A loop-carried value may change its shape, even if the subgraph declares a shape.
            value.known_type = ValueType.of(
                declared.type if graph.parent is None else shapeless(declared.type)
            )
            _declare(graph, value)
    graph.inputs = ReadOnlyTuple(graph.values.values())
    changing = _trained(graph.model.proto)
    for name in (*initializers, *(sparse.values.name for sparse in proto.sparse_initializer)):
        if name not in graph.values:
            is_constant = name in initializers and name not in changing
            _declare(
                graph,
                Constant(name, graph, initializers[name]) if is_constant else Value(name, graph),
            )


def _trained(proto: onnx.ModelProto) -> set[str]:
    """The initializers that training changes."""
    return {
        binding.key
        for info in proto.training_info
        for binding in (*info.initialization_binding, *info.update_binding)
    }


def _pin(graph: Graph) -> None:
    """Mark the values that quantization annotations or training information name."""
    annotations = getattr(graph.proto, "quantization_annotation", ())
    named = {
        entry.value
        for annotation in annotations
        for entry in annotation.quant_parameter_tensor_names
    }
    if graph.id == 0:
        named |= {name for node in training_nodes(graph.model.proto) for name in node.input}
    for name in named & graph.values.keys():
        graph.values[name].is_pinned = True


def _declare_node(graph: Graph, proto: onnx.NodeProto) -> Node:
    graph.model.names[proto.name] = 1
    outputs = [Value(name, graph) if name else None for name in proto.output]
    for value in filter(None, outputs):
        _declare(graph, value)
    return Node(proto, graph, outputs=outputs)


def _resolve(graph: Graph, name: str, user: str) -> Edge:
    value = graph.find(name)
    if value is None:
        raise _invalid(f"no node computes the value {name!r}", graph, f", {user}")
    return value


def dependencies(node: Node) -> list[Node]:
    """The nodes of the same graph whose outputs `node` or its subgraphs read."""
    read = (*node.inputs, *node.captures())
    producers = (v.producer for v in read if v is not None and v.graph is node.graph)
    return list(dict.fromkeys(producer for producer in producers if producer is not None))


def topological_order(graph: Graph, nodes: list[Node]) -> list[Node]:
    """Sort nodes: producers before consumers, otherwise in the given order. The time is n·log n for
    n nodes. Raises FusioncError if the nodes form a cycle.
    """
    index = {node: i for i, node in enumerate(nodes)}
    needed = {node: dependencies(node) for node in nodes}
    if all(index[one] < i for i, producers in enumerate(needed.values()) for one in producers):
        return nodes
    sorter = TopologicalSorter(needed)
    try:
        sorter.prepare()
    except CycleError as error:
        stuck: Node = error.args[1][0]
        raise _invalid(
            "the nodes of a graph form a cycle", graph, f", at node {stuck.label()!r}"
        ) from None
    ready = list[int]()
    order = list[Node]()
    while sorter:
        for node in sorter.get_ready():
            heapq.heappush(ready, index[node])
        order.append(nodes[heapq.heappop(ready)])
        sorter.done(order[-1])
    return order
