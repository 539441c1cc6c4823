"""Operators that compute nothing: each finds an element of its output in one of its inputs.

For every operator there is a function for the shapes of its outputs and one for the place of an element.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx

from fusionc.graph_kernel.lower.area_info import AreaInfo, KernelShape, as_first, attribute, axes_of, constant, numbers
from fusionc.graph_kernel.lower.index import CutWanted, Index, SplitWanted, divided, linear
from fusionc.graph_kernel.lower.symbolic_sizes import ONE, ZERO, Size, SizeSum, Unsupported, product

Element = tuple[str, tuple[Index, ...]]
_FAR = 2**62  # beyond every size; ONNX writes "to the end" as the largest int64
_FOREVER = 2**31 - 1  # or as the largest int32


def _axis(node: onnx.NodeProto, rank: int) -> int:
    return axes_of([int(attribute(node, "axis", 0))], rank)[0]


def _identity(info: AreaInfo, node: onnx.NodeProto, k: int, at: Sequence[Index]) -> Element:
    return node.input[0], tuple(at)


def _order(info: AreaInfo, node: onnx.NodeProto) -> list[int]:
    rank = len(info.shapes[node.input[0]])
    return list(attribute(node, "perm", range(rank - 1, -1, -1)))


def _transposed(info: AreaInfo, node: onnx.NodeProto) -> list[KernelShape]:
    shape = info.shapes[node.input[0]]
    return [tuple(shape[axis] for axis in _order(info, node))]


def _transpose(info: AreaInfo, node: onnx.NodeProto, k: int, at: Sequence[Index]) -> Element:
    order = _order(info, node)
    return node.input[0], tuple(at[order.index(axis)] for axis in range(len(order)))


def _reshaped(info: AreaInfo, node: onnx.NodeProto) -> list[KernelShape]:
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
        ONE if n == -1 else shape[axis] if n == 0 and not keep_zero else Size(n) for axis, n in enumerate(wanted)
    ]
    if -1 in wanted:
        total, others = product(shape), product(sizes)
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
        gone = [k for k, n in enumerate(shape) if n == ONE] if axes is None else axes_of(axes, len(shape))
        for axis in gone:
            info.sizes.equal(shape[axis], ONE, "Squeeze of a size that is not 1")
        return tuple(size for axis, size in enumerate(shape) if axis not in gone)
    rank = len(shape) + len(axes or [])
    new, rest = axes_of(axes, rank), iter(shape)
    return tuple(ONE if axis in new else next(rest) for axis in range(rank))


def _reshape(info: AreaInfo, node: onnx.NodeProto, k: int, at: Sequence[Index]) -> Element:
    source = node.input[0]
    old, new = info.shapes[source], info.shapes[node.output[0]]
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
    groups, olds, news = [], list[int](), list[int]()
    left, right = [k for k, n in enumerate(old) if n != ONE], [k for k, n in enumerate(new) if n != ONE]
    while left or right:
        one, other = product(old[a] for a in olds), product(new[a] for a in news)
        # the side that lacks a factor of the other one grows
        grow_old = left and (not right or one.over(other) is None or (one == other))
        if grow_old:
            olds.append(left.pop(0))
        elif right:
            news.append(right.pop(0))
        if olds and news and product(old[a] for a in olds) == product(new[a] for a in news):
            groups.append((olds, news))
            olds, news = [], []
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
        digits, variable = _digits(old, inner, size), index.lone
        if digits is not None and len(digits) > 1:
            if variable is None:
                break
            raise SplitWanted(variable, digits)
        inner *= size
    raise Unsupported("Reshape of a computed value whose old and new sizes do not fit into one another")


def _digits(old: list[Size], inner: Size, size: Size) -> list[Size] | None:
    """The loops that one of `size` has to be, so that each walks along a single axis of `old`."""
    locations, reach = list[Size](), ONE
    for axis in reversed(old):
        reach *= axis
        cut = reach.over(inner)
        if cut is not None and cut not in (ONE, size) and size.over(cut) is not None:
            locations.append(cut)
    digits, below = list[Size](), ONE
    for cut in [*locations, size]:
        digit = cut.over(below)
        if digit is None:
            return None
        digits.insert(0, digit)
        below = cut
    return [digit for digit in digits if digit != ONE]


def _slices(info: AreaInfo, node: onnx.NodeProto) -> dict[int, tuple[int, int, int]]:
    """Axis → start, end, step as they are written."""
    rank = len(info.shapes[node.input[0]])
    starts, ends = numbers(info, node, 1, "starts") or [], numbers(info, node, 2, "ends") or []
    axes = numbers(info, node, 3, "axes")
    steps = numbers(info, node, 4, "steps") or [1] * len(starts)
    axes = list(range(len(starts))) if axes is None else [a + rank if a < 0 else a for a in axes]
    if any(step < 0 and end >= _FOREVER for end, step in zip(ends, steps, strict=True)):
        raise Unsupported("onnxruntime reads the end of a Slice backwards in a way of its own")
    return {
        a: (max(-_FAR, min(s, _FAR)), max(-_FAR, min(e, _FAR)), max(-_FAR, min(t, _FAR)))
        for a, s, e, t in zip(axes, starts, ends, steps, strict=True)
    }


def _is_all(start: int, end: int, step: int) -> bool:
    return start == 0 and end == _FAR and step == 1


def _sliced(info: AreaInfo, node: onnx.NodeProto) -> list[KernelShape]:
    shape = list(info.shapes[node.input[0]])
    for axis, (start, end, step) in _slices(info, node).items():
        size = shape[axis]
        if size.number is not None:
            shape[axis] = Size(_bounds(size.number, start, end, step)[1])
        elif not _is_all(start, end, step):
            shape[axis] = info.sizes.variable(f"gk_slice_length({size}, {start}, {end}, {step})")
    return [tuple(shape)]


def _bounds(size: int, start: int, end: int, step: int) -> tuple[int, int]:
    """Where a Slice begins, and how long it is; `gk_slice_start` and `gk_slice_length` in Python."""
    start, end = (n + size if n < 0 else n for n in (start, end))
    if step > 0:
        start, end = (min(max(n, 0), size) for n in (start, end))
    else:
        start, end = min(max(start, 0), size - 1), min(max(end, -1), size - 1)
    return start, len(range(start, end, step)) if size else 0


def _slice(info: AreaInfo, node: onnx.NodeProto, k: int, at: Sequence[Index]) -> Element:
    found, shape = list(at), info.shapes[node.input[0]]
    for axis, (start, end, step) in _slices(info, node).items():
        size = shape[axis]
        if size.number is not None:
            first = Size(_bounds(size.number, start, end, step)[0])
        elif start >= 0 and step > 0:
            first = Size(start)
        else:
            first = info.sizes.variable(f"gk_slice_start({size}, {start}, {step})")
        found[axis] = at[axis].times(Size(step)).moved(first)
    return node.input[0], tuple(found)


def _parts(info: AreaInfo, node: onnx.NodeProto) -> list[Size]:
    shape = info.shapes[node.input[0]]
    size, count = shape[_axis(node, len(shape))], len(node.output)
    written = numbers(info, node, 1, "split")
    if written is not None:
        info.sizes.equal(size, Size(sum(written)), "the parts of Split are not the whole")
        return [Size(n) for n in written]
    if size.number is None:
        share = info.sizes.variable(f"({size} + {count - 1}) / {count}")
        rest = info.sizes.variable(f"{size} - {count - 1} * {share}")
        info.sizes.check(f"{rest} >= 0", "Split into more parts than there are elements")
        return [share] * (count - 1) + [rest]
    share = Size(-(-size.number // count))
    rest = Size(size.number - (count - 1) * share.factor)
    if rest.factor < 0:
        raise Unsupported("Split into more parts than there are elements")
    return [share] * (count - 1) + [rest]


def _split_shapes(info: AreaInfo, node: onnx.NodeProto) -> list[KernelShape]:
    shape = info.shapes[node.input[0]]
    axis = _axis(node, len(shape))
    return [(*shape[:axis], part, *shape[axis + 1 :]) for part in _parts(info, node)]


def _split(info: AreaInfo, node: onnx.NodeProto, k: int, at: Sequence[Index]) -> Element:
    axis, before = _axis(node, len(at)), SizeSum()
    for part in _parts(info, node)[:k]:
        before += part
    return node.input[0], tuple(index.moved(before) if a == axis else index for a, index in enumerate(at))


def _joined(info: AreaInfo, node: onnx.NodeProto) -> list[KernelShape]:
    shapes = [info.shapes[name] for name in node.input]
    axis = _axis(node, len(shapes[0]))
    for shape in shapes[1:]:
        for a, (one, other) in enumerate(zip(shapes[0], shape, strict=True)):
            if a != axis:
                info.sizes.equal(one, other, "Concat of tensors that differ beside its axis")
    total = info.sizes.sum(shape[axis] for shape in shapes)
    return [(*shapes[0][:axis], total, *shapes[0][axis + 1 :])]


def _concat(info: AreaInfo, node: onnx.NodeProto, k: int, at: Sequence[Index]) -> Element:
    axis = _axis(node, len(at))
    index, begin = at[axis], SizeSum()
    sizes = [info.shapes[name][axis] for name in node.input]
    for name, size in zip(node.input, sizes, strict=True):
        if _lies_in(index, begin, size):
            own = index.moved(begin.times(Size(-1)))
            return name, tuple(own if a == axis else other for a, other in enumerate(at))
        begin += size
    variable = index.lone
    if variable is not None and variable.extent == info.shapes[node.output[0]][axis]:
        raise CutWanted(variable, sizes)
    raise Unsupported("a part of a Concat is read, and it is not known of which inputs")


def _lies_in(index: Index, begin: SizeSum, size: Size) -> bool:
    """Whether all that an index may be is within [begin, begin + size)."""
    first = (index.offset + begin.times(Size(-1))).size
    if not index.terms:
        return first is not None and None not in (first.number, size.number) and 0 <= first.factor < size.factor
    if len(index.terms) > 1 or index.terms[0][1] != ONE or first is None:
        return False
    extent = index.terms[0][0].extent
    if first == ZERO and extent == size:
        return True
    if None in (first.number, extent.number, size.number):
        return False
    return first.factor >= 0 and first.factor + extent.factor <= size.factor


def _expanded(info: AreaInfo, node: onnx.NodeProto) -> list[KernelShape]:
    wanted = [Size(int(n)) for n in np.ravel(_known(constant(info, node, 1), node))]
    return [broadcast_shape(info, [info.shapes[node.input[0]], tuple(wanted)])]


def _expand(info: AreaInfo, node: onnx.NodeProto, k: int, at: Sequence[Index]) -> Element:
    return node.input[0], broadcast_index(info, node.input[0], info.shapes[node.output[0]], at)


def _picks(info: AreaInfo, node: onnx.NodeProto) -> tuple[int, np.ndarray]:
    return _axis(node, len(info.shapes[node.input[0]])), _known(constant(info, node, 1), node)


def _known(array: np.ndarray | None, node: onnx.NodeProto) -> np.ndarray:
    if array is None:
        raise Unsupported(f"{node.op_type} without its second input")
    return array


def _gathered(info: AreaInfo, node: onnx.NodeProto) -> list[KernelShape]:
    shape, (axis, picks) = info.shapes[node.input[0]], _picks(info, node)
    steps = set(np.diff(picks.ravel()))
    if picks.ndim > 1 or len(steps) > 1:
        raise Unsupported("Gather of elements that do not lie at equal distances")
    if picks.size:
        low, high = int(picks.min()), int(picks.max())
        if low < 0 <= high:
            raise Unsupported("Gather counts from both ends")
        need = high + 1 if low >= 0 else -low
        if (n := shape[axis].number) is None:
            info.sizes.check(f"{shape[axis]} >= {need}", "Gather beyond the end")
        elif n < need:
            raise Unsupported("Gather beyond the end")
    return [(*shape[:axis], *(Size(n) for n in picks.shape), *shape[axis + 1 :])]


def _gather(info: AreaInfo, node: onnx.NodeProto, k: int, at: Sequence[Index]) -> Element:
    shape, (axis, picks) = info.shapes[node.input[0]], _picks(info, node)
    flat = [int(n) for n in picks.ravel()]
    start = Size(flat[0] if flat else 0)
    first = SizeSum() + start + (shape[axis] if start.factor < 0 else ZERO)
    step = Size(flat[1] - flat[0] if len(flat) > 1 else 1)
    own = at[axis].times(step) if picks.ndim else Index()
    return node.input[0], (*at[:axis], own.moved(first), *at[axis + picks.ndim :])


def broadcast_shape(info: AreaInfo, shapes: Sequence[KernelShape]) -> KernelShape:
    """The shape that operands have together."""
    rank = max(map(len, shapes), default=0)
    result = [ONE] * rank
    for shape in shapes:
        for back, size in enumerate(reversed(shape), 1):
            result[-back] = info.sizes.broadcast(result[-back], size)
    return tuple(result)


def broadcast_index(info: AreaInfo, name: str, whole: KernelShape, at: Sequence[Index]) -> tuple[Index, ...]:
    """Where the element of an operand lies that belongs to one of the whole shape."""
    shape = info.shapes[name]
    found = []
    for size, full, index in zip(shape, whole[len(whole) - len(shape) :], at[len(at) - len(shape) :], strict=True):
        if size == full:
            found.append(index)
        else:
            found.append(Index() if size == ONE else index.times(info.sizes.unless_one(size)))
    return tuple(found)


_RESHAPES = (_reshaped, _reshape)
DATA_MOVEMENT: dict[
    str,
    tuple[
        Callable[[AreaInfo, onnx.NodeProto], list[KernelShape]],
        Callable[[AreaInfo, onnx.NodeProto, int, Sequence[Index]], Element],
    ],
] = {
    "Identity": (as_first, _identity),
    "Transpose": (_transposed, _transpose),
    "Reshape": _RESHAPES,
    "Flatten": _RESHAPES,
    "Squeeze": _RESHAPES,
    "Unsqueeze": _RESHAPES,
    "Slice": (_sliced, _slice),
    "Split": (_split_shapes, _split),
    "Concat": (_joined, _concat),
    "Expand": (_expanded, _expand),
    "Gather": (_gathered, _gather),
}
