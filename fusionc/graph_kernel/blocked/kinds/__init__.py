"""The registry of the kinds of steps, in the order of the files' names.

A new kind is a file of this folder, a header of the same name, and a test. The file has a subclass
of StepKind whose name ends in Step, with fields, traits, C functions and its time, and may have
READINGS of operators that become such steps; a reading notes the image that it makes
(`images.note(out, image)`). The header has the functions for one width of vectors between #ifdef
GB_V and #else, if there are any, and those that are compiled once after #else, if there are any.
A task computes one block of channels of one image; it ends with GB(activate), else a fused
activation is lost. The lanes after the last channel may hold anything. `by_element.h` is the
shortest example. What the step computes is added to COMPUTED of
tests/graph_kernel/blocked/interpreter.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType

from fusionc.graph_kernel.blocked.operator_reading import OperatorReading
from fusionc.graph_kernel.blocked.step_kind import StepKind


@cache
def kind_files() -> tuple[str, ...]:
    """The names of the files, without their endings."""
    return tuple(sorted(info.name for info in iter_modules(__path__)))


def _modules() -> list[ModuleType]:
    return [import_module(f"{__name__}.{name}") for name in kind_files()]


@cache
def step_kinds() -> tuple[type[StepKind], ...]:
    """All kinds. The place of a kind is its number in C."""
    return tuple(
        value
        for module in _modules()
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, StepKind)
        and value.__module__ == module.__name__
        and hasattr(value, "functions")
        and value.__name__.endswith("Step")
    )


def operator_readings() -> Mapping[tuple[str, str], OperatorReading]:
    """How operators become steps, for those that the file of a kind reads itself."""
    return {
        operator: reading
        for module in _modules()
        for operator, reading in getattr(module, "READINGS", {}).items()
    }
