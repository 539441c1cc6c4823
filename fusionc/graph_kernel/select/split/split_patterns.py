"""The split patterns, with MindSpore's limits for a CPU. Each pattern says which neighbours a
region takes, that is, with which ones it is fused.

A forward pattern takes regions that the region reads. A backward pattern takes regions that read
the region. A depth pattern takes a single neighbour; a width pattern takes any number of
neighbours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from fusionc.graph_kernel.select.cluster_model import is_seen_outside
from fusionc.graph_kernel.select.operator_kinds import OperatorKind
from fusionc.graph_kernel.select.split.regions import Region, Regions, same_size

_MOST_OF_REDUCE = 20  # operators of a region that a reduction takes
_MOST_OF_BACKWARD = 20  # operators of a region that takes its users
_MOST_OUTPUTS_OF_MATMUL = 5

Find = Callable[[Region, Regions], list[Region]]


@dataclass(frozen=True)
class SplitPattern:
    """`find` returns the neighbours that a region takes. The list is empty if the pattern does not
    match.
    """

    name: str
    find: Find


def _is_plain(region: Region) -> bool:
    return region.kind in (OperatorKind.ELEMWISE, OperatorKind.BROADCAST)


def _only(regions: Iterable[Region]) -> Region | None:
    """The only region. `None` if there are several regions, or none."""
    found = list(regions)
    return found[0] if len(found) == 1 else None


def _reshape(region: Region, regions: Regions) -> list[Region]:
    """The neighbour of the lowest kind, as a list. Among neighbours of the same kind, users come
    first.
    """
    if region.kind != OperatorKind.RESHAPE:
        return []
    users = [
        u
        for u in region.users
        if _may_join(u, OperatorKind.BROADCAST) and not regions.has_detour(region, u)
    ]
    makers = [
        m
        for m in region.inputs
        if _may_join(m, OperatorKind.BROADCAST) and not regions.has_detour(m, region)
    ]
    return sorted([*users, *makers], key=lambda neighbour: neighbour.kind)[:1]


def _isolate_reshape(region: Region, regions: Regions) -> list[Region]:
    if region.kind != OperatorKind.RESHAPE or not region.is_lone:
        return []
    users = [
        u
        for u in region.users
        if _may_join(u) and u.is_composite and not regions.has_detour(region, u)
    ]
    makers = [
        m
        for m in region.inputs
        if _may_join(m) and m.is_composite and not regions.has_detour(m, region)
    ]
    return [*users, *makers][:1]


def _elemwise_fwd_depth(region: Region, regions: Regions) -> list[Region]:
    maker = _only(region.inputs) if _is_plain(region) else None
    if maker is None or len(maker.users) > 1 or not _goes_along(maker, region):
        return []
    return [maker]


def _elemwise_fwd_width(region: Region, regions: Regions) -> list[Region]:
    if not _is_plain(region):
        return []
    return [
        m for m in region.inputs if _goes_along(m, region) and not regions.has_detour(m, region)
    ]


def _goes_along(maker: Region, user: Region) -> bool:
    return (
        _may_join(maker, OperatorKind.BROADCAST) and user.inputs[maker] and same_size(maker, user)
    )


def _reduce_fwd_depth(region: Region, regions: Regions) -> list[Region]:
    maker = _only(region.inputs) if region.kind == OperatorKind.REDUCE else None
    if maker is None or len(maker.users) > 1 or not _goes_into(maker, region):
        return []
    return [maker]


def _reduce_fwd_width(region: Region, regions: Regions) -> list[Region]:
    if region.kind != OperatorKind.REDUCE:
        return []
    return [m for m in region.inputs if _goes_into(m, region) and not regions.has_detour(m, region)]


def _goes_into(maker: Region, reduction: Region) -> bool:
    return (
        _may_join(maker, OperatorKind.ELEMWISE)
        and reduction.inputs[maker]
        and len(maker.nodes) <= _MOST_OF_REDUCE
    )


def _elemwise_bwd_depth(region: Region, regions: Regions) -> list[Region]:
    if len(region.users) > 1 or any(len(user.inputs) > 1 for user in region.users):
        return []
    return _pulled_behind(region, regions)


def _elemwise_bwd_width(region: Region, regions: Regions) -> list[Region]:
    users = list(region.users)
    if not all(same_size(users[0], user) for user in users[1:]):
        return []
    return (
        []
        if any(regions.has_detour(region, user) for user in users)
        else _pulled_behind(region, regions)
    )


def _pulled_behind(region: Region, regions: Regions) -> list[Region]:
    """Either all users of the region, or none."""
    if not _is_plain(region) or region.is_output or len(region.nodes) > _MOST_OF_BACKWARD:
        return []
    for user in region.users:
        is_reduced = user.kind == OperatorKind.REDUCE
        if not _may_join(user, OperatorKind.REDUCE):
            return []
        if is_reduced and (region.kind != OperatorKind.ELEMWISE or not user.inputs[region]):
            return []
    return list(region.users)


def _slice(region: Region, regions: Regions) -> list[Region]:
    if region.dominant.op != "Slice":
        return []
    return [
        u
        for u in region.users
        if _may_join(u, OperatorKind.ELEMWISE)
        and u.inputs[region]
        and not regions.has_detour(region, u)
    ]


def _elemany_addn(region: Region, regions: Regions) -> list[Region]:
    """The region before a ReduceMax if it is an IsInf or IsNaN: whether any element is not
    finite.
    """
    maker = _only(region.inputs)
    if region.dominant.op != "ReduceMax" or maker is None:
        return []
    if maker.dominant.op not in ("IsInf", "IsNaN", "Cast"):
        return []
    is_taken = (
        _may_join(maker, OperatorKind.BROADCAST)
        and region.inputs[maker]
        and not regions.has_detour(maker, region)
    )
    return [maker] if is_taken else []


def _matmul_depth(region: Region, regions: Regions) -> list[Region]:
    product = region.dominant.outputs[0]
    shape = None if product is None else product.shape
    if region.dominant.op != "MatMul" or not region.is_lone or not shape or shape[-1] == 1:
        return []
    fitting = [user for user in region.users if _may_follow_matmul(user, region, regions)]
    taken = []
    outputs = 1 if region.is_output else 0
    for user in sorted(fitting, key=_outputs):
        outputs += _outputs(user)
        if outputs <= _MOST_OUTPUTS_OF_MATMUL:
            taken.append(user)
    return taken


def _may_follow_matmul(user: Region, region: Region, regions: Regions) -> bool:
    if not _may_join(user, OperatorKind.BROADCAST):
        return False
    if user.is_lone and user.kind == OperatorKind.RESHAPE:
        return False
    return same_size(region, user) and not regions.has_detour(region, user)


def _outputs(region: Region) -> int:
    inside = set(region.nodes)
    values = [value for node in region.nodes for value in node.outputs if value is not None]
    return sum(is_seen_outside(value, inside) for value in values)


def _may_join(region: Region, highest: OperatorKind = OperatorKind.OPAQUE) -> bool:
    return region.reason is None and region.kind <= highest


# The patterns, in the order in which they run.
PATTERNS = (
    SplitPattern("reshape", _reshape),
    SplitPattern("elemwise_broadcast_fwd_depth", _elemwise_fwd_depth),
    SplitPattern("elemwise_broadcast_fwd_width", _elemwise_fwd_width),
    SplitPattern("reduce_fwd_depth", _reduce_fwd_depth),
    SplitPattern("reduce_fwd_width", _reduce_fwd_width),
    SplitPattern("elemwise_broadcast_bwd_depth", _elemwise_bwd_depth),
    SplitPattern("elemwise_broadcast_bwd_width", _elemwise_bwd_width),
    SplitPattern("elemany_addn", _elemany_addn),
    SplitPattern("slice", _slice),
    SplitPattern("matmul_depth", _matmul_depth),
    SplitPattern("isolate_reshape", _isolate_reshape),
)
