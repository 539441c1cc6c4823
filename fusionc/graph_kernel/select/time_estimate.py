"""The time that an area saves: that of its operators one by one minus that of its kernel."""

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
from fusionc.graph_kernel.blocked.time_saved import saved_by_program
from fusionc.graph_kernel.c.loop_text import LoopNestText
from fusionc.graph_kernel.library.cache import cache_folder
from fusionc.graph_kernel.lower.area_info import AreaInfo
from fusionc.graph_kernel.lower.infer_sizes import infer_sizes
from fusionc.graph_kernel.lower.loop_nest import loop_nests_of
from fusionc.graph_kernel.lower.symbolic_sizes import Unsupported
from fusionc.graph_kernel.select.conversion_cost import conversion_cost
from fusionc.graph_kernel.select.stride_cost import stride_cost

# seconds that onnxruntime spends on an operator in addition to computing; with a kernel's shapes
_LAUNCH = 0.7e-6
_DOUBT = 0.05  # error of a kernel's estimate, as a share of the time of its operators
_UNKNOWN = 64  # the size to assume for a symbol
_MOST_CHANGED = 8  # symbols for which another size is tried
_MOST_TRIED = 300  # sizes that are tried for each
_NEAR = 256 * 1024  # bytes that stay in the near caches until the next operator reads them


class Savings:
    """Estimated seconds that the kernels of areas save at least in each run."""

    def __init__(self) -> None:
        self._known: dict[str, float] = {}

    def of(self, area: Area) -> float:
        """The seconds that one area saves at least; 0 if its sizes are hard to guess."""
        if area.name not in self._known:  # equal areas have equal names
            try:
                self._known[area.name] = self._saved(area)
            except Unsupported:
                self._known[area.name] = 0.0
        return self._known[area.name]

    @staticmethod
    def _saved(area: Area) -> float:
        if area.kind is not KernelKind.LOOPS:
            return saved_by_program(area)
        one_by_one, kernel = _both_times(area, {})
        return one_by_one * (1 - _DOUBT) - kernel


def seconds_saved(area: Area, sizes: Mapping[str, int]) -> float:
    """Estimated seconds, on one thread, that the kernel of an area saves in each run.

    `sizes` are those of the symbols of its inputs. Raises Unsupported if a kernel cannot compute
    the area with these sizes, or if no possible sizes are found.
    """
    one_by_one, kernel = _both_times(area, sizes)
    return one_by_one - kernel


def _both_times(area: Area, sizes: Mapping[str, int]) -> tuple[float, float]:
    """The seconds of the operators one by one, and those of a kernel."""
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
    """The area of one operator."""
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
    """Sizes for all symbols of the inputs: the given ones, and `_UNKNOWN` for as many others as
    possible.

    A symbol may only have few sizes: if it is added to 3 elements, it is 3 or 1. Sizes that fit are
    searched among the numbers of the area, for one symbol after another.
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
    """Sizes that differ for one symbol, and with which more operators than `known` have sizes."""
    free = [symbol for symbol in chosen if symbol not in fixed]
    changes = ({**chosen, symbol: n} for symbol in free for n in _numbers(area))
    for change in islice(changes, _MOST_TRIED):
        count = _count_known(area, change)
        if count > known:
            return count, change
    return None


def _numbers(area: Area) -> list[int]:
    """Sizes that are written in an area, in shapes and in tables of sizes and indices, largest
    first.
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
    """An area as it is lowered, with numbers for the sizes of its inputs, from which those of inner
    values follow.
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
    """The number of operators with results of known sizes before sizes contradict each other."""
    info = _info(area, sizes)
    with suppress(Unsupported):
        infer_sizes(info)
    return sum(any(name in info.shapes for name in node.output) for node in info.area.nodes)


def with_sizes(area: Area, sizes: Mapping[str, int]) -> Area:
    """An area with numbers for all sizes, also those that are not given.

    Raises Unsupported as `seconds_saved` does.
    """
    info = _info(area, _possible_sizes(area, sizes))
    infer_sizes(info)
    shapes = {name: tuple(size.number or 0 for size in info.shapes[name]) for name in area.values}
    return replace(
        area,
        values={name: AreaValue(name, v.dtype, shapes[name]) for name, v in area.values.items()},
    )


def _seconds(area: Area, is_kernel: bool = False) -> float:
    """The seconds of an area whose sizes are numbers: computing or moving memory, the longer one.

    `is_kernel` adds what conversions and distant elements cost in a kernel.
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
    """The time to move a byte outside of the near caches; measured once and kept."""
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
        begin = time.thread_time()  # without the time of other processes
        np.copyto(target, source)
        times.append(time.thread_time() - begin)
    return min(times) / (source.nbytes + target.nbytes)
