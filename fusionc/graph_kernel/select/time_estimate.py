"""What an area saves: its time as a kernel against that of its operators one by one."""

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

# seconds that onnxruntime spends on an operator beside computing, a kernel's shapes included
_LAUNCH = 0.7e-6
_DOUBT = 0.05  # of the time of its operators, that a kernel may be off by
_UNKNOWN = 64  # the size that a symbol stands for which nobody gives a size
# symbols that another size is looked for, and sizes that are tried for each
_MOST_CHANGED = 8
_MOST_TRIED = 300
# bytes; what is larger is not in the near caches any more when the next operator reads it
_NEAR = 256 * 1024


class Savings:
    """Estimated seconds that the kernels of areas save in each run at least, those of equal areas
    estimated once.
    """

    def __init__(self) -> None:
        self._known: dict[str, float] = {}

    def of(self, area: Area) -> float:
        """What one area saves at least; 0 where it is of sizes that are hard to guess."""
        if area.name not in self._known:  # its name says what it computes
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
    """Estimated seconds, on one thread, that a kernel of an area saves for each run; below 0 it
    costs.

    `sizes` says what the symbols of its inputs stand for. Raises Unsupported if a kernel cannot
    compute the area of these sizes, or if no sizes are found that it can have.
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


def _possible(area: Area, sizes: Mapping[str, int]) -> Mapping[str, int]:
    """Sizes for all symbols of the inputs: those that are given, and as many others as possible are
    `_UNKNOWN`.

    A symbol may stand for a few numbers only, as that of what is added to 3 elements: it is 3 or 1.
    What fits is looked for among the numbers of the area, for one symbol after the other.
    """
    symbols = dict.fromkeys(
        d for name in area.inputs for d in area.values[name].shape if isinstance(d, str)
    )
    chosen = {symbol: sizes.get(symbol, _UNKNOWN) for symbol in symbols}
    reached = _reached(_info(area, chosen))
    for _ in range(_MOST_CHANGED):
        if reached == len(area.nodes):
            break
        changes = ({**chosen, s: n} for s in symbols if s not in sizes for n in _numbers(area))
        tried = ((_reached(_info(area, change)), change) for change in islice(changes, _MOST_TRIED))
        better = next((one for one in tried if one[0] > reached), None)
        if better is None:
            break
        reached, chosen = better
    return chosen


def _numbers(area: Area) -> list[int]:
    """Sizes that are written in an area: dimensions, and what tables of sizes and indices need. The
    largest first.
    """
    found = {1, *(d for v in area.values.values() for d in v.shape if isinstance(d, int))}
    for array in area.constants.values():
        found.update(array.shape)
        if array.dtype.kind in "iu" and array.size:
            magnitudes = np.abs(array.astype(np.float64))
            found.update(
                int(n)
                for n in (magnitudes.sum(), magnitudes.max() + 1, magnitudes.max())
                if n < _NEAR
            )
    return sorted(found, reverse=True)


def _info(area: Area, sizes: Mapping[str, int]) -> AreaInfo:
    """An area as it is lowered, with numbers for the sizes of its inputs; those of inner values
    follow from them.
    """

    def number(dim: int | str) -> int:
        return dim if isinstance(dim, int) else sizes[dim]

    given = {
        name: replace(v, shape=tuple(map(number, v.shape)))
        for name, v in area.values.items()
        if name in area.inputs
    }
    inner = {
        name: AreaValue(name, v.dtype, tuple(f"{name}.{axis}" for axis in range(len(v.shape))))
        for name, v in area.values.items()
        if name not in given
    }
    return AreaInfo(replace(area, values={**given, **inner}))


def _reached(info: AreaInfo) -> int:
    """How many operators have results of known sizes until sizes contradict one another."""
    with suppress(Unsupported):
        infer_sizes(info)
    return sum(any(name in info.shapes for name in node.output) for node in info.area.nodes)


def with_sizes(area: Area, sizes: Mapping[str, int]) -> Area:
    """An area with numbers for all sizes, of which some are given. Raises Unsupported as
    `seconds_saved` does.
    """
    info = _info(area, _possible(area, sizes))
    infer_sizes(info)
    shapes = {name: tuple(size.number or 0 for size in info.shapes[name]) for name in area.values}
    return replace(
        area,
        values={name: AreaValue(name, v.dtype, shapes[name]) for name, v in area.values.items()},
    )


def _seconds(area: Area, is_kernel: bool = False) -> float:
    """Of an area whose sizes are numbers: computing, or moving what lies far away, whatever takes
    longer.

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
    """How long this machine takes to move a byte that is in no near cache; measured once and
    kept.
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
        begin = time.thread_time()  # what other processes take of the processor does not count
        np.copyto(target, source)
        times.append(time.thread_time() - begin)
    return min(times) / (source.nbytes + target.nbytes)
