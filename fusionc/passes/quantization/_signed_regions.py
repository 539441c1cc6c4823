"""Regions of 8-bit integers that must have the same signedness, and the signedness with which the
operators that read them are fast.

A region holds the integers between operators that have zero points, for example all values from a
QuantizeLinear through a Reshape to the DequantizeLinear. If the type of a region changes, its zero
points are shifted with its values. The data and the result of a QLinearConv are in one region. Some
operators run in integers only if the regions before and after them have the same type. Such regions
form a component: either all of them change, or none does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from fusionc.integer_groups.group_parts import (
    FAR,
    dequantized_from,
    grade,
    is_core,
    takes_scale,
    way_to_quantizer,
)
from fusionc.integer_groups.wiring import Wiring
from fusionc.model.disjoint_sets import DisjointSets
from fusionc.model.graph import Edge, Graph, Node
from fusionc.model.tensors import Array
from fusionc.operators.integer_operators import (
    BETWEEN,
    DEQUANTIZE,
    INTEGERS,
    PASSED,
    QUANTIZE,
    WEIGHTED,
)
from fusionc.operators.signedness import (
    CARRIED,
    KEPT,
    KERNELS,
    OPPOSITE,
    SIGNED,
    UNSIGNED,
    kernel_of,
    opposite,
)
from fusionc.passes._shared.constants import SHARED, dims_of, would_double
from fusionc.passes._shared.target import SATURATES
from fusionc.rewrite.soundness import node_in
from fusionc.runtime.processor import has_vnni

_SAFE = 64  # weights with absolute values up to 64 cannot saturate a 16-bit sum of two products
# The cost of converting a value to the other signedness: a cost for each element, and one for each
# conversion. The unit is the time that a multiplication loses in the slow signedness.
_PER_ELEMENT = 7
_PER_CONVERSION = 1 << 15
_AS_IT_IS = Wiring()  # the graph without any change


@dataclass(frozen=True)
class _Vote:
    """What a product that reads a region prefers."""

    fast: int  # the type of the region with which the product is fast
    other: Edge | None  # the other operand of the product
    product: Node


@dataclass
class SignedRegion:
    """Values of one type that change together, and the operators that make, move and read them."""

    values: dict[Edge, None] = field(default_factory=dict)
    nodes: dict[Node, None] = field(default_factory=dict)
    votes: list[_Vote] = field(default_factory=list)
    # values that are converted back, because operators that stay as they are read them
    handed_back: list[Edge] = field(default_factory=list)
    obstacle: str = ""  # why the type has to stay; empty if it may change

    @property
    def elem_type(self) -> int:
        """The type of all its values."""
        return _type_of(next(iter(self.values)))

    @property
    def is_constant(self) -> bool:
        """Whether all values are constants."""
        return all(value.is_constant for value in self.values)

    @property
    def ordered(self) -> list[Node]:
        """The operators of the region in the order of the graph."""
        return sorted(self.nodes, key=lambda node: node.position)

    @property
    def outputs(self) -> list[Edge]:
        """The results of the operators, except values of the region that are not converted back. If
        the region has an obstacle, all results.
        """
        made = [value for node in self.ordered for value in node.outputs if value is not None]
        inner = set(self.values).difference(self.handed_back)
        return [value for value in made if self.obstacle or value not in inner]


def graded_regions(graph: Graph) -> list[tuple[SignedRegion, bool]]:
    """The regions in the order of the graph, and for each whether its products are faster with the
    other signedness.

    A region that must stay as it is has an obstacle, and so does each region that could change only
    together with it.
    """
    if not any(map(graph.by_operator.get, KERNELS)):
        return []
    regions = _regions_of(graph)
    components = _components_of(graph, regions)
    decisions = _Decisions(regions, components)
    return [(region, decisions.changes(region)) for region in regions.values()]


def is_given(value: Edge) -> bool:
    """Whether a value must be converted because it is an input, or because the operator that makes
    it stays as it is.
    """
    maker = value.producer
    return not value.is_constant and (maker is None or maker.operator in KEPT)


def data_places(node: Node) -> tuple[int, ...]:
    """The positions of the inputs that hold 8-bit integers: those that have a zero point, and those
    that the operator only moves or compares.
    """
    kernel = kernel_of(node.operator, len(node.inputs))
    if kernel is not None:
        return tuple(operand.value for operand in kernel.operands)
    if node.domain != "" or node.op not in CARRIED:
        return ()
    places = CARRIED[node.op]
    return tuple(range(len(node.inputs))) if places is None else places


def zero_places(node: Node, region: SignedRegion) -> list[int]:
    """The positions of the inputs of an operator that hold the zero points of a region."""
    kernel = kernel_of(node.operator, len(node.inputs))
    if kernel is None:
        return []
    places = [
        operand.zero
        for operand in kernel.operands
        if operand.value < len(node.inputs) and node.inputs[operand.value] in region.values
    ]
    if kernel.result_zero is not None and node.outputs[0] in region.values:
        places.append(kernel.result_zero)
    return places


def zero_point(node: Node, place: int) -> Array | None:
    """The zero point at an input of an operator, or zeros if this input is omitted; None if it is
    not known before the model runs.
    """
    given = node.inputs[place] if place < len(node.inputs) else None
    if given is not None:
        return given.constant()
    if node.operator not in DEQUANTIZE | QUANTIZE:
        return np.zeros((), np.int16)
    scale = node.inputs[1]
    sizes = () if scale is None or scale.shape is None else scale.shape
    known = [size for size in sizes if isinstance(size, int)]
    is_known = scale is not None and scale.shape is not None and len(known) == len(sizes)
    return np.zeros(known, np.int16) if is_known else None


def _regions_of(graph: Graph) -> dict[Edge, SignedRegion]:
    """All regions of a graph. The key of a region is one of its values."""
    values = dict.fromkeys(_values_of(graph))
    sets = DisjointSets[Edge]()
    for node in graph.nodes:
        sets.join(*(value for value in _values_of_one_type(node) if value in values))
    regions: dict[Edge, SignedRegion] = {}
    for value in values:
        region = regions.setdefault(sets.root(value), SignedRegion())
        region.values[value] = None
        _read_maker(region, value, graph)
        _read_users(region, value, graph)
    for region in regions.values():
        region.obstacle = region.obstacle or _reason_of_operators(region, graph)
    return regions


def _values_of_one_type(node: Node) -> list[Edge | None]:
    """The inputs and outputs of an operator that must have the same integer type by its
    definition.
    """
    if node.domain == "" and node.op in CARRIED:
        made = node.outputs if node.op == "Split" else node.outputs[:1]
        return [*(node.inputs[at] for at in data_places(node) if at < len(node.inputs)), *made]
    kernel = kernel_of(node.operator, len(node.inputs))
    if kernel is None:
        return []
    data = [node.inputs[operand.value] for operand in kernel.operands[: kernel.alike]]
    return data if kernel.result_zero is None else [*data, node.outputs[0]]


def _values_of(graph: Graph) -> Iterator[Edge]:
    for node in graph.nodes:
        read = [node.inputs[at] for at in data_places(node) if at < len(node.inputs)]
        for value in (*read, *node.outputs):
            if value is not None and _type_of(value) in OPPOSITE:
                yield value


def _type_of(value: Edge) -> int:
    """The element type of a value; 0 if it is unknown. If shape inference does not know it, it is
    the type of the zero point of the operator that makes the value.
    """
    if value.elem_type or value.producer is None:
        return value.elem_type
    maker = value.producer
    kernel = kernel_of(maker.operator, len(maker.inputs))
    place = KEPT.get(maker.operator) if kernel is None else kernel.result_zero
    if place is None or place >= len(maker.inputs) or value is not maker.outputs[0]:
        return 0
    zero = maker.inputs[place]
    return 0 if zero is None else zero.elem_type


def _read_maker(region: SignedRegion, value: Edge, graph: Graph) -> None:
    maker = value.producer
    if value.is_constant or maker is None or is_given(value):
        return
    kernel = kernel_of(maker.operator, len(maker.inputs))
    if kernel is None:
        has_place = maker.domain == "" and maker.op in CARRIED
    else:
        has_place = kernel.result_zero is not None
    if not has_place:
        region.obstacle = f"{maker.op} makes the integers"
    elif maker.graph is not graph:
        region.obstacle = "the graph around a subgraph makes the integers"
    else:
        region.nodes[maker] = None


def _read_users(region: SignedRegion, value: Edge, graph: Graph) -> None:
    """Add the operators that read a value to its region, and any obstacle to changing the value."""
    # the original of a constant or of a converted value remains for other operators
    is_made = not (value.is_constant or is_given(value))
    obstacles = [_reason_to_keep(value)] if is_made else []
    for user in value.outputs:
        places = _places_of(value, user)
        reason = _reason_to_stay(user, places, graph)
        if not reason:
            region.nodes[user] = None
            region.votes += [vote for place in places for vote in _votes_of(user, place)]
        elif value.is_constant:
            obstacles.append(_reason_to_share(value))
        elif is_made and user.operator in KEPT:
            region.handed_back.append(value)
        elif is_made:
            obstacles.append(reason)
    region.obstacle = next(filter(None, [region.obstacle, *obstacles]), "")


def _places_of(value: Edge, user: Node) -> list[int]:
    return [at for at, read in enumerate(user.inputs) if read is value]


def _reason_to_keep(value: Edge) -> str:
    if value.is_output:
        return "an output of the model holds the integers"
    return "an annotation names the integers" if value.is_pinned else ""


def _reason_to_stay(user: Node, places: Sequence[int], graph: Graph) -> str:
    if user.graph is not graph or not places:
        return "a subgraph reads the integers"
    if user.has_references or not set(places).issubset(data_places(user)):
        return f"{user.op} reads the integers"
    return ""


def _reason_to_share(constant: Edge) -> str:
    """Why a constant that other operators read unchanged must not be duplicated; "" if it may
    be.
    """
    return SHARED if would_double(constant, math.prod(dims_of(constant))) else ""


def _reason_of_operators(region: SignedRegion, graph: Graph) -> str:
    """Why the operators of a region cannot change, or cannot change all at once; "" if they can."""
    reasons = (_reason_of_operator(node, region) for node in region.nodes)
    if reason := next(filter(None, reasons), ""):
        return reason
    quantizations = [node for node in region.nodes if node.operator in DEQUANTIZE | QUANTIZE]
    if not (region.is_constant or all(map(_has_fit_scale, quantizations))):
        return "onnxruntime's integer operators do not take these scales"
    if not _is_worth_conversions(region):
        return "converting the integers at the border would take longer than the products gain"
    return (
        "a path through other operators leads back to the integers"
        if _comes_back(region, graph)
        else ""
    )


def _reason_of_operator(node: Node, region: SignedRegion) -> str:
    if any(value is not None and not _type_of(value) for value in _values_of_one_type(node)):
        return "the element type is unknown"
    if any(zero_point(node, at) is None for at in zero_places(node, region)):
        return "a zero point is not constant"
    return ""


def _is_worth_conversions(region: SignedRegion) -> bool:
    """Whether the products gain more time than the conversions of values at the border take.

    Measured for convolutions of 8 to 144 channels and products of 16 to 256 rows.
    """
    given = [value for value in region.values if is_given(value)]
    converted = [*given, *dict.fromkeys(region.handed_back)]
    gain = sum(_multiplications(vote.product) for vote in region.votes)
    cost = _PER_ELEMENT * sum(map(_elements, converted))
    is_fixed = all(map(_has_fixed_sizes, converted))
    return not converted or gain >= cost + (_PER_CONVERSION * len(converted) if is_fixed else 0)


def _multiplications(product: Node) -> float:
    """The number of multiplications in a product. An unknown size counts as 1; without a known
    shape, the number is infinite.
    """
    kernel = kernel_of(product.operator, len(product.inputs))
    place = 1 if kernel is None else kernel.operands[-1].value
    weights = product.inputs[place]
    result = product.outputs[0]
    if weights is None or not weights.shape or result is None or not result.shape:
        return math.inf
    columns = weights.shape[0] if "Conv" in product.op else result.shape[-1]
    columns = columns if isinstance(columns, int) else 1
    return _elements(result) * _elements(weights) / max(columns, 1)


def _elements(value: Edge) -> int:
    """The number of elements. An unknown size counts as 1."""
    return math.prod(size for size in value.shape or () if isinstance(size, int))


def _has_fixed_sizes(value: Edge) -> bool:
    return value.shape is not None and all(isinstance(size, int) for size in value.shape)


def _has_fit_scale(quantization: Node) -> bool:
    """Whether the scale of a quantization suits the integer operators that onnxruntime may create
    next to it.
    """
    if quantization.operator in DEQUANTIZE:
        cores = [user for user, _ in _readers(quantization.outputs[0])]
    else:
        core = _core_before(quantization.inputs[0])
        cores = [] if core is None else [core]
    return all(takes_scale(node, quantization.inputs[1]) for node in (quantization, *cores))


def _readers(value: Edge | None) -> Iterator[tuple[Node, Edge]]:
    """The operators that read a value, directly or after operators that move it. Each comes with
    the value that it reads, before or after the moves.
    """
    reached = [] if value is None else [value]
    for _ in range(FAR):
        users = [(user, read) for read in reached for user in read.outputs if user.domain == ""]
        yield from users
        moved = (user.outputs[0] for user, _ in users if user.op in PASSED)
        reached = [value for value in moved if value is not None]


def _core_before(value: Edge | None) -> Node | None:
    """The operator that computes a value. Operators that only limit or move the result are
    skipped.
    """
    maker = None if value is None else value.producer
    for _ in range(FAR):
        if maker is None or maker.op not in PASSED | {"Relu", "Clip"} or maker.inputs[0] is None:
            break
        maker = maker.inputs[0].producer
    return maker


def _comes_back(region: SignedRegion, graph: Graph) -> bool:
    """Whether a path from the region leads through other operators back into it."""
    last = max((node.position for node in region.nodes), default=0)
    stack = [user for node in region.nodes for user in _users(node)]
    outside: set[Node] = set()
    while stack:
        node = node_in(graph, stack.pop())
        if node is None or node in region.nodes or node in outside or node.position > last:
            continue
        outside.add(node)
        users = _users(node)
        if not region.nodes.keys().isdisjoint(users):
            return True
        stack += users
    return False


def _users(node: Node) -> list[Node]:
    return [user for value in node.outputs if value is not None for user in value.outputs]


def _votes_of(user: Node, place: int) -> Iterator[_Vote]:
    """The votes of the products that read a value, directly or after a DequantizeLinear."""
    kernel = kernel_of(user.operator, len(user.inputs))
    operands = () if kernel is None else kernel.operands
    for operand in operands:
        if operand.value == place and operand.fast:
            others = [user.inputs[one.value] for one in operands if one is not operand]
            yield _Vote(operand.fast, others[0] if others else None, user)
    if user.operator in DEQUANTIZE:
        for reader, dequantized in _readers(user.outputs[0]):
            if reader.op in WEIGHTED:
                yield from _votes_of_product(reader, dequantized)


def _votes_of_product(product: Node, dequantized: Edge) -> Iterator[_Vote]:
    for place, fast in enumerate((UNSIGNED, SIGNED)):
        other = product.inputs[1 - place]
        if product.inputs[place] is dequantized and other is not None:
            yield _Vote(fast, dequantized_from(other, _AS_IT_IS), product)


def _components_of(graph: Graph, regions: dict[Edge, SignedRegion]) -> list[list[SignedRegion]]:
    """The components: lists of regions that must have the same type, because an operator between
    them requires it.
    """
    by_value = {value: root for root, region in regions.items() for value in region.values}
    sets = DisjointSets[Edge]()
    for node in graph.nodes:
        alike = [by_value[value] for value in _data_of_one_type(node) if value in by_value]
        sets.join(*alike)
    components: dict[Edge, list[SignedRegion]] = {}
    for root, region in regions.items():
        components.setdefault(sets.root(root), []).append(region)
    return list(components.values())


def _data_of_one_type(node: Node) -> Iterator[Edge | None]:
    """The integers before and after an operator that onnxruntime computes in integers: they must
    have the same type.
    """
    if is_core(node) and node.op in BETWEEN and grade(node, _AS_IT_IS) == INTEGERS:
        places = (0,) if node.op in WEIGHTED else BETWEEN[node.op]
        for at, value in enumerate(node.inputs):
            if value is not None and (places is None or at in places):
                yield dequantized_from(value, _AS_IT_IS)
        yield way_to_quantizer(node, _AS_IT_IS)[-1].outputs[0]


class _Decisions:
    """Decides which regions change.

    Weights that should become unsigned come first, then computed values, then weights that should
    become signed, because these should do so only if the data are unsigned.
    """

    def __init__(
        self, regions: dict[Edge, SignedRegion], components: list[list[SignedRegion]]
    ) -> None:
        self._region_of = {value: one for one in regions.values() for value in one.values}
        self._target: dict[int, int] = {}
        is_weight = [all(region.is_constant for region in one) for one in components]
        weights = [one for one, is_so in zip(components, is_weight, strict=True) if is_so]
        data = [one for one, is_so in zip(components, is_weight, strict=True) if not is_so]
        self._decide(weights, self._wants_unsigned)
        self._decide(data, self._wants_unsigned)
        self._decide(data, self._wants_signed)
        self._decide(weights, self._wants_signed)

    def changes(self, region: SignedRegion) -> bool:
        """Whether the region should change, regardless of obstacles."""
        return self._target.get(id(region), region.elem_type) != region.elem_type

    def _decide(
        self, components: list[list[SignedRegion]], wants: Callable[[list[SignedRegion]], int]
    ) -> None:
        for component in components:
            target = wants(component)
            if not target or id(component[0]) in self._target:
                continue
            obstacle = next((one.obstacle for one in component if one.obstacle), "")
            obstacle = obstacle or self._saturation(component, target)
            for region in component:
                region.obstacle = obstacle
                self._target[id(region)] = target

    def _wants_unsigned(self, component: list[SignedRegion]) -> int:
        votes = [vote for region in component for vote in region.votes]
        is_weight = all(region.is_constant for region in component)
        fits = all if is_weight else any
        return UNSIGNED if votes and fits(vote.fast == UNSIGNED for vote in votes) else 0

    def _wants_signed(self, component: list[SignedRegion]) -> int:
        votes = [vote for region in component for vote in region.votes]
        is_fast = bool(votes) and all(
            vote.fast == SIGNED and (vote.other is None or self._type_of(vote.other) == UNSIGNED)
            for vote in votes
        )
        return SIGNED if is_fast else 0

    def _type_of(self, value: Edge) -> int:
        """The type that a value will have after the decisions so far."""
        region = self._region_of.get(value)
        if region is None or region.obstacle:
            return value.elem_type
        return self._target.get(id(region), value.elem_type)

    def _saturation(self, component: list[SignedRegion], target: int) -> str:
        """Why sums may saturate; "" if they cannot. Processors without VNNI add products of uint8
        and int8 in 16 bits.
        """
        if has_vnni():
            return ""
        votes = [vote for region in component for vote in region.votes]
        weights = [vote.other for vote in votes if vote.fast == UNSIGNED]
        if target == SIGNED:
            weights = [value for region in component for value in region.values]
        if all(value is not None and self._is_small(value, target) for value in weights):
            return ""
        return SATURATES

    def _is_small(self, value: Edge, target: int) -> bool:
        """Whether weights stay unsigned, or are small numbers if they are signed."""
        array = value.constant()
        if target == UNSIGNED and value.elem_type == UNSIGNED:
            return True
        if array is None:
            return False
        signed = array if value.elem_type == SIGNED else opposite(array, UNSIGNED)
        return bool((np.abs(signed.astype(np.int16)) <= _SAFE).all())
