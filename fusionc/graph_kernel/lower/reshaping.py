"""Reshape, Flatten, Squeeze and Unsqueeze: they change the axes, but not the order of elements."""

from __future__ import annotations

from collections.abc import Sequence

import onnx

from fusionc.graph_kernel.lower.area_info import AreaInfo, KernelShape, attribute, axes_of, numbers
from fusionc.graph_kernel.lower.index import Element, Index, SplitWanted, divided, linear
from fusionc.graph_kernel.lower.symbolic_sizes import Size, Unsupported
from fusionc.operators.polynomials import ONE, number, product


def reshaped(info: AreaInfo, node: onnx.NodeProto) -> list[KernelShape]:
    """The shape of the output.

    Raises Unsupported if the shape depends on unknown sizes, or contradicts known ones.
    """
    shape = info.shapes[node.input[0]]
    if node.op_type == "Flatten":
        rank = len(shape)
        axis = int(attribute(node, "axis", 1))
        axis += rank if axis < 0 else 0
        return [(product(shape[:axis]), product(shape[axis:]))]
    if node.op_type == "Squeeze":
        return [_squeezed(info, node, shape)]
    if node.op_type == "Unsqueeze":
        return [_unsqueezed(info, node, shape)]
    wanted = numbers(info, node, 1, "shape") or []
    keep_zero = bool(attribute(node, "allowzero", 0))
    sizes: list[Size] = [
        ONE if n == -1 else shape[axis] if n == 0 and not keep_zero else number(n)
        for axis, n in enumerate(wanted)
    ]
    if -1 in wanted:
        total = product(shape)
        others = product(sizes)
        rest = total.over(others)
        if rest is None:
            rest = info.sizes.variable(f"({others}) == 0 ? 0 : ({total}) / ({others})")
        sizes[wanted.index(-1)] = rest
    info.sizes.equal(product(shape), product(sizes), "Reshape cannot change the number of elements")
    return [tuple(sizes)]


def _squeezed(info: AreaInfo, node: onnx.NodeProto, shape: KernelShape) -> KernelShape:
    axes = numbers(info, node, 1, "axes")
    if axes is None and any(size.number is None for size in shape):
        raise Unsupported("Squeeze has no axes, and it is not known which sizes are 1")
    if axes is None:
        return tuple(size for size in shape if size != ONE)
    squeezed = axes_of(axes, len(shape))
    for axis in squeezed:
        info.sizes.equal(shape[axis], ONE, "Squeeze of a size that is not 1")
    return tuple(size for axis, size in enumerate(shape) if axis not in squeezed)


def _unsqueezed(info: AreaInfo, node: onnx.NodeProto, shape: KernelShape) -> KernelShape:
    axes = numbers(info, node, 1, "axes")
    rank = len(shape) + len(axes or [])
    new = axes_of(axes, rank)
    rest = iter(shape)
    return tuple(ONE if axis in new else next(rest) for axis in range(rank))


def reshape(info: AreaInfo, node: onnx.NodeProto, k: int, at: Sequence[Index]) -> Element:
    """The index in the input of the element `at` of the output.

    Raises SplitWanted if a loop must be split first. Raises Unsupported if splitting would not
    help.
    """
    source = node.input[0]
    old = info.shapes[source]
    new = info.shapes[node.output[0]]
    if source not in info.producers:  # an input of the area is stored row by row: use the position
        return source, (*[Index()] * (len(old) - 1), linear(at, new))[: len(old)]
    place: list[Index] = [Index() for _ in old]
    for olds, news in _groups(old, new):
        parts = _regrouped([old[a] for a in olds], [new[a] for a in news], [at[a] for a in news])
        for axis, index in zip(olds, parts, strict=True):
            place[axis] = index
    return source, tuple(place)


def _groups(old: KernelShape, new: KernelShape) -> list[tuple[list[int], list[int]]]:
    """Groups of adjacent axes: the axes of both shapes in a group have the same product of sizes.
    The groups are as short as possible.
    """
    groups = []
    olds = _Run(old)
    news = _Run(new)
    while olds.rest or news.rest:
        # If one side's product is a multiple of the other's, the other side gets one more axis.
        grows_old = not news.rest or olds.size.over(news.size) is None or olds.size == news.size
        (olds if olds.rest and grows_old else news).grow()
        if olds.axes and news.axes and olds.size == news.size:
            groups.append((olds.axes, news.axes))
            olds = _Run(old, olds.rest)
            news = _Run(new, news.rest)
    if olds.axes or news.axes:
        groups.append((olds.axes, news.axes))
    return groups


class _Run:
    """Adjacent axes of a shape. The next axes can be added one by one. Axes of size 1 are left
    out.
    """

    def __init__(self, shape: KernelShape, rest: list[int] | None = None) -> None:
        self._shape = shape
        self.axes: list[int] = []
        self.size = ONE
        self.rest = [k for k, n in enumerate(shape) if n != ONE] if rest is None else rest

    def grow(self) -> None:
        axis = self.rest.pop(0)
        self.axes.append(axis)
        self.size *= self._shape[axis]


def _regrouped(old: list[Size], new: list[Size], at: list[Index]) -> list[Index]:
    """The indices, on the axes `old`, of the element that has the indices `at` on the axes `new`.
    Both groups of axes have the same number of elements.
    """
    if len(old) == 1:
        return [linear(at, new)]
    if old == new:
        return at
    parts = divided(linear(at, new), old)
    if parts is not None:
        return parts
    inner = ONE
    for size, index in zip(reversed(new), reversed(at), strict=True):
        digits = _digits(old, inner, size)
        variable = index.lone
        if digits is not None and len(digits) > 1:
            if variable is None or variable.extent != size:  # the loop covers a part of the axis
                break
            raise SplitWanted(variable, digits)
        inner *= size
    raise Unsupported(
        "Reshape of a computed value whose old and new sizes are not multiples of one another"
    )


def _digits(old: list[Size], inner: Size, size: Size) -> list[Size] | None:
    """The extents of the loops into which a loop of `size` elements is split, so that each of these
    loops moves along one axis of `old`. `inner` is the number of elements inside the loop. `None`
    if the loop cannot be split so.
    """
    cuts = list[Size]()
    reach = ONE
    for axis in reversed(old):
        reach *= axis
        cut = reach.over(inner)
        if cut is not None and cut not in (ONE, size) and size.over(cut) is not None:
            cuts.append(cut)
    digits = list[Size]()
    below = ONE
    for cut in [*cuts, size]:
        digit = cut.over(below)
        if digit is None:
            return None
        digits.insert(0, digit)
        below = cut
    return [digit for digit in digits if digit != ONE]
