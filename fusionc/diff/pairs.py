"""Pair the nodes that two models have in common. Nodes are paired if they have the same name, if
they compute the same, or if they are neighbours of nodes that are already paired.
"""

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
# the suffix of onnxruntime's names for nodes in its blocked layout of convolutions
_BLOCKED = "_nchwc"


class Pairs:
    """The nodes that both models have, each with its partner."""

    def __init__(self) -> None:
        self.after: dict[Node, Node] = {}
        self.before: dict[Node, Node] = {}
        self.how: Counter[str] = Counter()  # the number of pairs found in each way
        # values of the first model with their partners; some are graph inputs, not outputs of nodes
        self.values: dict[Edge, Edge] = {}
        self.values_back: dict[Edge, Edge] = {}  # the inverse of `values`
        # pairs of main graphs, of functions, and of subgraphs in an attribute of paired nodes
        self.graphs: dict[Graph, Graph] = {}

    def add(self, before: Node, after: Node, how: str) -> None:
        """Pair two nodes, their outputs, and the inputs and outputs of their subgraphs."""
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
        """Pair two graphs with their inputs and outputs. Inputs are paired by name if at least one
        name is in both graphs, and otherwise by order. The same holds for outputs.
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
        """Pair two values and return True, unless one of them already has a partner."""
        if before is None or after is None or before in self.values or after in self.values_back:
            return False
        self.values[before] = after
        self.values_back[after] = before
        return True


def named_bodies(node: Node) -> dict[str, Graph]:
    """The subgraphs of a node, by attribute."""
    bodies = {}
    for name, value in node.attrs.items():
        if isinstance(value, Graph):
            bodies[name] = value
        elif isinstance(value, list):
            bodies |= {
                f"{name}[{at}]": body for at, body in enumerate(value) if isinstance(body, Graph)
            }
    return bodies


def pair_nodes(
    models: tuple[Model, Model], before: Sequence[Node], after: Sequence[Node], digests: Digests
) -> Pairs:
    """Pair nodes of the two models that have the same operator. Each node gets at most one
    partner.
    """
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
    """A digest of each attribute of a node, by name. Attributes with their default value, and
    subgraphs, are left out.
    """
    version = node.graph.opset_of(node.domain)
    digests = {}
    for attribute in node.proto.attribute:
        if attribute.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS):
            continue  # the nodes of subgraphs are compared one by one
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
        digests[attribute.name] = blake2b(
            copy.SerializeToString(deterministic=True), digest_size=16
        ).digest()
    return digests


class Digests:
    """Digests of constants. Each constant is read only once."""

    def __init__(self) -> None:
        self._known: dict[Edge, Hashable] = {}

    def of(self, value: Edge) -> Hashable:
        """Type, shape and a digest of the elements of a constant."""
        if value not in self._known:
            array = value.constant()
            assert array is not None
            self._known[value] = (str(array.dtype), array.shape, element_digest(array))
        return self._known[value]


def _scope(graph: Graph) -> tuple[str, ...]:
    """The function that contains a graph, or (): names are unique only within a function."""
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
    """Pair nodes whose key occurs exactly once in each model."""
    old: dict[Hashable, Node | None] = {}
    new: dict[Hashable, Node | None] = {}
    for nodes, paired, by_key in ((before, pairs.after, old), (after, pairs.before, new)):
        for node in nodes:
            key = None if node in paired else key_of(node)
            if key is not None:
                by_key[key] = None if key in by_key else node
    for key, one in old.items():
        other = new.get(key)
        if one is not None and other is not None:
            pairs.add(one, other, NAME)


def _pair_equal(
    pairs: Pairs, before: Sequence[Node], after: Sequence[Node], digests: Digests
) -> None:
    """Pair nodes that compute the same from the same inputs. Their names may differ. If several
    nodes compute the same, they are paired in order.
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
    """A key that identifies the computation of a node from the inputs of the model. `keys` has the
    keys of values; this function adds the outputs of the node that `keys` lacks.
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
    """Pair the producers and the consumers of paired values, and continue from each new pair."""
    pending = deque(pairs.values.items())
    for one, other in list(pairs.after.items()):
        pending.extend(_inputs_of(pairs, one, other))
    while pending:
        values = pending.popleft()
        for one, other in _neighbours(*values, pairs, before, after):
            is_free = one not in pairs.after and other not in pairs.before
            if is_free and one in before and other in after and one.operator == other.operator:
                pairs.add(one, other, STRUCTURE)
                outputs = zip(one.outputs, other.outputs, strict=False)
                pending.extend((v, w) for v, w in outputs if v and w)
                pending.extend(_inputs_of(pairs, one, other))


def _neighbours(
    old: Edge, new: Edge, pairs: Pairs, before: set[Node], after: set[Node]
) -> list[tuple[Node, Node]]:
    """Candidates for partners around two paired values: the producers of the values, and the
    consumers that read the values in the same way. Consumers are candidates only if both values
    have equally many of them.
    """
    partners = []
    if old.producer is not None and new.producer is not None:
        partners.append((old.producer, new.producer))
    new_readers = _readers(new, after, pairs.before)
    for key, nodes in _readers(old, before, pairs.after).items():
        others = new_readers.get(key, [])
        if len(nodes) == len(others):
            partners += zip(nodes, others, strict=True)
    return partners


def _inputs_of(pairs: Pairs, one: Node, other: Node) -> list[tuple[Edge, Edge]]:
    """Pair the inputs of two paired nodes. Return the new pairs of values."""
    return [
        (old, new)
        for old, new in zip(one.inputs, other.inputs, strict=False)
        if old is not None
        and new is not None
        and not old.is_constant
        and pairs.add_values(old, new)
    ]


def _readers(value: Edge, among: set[Node], paired: dict[Node, Node]) -> dict[Hashable, list[Node]]:
    readers: dict[Hashable, list[Node]] = defaultdict(list)
    for node in value.outputs:
        if node in among and node not in paired:
            readers[node.domain, node.op, node.inputs.index(value)].append(node)
    return readers


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
