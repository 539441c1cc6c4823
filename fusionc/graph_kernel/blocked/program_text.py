"""A program as C tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fusionc.graph_kernel.blocked.program import Program, ProgramStep
from fusionc.graph_kernel.lower.c_types import F32, literal, table


def program_text(name: str, program: Program) -> str:
    """The C text of a program with its tables. `name` begins all their names."""
    parts = [
        f"static const float {name}_t{k}[] = {{{table(F32, array)}}};"
        for k, array in enumerate(program.tables)
    ]
    pointers = ", ".join([*(f"{name}_t{k}" for k in range(len(program.tables))), "NULL"])
    storages = [f"{{{s.slot}, {s.halo}, {int(s.is_rows)}, {s.channels}}}" for s in program.storages]
    buffers = [
        f"{{{b.storage}, {int(b.is_planar)}, {b.first}, {b.channels}}}" for b in program.buffers
    ]
    counts = f"{len(storages)}, {program.slots}, {len(buffers)}, {len(program.steps)}"
    parts += [
        f"static const float *const {name}_tables[] = {{{pointers}}};",
        _list("gb_storage", f"{name}_storages", storages),
        _list("gb_buffer", f"{name}_buffers", buffers),
        _list("gb_step", f"{name}_steps", [_step(step) for step in program.steps]),
        f"static const gb_program {name}_program = "
        f"{{{name}_storages, {name}_buffers, {name}_steps, {name}_tables, {counts}}};",
    ]
    return "\n".join(parts) + "\n"


def _list(ctype: str, name: str, items: Sequence[str]) -> str:
    return f"static const {ctype} {name}[] = {{{', '.join(items)}}};"


_ORDER = """
LOAD STORE CONV WINOGRAD DEPTHWISE FIRST TRANSPOSED MAX_POOL AVERAGE_POOL GLOBAL_AVERAGE ADD MUL
SCALE ACT RESIZE COPY PRODUCT GROUPED LAYER_NORM ATTENTION CLEAR PICK RMS_NORM ROTARY FLATTEN
""".split()  # of the enumeration in c/blocked_program.h
_FLAGS = ("tile_points", "strassen_from", "is_channels_last", "counts_border", "kept")


def _step(step: ProgramStep) -> str:
    window = step.window
    activated = step.activated
    own: dict[str, Any] = vars(step.kind)
    flags = [int(own[name]) for name in _FLAGS if name in own]
    numbers = [
        _ORDER.index(step.kind.enumerator()),
        *(step.out, step.image, step.second, step.third, step.tensor, step.weights, step.bias),
        *(int(activated.function), int(step.is_after)),
        *(literal(F32, activated.alpha), literal(F32, activated.beta), step.chained),
        own.get("heads") or own.get("groups") or window.group,
        *map(_pair, (window.kernel, own.get("factors", window.stride))),
        *map(_pair, (window.dilation, window.pads)),
        sum(flags) - own.get("skipped", 0),
        literal(F32, own.get("epsilon", 0.0)),
        literal(F32, own.get("scale", 0.0)),
    ]
    return f"{{{', '.join(map(str, numbers))}}}"


def _pair(numbers: Sequence[int]) -> str:
    return f"{{{', '.join(map(str, numbers))}}}"
