"""Reshape, Flatten, Squeeze and Unsqueeze: the elements stay in their order, so only the sizes of the axes change."""

from __future__ import annotations

from collections.abc import Sequence

import onnx

from fusionc.graph_kernel.lower.area_info import AreaInfo, KernelShape, attribute, axes_of, numbers
from fusionc.graph_kernel.lower.index import Element, Index, SplitWanted, divided, linear
from fusionc.graph_kernel.lower.symbolic_sizes import Size, Unsupported
from fusionc.shapes.polynomials import ONE, number, product


def reshaped(info: AreaInfo, node: onnx.NodeProto) -> list[KernelShape]:
    """The shape of the output. Raises Unsupported where it depends on sizes that nobody knows, or contradicts them."""
    shape = info.shapes[node.input[0]]
    if node.op_type == "Flatten":
        rank = len(shape)
        axis = int(attribute(node, "axis", 1))
        axis += rank if axis < 0 else 0
        return [(product(shape[:axis]), product(shape[axis:]))]
    if node.op_type in ("Squeeze", "Unsqueeze"):
        return [_with_or_without_ones(info, node, shape)]
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


def _with_or_without_ones(info: AreaInfo, node: onnx.NodeProto, shape: KernelShape) -> KernelShape:
    axes = numbers(info, node, 1, "axes")
    if node.op_type == "Squeeze":
        if axes is None and any(size.number is None for size in shape):
            raise Unsupported("Squeeze without axes, and it is not known which sizes are 1")
        gone = (
            [k for k, n in enumerate(shape) if n == ONE]
            if axes is None
            else axes_of(axes, len(shape))
        )
        for axis in gone:
            info.sizes.equal(shape[axis], ONE, "Squeeze of a size that is not 1")
        return tuple(size for axis, size in enumerate(shape) if axis not in gone)
    rank = len(shape) + len(axes or [])
    new = axes_of(axes, rank)
    rest = iter(shape)
    return tuple(ONE if axis in new else next(rest) for axis in range(rank))


def reshape(info: AreaInfo, node: onnx.NodeProto, k: int, at: Sequence[Index]) -> Element:
    """Where an element of the output lies in the input.

    Raises SplitWanted where a loop has to be several for that, Unsupported where even that would not help.
    """
    source = node.input[0]
    old = info.shapes[source]
    new = info.shapes[node.output[0]]
    if source not in info.producers:  # it lies row by row: only the number of the element matters
        return source, (*[Index()] * (len(old) - 1), linear(at, new))[: len(old)]
    found: list[Index] = [Index() for _ in old]
    for olds, news in _groups(old, new):
        parts = _regrouped([old[a] for a in olds], [new[a] for a in news], [at[a] for a in news])
        for axis, index in zip(olds, parts, strict=True):
            found[axis] = index
    return source, tuple(found)


def _groups(old: KernelShape, new: KernelShape) -> list[tuple[list[int], list[int]]]:
    """The shortest runs of axes with equal products."""
    groups = []
    olds = list[int]()
    news = list[int]()
    left = [k for k, n in enumerate(old) if n != ONE]
    right = [k for k, n in enumerate(new) if n != ONE]
    while left or right:
        one = product(old[a] for a in olds)
        other = product(new[a] for a in news)
        # the side that lacks a factor of the other one grows
        grow_old = left and (not right or one.over(other) is None or (one == other))
        if grow_old:
            olds.append(left.pop(0))
        elif right:
            news.append(right.pop(0))
        if olds and news and product(old[a] for a in olds) == product(new[a] for a in news):
            groups.append((olds, news))
            olds = []
            news = []
    if olds or news:
        groups.append((olds, news))
    return groups


def _regrouped(old: list[Size], new: list[Size], at: list[Index]) -> list[Index]:
    """Where an element of the axes `new` lies in the axes `old`, which have as many elements together."""
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
            if variable is None or variable.extent != size:  # which walks along a part of the axis
                break
            raise SplitWanted(variable, digits)
        inner *= size
    raise Unsupported(
        "Reshape of a computed value whose old and new sizes do not fit into one another"
    )


def _digits(old: list[Size], inner: Size, size: Size) -> list[Size] | None:
    """The loops that one of `size` has to be, so that each walks along a single axis of `old`."""
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
