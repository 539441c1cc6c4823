"""Writes a program as C tables."""

from __future__ import annotations

from collections.abc import Sequence

from fusionc.graph_kernel.blocked.program import Program, ProgramStep, Unpacking
from fusionc.graph_kernel.lower.c_types import F32, literal, table


def program_text(name: str, program: Program) -> str:
    """The C text of a program and its tables. All names in it begin with `name`."""
    parts = [
        f"static const float {name}_t{k}[] = {{{table(F32, array)}}};"
        for k, array in enumerate(program.tables)
    ]
    pointers = ", ".join([*(f"{name}_t{k}" for k in range(len(program.tables))), "NULL"])
    storages = [
        f"{{{s.slot}, {s.halo}, {int(s.is_rows)}, {s.channels}, {s.element_bytes}}}"
        for s in program.storages
    ]
    buffers = [
        f"{{{b.storage}, {int(b.is_planar)}, {b.first}, {b.channels}}}" for b in program.buffers
    ]
    counts = f"{len(storages)}, {program.slots}, {len(buffers)}, {len(program.steps)}"
    parts += [
        f"static const float *const {name}_tables[] = {{{pointers}}};",
        _list("gb_storage", f"{name}_storages", storages),
        _list("gb_buffer", f"{name}_buffers", buffers),
        _list("gb_step", f"{name}_steps", [_step(step) for step in program.steps]),
        _list("gb_unpacking", f"{name}_unpackings", [*map(_unpacking, program.unpackings), "{-1}"]),
        f"static const gb_program {name}_program = "
        f"{{{name}_storages, {name}_buffers, {name}_steps, {name}_unpackings, "
        f"{name}_tables, {counts}}};",
    ]
    return "\n".join(parts) + "\n"


def _unpacking(unpacking: Unpacking) -> str:
    """A gb_unpacking in C. If the weights have no axes, each array gets one unused element, because
    arrays in C cannot be empty.
    """
    weights = unpacking.weights
    numbers = (unpacking.packed, unpacking.scale, unpacking.zero)
    facts = (weights.packed_type, weights.zero_type, -1 if weights.is_zero_added else 1)
    arrays = (weights.parts, weights.scale_strides, weights.zero_strides)
    rows = (_array(array or (0,)) for array in arrays)
    return f"{{{', '.join([*map(str, (*numbers, *facts, len(weights.parts))), *rows])}}}"


def _list(ctype: str, name: str, items: Sequence[str]) -> str:
    return f"static const {ctype} {name}[] = {{{', '.join(items)}}};"


def _step(step: ProgramStep) -> str:
    """A gb_step in C: first the members that all steps have, in order, then the fields of the
    step's kind, by name.
    """
    window = step.window
    activated = step.activated
    numbers = [
        f"GB_{step.kind.enumerator()}",
        *(step.out, step.image, step.second, step.third, step.tensor, step.weights, step.bias),
        *(int(activated.function), int(step.is_after)),
        *(literal(F32, activated.alpha), literal(F32, activated.beta)),
        *(step.chained, window.group),
        *map(_array, (window.kernel, window.stride, window.dilation, window.pads)),
        *(f".{name} = {_own(value)}" for name, value in vars(step.kind).items()),
    ]
    return f"{{{', '.join(map(str, numbers))}}}"


def _own(value: float | tuple[int, ...]) -> str:
    if isinstance(value, tuple):
        return _array(value)
    return literal(F32, value) if isinstance(value, float) else str(int(value))


def _array(numbers: Sequence[int]) -> str:
    return f"{{{', '.join(map(str, numbers))}}}"
