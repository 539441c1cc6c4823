"""What an area saves: its time as a kernel against that of its operators one by one."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from fusionc.graph_kernel.area import Area, Operand
from fusionc.graph_kernel.kernels.compile import cache_folder
from fusionc.graph_kernel.kernels.emit import PieceText
from fusionc.graph_kernel.kernels.pull import infer_shapes, pieces_of
from fusionc.graph_kernel.kernels.source import alone
from fusionc.graph_kernel.kernels.view import View

_LAUNCH = 0.7e-6  # seconds that onnxruntime spends on an operator beside computing, a kernel's shapes included
_UNKNOWN = 64  # the size that a symbol stands for which nobody gives a size
_NEAR = 256 * 1024  # bytes; what is larger is not in the near caches any more when the next operator reads it


def saves(area: Area, sizes: Mapping[str, int]) -> float:
    """Estimated seconds, on one thread, that a kernel of an area saves for each run; below 0 it costs.

    `sizes` says what the symbols of its inputs stand for. Raises Unsupported if a kernel cannot compute the area.
    """
    sized = _sized(area, sizes)
    one_by_one = sum(_seconds(alone(node, sized.values, area.constants, area.opset)) for node in area.nodes)
    return one_by_one - _seconds(sized)


def _sized(area: Area, sizes: Mapping[str, int]) -> Area:
    """An area with numbers for all sizes."""

    def number(dim: int | str) -> int:
        return dim if isinstance(dim, int) else sizes.get(dim, _UNKNOWN)

    given = {
        name: replace(v, shape=tuple(map(number, v.shape))) for name, v in area.values.items() if name in area.inputs
    }
    inner = {
        name: Operand(name, v.dtype, tuple(f"{name}.{axis}" for axis in range(len(v.shape))))
        for name, v in area.values.items()
        if name not in given
    }
    sized = replace(area, values={**given, **inner})
    view = View(sized)
    infer_shapes(view)
    shapes = {name: tuple(size.number or 0 for size in view.shapes[name]) for name in sized.values}
    return replace(area, values={name: Operand(name, v.dtype, shapes[name]) for name, v in sized.values.items()})


def _seconds(area: Area) -> float:
    """Of an area whose sizes are numbers: computing, or moving what lies far away, whatever takes longer."""
    view = View(area)
    infer_shapes(view)
    total = _LAUNCH
    for piece in pieces_of(view):
        text = PieceText("piece", piece, view, [*area.inputs, *area.outputs, *area.constants])
        elements = 1
        for variable in (*piece.grid, *piece.row):
            elements *= variable.extent.number or 0
        computing = elements * text.cost / 16e9
        moved = sum(elements * view.kind(access.tensor).bytes for access in text.accesses if access.index.terms)
        total += max(computing, moved * _seconds_per_byte() if moved > _NEAR else 0.0)
    return total


@cache
def _seconds_per_byte() -> float:
    """How long this machine takes to move a byte that is in no near cache; measured once and kept."""
    kept = cache_folder() / "seconds_per_byte.json"
    try:
        return float(json.loads(kept.read_text()))
    except (OSError, ValueError, TypeError):
        measured = _measured()
    with tempfile.NamedTemporaryFile("w", dir=kept.parent, delete=False) as file:
        json.dump(measured, file)
    os.replace(Path(file.name), kept)
    return measured


def _measured() -> float:
    source = np.ones(4 * 1024 * 1024, np.float32)
    target = np.empty_like(source)
    times = []
    for _ in range(7):
        begin = time.perf_counter()
        np.copyto(target, source)
        times.append(time.perf_counter() - begin)
    return min(times) / (source.nbytes + target.nbytes)
