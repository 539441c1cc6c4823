"""Model-local functions, and how to inline their calls. onnx's own inliner is not used, because it
ignores the default values of a function's attributes, and skips functions that import other opset
versions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, helper

from fusionc.model.operators import canonical_domain, means_the_same, opsets_of, schema
from fusionc.protos import bodies_of, fresh_name, graphs_of, initialized, nodes_of

Key = tuple[str, str, str]  # domain, name and overload


def functions_of(model: ModelProto) -> dict[Key, FunctionProto]:
    """The functions that a node of the model can call. A function with the name of an ONNX
    operator cannot be called, because a node with this name means the operator.
    """
    opsets = opsets_of(model)
    functions = {_key(function): function for function in model.functions}
    return {
        key: function
        for key, function in functions.items()
        if schema(key[1], key[0], opsets.get(key[0], 1)) is None
    }


def called(node: NodeProto, functions: Mapping[Key, FunctionProto]) -> FunctionProto | None:
    """The function that a node calls, if any."""
    return (
        functions.get((canonical_domain(node.domain), node.op_type, node.overload))
        if functions
        else None
    )


def _key(function: FunctionProto) -> Key:
    return canonical_domain(function.domain), function.name, function.overload


def parameters(function: FunctionProto, call: NodeProto) -> dict[str, AttributeProto]:
    """The values of a function's attributes in a call, by attribute name. An attribute that the
    call leaves out has the function's default.
    """
    return {attribute.name: attribute for attribute in (*function.attribute_proto, *call.attribute)}


def resolve(node: NodeProto, values: Mapping[str, AttributeProto]) -> None:
    """Replace the attribute references of a node in a function body by the values of a call, also
    in subgraphs. A reference without a value is removed: the operator's default then holds.
    """
    attributes = list(node.attribute)
    del node.attribute[:]
    for attribute in attributes:
        if not attribute.ref_attr_name:
            for inner in (inner for body in graphs_of(attribute) for inner in body.node):
                resolve(inner, values)
            node.attribute.append(attribute)
        elif attribute.ref_attr_name in values:
            node.attribute.add().CopyFrom(values[attribute.ref_attr_name])
            node.attribute[-1].name = attribute.name


def taken_names(model: ModelProto) -> dict[str, int]:
    """All names of values and nodes, in the form that `fresh_name` needs."""
    taken = {name: 1 for node in nodes_of(model) for name in (*node.input, *node.output, node.name)}
    taken.update({value.name: 1 for value in (*model.graph.input, *model.graph.output)})
    return taken | dict.fromkeys(initialized(model.graph), 1)


def nodes_of_call(
    call: NodeProto, function: FunctionProto, taken: dict[str, int]
) -> list[NodeProto]:
    """A copy of a function's body for one call. It has the inputs, outputs and attributes of the
    call, and new names for its intermediate values.
    """
    results = [*call.output, *[""] * (len(function.output) - len(call.output))]
    arguments = [*call.input, *[""] * (len(function.input) - len(call.input))]
    names = dict(zip(function.input, arguments, strict=False))
    computed = {name for node in function.node for name in node.output}
    repeated = []
    for inner, outer in zip(function.output, results, strict=False):
        if inner in computed and inner not in names and outer:
            names[inner] = outer
        elif outer:
            repeated.append((inner, outer))
    prefix = call.name or call.op_type
    nodes = _copies(function.node, names, prefix, taken)
    attributes = parameters(function, call)
    for node in nodes:
        resolve(node, attributes)
    return [
        *nodes,
        *(helper.make_node("Identity", [names[inner]], [outer]) for inner, outer in repeated),
    ]


def _copies(
    nodes: Iterable[NodeProto], names: dict[str, str], prefix: str, taken: dict[str, int]
) -> list[NodeProto]:
    """Copies of nodes with the values renamed by `names`. Outputs that `names` lacks get new names,
    which are added to `names`.
    """
    copies = []
    for node in nodes:
        copy = NodeProto()
        copy.CopyFrom(node)
        copy.input[:] = [names.get(name, name) for name in node.input]
        for body in bodies_of(copy):
            _rename(body, names, prefix, taken)
        for name in filter(None, node.output):
            if name not in names:
                names[name] = fresh_name(f"{prefix}_{name}", taken)
        copy.output[:] = [names.get(name, name) for name in node.output]
        copy.name = fresh_name(f"{prefix}_{node.name}", taken) if node.name else ""
        copies.append(copy)
    return copies


def _rename(
    graph: GraphProto, outer: Mapping[str, str], prefix: str, taken: dict[str, int]
) -> None:
    names = dict(outer)
    own = [
        *graph.input,
        *graph.initializer,
        *(sparse.values for sparse in graph.sparse_initializer),
    ]
    for name in dict.fromkeys(value.name for value in own):
        names[name] = fresh_name(f"{prefix}_{name}", taken)
    for name in dict.fromkeys(name for node in graph.node for name in node.output if name):
        names[name] = fresh_name(f"{prefix}_{name}", taken)
    nodes = _copies(graph.node, names, prefix, taken)
    del graph.node[:]
    graph.node.extend(nodes)
    for value in (*own, *graph.output, *graph.value_info):
        value.name = names.get(value.name, value.name)


def inline(
    graph: GraphProto, functions: Mapping[Key, FunctionProto], taken: dict[str, int]
) -> None:
    """Replace the calls of these functions by the nodes of their bodies, also in subgraphs."""
    nodes = _inlined_nodes(graph.node, functions, taken)
    del graph.node[:]
    graph.node.extend(nodes)


def _inlined_nodes(
    nodes: Sequence[NodeProto], functions: Mapping[Key, FunctionProto], taken: dict[str, int]
) -> list[NodeProto]:
    pending = list(reversed(nodes))
    done = []
    while pending:
        node = pending.pop()
        function = called(node, functions)
        if function is not None:
            pending += reversed(nodes_of_call(node, function, taken))
            continue
        for body in bodies_of(node):
            inline(body, functions, taken)
        done.append(node)
    return done


def fits(function: FunctionProto, opsets: Mapping[str, int]) -> bool:
    """Whether the operators of a function have the same meaning at these opsets as at the opsets
    that the function imports.
    """
    own = opsets_of(function)
    return all(_is_same(node, own, opsets) for node in _all_nodes(function.node))


def _is_same(node: NodeProto, one: Mapping[str, int], other: Mapping[str, int]) -> bool:
    domain = canonical_domain(node.domain)
    return means_the_same(node.op_type, domain, one.get(domain), other.get(domain))


def _all_nodes(nodes: Iterable[NodeProto]) -> Iterator[NodeProto]:
    for node in nodes:
        yield node
        for body in bodies_of(node):
            yield from _all_nodes(body.node)


def inlined(model: ModelProto, stay: Collection[tuple[str, str]] = ()) -> ModelProto:
    """Inline functions in the model, in place. A function stays if its domain and name are in
    `stay`, or if one of its operators has another meaning at the opsets of the model.
    """
    if model.functions:
        functions = functions_of(model)
        opsets = opsets_of(model)
        chosen = {key: f for key, f in functions.items() if key[:2] not in stay and fits(f, opsets)}
        inline(model.graph, chosen, taken_names(model))
        drop_functions(model, _called_functions(model.graph.node, functions))
    return model


def _called_functions(
    nodes: Iterable[NodeProto], functions: Mapping[Key, FunctionProto]
) -> set[Key]:
    """The functions that these nodes call, directly or through other functions."""
    reached = set[Key]()
    pending = [nodes]
    while pending:
        for node in _all_nodes(pending.pop()):
            function = called(node, functions)
            if function is not None and _key(function) not in reached:
                reached.add(_key(function))
                pending.append(function.node)
    return reached


def drop_functions(model: ModelProto, kept: Collection[Key] = ()) -> None:
    """Remove all functions except `kept`; no node may call the removed functions any more. The
    model gets the imports of the removed functions, except those that no node uses.
    """
    opsets = opsets_of(model)
    functions = {_key(function): function for function in model.functions}
    dropped = {key: function for key, function in functions.items() if key not in kept}
    for function in dropped.values():
        for domain, version in opsets_of(function).items():
            if domain not in opsets:
                opsets[domain] = version
                model.opset_import.append(helper.make_opsetid(domain, version))
    del model.functions[:]
    model.functions.extend(function for key, function in functions.items() if key in kept)
    _drop_imports(model, {key[0] for key in dropped} - {""})


def _drop_imports(model: ModelProto, domains: Collection[str]) -> None:
    """Remove the imports of these domains unless a node uses them."""
    used = {canonical_domain(node.domain) for node in nodes_of(model)}
    idle = set(domains) - used
    imports = [entry for entry in model.opset_import if canonical_domain(entry.domain) not in idle]
    del model.opset_import[:]
    model.opset_import.extend(imports)
