"""Estimate the time that an area saves: the time of its operators one by one, minus the time of its
kernel.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cache
from itertools import islice
from math import prod

import numpy as np
import onnx

from fusionc.graph_kernel.area import Area, AreaValue, KernelKind
from fusionc.graph_kernel.blocked.time_saved import times_of_program
from fusionc.graph_kernel.c.loop_text import LoopNestText
from fusionc.graph_kernel.library.cache import cache_folder
from fusionc.graph_kernel.lower.area_info import AreaInfo
from fusionc.graph_kernel.lower.infer_sizes import infer_sizes
from fusionc.graph_kernel.lower.loop_nest import loop_nests_of
from fusionc.graph_kernel.lower.symbolic_sizes import Unsupported
from fusionc.graph_kernel.select.conversion_cost import conversion_cost
from fusionc.graph_kernel.select.stride_cost import stride_cost

# Seconds that onnxruntime spends on each call of an operator or kernel in addition to its
# computation. For a kernel, this includes the computation of sizes.
_LAUNCH = 0.7e-6
_DOUBT = 0.05  # how wrong an estimate may be, as a share of the time of the area's operators
_UNKNOWN = 64  # the size to assume for a symbol
_MOST_CHANGED = 8  # symbols that may get a size other than _UNKNOWN
_MOST_TRIED = 300  # changes of sizes that are tried before a symbol is changed
_NEAR = 256 * 1024  # a result of so many bytes is still in the near caches when it is read


class Savings:
    """Estimates the seconds that the kernel of an area saves, at least, in each run."""

    def __init__(self) -> None:
        self._known: dict[str, float] = {}

    def of(self, area: Area) -> float:
        """The seconds that the kernel of an area saves at least. 0 if no possible sizes are
        found.
        """
        if area.name not in self._known:  # equal areas have equal names
            try:
                self._known[area.name] = self._saved(area)
            except Unsupported:
                self._known[area.name] = 0.0
        return self._known[area.name]

    @staticmethod
    def _saved(area: Area) -> float:
        if area.kind is not KernelKind.LOOPS:
            return times_of_program(area).saved
        one_by_one, kernel = _both_times(area, {})
        return one_by_one * (1 - _DOUBT) - kernel


def times_of(area: Area) -> tuple[float, float]:
    """Estimated seconds of a run on one thread: of the area's operators one by one, and of its
    kernel. Raises Unsupported if no possible sizes are found.
    """
    if area.kind is KernelKind.LOOPS:
        return _both_times(area, {})
    times = times_of_program(area)
    return times.theirs, times.ours


def seconds_saved(area: Area, sizes: Mapping[str, int]) -> float:
    """Estimated seconds, on one thread, that the kernel of an area saves in each run.

    `sizes` maps symbols of the inputs' shapes to sizes. Raises Unsupported if a kernel cannot
    compute the area with these sizes, or if no possible sizes for the other symbols are found.
    """
    one_by_one, kernel = _both_times(area, sizes)
    return one_by_one - kernel


def _both_times(area: Area, sizes: Mapping[str, int]) -> tuple[float, float]:
    """The seconds of the area's operators one by one, and the seconds of its kernel."""
    sized = with_sizes(area, sizes)
    alone = (
        _seconds(_alone(node, sized.values, area.constants, area.opset)) for node in area.nodes
    )
    return sum(alone), _seconds(sized, is_kernel=True)


def _alone(
    node: onnx.NodeProto,
    values: Mapping[str, AreaValue],
    constants: Mapping[str, np.ndarray],
    opset: int,
) -> Area:
    """The area that has only this operator."""
    return Area(
        name="alone",
        nodes=(node,),
        inputs=tuple(dict.fromkeys(name for name in node.input if name and name not in constants)),
        outputs=tuple(name for name in node.output if name),
        values=values,
        opset=opset,
        constants={name: constants[name] for name in node.input if name in constants},
    )


def _possible_sizes(area: Area, sizes: Mapping[str, int]) -> Mapping[str, int]:
    """Sizes for all symbols of the inputs: those in `sizes`; for each other symbol `_UNKNOWN`, if
    that is possible.

    Not every size of a symbol is possible: if a value of that size is added to 3 elements, the size
    is 3 or 1. If `_UNKNOWN` is not possible, the numbers that occur in the area are tried for one
    symbol after another.
    """
    dims = [d for name in area.inputs for d in area.values[name].shape]
    chosen = {d: sizes.get(d, _UNKNOWN) for d in dims if isinstance(d, str)}
    known = _count_known(area, chosen)
    for _ in range(_MOST_CHANGED):
        better = None if known == len(area.nodes) else _better_sizes(area, sizes, chosen, known)
        if better is None:
            break
        known, chosen = better
    return chosen


def _better_sizes(
    area: Area, fixed: Mapping[str, int], chosen: Mapping[str, int], known: int
) -> tuple[int, dict[str, int]] | None:
    """A better choice of sizes: one symbol differs from `chosen`, and more than `known` operators
    have results of known sizes. Returns the number of these operators, and the sizes. `None` if no
    better choice is found.
    """
    free = [symbol for symbol in chosen if symbol not in fixed]
    changes = ({**chosen, symbol: n} for symbol in free for n in _numbers(area))
    for change in islice(changes, _MOST_TRIED):
        count = _count_known(area, change)
        if count > known:
            return count, change
    return None


def _numbers(area: Area) -> list[int]:
    """The sizes to try: the numbers in the area's shapes and in its tables of sizes and indices,
    largest first.
    """
    sizes = {1, *(d for v in area.values.values() for d in v.shape if isinstance(d, int))}
    for array in area.constants.values():
        sizes.update(array.shape)
        if array.dtype.kind in "iu" and array.size:
            magnitudes = np.abs(array.astype(np.float64))
            candidates = (magnitudes.sum(), magnitudes.max() + 1, magnitudes.max())
            sizes.update(int(n) for n in candidates if n < _NEAR)
    return sorted(sizes, reverse=True)


def _info(area: Area, sizes: Mapping[str, int]) -> AreaInfo:
    """The AreaInfo of an area whose inputs have numbers as sizes. The sizes of inner values are
    left open, because they follow from these.
    """

    def number(dim: int | str) -> int:
        return dim if isinstance(dim, int) else sizes[dim]

    inputs = {
        name: replace(v, shape=tuple(map(number, v.shape)))
        for name, v in area.values.items()
        if name in area.inputs
    }
    inner = {
        name: AreaValue(name, v.dtype, tuple(f"{name}.{axis}" for axis in range(len(v.shape))))
        for name, v in area.values.items()
        if name not in inputs
    }
    return AreaInfo(replace(area, values={**inputs, **inner}))


def _count_known(area: Area, sizes: Mapping[str, int]) -> int:
    """The number of operators whose results have known sizes. The inference of sizes stops at the
    first contradiction.
    """
    info = _info(area, sizes)
    with suppress(Unsupported):
        infer_sizes(info)
    return sum(any(name in info.shapes for name in node.output) for node in info.area.nodes)


def with_sizes(area: Area, sizes: Mapping[str, int]) -> Area:
    """An area with numbers for all sizes. For symbols that are not in `sizes`, possible numbers are
    chosen.

    Raises Unsupported in the same cases as `seconds_saved`.
    """
    info = _info(area, _possible_sizes(area, sizes))
    infer_sizes(info)
    shapes = {name: tuple(size.number or 0 for size in info.shapes[name]) for name in area.values}
    return replace(
        area,
        values={name: AreaValue(name, v.dtype, shapes[name]) for name, v in area.values.items()},
    )


def _seconds(area: Area, is_kernel: bool = False) -> float:
    """The seconds that an area whose sizes are numbers takes. Each nest of loops takes the time to
    compute or the time to move memory, whichever is longer.

    With `is_kernel`, costs are added that only a kernel has: conversions of float16, and reductions
    of elements that are not next to each other.
    """
    info = AreaInfo(area)
    infer_sizes(info)
    total = _LAUNCH
    for nest in loop_nests_of(info):
        text = LoopNestText("nest", nest, info, [*area.inputs, *area.outputs, *area.constants])
        elements = 1
        for variable in (*nest.grid, *nest.row):
            elements *= variable.extent.number or 0
        length = prod(variable.extent.number or 0 for variable in text.row)
        cost = text.cost
        if is_kernel:
            cost += conversion_cost(text, nest, info) + stride_cost(text, nest, info)
        computing = (
            elements * cost - (elements - elements // max(length, 1)) * text.cost_once
        ) / 16e9
        moved = sum(
            elements * info.ctype(access.tensor).bytes
            for access in text.accesses
            if access.index.terms
        )
        total += max(computing, moved * _seconds_per_byte() if moved > _NEAR else 0.0)
    return total


@cache
def _seconds_per_byte() -> float:
    """The seconds to move a byte that is not in the near caches. They are measured once, and kept
    in the cache folder for later processes.
    """
    kept = cache_folder() / "seconds_per_byte.json"
    try:
        return float(json.loads(kept.read_text()))
    except (OSError, ValueError, TypeError):
        measured = _measured()
    with suppress(OSError), tempfile.NamedTemporaryFile("w", dir=kept.parent, delete=False) as file:
        json.dump(measured, file)
        file.flush()
        os.replace(file.name, kept)
    return measured


def _measured() -> float:
    source = np.ones(4 * 1024 * 1024, np.float32)
    target = np.empty_like(source)
    times = []
    for _ in range(7):
        begin = time.thread_time()  # excludes the time of other processes
        np.copyto(target, source)
        times.append(time.thread_time() - begin)
    return min(times) / (source.nbytes + target.nbytes)
