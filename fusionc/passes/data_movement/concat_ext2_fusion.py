from collections.abc import Sequence

import numpy as np

from fusionc.model.graph import Edge
from fusionc.passes._shared.constants import COPIED
from fusionc.passes._shared.slice_split_concat import Cut, axis_of, new_slice, piece_of
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, op, rest
from fusionc.shapes.equality import same_shape

_MAX_BYTES = 1 << 20  # larger constants are not copied into a joined one


def _is_empty(value: Edge, axis: int) -> bool:
    shape = value.shape
    return shape is not None and len(shape) > axis and shape[axis] == 0


def _determines_sizes(empty: Edge, inputs: Sequence[Edge], axis: int) -> bool:
    """Whether the result may have other sizes without an empty input.

    If all inputs are empty when the model runs, the first input determines the sizes of the result.
    """
    if empty is not inputs[0]:
        return False
    following = next((value for value in inputs if not _is_empty(value, axis)), None)
    return following is not None and not _have_one_frame(empty, following, axis)


def _groups(m: Match) -> list[list[Edge]]:
    """The inputs in groups; each group becomes one value. Empty inputs are omitted."""
    first = next((v for v in m.inputs if v.rank is not None), None)
    axis = axis_of(m.concat, None if first is None else first.rank)
    groups: list[list[Edge]] = []
    for value in m.inputs:
        if (
            axis is not None
            and _is_empty(value, axis)
            and not _determines_sizes(value, m.inputs, axis)
        ):
            continue
        if axis is not None and groups and _can_be_one_value(groups[-1][-1], value, axis):
            groups[-1].append(value)
        else:
            groups.append([value])
    return groups


def _can_be_one_value(a: Edge, b: Edge, axis: int) -> bool:
    if _may_be_joined(a) and _may_be_joined(b):
        return _have_one_frame(a, b, axis)  # an empty constant may have other sizes
    return _are_adjacent(a, b, axis)


def _have_one_frame(a: Edge, b: Edge, axis: int) -> bool:
    """Whether two values are known to have the same sizes, except along the axis."""
    if a.shape is None or b.shape is None:
        return False
    own, other = ((*shape[:axis], *shape[axis + 1 :]) for shape in (a.shape, b.shape))
    return same_shape(own, other)


def _may_be_joined(value: Edge) -> bool:
    array = value.constant()
    if array is None or not array.ndim or array.nbytes > _MAX_BYTES:
        return False
    return array.size <= COPIED or (
        value.use_count == 1 and value.outputs[0].inputs.count(value) == 1
    )


def _are_adjacent(a: Edge, b: Edge, axis: int) -> bool:
    left = piece_of(a.producer)
    right = piece_of(b.producer)
    return (
        left is not None
        and right is not None
        and left[0] is right[0]
        and left[1] == right[1] == axis
        and left[3] == right[2]
    )


def _can_join(m: Match) -> bool:
    """Whether two inputs in a row are constants or adjacent pieces of one value, or whether an
    input is empty.
    """
    groups = _groups(m)
    return 0 < len(groups) < len(m.inputs)


class ZConcatExt2FusionPass(Pass):
    """Adjacent inputs of a Concat are joined where possible; empty inputs are removed.

    before   Concat(x, c, d) with constants c and d; Concat(x, empty); Concat(Slice(x, 0, 2),
             Slice(x, 2, 5))
    after    Concat(x, cd); x; Slice(x, 0, 5), or x if its length is 5
    refuses  only what every pass refuses
    never    an empty first input, if all other inputs may be empty and have other sizes, because
             the result then has the sizes of the first input; constants of more than 1 MiB, or
             large constants that are used elsewhere or twice; slices with a step; sizes that are
             not known before the model runs
    algebra  concatenation is associative, and an empty tensor is its neutral element; joining
             adjacent pieces is the inverse of slicing
    source   CANN's ZConcatExt2FusionPass
    """

    default = "must"
    patterns = (Pattern("ConcatParts", op.Concat(rest("inputs"), _as="concat"), where=_can_join),)

    def rewrite(self, m: Match, new: Tape) -> Result:
        joined = [_join(group, m.concat.attr("axis", 1), new) for group in _groups(m)]
        return joined[0] if len(joined) == 1 else new.node("Concat", joined, like=m.concat)


def _join(group: list[Edge], axis: int, new: Tape) -> Edge:
    if len(group) == 1:
        return group[0]
    if group[0].is_constant:
        arrays = [array for value in group if (array := value.constant()) is not None]
        return new.const(np.concatenate(arrays, axis), like=group[0])
    first = piece_of(group[0].producer)
    last = piece_of(group[-1].producer)
    assert first is not None and last is not None
    x, slice_axis, start, _ = first
    end = last[3]
    if start == 0 and x.shape is not None and end == x.shape[slice_axis]:
        return x
    return new_slice(new, x, [Cut(slice_axis, start, end)])
