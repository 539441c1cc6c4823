"""Which nodes of two models are the same: by names, computations and neighbours."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from hashlib import blake2b

import onnx

from fusionc.model import operators
from fusionc.model.graph import Edge, Graph, Model, Node
from fusionc.model.tensors import element_digest
from fusionc.protos.node_origin import origin_of

NAME = "name"
STRUCTURE = "structure"
# suffix of onnxruntime's nodes that make a value in the layout of its convolutions
_BLOCKED = "_nchwc"


class Pairs:
    """The nodes that both models have, each with its partner."""

    def __init__(self) -> None:
        self.after: dict[Node, Node] = {}
        self.before: dict[Node, Node] = {}
        self.how: Counter[str] = Counter()  # how many pairs were found in which way
        # more values are paired than those of paired nodes
        self.values: dict[Edge, Edge] = {}
        self.values_back: dict[Edge, Edge] = {}
        # main graphs, functions, and subgraphs in the same attribute of paired nodes
        self.graphs: dict[Graph, Graph] = {}

    def add(self, before: Node, after: Node, how: str) -> None:
        """Note that two nodes are the same, and so are their outputs."""
        self.after[before] = after
        self.before[after] = before
        self.how[how] += 1
        for one, other in zip(before.outputs, after.outputs, strict=False):
            self.add_values(one, other)
        if before.bodies and after.bodies:
            bodies = named_bodies(before)
            others = named_bodies(after)
            for place in (place for place in bodies if place in others):
                self.add_ports(bodies[place], others[place])

    def add_ports(self, before: Graph, after: Graph) -> None:
        """Note that two graphs are the same, and so are inputs and outputs of the same name; the
        others are paired by their order.
        """
        self.graphs[before] = after
        for ports, others in ((before.inputs, after.inputs), (before.outputs, after.outputs)):
            by_name = {value.name: value for value in others}
            if any(value.name in by_name for value in ports):
                for value in ports:
                    self.add_values(value, by_name.get(value.name))
            else:
                for value, other in zip(ports, others, strict=False):
                    self.add_values(value, other)

    def add_values(self, before: Edge | None, after: Edge | None) -> bool:
        """Note that two values are the same, unless one of them has a partner."""
        if before is None or after is None or before in self.values or after in self.values_back:
            return False
        self.values[before] = after
        self.values_back[after] = before
        return True


def named_bodies(node: Node) -> dict[str, Graph]:
    """The subgraphs of a node, by their attributes."""
    found = {}
    for name, value in node.attrs.items():
        if isinstance(value, Graph):
            found[name] = value
        elif isinstance(value, list):
            found |= {
                f"{name}[{at}]": body for at, body in enumerate(value) if isinstance(body, Graph)
            }
    return found


def pair_nodes(
    models: tuple[Model, Model], before: Sequence[Node], after: Sequence[Node], digests: Digests
) -> Pairs:
    """Pair these nodes, each with at most one other of the same operator."""
    pairs = Pairs()
    pairs.add_ports(*(model.main for model in models))
    for key, function in models[0].functions.items():
        if key in models[1].functions:
            pairs.add_ports(function, models[1].functions[key])
    for key_of in (_name_key, _output_key):
        _pair_unique(pairs, before, after, key_of)
    _pair_equal(pairs, before, after, digests)
    _pair_neighbours(pairs, set(before), set(after))
    _pair_names_of_values(pairs, models)
    return pairs


def attributes_of(node: Node) -> dict[str, bytes]:
    """The attributes that distinguish nodes of one operator; those with their default value do not
    count.
    """
    version = node.graph.opset_of(node.domain)
    found = {}
    for attribute in node.proto.attribute:
        if attribute.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS):
            continue  # their nodes are compared themselves
        default = operators.attribute_default(node.op, node.domain, version, attribute.name)
        if (
            default is not None
            and not attribute.ref_attr_name
            and operators.decode_attribute(attribute) == default
        ):
            continue
        copy = onnx.AttributeProto()
        copy.CopyFrom(attribute)
        copy.ClearField("doc_string")
        copy.t.ClearField("name")
        found[attribute.name] = blake2b(
            copy.SerializeToString(deterministic=True), digest_size=16
        ).digest()
    return found


class Digests:
    """Digests of constants; each constant is read once."""

    def __init__(self) -> None:
        self._found: dict[Edge, Hashable] = {}

    def of(self, value: Edge) -> Hashable:
        """Type, shape and a digest of the elements of a constant."""
        if value not in self._found:
            array = value.constant()
            assert array is not None
            self._found[value] = (str(array.dtype), array.shape, element_digest(array))
        return self._found[value]


def _scope(graph: Graph) -> tuple[str, ...]:
    """The function that contains a graph: names count within each function."""
    while graph.parent is not None:
        graph = graph.parent
    return (
        (graph.proto.domain, graph.proto.name)
        if isinstance(graph.proto, onnx.FunctionProto)
        else ()
    )


def _name_key(node: Node) -> Hashable:
    return (
        (_scope(node.graph), node.domain, node.op, node.name, origin_of(node.proto))
        if node.name
        else None
    )


def _output_key(node: Node) -> Hashable:
    first = next((value.name for value in node.outputs if value is not None), "")
    return (
        (_scope(node.graph), node.domain, node.op, first, origin_of(node.proto)) if first else None
    )


def _pair_unique(
    pairs: Pairs, before: Iterable[Node], after: Iterable[Node], key_of: Callable[[Node], Hashable]
) -> None:
    """Pair nodes whose key occurs once in each model."""
    found: tuple[dict[Hashable, Node | None], dict[Hashable, Node | None]] = ({}, {})
    for nodes, paired, by_key in ((before, pairs.after, found[0]), (after, pairs.before, found[1])):
        for node in nodes:
            key = None if node in paired else key_of(node)
            if key is not None:
                by_key[key] = None if key in by_key else node
    for key, one in found[0].items():
        other = found[1].get(key)
        if one is not None and other is not None:
            pairs.add(one, other, NAME)


def _pair_equal(
    pairs: Pairs, before: Sequence[Node], after: Sequence[Node], digests: Digests
) -> None:
    """Pair nodes that compute the same from the same inputs, whatever their names, in their
    order.
    """
    keys: tuple[dict[Edge, Hashable], dict[Edge, Hashable]] = ({}, {})
    for at, (one, other) in enumerate(pairs.values.items()):
        keys[0][one] = keys[1][other] = ("same", at)
    waiting: dict[Hashable, deque[Node]] = defaultdict(deque)
    for node in before:
        key = _key_of(node, keys[0], digests)
        if node not in pairs.after:
            waiting[key].append(node)
    for node in after:
        key = _key_of(node, keys[1], digests)
        if node not in pairs.before and waiting.get(key):
            pairs.add(waiting[key].popleft(), node, STRUCTURE)


def _key_of(node: Node, keys: dict[Edge, Hashable], digests: Digests) -> Hashable:
    """A key for what a node computes from the inputs of the model; its outputs get it, too, unless
    they have one.
    """

    def of(value: Edge | None) -> Hashable:
        if value is None:
            return None
        if value not in keys:
            keys[value] = digests.of(value) if value.is_constant else ("unknown", id(value))
        return keys[value]

    parts = (
        node.domain,
        node.op,
        tuple(sorted(attributes_of(node).items())),
        tuple(map(of, node.inputs)),
    )
    inner = tuple(
        (inner.op, inner.domain)
        for body in node.subgraphs(recursive=True)
        for inner in body.ordered()
    )
    key = blake2b(repr((parts, inner)).encode(), digest_size=16).digest()
    for at, value in enumerate(node.outputs):
        if value is not None:
            keys.setdefault(value, (key, at))
    return key


def _pair_neighbours(pairs: Pairs, before: set[Node], after: set[Node]) -> None:
    """Pair the producers and the users of paired values, while only one candidate exists."""
    pending = deque(pairs.values.items())
    for one, other in list(pairs.after.items()):
        pending.extend(_inputs_of(pairs, one, other))
    while pending:
        value, its = pending.popleft()
        for one, other in _neighbours(value, its, pairs, before, after):
            is_free = one not in pairs.after and other not in pairs.before
            if is_free and one in before and other in after and one.operator == other.operator:
                pairs.add(one, other, STRUCTURE)
                outputs = zip(one.outputs, other.outputs, strict=False)
                pending.extend((v, w) for v, w in outputs if v and w)
                pending.extend(_inputs_of(pairs, one, other))


def _neighbours(
    value: Edge, its: Edge, pairs: Pairs, before: set[Node], after: set[Node]
) -> list[tuple[Node, Node]]:
    """Candidates for partners around two paired values: their producers, and users that read them
    in the same way.
    """
    partners = []
    if value.producer is not None and its.producer is not None:
        partners.append((value.producer, its.producer))
    readers = _readers(value, before, pairs.after)
    others = _readers(its, after, pairs.before)
    for key, ours in readers.items():
        theirs = others.get(key, [])
        if len(ours) == len(theirs):
            partners += zip(ours, theirs, strict=True)
    return partners


def _inputs_of(pairs: Pairs, one: Node, other: Node) -> list[tuple[Edge, Edge]]:
    """The inputs of two paired nodes, as far as they had no partners."""
    return [
        (value, its)
        for value, its in zip(one.inputs, other.inputs, strict=False)
        if value is not None
        and its is not None
        and not value.is_constant
        and pairs.add_values(value, its)
    ]


def _readers(value: Edge, among: set[Node], paired: dict[Node, Node]) -> dict[Hashable, list[Node]]:
    found: dict[Hashable, list[Node]] = defaultdict(list)
    for node in value.outputs:
        if node in among and node not in paired:
            found[node.domain, node.op, node.inputs.index(value)].append(node)
    return found


def _pair_names_of_values(pairs: Pairs, models: tuple[Model, Model]) -> None:
    """Pair values of the main graphs that have the same name and no partner."""
    before, after = (model.main for model in models)
    named = {
        **{
            n.name.removesuffix(_BLOCKED): n.outputs[0]
            for n in after.nodes
            if n.name.endswith(_BLOCKED)
        },
        **after.values,
    }
    for name, value in before.values.items():
        other = named.get(name)
        if not value.is_constant and other is not None and not other.is_constant:
            pairs.add_values(value, other)
