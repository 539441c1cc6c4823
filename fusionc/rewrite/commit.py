"""The one module that changes a graph: it checks a replacement and splices it in, or refuses it.

What it guarantees for every pass: nobody else used what is replaced; no cycle; element types and known shapes of
replaced values stay; graph outputs keep their names; subgraphs go on meaning the same values by their names; what
the replacement made useless is gone; new nodes have names and say where they come from.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import onnx

from fusionc.model import operators
from fusionc.model.build import build_graph, topological_order
from fusionc.model.graph import Constant, Edge, Graph, Node, Value, release, shape_of, users
from fusionc.model.operators import MICROSOFT
from fusionc.rewrite.match import Match, refuse
from fusionc.rewrite.provenance import origin_of, stamp
from fusionc.rewrite.tape import Tape

_FUNCTIONS_IR = 8  # the IR version since which models have functions


def check_private(match: Match) -> None:
    """Refuse a match whose interior values somebody else uses."""
    inside = set(match.nodes)
    outputs = set(match.outputs)
    for node in match.nodes:
        for value in node.outputs:
            if value is None or value in outputs:
                continue
            if value.is_output:
                refuse("an interior value is a graph output")
            if value.use_count > len(inside) or any(user not in inside for user in value.outputs):
                refuse("an interior value is used elsewhere")


def commit(match: Match, results: Sequence[Edge], tape: Tape, pass_name: str) -> list[Node]:
    """Replace `match.outputs` by `results`; returns the nodes near which something has changed.

    Raises Refused, with the graph as it was, where the replacement would not be sound.
    """
    graph = match.graph
    if len(results) != len(match.outputs):
        raise TypeError(f"the rewrite returned {len(results)} values for {len(match.outputs)} outputs")
    for new in results:
        if not isinstance(new, Edge):
            raise TypeError(f"the rewrite returned a {type(new).__name__} instead of a value of the graph")
    new_nodes = _reachable(results, tape)
    made = {value for node in new_nodes for value in node.outputs} | set(tape.constants)
    for value in (*results, *(value for node in new_nodes for value in tape.reads(node))):
        if value is None or value in made or graph.is_visible(value, graph):
            continue
        if value.graph.model is graph.model and value.graph.values.get(value.name) is value:
            refuse("a subgraph gives another value the same name")
        raise TypeError("the rewrite uses a value that is not in the graph, or not any more")
    pairs = list(zip(match.outputs, results, strict=True))
    for old, new in pairs:
        _check_type(old, new, match)
        _check_names(old, new, is_made=new in made)
    bodies = (body for old, _ in tape.moved.values() for body in old.subgraphs(recursive=True))
    if any(not graph.values.keys().isdisjoint(body.values) for body in bodies):
        refuse("a subgraph gives another value the same name")
    renamed = [new for old, new in pairs if old.is_output or new in made]
    if len(set(renamed)) < len(renamed):
        refuse("two outputs would become one value")
    read = [value for node in new_nodes for value in tape.reads(node) if value is not None and value not in made]
    positions = _positions(match, new_nodes, [*read, *(new for new in results if new not in made)])

    for function in tape.functions:
        _define(graph, function)
    origins = [origin_of(node) for node in match.nodes]
    around = [node for value in match.outputs for node in value.outputs]
    freed = [value for node in match.nodes for value in node.inputs if value is not None]
    _name(match, tape, new_nodes, made, {new: old.name for old, new in pairs if new in made})
    for node in match.nodes:
        release(node)
    moved = {id(old): old.outputs for old, _ in pairs}
    for old, _ in pairs:
        old.graph.drop_value(old)
    for old, new in pairs:
        if old.is_output and new not in made:
            _rename(new, old.name)
    for constant in _constants(new_nodes, results, tape):
        graph.add_value(constant)
    for node, position in zip(new_nodes, positions, strict=True):
        graph.add_node(node, position)
        if node in tape.moved:
            _adopt(node, *tape.moved[node])
    for old, new in pairs:
        for user in moved[id(old)]:
            if user in old._uses:
                user.graph.replace_input(user, old, new)
        if old.is_output:
            _hand_over(old, new)
        if new in made and not isinstance(new, Constant):
            graph.model.types.inherit(old, new)
    for node in new_nodes:
        graph.model.types.declare(node)
    for node in match.nodes:
        graph.remove_node(node)
    stamp(new_nodes, match.nodes, origins, pass_name, graph.model.ir_version)
    for drop in match.drops:
        _drop(drop)
    _sweep(freed)
    graph.changed = True
    graph.model.version += 1
    graph.model.types.note_commit(pairs, new_nodes)
    _import_domains(graph, new_nodes)
    if any(_comes_before_its_input(user, new) for old, new in pairs for user in moved[id(old)]):
        renumber(graph)
    return [*new_nodes, *around, *_near(freed)]


def renumber(graph: Graph) -> None:
    """Make the positions of all nodes a topological order again."""
    for position, node in enumerate(topological_order(graph, graph.ordered())):
        node.position = position


def _reachable(results: Iterable[Edge], tape: Tape) -> list[Node]:
    """The nodes of the tape that the results need, in the order they were made."""
    needed: set[Node] = set()
    stack = [value.producer for value in results if value.producer is not None]
    on_tape = set(tape.nodes)
    while stack:
        node = stack.pop()
        if node in on_tape and node not in needed:
            needed.add(node)
            stack.extend(v.producer for v in tape.reads(node) if v is not None and v.producer is not None)
    return [node for node in tape.nodes if node in needed]


def _constants(nodes: Iterable[Node], results: Iterable[Edge], tape: Tape) -> list[Constant]:
    values = dict.fromkeys(v for node in nodes for v in tape.reads(node))
    values.update(dict.fromkeys(results))
    return [value for value in values if isinstance(value, Constant) and value in tape.constants]


def _check_type(old: Edge, new: Edge, match: Match) -> None:
    if old.elem_type and new.elem_type and old.elem_type != new.elem_type:
        refuse("the element type would change")
    known = match.graph.model.types.known
    before, after = shape_of(known(old)), shape_of(known(new))
    if before is not None and after is not None:
        pairs = list(zip(before, after, strict=False))
        if len(before) != len(after) or any(isinstance(a, int) and isinstance(b, int) and a != b for a, b in pairs):
            refuse("the shape would change")
    elif match.literal_rank > 0:
        # x·[1] has at least rank 1; without knowing x's rank nobody knows whether dropping the constant matters.
        refuse("the rank is unknown, and a constant may have raised it")


def _check_names(old: Edge, new: Edge, *, is_made: bool) -> None:
    if is_made:
        if isinstance(new, Constant) and old.is_output and new.graph.model.ir_version < 4:
            refuse("before IR version 4 a constant cannot be a graph output")
        return
    if new is old:
        refuse("the result is the value itself")
    if old.is_output:
        is_free = isinstance(new, Value) and new.producer is not None and not new.is_output and new.graph is old.graph
        if not is_free or any(not old.graph.is_visible(old, user.graph) for user in new.outputs):
            refuse("the result is a graph output and needs a name of its own")
        return
    for user in old.outputs:
        if user.graph is not new.graph and not new.graph.is_visible(new, user.graph):
            refuse("a subgraph gives another value the same name")


def _positions(match: Match, new_nodes: Sequence[Node], inputs: Sequence[Edge]) -> list[float]:
    """Where in the order the new nodes go: behind the root and the last input, before the first user if that can be.

    Refuses where an input of the replacement depends on what is replaced.
    """
    inside = set(match.nodes)
    latest = max((node.position for node in match.nodes), default=0)
    producers = {v.producer for v in inputs if v.producer is not None and v.graph is match.graph}
    if producers & inside:
        refuse("the replacement would use a value that it removes")
    if producers:
        latest = max(latest, *(p.position for p in producers))
    seen: set[Node] = set()
    outside = [user for value in match.outputs for user in value.outputs if user not in inside]
    stack = list(outside)
    while stack:  # only nodes up to the last input can lead there
        node = _in_graph(stack.pop(), match.graph)
        if node is None or node in seen or node in inside or node.position > latest:
            continue
        if node in producers:
            refuse("the replacement would form a cycle")
        seen.add(node)
        stack.extend(users([o for o in node.outputs if o is not None]))
    following = (_in_graph(user, match.graph) for user in outside)
    first_use = min((node.position for node in following if node is not None), default=math.inf)
    behind = latest if latest < first_use else max((p.position for p in producers), default=-1.0)
    step = max(min(first_use, behind + 1) - behind, 0.0) / (len(new_nodes) + 1)
    return [behind + step * (number + 1) for number in range(len(new_nodes))]


def _in_graph(node: Node, graph: Graph) -> Node | None:
    """The node of `graph` that is `node` or holds it in a subgraph."""
    current: Node | None = node
    while current is not None and current.graph is not graph:
        current = current.graph.owner
    return current


def _name(
    match: Match, tape: Tape, nodes: Sequence[Node], made: Iterable[Edge | None], taken_over: dict[Edge, str]
) -> None:
    """New results take the names of what they replace; nodes take over names of replaced nodes where they can."""
    model = match.graph.model
    names: dict[tuple[str, str], str] = {}
    for node in match.nodes:
        if node.name:
            names.setdefault((node.domain, node.op), node.name)
    base = match.outputs[0].name if match.outputs else ""
    for node in nodes:
        inherited = names.pop((node.domain, node.op), None)
        node.proto.name = inherited or model.unique_name(f"{base}_{node.op}")
        for value in node.outputs:
            if value is not None:
                value.name = taken_over.get(value) or model.unique_name(f"{base}_{node.op.lower()}")
    for constant, wish in tape.constants.items():
        if constant in taken_over:
            constant.name = taken_over[constant]
        elif any(constant in tape.reads(node) for node in nodes):
            constant.name = model.unique_name(f"{(wish or base).removesuffix('_fused')}_fused")


def _rename(value: Edge, name: str) -> None:
    value.graph.drop_value(value)
    value.name = name
    value.graph.add_value(value)
    for user in value.outputs:
        user.graph.changed = True


def _adopt(node: Node, old: Node, values: Mapping[Edge, Edge]) -> None:
    """Give a node the subgraphs of the one that it stands for, and these the values that there are now."""
    node.bodies, old.bodies = old.bodies, ()
    del node.proto.metadata_props[:]
    node.proto.doc_string = ""
    for body in node.bodies:
        body.parent, body.owner = node.graph, node
    for body in node.subgraphs(recursive=True):
        for inner in body.nodes:
            for value in dict.fromkeys(inner.inputs):
                if value is not None and value in values:
                    body.replace_input(inner, value, values[value])
        for value in [value for value in body.outputs if value in values]:
            value.output_of.remove(body)
            values[value].output_of.append(body)
            body.outputs = [values[v] if v is value else v for v in body.outputs]
            body.changed = True


def _hand_over(old: Edge, new: Edge) -> None:
    """`new` is a graph output instead of `old`, under the same name."""
    for graph in old.output_of:
        graph.outputs = [new if value is old else value for value in graph.outputs]
    new.output_of, old.output_of = old.output_of, []


def _comes_before_its_input(user: Node, value: Edge) -> bool:
    node = _in_graph(user, value.graph)
    return node is not None and value.producer is not None and node.position <= value.producer.position


def _drop(drop: Constant | Graph) -> None:
    if isinstance(drop, Constant):
        drop.graph.drop_value(drop)
        drop.graph.changed = True
    else:
        functions = drop.model.functions
        for key in [key for key, function in functions.items() if function is drop]:
            del functions[key]


def _sweep(values: Iterable[Edge]) -> None:
    """Remove constants and pure nodes that nobody needs any more, upwards from these values."""
    stack = list(values)
    while stack:
        value = stack.pop()
        if value.is_used or value.graph.values.get(value.name) is not value:
            continue
        producer = value.producer
        if isinstance(value, Constant):
            _drop(value)
        elif producer is not None and is_dead(producer):
            inner = [v for body in producer.subgraphs(recursive=True) for n in body.nodes for v in n.inputs]
            stack.extend(v for v in (*producer.inputs, *inner) if v is not None)
            producer.graph.remove_node(producer)
            producer.graph.changed = True


def is_dead(node: Node) -> bool:
    """Whether nobody needs a node that is still in its graph: no output is used, and running it has no effect.

    In a graph that declares no output nobody can tell what is needed.
    """
    is_needed = not node.graph.outputs or any(output is not None and output.is_used for output in node.outputs)
    return node.is_in_graph and not is_needed and operators.is_pure(node)


def _near(values: Iterable[Edge]) -> list[Node]:
    """Nodes whose neighbourhood changed because these values lost users: makers, and the last users that are left."""
    found: dict[Node, None] = {}
    for value in values:
        if value.is_constant:
            continue
        if value.producer is not None:
            found[value.producer] = None
        if value.use_count <= 2:
            found.update(dict.fromkeys(value.outputs))
    return [node for node in found if node.is_in_graph]


def _define(graph: Graph, function: onnx.FunctionProto) -> None:
    """Give the model a function, and what it needs to hold one."""
    model, key = graph.model, (function.domain, function.name, function.overload)
    if key not in model.functions:
        proto = model.proto.functions.add()
        proto.CopyFrom(function)
        model.functions[key] = build_graph(model, proto, None)
        model.proto.ir_version = max(model.ir_version, _FUNCTIONS_IR)
    _import(graph, function.domain)


def _import(graph: Graph, domain: str) -> None:
    """An operator set that the graph does not import yet, in its only version."""
    if domain not in graph.opsets:
        graph.opsets[domain] = 1
        if isinstance(graph.proto, onnx.FunctionProto):
            graph.proto.opset_import.add(domain=domain, version=1)
        graph.model.imports_added[domain] = 1


def _import_domains(graph: Graph, nodes: Iterable[Node]) -> None:
    """A node of onnxruntime's own operator set."""
    if any(node.domain == MICROSOFT for node in nodes):
        _import(graph, MICROSOFT)
