"""Which clusters of a graph become areas in a blocked layout: convolutions, products, and what
stands between them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from fusionc.graph_kernel.area import Area, KernelKind
from fusionc.graph_kernel.blocked.fuse_operations import Operations
from fusionc.graph_kernel.blocked.image_area import UnfitOperator
from fusionc.graph_kernel.blocked.image_operators import CONVOLVING, OPERATORS, is_product
from fusionc.graph_kernel.select.area_location import AreaLocation
from fusionc.graph_kernel.select.cluster import clusters_of
from fusionc.graph_kernel.select.cluster_model import is_seen_outside
from fusionc.graph_kernel.select.make_area import area_of
from fusionc.model.graph import Edge, Graph, Node

NOT_FASTER = "onnxruntime is estimated to be as fast"
_ORIGIN = "blocked"
_IMAGE_RANK = 4
_MATRIX = 1  # the operand of a product that is one
_FEW_ROWS = 128  # for which a matrix takes about as long to read as to multiply
_MOST_ROUNDS = 8  # of taking away what does not fit, until clusters are given up


def blocked_locations(
    graph: Graph, kind: KernelKind, is_left_out: Callable[[Node], bool] = lambda _: False
) -> list[AreaLocation]:
    """The areas of a graph, whether they pay or not, without what is left out. Each has at least
    one convolution or product.
    """
    possible = [node for node in graph.ordered() if not is_left_out(node) and _may_be_inside(node)]
    # what no cluster could use would keep others from theirs
    members = set(possible) - set(_useless(possible))
    for _ in range(_MOST_ROUNDS):
        clusters = clusters_of(graph, members.__contains__)
        locations = [
            location for nodes in clusters if (location := _location(nodes, kind)) is not None
        ]
        unfit = {node for nodes in clusters for node in _useless(nodes)}
        unfit.update(node for location in locations for node in _unfit(location))
        if not unfit:
            return locations
        members -= unfit
    return [location for location in locations if not _unfit(location)]


def _may_be_inside(node: Node) -> bool:
    """Whether an operator alone could be in a cluster, whatever is in front of it."""
    if node.operator not in OPERATORS or node.bodies or None in node.outputs:
        return False
    weights = [
        v for place, v in enumerate(node.inputs) if v is not None and _is_weights(node, place, v)
    ]
    if not all(v.is_constant and v.graph is node.graph for v in weights):
        return False  # a session knows the constants of its own graph
    if is_product(node.op) and _waits_for_shared_weights(node):
        return False
    area = _area_of([node], KernelKind.BLOCKED)
    if area is None:
        return False
    return _is_fit(area, False) or _is_fit(area, True)


def _waits_for_shared_weights(node: Node) -> bool:
    """Whether a product has few rows and its weights belong to others, too, as in recurrences that
    are unrolled: onnxruntime packs them once for all, and finds them in a cache, where each kernel
    has and reads a copy of its own.
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


def _is_fit(fragment: Area, has_rows: bool) -> bool:
    try:
        Operations(fragment, is_fragment=True, has_rows=has_rows)
    except UnfitOperator:
        return False
    return True


def _unfit(location: AreaLocation) -> list[Node]:
    """The operators that do not fit to the others."""
    try:
        Operations(location.area)
    except UnfitOperator as reason:
        return [location.nodes[place] for place in reason.places]
    return []


def _location(nodes: Sequence[Node], kind: KernelKind) -> AreaLocation | None:
    if not any(map(_convolves, nodes)) or (len(nodes) < 2 and not is_product(nodes[0].op)):
        return None
    area = _area_of(nodes, kind)
    return None if area is None else AreaLocation(area, tuple(nodes), *_ends(nodes))


def _area_of(nodes: Sequence[Node], kind: KernelKind) -> Area | None:
    return area_of(nodes, *_ends(nodes), _ORIGIN, kind)


def _ends(nodes: Sequence[Node]) -> tuple[tuple[Edge, ...], tuple[Edge, ...]]:
    """What operators read from outside, weights among it, and what is needed outside."""
    inside = set(nodes)
    read = (v for node in nodes for v in _tensors(node) if v.producer not in inside)
    made = (v for node in nodes for v in node.outputs if v is not None)
    return tuple(dict.fromkeys(read)), tuple(v for v in made if is_seen_outside(v, inside))


def _tensors(node: Node) -> Iterator[Edge]:
    """What a kernel reads when it runs, or when a session is made. The rest is what a program is
    made for.
    """
    for place, value in enumerate(node.inputs):
        if value is None:
            continue
        is_read = _is_tensor(value) or _is_weights(node, place, value) or _is_table(node, place)
        if is_read or not value.is_constant:
            yield value


def _is_weights(node: Node, place: int, value: Edge) -> bool:
    """Whether an operand is weights or a bias, which have to be constants."""
    reading = OPERATORS[node.operator]
    is_number = value.is_constant and value.shape == (1,)
    is_vector = reading.takes_vectors and value.rank == 1 and not is_number
    return place in reading.weights or is_vector


def _is_table(node: Node, place: int) -> bool:
    """Whether an operand is rows, even if it is a constant."""
    return place in OPERATORS[node.operator].tables


def _is_tensor(constant: Edge) -> bool:
    return constant.rank == _IMAGE_RANK and any(size != 1 for size in constant.shape or ())


def _useless(nodes: Sequence[Node]) -> list[Node]:
    """Those of a cluster that are neither behind nor in front of a convolution or product of it. In
    front of products nothing is taken: nothing would be saved, and onnxruntime may know it as part
    of a norm.
    """
    inside = set(nodes)
    behind = set[Node]()
    ahead = set[Node]()
    for node in nodes:
        if _convolves(node) or any(v is not None and v.producer in behind for v in node.inputs):
            behind.add(node)
    has_images = not all(is_product(node.op) for node in nodes if _convolves(node))
    for node in reversed(nodes) if has_images else ():
        users = (user for v in node.outputs if v is not None for user in v.outputs)
        if _convolves(node) or any(user in ahead for user in users):
            ahead.add(node)
    return list(inside - behind - ahead)


def _convolves(node: Node) -> bool:
    return node.operator in CONVOLVING
