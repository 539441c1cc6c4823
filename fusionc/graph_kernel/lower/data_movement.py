"""Operators that only move elements: each element of an output is an element of an input.

Every operator has two functions: one returns the shapes of its outputs, and the other one returns,
for an element of an output, the input and the index that the element comes from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx

from fusionc.graph_kernel.lower.area_info import (
    AreaInfo,
    KernelShape,
    attribute,
    axes_of,
    constant,
    first_shape,
    numbers,
)
from fusionc.graph_kernel.lower.broadcasting import broadcast_index, broadcast_shape
from fusionc.graph_kernel.lower.index import CutWanted, Element, Index
from fusionc.graph_kernel.lower.lowering import Lowering, OperatorLowering
from fusionc.graph_kernel.lower.reshaping import reshape, reshaped
from fusionc.graph_kernel.lower.steps import Step
from fusionc.graph_kernel.lower.symbolic_sizes import Size, Unsupported
from fusionc.operators.facts import Trait, names_with
from fusionc.operators.polynomials import ONE, ZERO, Polynomial, number

_FAR = 2**62  # larger than every size; to mean "to the end", models write the largest int64
_FOREVER = 2**31 - 1  # or the largest int32


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


def _slices(info: AreaInfo, node: onnx.NodeProto) -> dict[int, tuple[int, int, int]]:
    """Axis → the start, end and step of the Slice, limited to ±_FAR. Raises Unsupported if it
    slices backward to the end.
    """
    rank = len(info.shapes[node.input[0]])
    starts = numbers(info, node, 1, "starts") or []
    ends = numbers(info, node, 2, "ends") or []
    axes = numbers(info, node, 3, "axes")
    steps = numbers(info, node, 4, "steps") or [1] * len(starts)
    axes = list(range(len(starts))) if axes is None else [a + rank if a < 0 else a for a in axes]
    if any(step < 0 and end >= _FOREVER for end, step in zip(ends, steps, strict=True)):
        raise Unsupported("onnxruntime gives the end of a backward Slice a meaning of its own")
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
            shape[axis] = number(_bounds(size.number, start, end, step)[1])
        elif not _is_all(start, end, step):
            shape[axis] = info.sizes.variable(f"gk_slice_length({size}, {start}, {end}, {step})")
    return [tuple(shape)]


def _bounds(size: int, start: int, end: int, step: int) -> tuple[int, int]:
    """The start and length of a Slice. The C functions `gk_slice_start` and `gk_slice_length`
    compute the same.
    """
    start, end = (n + size if n < 0 else n for n in (start, end))
    if step > 0:
        start, end = (min(max(n, 0), size) for n in (start, end))
    else:
        start = min(max(start, 0), size - 1)
        end = min(max(end, -1), size - 1)
    return start, len(range(start, end, step)) if size else 0


def _slice(info: AreaInfo, node: onnx.NodeProto, k: int, at: Sequence[Index]) -> Element:
    found = list(at)
    shape = info.shapes[node.input[0]]
    for axis, (start, end, step) in _slices(info, node).items():
        size = shape[axis]
        if size.number is not None:
            first = number(_bounds(size.number, start, end, step)[0])
        elif start >= 0 and step > 0:
            first = number(start)
        else:
            first = info.sizes.variable(f"gk_slice_start({size}, {start}, {step})")
        found[axis] = at[axis].times(number(step)).moved(first)
    return node.input[0], tuple(found)


def _parts(info: AreaInfo, node: onnx.NodeProto) -> list[Size]:
    shape = info.shapes[node.input[0]]
    size = shape[_axis(node, len(shape))]
    count = len(node.output)
    written = numbers(info, node, 1, "split")
    if written is not None:
        info.sizes.equal(size, number(sum(written)), "the parts of Split do not fill the whole")
        return [number(n) for n in written]
    is_even = info.area.opset < 18  # since opset 18, the last part may be smaller
    if size.number is None:
        share = info.sizes.variable(f"({size} + {count - 1}) / {count}")
        rest = info.sizes.variable(f"{size} - {count - 1} * {share}")
        if is_even:
            info.sizes.check(f"{rest} == {share}", "Split into parts of different sizes")
        info.sizes.check(f"{rest} >= 0", "Split into more parts than there are elements")
        return [share] * (count - 1) + [rest]
    length = -(-size.number // count)
    last = size.number - (count - 1) * length
    if last < 0 or (is_even and last != length):
        raise Unsupported("Split into parts of different sizes, or more parts than elements")
    return [number(length)] * (count - 1) + [number(last)]


def _split_shapes(info: AreaInfo, node: onnx.NodeProto) -> list[KernelShape]:
    shape = info.shapes[node.input[0]]
    axis = _axis(node, len(shape))
    return [(*shape[:axis], part, *shape[axis + 1 :]) for part in _parts(info, node)]


def _split(info: AreaInfo, node: onnx.NodeProto, k: int, at: Sequence[Index]) -> Element:
    axis = _axis(node, len(at))
    before = ZERO
    for part in _parts(info, node)[:k]:
        before += part
    return node.input[0], tuple(
        index.moved(before) if a == axis else index for a, index in enumerate(at)
    )


def _joined(info: AreaInfo, node: onnx.NodeProto) -> list[KernelShape]:
    shapes = [info.shapes[name] for name in node.input]
    axis = _axis(node, len(shapes[0]))
    frames = {(*shape[:axis], *shape[axis + 1 :]) for shape in shapes}
    if len(frames) > 1:  # even then, onnxruntime accepts inputs without elements, which it ignores
        raise Unsupported("the inputs of a Concat may differ along other axes")
    total = info.sizes.sum(shape[axis] for shape in shapes)
    return [(*shapes[0][:axis], total, *shapes[0][axis + 1 :])]


def _concat(info: AreaInfo, node: onnx.NodeProto, k: int, at: Sequence[Index]) -> Element:
    axis = _axis(node, len(at))
    index = at[axis]
    begin = ZERO
    sizes = [info.shapes[name][axis] for name in node.input]
    for name, size in zip(node.input, sizes, strict=True):
        if _lies_in(index, begin, size):
            own = index.moved(ZERO - begin)
            return name, tuple(own if a == axis else other for a, other in enumerate(at))
        begin += size
    variable = index.lone
    if variable is not None and variable.extent == info.shapes[node.output[0]][axis]:
        raise CutWanted(variable, sizes)
    raise Unsupported("it is unknown which input of a Concat an element comes from")


def _lies_in(index: Index, begin: Polynomial, size: Size) -> bool:
    """Whether all values of an index are within [begin, begin + size)."""
    first = index.offset - begin
    if not index.terms:
        extent = ONE
    elif len(index.terms) == 1 and index.terms[0][1] == ONE:
        extent = index.terms[0][0].extent
    else:
        return False
    if first == ZERO and extent == size:
        return True
    if first.number is None or extent.number is None or size.number is None:
        return False
    return first.number >= 0 and first.number + extent.number <= size.number


def _expanded(info: AreaInfo, node: onnx.NodeProto) -> list[KernelShape]:
    wanted = [number(int(n)) for n in np.ravel(_known(constant(info, node, 1), node))]
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
    shape = info.shapes[node.input[0]]
    (axis, picks) = _picks(info, node)
    steps = set(np.diff(picks.ravel()))
    if picks.ndim > 1 or len(steps) > 1:
        raise Unsupported("Gather of elements that are not at equal distances")
    if picks.size:
        low = int(picks.min())
        high = int(picks.max())
        if low < 0 <= high:
            raise Unsupported("Gather has positive and negative indices")
        need = high + 1 if low >= 0 else -low
        if (n := shape[axis].number) is None:
            info.sizes.check(f"{shape[axis]} >= {need}", "Gather beyond the end")
        elif n < need:
            raise Unsupported("Gather beyond the end")
    return [(*shape[:axis], *(number(n) for n in picks.shape), *shape[axis + 1 :])]


def _gather(info: AreaInfo, node: onnx.NodeProto, k: int, at: Sequence[Index]) -> Element:
    shape = info.shapes[node.input[0]]
    (axis, picks) = _picks(info, node)
    flat = [int(n) for n in picks.ravel()]
    start = flat[0] if flat else 0
    first = number(start) + (shape[axis] if start < 0 else ZERO)
    step = number(flat[1] - flat[0] if len(flat) > 1 else 1)
    own = at[axis].times(step) if picks.ndim else Index()
    return node.input[0], (*at[:axis], own.moved(first), *at[axis + picks.ndim :])


def _moved(
    shapes: Callable[[AreaInfo, onnx.NodeProto], list[KernelShape]],
    source: Callable[[AreaInfo, onnx.NodeProto, int, Sequence[Index]], Element],
) -> OperatorLowering:
    """The lowering of an operator. `source` returns the input and the index that an element of
    output k comes from.
    """

    def element(lowering: Lowering, node: onnx.NodeProto, k: int, at: Sequence[Index]) -> Step:
        return lowering.at(*source(lowering.info, node, k, at))

    return OperatorLowering(shapes, element)


DATA_MOVEMENT = {
    "Identity": _moved(first_shape, _identity),
    "Transpose": _moved(_transposed, _transpose),
    **dict.fromkeys(names_with(Trait.RESHAPES), _moved(reshaped, reshape)),
    "Slice": _moved(_sliced, _slice),
    "Split": _moved(_split_shapes, _split),
    "Concat": _moved(_joined, _concat),
    "Expand": _moved(_expanded, _expand),
    "Gather": _moved(_gathered, _gather),
}
