"""The split pattern "stitch": a reduction and the users of its result become one kernel, which
computes row by row. MindSpore has it only for special chips.

A kernel here visits a row as often as necessary while the row is in the cache, and reads moved
elements where they originally are. So regions are joined if their reductions have the same row, and
if no element has to be computed more than once.
"""

from __future__ import annotations

from fusionc.graph_kernel.select.operator_kinds import MOVES_DATA, ROW_BY_ROW, OperatorKind, kind_of
from fusionc.graph_kernel.select.split.regions import Region, Regions, reads_between
from fusionc.graph_kernel.select.split.rows import row_of
from fusionc.graph_kernel.select.split.split_patterns import SplitPattern
from fusionc.model.graph import Edge, Node, Shape

_REPEATING = ("Expand", "Gather")  # operators that may read an element several times


def _stitch(region: Region, regions: Regions) -> list[Region]:
    for maker in region.inputs:
        if _may_join(maker, region) and not regions.has_detour(maker, region):
            return [maker]
    return []


def _may_join(maker: Region, user: Region) -> bool:
    rows = maker.rows | user.rows
    if maker.reason is not None or len(rows) > 1:
        return False
    length = len(next(iter(rows), ()))
    is_stitched = all(
        _is_stitched(node, length) for region in (maker, user) for node in region.nodes
    )
    return is_stitched and all(
        _is_read_once(value, node, length) for value, node in reads_between(maker, user)
    )


def _is_stitched(node: Node, length: int) -> bool:
    """Whether a kernel whose rows have `length` axes can contain an operator."""
    if node.op in ROW_BY_ROW:
        return row_of(node) is not None
    if node.op not in MOVES_DATA:
        return kind_of(node.op) == OperatorKind.ELEMWISE
    before, after = (_shape(values[0]) for values in (node.inputs, node.outputs))
    # A Transpose that moves the row's axes is left to onnxruntime. It transposes in blocks and is
    # faster: a kernel would read elements that are far apart.
    if node.op == "Transpose":
        kept = max(length, 1)
        perm = node.attr("perm")
        return bool(perm) and perm[-kept:] == list(range(len(perm) - kept, len(perm)))
    return not length or (before[-length:] == after[-length:] and None not in after[-length:])


def _is_read_once(value: Edge, node: Node, length: int) -> bool:
    """Whether an operator reads each element of a value at most once; along the row it may read an
    element several times.
    """
    is_one_to_one = node.op in ROW_BY_ROW or (node.op in MOVES_DATA and node.op not in _REPEATING)
    return is_one_to_one or _fits(value, node.outputs[0], length)


def _fits(value: Edge, result: Edge | None, length: int) -> bool:
    small = _shape(value)
    whole = _shape(result)
    small = (1,) * (len(whole) - len(small)) + small
    start = len(whole) - length
    is_along = small[start:] == whole[start:] or all(dim == 1 for dim in small[start:])
    return None not in whole and small[:start] == whole[:start] and is_along


def _shape(value: Edge | None) -> Shape:
    """The shape of a value. Its rank is known, because an operator with a value of unknown rank
    cannot be in a kernel.
    """
    return (value.shape if value is not None else None) or ()


STITCH = SplitPattern("stitch", _stitch)
