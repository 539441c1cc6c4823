"""Clusters of convolutions, matrix products and the operators between them, as areas whose kernels
use a blocked layout. In this layout, several channels of a pixel are next to each other in memory.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence, Set
from dataclasses import replace
from functools import partial
from itertools import chain

from fusionc.graph_kernel.area import Area, KernelKind
from fusionc.graph_kernel.blocked.fuse_operations import Operations
from fusionc.graph_kernel.blocked.image_area import UnfitOperator
from fusionc.graph_kernel.blocked.image_operators import (
    CONVOLVING,
    OPERATORS,
    is_of_integers,
    is_product,
)
from fusionc.graph_kernel.select.area_location import AreaLocation
from fusionc.graph_kernel.select.cluster import clusters_of
from fusionc.graph_kernel.select.cluster_model import is_seen_outside
from fusionc.graph_kernel.select.left_to_onnxruntime import computed_at_load
from fusionc.graph_kernel.select.make_area import area_of
from fusionc.graph_kernel.select.products_near_grids import products_near_grids
from fusionc.graph_kernel.select.weight_makers import constants_of_makers, weight_makers
from fusionc.integer_groups.dynamic_groups import dynamic_groups, multiplies_scales
from fusionc.integer_groups.float_results import casts_of_weights, is_cast_of_weights
from fusionc.integer_groups.kept_groups import OF_INTEGERS, integer_groups
from fusionc.integer_groups.packed_weights import takes_packed
from fusionc.integer_groups.wiring import Wiring
from fusionc.model.graph import Edge, Graph, Node
from fusionc.operators.integer_operators import BYTES, DEQUANTIZE, QUANTIZE

NOT_FASTER = "onnxruntime is estimated to be as fast"
_ORIGIN = "blocked"
_IMAGE_RANK = 4
_MATRIX = 1  # the place, among a product's inputs, of the constant matrix or the weights
_FEW_ROWS = 128  # with so many rows, reading a matrix takes about as long as multiplying by it
_MANY_ROWS = 64  # with so many rows or more, a kernel that unpacks weights takes less time
_MOST_ROUNDS = 8  # removals of unfit operators, before clusters that still do not fit are given up


def blocked_locations(
    graph: Graph,
    kind: KernelKind,
    is_left_out: Callable[[Node], bool] = lambda _: False,
    stays_wide: Callable[[Node], bool] = lambda _: False,
) -> list[AreaLocation]:
    """The areas of a graph, whether or not they save time.

    Each area has at least one convolution or product. No area contains an operator for which
    `is_left_out` is true. `stays_wide` selects the convolutions and products that compute in
    float32 even if the others compute in bfloat16.
    """
    computed = computed_at_load(graph)  # operators that compute an area's weights are added later
    possible = [
        node
        for node in graph.ordered()
        if node not in computed and not is_left_out(node) and _may_be_inside(node)
    ]
    # An operator that no cluster can use would separate the operators around it.
    members = set(possible) - set(_useless(possible))
    has_fewer = kind & (KernelKind.FEWER_OF_CONVOLUTIONS | KernelKind.FEWER_OF_MATRICES)
    exact = products_near_grids(graph) if has_fewer else set()
    location_of = partial(_location, kind=kind, stays_wide=stays_wide, exact=exact)
    return _fitting(graph, members, location_of, _useless, set)


def integer_locations(
    graph: Graph, kind: KernelKind, is_left_out: Callable[[Node], bool] = lambda _: False
) -> list[AreaLocation]:
    """The areas of integer groups and the float32 operators between them, whether or not they save
    time. An integer group is a quantized operator with the quantizations around it.
    """
    dynamic = dynamic_groups(graph)
    possible = [*integer_groups(graph), *dynamic]
    wanted = [group for group in possible if not any(map(is_left_out, group))]
    groups = [group for group in map(_fit_part, wanted) if group]
    groups_of = defaultdict[Node, list[frozenset[Node]]](list)
    for group in groups:
        for node in group:
            groups_of[node].append(group)

    def with_groups(unfit: Iterable[Node]) -> set[Node]:
        return {other for node in unfit for group in groups_of[node] for other in group}

    members = set(chain(*groups))
    reads = _reads_some if dynamic else _reads_only
    members |= _after_groups(graph, members, is_left_out, reads)
    members |= {
        maker
        for maker in set(chain(*wanted)) - members
        if maker.operator in QUANTIZE and members.issuperset(_users(maker))
    }
    return _fitting(graph, members, partial(_location, kind=kind), lambda _: [], with_groups)


def _after_groups(
    graph: Graph,
    groups: Set[Node],
    is_left_out: Callable[[Node], bool],
    reads: Callable[[Node, Set[Node]], bool],
) -> set[Node]:
    """The operators that follow the groups: `reads` is true for each of them and the operators
    already inside.
    """
    inside = set(groups)
    for node in graph.ordered():
        if node in inside or not reads(node, inside) or is_left_out(node):
            continue
        if node.operator in QUANTIZE or _is_of_bytes(node) or _may_be_inside(node):
            inside.add(node)
    return inside - groups


def _reads_only(node: Node, groups: Set[Node]) -> bool:
    """Whether all operands that are not constants are results of `groups`, and at least one of them
    is not the result of a dequantization.
    """
    makers = {v.producer for v in node.inputs if v is not None and not v.is_constant}
    are_dequantized = all(m is None or m.operator in DEQUANTIZE for m in makers)
    return not are_dequantized and all(maker in groups for maker in makers)


def _reads_some(node: Node, groups: Set[Node]) -> bool:
    """Whether these operators compute an operand, other than by dequantizing it. With this
    question, the float32 operators between quantizations at run time join their groups: residual
    sums, norms, attention.
    """
    makers = {v.producer for v in node.inputs if v is not None}
    return any(maker.operator not in DEQUANTIZE for maker in makers & groups if maker is not None)


def _is_of_bytes(node: Node) -> bool:
    """Whether an operator computes 8-bit integers directly from 8-bit integers."""
    image = node.inputs[0]
    is_known = node.domain == "" and node.op in OF_INTEGERS
    return is_known and image is not None and image.elem_type in BYTES


def _fit_part(group: frozenset[Node]) -> frozenset[Node]:
    """The group if it fits. Otherwise the group without the quantizations of its inputs, which
    other operators may need as well. Empty if neither of the two fits.
    """
    if _is_group_fit(group):
        return group
    makers = {n for n in group if n.operator in QUANTIZE and group.intersection(_users(n))}
    rest = group - makers
    return rest if makers and rest and _is_group_fit(rest) else frozenset()


def _is_group_fit(group: Collection[Node]) -> bool:
    if not all(node.operator in OPERATORS for node in group):
        return False
    nodes = sorted(group, key=lambda node: node.position)
    readers = [n for n in nodes if is_of_integers(n.operator) or is_cast_of_weights(n)]
    if not all(map(_has_constants_as_weights, readers)):
        return False
    area = _area_of(nodes, KernelKind.BLOCKED)
    has_rows = any(is_product(node.op) for node in nodes)
    return area is not None and (_is_fit(area, has_rows) or (has_rows and _is_fit(area, False)))


def _has_constants_as_weights(node: Node) -> bool:
    """Whether the operator's weights are constants of the graph that contains the operator. The
    operand of a DequantizeLinear may also be an image, so it need not be a constant.
    """
    weights = [v for k, v in enumerate(node.inputs) if v and _is_weights(node, k, v)]
    is_free = node.op == "DequantizeLinear"
    return all(v.graph is node.graph if v.is_constant else is_free for v in weights)


def _fitting(
    graph: Graph,
    members: set[Node],
    location_of: Callable[[Sequence[Node]], AreaLocation | None],
    useless: Callable[[Sequence[Node]], list[Node]],
    with_others: Callable[[Iterable[Node]], set[Node]],
) -> list[AreaLocation]:
    """The areas of the `members`, after operators that do not fit have been removed. `with_others`
    gives the operators that must be removed together with unfit ones.
    """
    for _ in range(_MOST_ROUNDS):
        clusters = _clusters(graph, members)
        candidates = [location_of(nodes) for nodes in clusters]
        locations = [location for location in candidates if location is not None]
        unfit = set(chain(*map(useless, clusters), *map(_unfit, locations)))
        if not unfit:
            return list(map(_without_shared, locations))
        members -= with_others(unfit) | unfit
    return [_without_shared(location) for location in locations if not _unfit(location)]


def _clusters(graph: Graph, members: set[Node]) -> list[list[Node]]:
    """The clusters of these operators. Operators that compute weights from constants do not
    separate clusters, but are not part of the returned lists.
    """
    makers = _makers(members)
    clusters = clusters_of(graph, lambda node: node in members or node in makers)
    own = ([node for node in nodes if node in members] for nodes in clusters)
    return [nodes for nodes in own if nodes]


def _without_shared(location: AreaLocation) -> AreaLocation:
    """The location without the operators that must also stay in the model, because operators
    outside need their results.
    """
    shared = _shared(location.nodes)
    return replace(location, nodes=tuple(node for node in location.nodes if node not in shared))


def _shared(nodes: Sequence[Node]) -> set[Node]:
    """The dequantizations and computations of weights whose results are also needed outside. They
    stay in the model, and the area contains copies of them.
    """
    replaced = set(nodes)
    makers = _makers(nodes)
    for node in reversed(nodes):
        is_copied = node.op == "DequantizeLinear" or node in makers
        if is_copied and any(v is not None and is_seen_outside(v, replaced) for v in node.outputs):
            replaced.remove(node)
    return set(nodes) - replaced


def _makers(nodes: Iterable[Node]) -> dict[Node, None]:
    """The operators that compute the weights of float32 convolutions and products, in order."""
    inside = set(nodes)
    weights = (v for node in nodes if _multiplies_floats(node, inside) for v in _weights_of(node))
    return dict.fromkeys(chain.from_iterable(map(weight_makers, weights)))


def _multiplies_floats(node: Node, inside: Collection[Node]) -> bool:
    """Whether a node is a convolution or product that the cluster computes in floating point, and
    not in integers.
    """
    if not _convolves(node) or is_of_integers(node.operator):
        return False
    maker = None if node.inputs[0] is None else node.inputs[0].producer
    return maker is None or maker not in inside or maker.op != "DequantizeLinear"


def _weights_of(node: Node) -> list[Edge]:
    operands = [(place, v) for place, v in enumerate(node.inputs) if v is not None]
    return [v for place, v in operands if _is_weights(node, place, v)]


def _may_be_inside(node: Node) -> bool:
    """Whether an operator could be in a cluster, whatever its neighbours are."""
    return reason_outside(node) is None


def reason_outside(node: Node) -> str | None:
    """The reason why an operator cannot be in any cluster, whatever its neighbours are. `None` if
    it can.
    """
    is_known = node.operator in OPERATORS and not is_of_integers(node.operator)
    if not is_known or node.bodies or None in node.outputs:
        return "no step computes it"
    if not _has_own_weights(node):
        return "its weights are neither constants nor computed from constants"
    if is_product(node.op) and _shares_weights_by_few_rows(node):
        return "it may have few rows, and onnxruntime packs its weights once for several products"
    if is_product(node.op) and _packs_for_few_rows(node):
        return "it may have few rows, for which onnxruntime multiplies by the packed weights"
    area = _area_of([*_makers([node]), node], KernelKind.BLOCKED)
    if area is None:
        return "the type of one of its values is not known"
    return _why_unfit(area, False) and _why_unfit(area, True)


def _has_own_weights(node: Node) -> bool:
    """Whether the weights are constants of the operator's graph, or computed from such constants.
    Only these are known when a session creates the kernel.
    """
    return all(
        v.graph is node.graph if v.is_constant else _convolves(node) and bool(weight_makers(v))
        for v in _weights_of(node)
    )


def _shares_weights_by_few_rows(node: Node) -> bool:
    """Whether a product may have few rows and shares its weights, as in unrolled recurrences.

    onnxruntime packs such weights once for all products, so they stay in the processor's cache.
    Each kernel would have its own copy of the weights, and would read it from memory.
    """
    rows = node.inputs[0]
    matrix = node.inputs[_MATRIX]
    assert rows is not None and matrix is not None
    sharing = [
        user
        for user in matrix.outputs
        if user.operator in CONVOLVING and user.inputs[_MATRIX] is matrix
    ]
    if len(sharing) < 2:
        return False
    sizes = [size for size in rows.shape or () if isinstance(size, int)]
    are_many = rows.rank == len(sizes) and math.prod(sizes[:-1]) > _FEW_ROWS
    return not are_many


def _packs_for_few_rows(product: Node) -> bool:
    """Whether onnxruntime multiplies by dequantized weights without unpacking them (MatMulNBits),
    and there may be few rows. In this case, it reads at most a quarter of the bytes. Measured: for
    one row, a kernel takes two or three times as long; for 32 rows, the same time; for more rows,
    less.
    """
    rows = product.inputs[0]
    sizes = () if rows is None or rows.shape is None else rows.shape[:-1]
    known = math.prod(size for size in sizes if isinstance(size, int))
    return known < _MANY_ROWS and takes_packed(product, Wiring())


def _is_fit(fragment: Area, has_rows: bool) -> bool:
    return _why_unfit(fragment, has_rows) is None


def _why_unfit(fragment: Area, has_rows: bool) -> str | None:
    try:
        Operations(fragment, is_fragment=True, has_rows=has_rows)
    except UnfitOperator as reason:
        return str(reason)
    return None


def _unfit(location: AreaLocation) -> list[Node]:
    """The operators of an area that do not fit its other operators."""
    try:
        Operations(location.area)
    except UnfitOperator as reason:
        return [location.nodes[place] for place in reason.places]
    return []


def _location(
    nodes: Sequence[Node],
    kind: KernelKind,
    stays_wide: Callable[[Node], bool] = lambda _: False,
    exact: Set[Node] = frozenset(),
) -> AreaLocation | None:
    if not any(map(_convolves, nodes)) or (len(nodes) < 2 and not is_product(nodes[0].op)):
        return None
    products = list(filter(_convolves, nodes))
    nodes = [*_makers(nodes), *nodes]
    wide = list(filter(stays_wide, products)) if KernelKind.NARROW in kind else []
    if len(wide) == len(products):
        kind &= ~KernelKind.OF_BFLOAT16
        wide = []
    direct = [node for node in products if node in exact]
    area = _area_of(nodes, kind, _matrices(wide), _matrices(direct))
    return None if area is None else AreaLocation(area, tuple(nodes), *_ends(nodes))


def _area_of(
    nodes: Sequence[Node],
    kind: KernelKind,
    wide: Sequence[Edge] = (),
    direct: Sequence[Edge] = (),
) -> Area | None:
    return area_of(nodes, *_ends(nodes), _ORIGIN, kind, wide, direct)


def _matrices(products: Sequence[Node]) -> list[Edge]:
    return [v for node in products if (v := node.inputs[_MATRIX]) is not None]


def narrow_products(location: AreaLocation) -> list[Node]:
    """The convolutions and products of an area that may multiply bfloat16 numbers."""
    area = location.area
    if KernelKind.NARROW not in area.kind:
        return []
    products = filter(_convolves, location.nodes)
    protos = (node for node in area.nodes if (node.domain, node.op_type) in CONVOLVING)
    return [
        node
        for node, proto in zip(products, protos, strict=True)
        if proto.input[_MATRIX] not in area.wide
    ]


def _ends(nodes: Sequence[Node]) -> tuple[tuple[Edge, ...], tuple[Edge, ...]]:
    """The values that operators read from outside, including weights, and the results that are
    needed outside.
    """
    inside = set(nodes)
    replaced = inside - _shared(nodes)
    makers = _makers(nodes)
    tensors = (v for node in nodes if node not in makers for v in _tensors(node))
    read = (v for v in chain(tensors, constants_of_makers(makers)) if v.producer not in inside)
    made = (v for node in nodes if node in replaced for v in node.outputs if v is not None)
    return tuple(dict.fromkeys(read)), tuple(v for v in made if is_seen_outside(v, replaced))


def _tensors(node: Node) -> Iterator[Edge]:
    """The inputs that a kernel reads, either when it runs or when a session creates it.

    The other inputs become part of the kernel's program.
    """
    for place, value in enumerate(node.inputs):
        if value is None:
            continue
        is_scale = bool(casts_of_weights(node)) or multiplies_scales(node)
        is_tensor = _is_tensor(value) and not is_scale
        is_read = is_tensor or _is_weights(node, place, value) or _is_table(node, place)
        if is_read or not value.is_constant:
            yield value


def _is_weights(node: Node, place: int, value: Edge) -> bool:
    """Whether an operand is a weight or bias, which must be a constant."""
    reading = OPERATORS[node.operator]
    is_number = value.is_constant and value.shape == (1,)
    is_vector = reading.takes_vectors and value.rank == 1 and not is_number
    is_vector = is_vector and not multiplies_scales(node)
    return place in reading.weights or is_vector or is_cast_of_weights(node)


def _is_table(node: Node, place: int) -> bool:
    """Whether a kernel reads an operand as rows. It then does so even if the operand is a
    constant.
    """
    return place in OPERATORS[node.operator].tables


def _is_tensor(constant: Edge) -> bool:
    return constant.rank == _IMAGE_RANK and any(size != 1 for size in constant.shape or ())


def _useless(nodes: Sequence[Node]) -> list[Node]:
    """The operators that a cluster gains nothing from. Convolutions, products and all operators
    after them are useful. Operators before them are useful only if the cluster has a convolution.

    If it has only products, the operators before them would save nothing, and onnxruntime may
    recognize them as part of a normalization.
    """
    useful = _convolutions_and(nodes, _producers)
    if not all(is_product(node.op) for node in nodes if _convolves(node)):
        useful |= _convolutions_and(nodes[::-1], _users)
    return list(set(nodes) - useful)


def _convolutions_and(
    nodes: Sequence[Node], neighbours: Callable[[Node], Iterator[Node | None]]
) -> set[Node]:
    """The convolutions and products, and all nodes that `neighbours` connects to them, directly or
    through others. `nodes` must be sorted so that a node's neighbours come first.
    """
    reached = set[Node]()
    for node in nodes:
        if _convolves(node) or any(other in reached for other in neighbours(node)):
            reached.add(node)
    return reached


def _producers(node: Node) -> Iterator[Node | None]:
    return (v.producer for v in node.inputs if v is not None)


def _users(node: Node) -> Iterator[Node]:
    return (user for v in node.outputs if v is not None for user in v.outputs)


def _convolves(node: Node) -> bool:
    return node.operator in CONVOLVING
