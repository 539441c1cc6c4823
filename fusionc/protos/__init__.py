"""Access to the contents of a ModelProto, including subgraphs, functions and training graphs. Also
copies of models without large weights or with few nodes, and onnx's shape inference without a copy
of the weights.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from math import prod

from onnx import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    TypeProto,
    ValueInfoProto,
    checker,
    helper,
    shape_inference,
)
from onnx.defs import OpSchema

_LONG_VECTOR = 1 << 20  # elements
IR_VERSION = 10  # the IR version of small models that are cut out of others
# a key of external data: the elements are inside the model's own file
MAPPED = "fusionc.mapped"
NAMELESS = ("", "?", "None", "-1")  # placeholders that exporters write for any unknown dimension
SMALL = 1024  # elements; tensors with more are never shapes, axes or sizes


def nodes_of(model: ModelProto) -> Iterator[NodeProto]:
    """Every node of the graph and the functions, including those in subgraphs."""
    pending: list[Iterable[NodeProto]] = [function.node for function in reversed(model.functions)]
    return _all_in([*pending, *(graph.node for graph in reversed(_graphs(model)))])


def training_nodes(model: ModelProto) -> Iterator[NodeProto]:
    """The nodes of the graphs that initialize and train the model."""
    return _all_in([graph.node for graph in reversed(_graphs(model)[1:])])


def _all_in(pending: list[Iterable[NodeProto]]) -> Iterator[NodeProto]:
    while pending:
        for node in pending.pop():
            yield node
            if node.attribute:
                pending += [graph.node for graph in bodies_of(node)]


def tensors_of(model: ModelProto) -> Iterator[TensorProto]:
    """Every tensor of initializers and attributes, including values and indices of sparse
    tensors.
    """
    for graph in _graphs(model):
        yield from _initializers(graph)
    for node in nodes_of(model):
        for graph in bodies_of(node):
            yield from _initializers(graph)
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
            sparse = [attribute.sparse_tensor] if attribute.HasField("sparse_tensor") else []
            for tensor in [*sparse, *attribute.sparse_tensors]:
                yield from (tensor.values, tensor.indices)


def _graphs(model: ModelProto) -> list[GraphProto]:
    training = [
        graph for info in model.training_info for graph in (info.initialization, info.algorithm)
    ]
    return [model.graph, *training]


def graphs_of(attribute: AttributeProto) -> list[GraphProto]:
    """The graphs in an attribute."""
    return [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]


def bodies_of(node: NodeProto) -> list[GraphProto]:
    """The graphs in the attributes of a node."""
    return [graph for attribute in node.attribute for graph in graphs_of(attribute)]


def graphs_in(graph: GraphProto) -> Iterator[GraphProto]:
    """A graph and all graphs nested in it, in the order in which `model.build` numbers them."""
    yield graph
    for node in graph.node:
        for body in bodies_of(node):
            yield from graphs_in(body)


def _initializers(graph: GraphProto) -> Iterator[TensorProto]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)


def shapeless(type_: TypeProto) -> TypeProto:
    """The type without the shape of its tensor. The tensor may be inside a sequence or an
    optional.
    """
    result = TypeProto()
    result.CopyFrom(type_)
    inner = result
    kind = result.WhichOneof("value")
    while kind in ("sequence_type", "optional_type"):
        inner = getattr(inner, kind).elem_type
        kind = inner.WhichOneof("value")
    if kind in ("tensor_type", "sparse_tensor_type"):
        getattr(inner, kind).ClearField("shape")
    return result


def initialized(graph: GraphProto) -> set[str]:
    """The names that have an initializer, dense or sparse."""
    return {tensor.name for tensor in graph.initializer} | {
        sparse.values.name for sparse in graph.sparse_initializer
    }


def inputs_to_feed(graph: GraphProto) -> list[ValueInfoProto]:
    """The inputs that a caller must feed: those without an initializer."""
    stored = initialized(graph)
    return [value for value in graph.input if value.name not in stored]


def fresh_name(base: str, taken: dict[str, int]) -> str:
    """A name that is not in `taken`: `base` itself, or `base` with a number. The name is added to
    `taken`.

    `taken` maps each name to the lowest number that may still be free as its suffix. Thousands of
    names with the same base therefore need no search.
    """
    name = base
    number = taken.get(base, 1)
    while name in taken:
        name = f"{base}_{number}"
        number = number + 1
    taken[base] = number
    taken[name] = taken.get(name, 1)
    return name


def own_names(graph: GraphProto) -> set[str]:
    """The names of the values that a graph defines. Other names that it reads belong to outer
    graphs.
    """
    return {value.name for value in (*graph.input, *graph.initializer)} | {
        o for n in graph.node for o in n.output
    }


def reads_of(node: NodeProto) -> set[str]:
    """The names that a node and its subgraphs read, without those that the subgraphs define."""
    names = set(node.input)
    for body in bodies_of(node):
        read = {name for inner in body.node for name in reads_of(inner)} | {
            value.name for value in body.output
        }
        names |= read - own_names(body)
    return names - {""}


def needed_nodes(nodes: Collection[NodeProto], names: Iterable[str]) -> set[int]:
    """The ids of the nodes that these values need, directly or indirectly."""
    producers = {name: node for node in nodes for name in node.output if name}
    needed: set[int] = set()
    waiting = [producers[name] for name in names if name in producers]
    while waiting:
        node = waiting.pop()
        if id(node) not in needed:
            needed.add(id(node))
            waiting += [producers[name] for name in reads_of(node) if name in producers]
    return needed


def is_mapped(tensor: TensorProto) -> bool:
    """Whether the elements were left in the model's own file when the model was loaded: see
    `disk.mapped_weights`. The proto marks such elements as external data, although they are not in
    another file.
    """
    return tensor.data_location == TensorProto.EXTERNAL and any(
        e.key == MAPPED for e in tensor.external_data
    )


def is_external(tensor: TensorProto) -> bool:
    """Whether the elements are in another file than the model."""
    return tensor.data_location == TensorProto.EXTERNAL and not is_mapped(tensor)


def is_small(tensor: TensorProto) -> bool:
    """Whether a tensor is in the model and small enough to be a shape, axes or sizes."""
    return prod(tensor.dims) <= SMALL and tensor.data_location != TensorProto.EXTERNAL


def copied(model: ModelProto) -> ModelProto:
    copy = ModelProto()
    copy.CopyFrom(model)
    return copy


def light_copy(model: ModelProto, *, keeps_external: bool = False) -> ModelProto:
    """A copy of the model in which large weights are inputs. Shape inference gives the same result
    for the copy. Small weights in external files become inputs as well, unless `keeps_external` is
    true, which means that these files can be read.
    """
    graph = GraphProto(name=model.graph.name or "graph")
    for name in ("node", "input", "output", "value_info", "sparse_initializer"):
        getattr(graph, name).extend(getattr(model.graph, name))
    declared = {value.name for value in graph.input}
    for tensor in model.graph.initializer:
        if is_small(tensor) or (keeps_external and prod(tensor.dims) <= SMALL):
            graph.initializer.append(tensor)
        elif tensor.name not in declared:
            graph.input.append(
                helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            )
    light = ModelProto(ir_version=model.ir_version, graph=graph)
    light.opset_import.extend(model.opset_import)
    light.functions.extend(model.functions)
    return light


def part_model(
    name: str,
    nodes: Iterable[NodeProto],
    opsets: Mapping[str, int],
    inputs: Iterable[ValueInfoProto],
    outputs: Iterable[ValueInfoProto],
    constants: Iterable[TensorProto] = (),
    *,
    functions: Iterable[FunctionProto] = (),
    ir_version: int = IR_VERSION,
) -> ModelProto:
    """A model that has copies of these nodes. `opsets` are the opset versions by domain."""
    model = ModelProto(ir_version=ir_version)
    for domain, version in opsets.items():
        model.opset_import.add(domain=domain, version=version)
    model.functions.extend(functions)
    graph = model.graph
    graph.name = name
    graph.node.extend(nodes)
    graph.input.extend(inputs)
    graph.output.extend(outputs)
    graph.initializer.extend(constants)
    return model


def output_types(
    node: NodeProto,
    schema: OpSchema | None,
    types: Mapping[str, TypeProto],
    known: Mapping[str, TensorProto],
    opsets: Mapping[str, int],
    functions: Sequence[FunctionProto],
    *,
    is_new: bool,
) -> Mapping[str, TypeProto]:
    """The types that onnx infers for the outputs of a node, by name. `types` are the input types,
    and `known` the elements of inputs that are known. A node without a schema calls one of
    `functions`.

    If the operator cannot take these inputs, onnx raises exceptions. They are passed on if `is_new`
    is true. Otherwise they are suppressed, because a runtime may support input types that onnx does
    not.
    """
    imports = [helper.make_opsetid(*entry) for entry in opsets.items()]
    if schema is not None:
        with suppress(
            *(() if is_new else (checker.ValidationError, shape_inference.InferenceError))
        ):
            inferred: Mapping[str, TypeProto] = shape_inference.infer_node_outputs(
                schema, node, dict(types), dict(known), None, imports, IR_VERSION
            )
            return inferred
    # The inference of a whole model does not check the input types against the schema.
    inputs = (ValueInfoProto(name=name, type=type_) for name, type_ in types.items())
    outputs = (ValueInfoProto(name=name) for name in node.output if name)
    constants = known.values()
    model = part_model("call", [node], opsets, inputs, outputs, constants, functions=functions)
    return {info.name: info.type for info in infer_types(model).graph.output}


def infer_types(model: ModelProto) -> ModelProto:
    """The model with inferred types and shapes, including shapes that the model computes. If onnx
    fails, its exceptions are raised.

    To follow computed shapes, onnx makes a list of the elements of every vector, known or unknown.
    A vector of millions of elements takes seconds and gigabytes, and a longer one crashes the
    process. A model with such vectors is therefore inferred without computed shapes.
    """
    shapes = shape_inference.infer_shapes(model)
    if any(length > _LONG_VECTOR for length in _lengths(shapes.graph)):
        return shapes
    return shape_inference.infer_shapes(model, data_prop=True)


def _lengths(graph: GraphProto) -> Iterator[int]:
    """The lengths of all tensors of rank 1."""
    shapes = (
        value.type.tensor_type.shape.dim
        for value in (*graph.input, *graph.value_info, *graph.output)
    )
    yield from (dims[0].dim_value for dims in shapes if len(dims) == 1)
    yield from (tensor.dims[0] for tensor in graph.initializer if len(tensor.dims) == 1)
    for node in graph.node:
        for body in bodies_of(node):
            yield from _lengths(body)
