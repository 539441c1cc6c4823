"""The registry of the kinds of steps, in the order of the files' names.

A new kind is a file in this folder, a header of the same name, and a test. The file defines a
subclass of StepKind whose name ends in Step, with fields, traits, C functions and a time estimate.
It may also define READINGS: functions that turn operators into such steps. A reading notes the
image that the step makes (`images.note(out, image)`).

In the header, functions for one width of vectors are between #ifdef GB_V and #else; functions that
are compiled only once are after #else. A task computes one block of channels of one image, with
whole vectors (GB(vec), GB(load), GB(all)), because loops over single floats are slow. A task must
end with GB(activate); otherwise an activation that was fused into the step is lost. In the lanes
after the last channel, a task may write anything. `by_element.h` is the shortest example.

The test is tests/graph_kernel/blocked/test_NAME.py. For each step (by its name in C), its table
COMPUTED computes with numpy what the step computes; see COMPUTED in interpreter.py of that folder.
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
    """All kinds. The index of a kind is its number in C."""
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
    """How operators become steps, for operators whose reading is in the file of a kind."""
    return {
        operator: reading
        for module in _modules()
        for operator, reading in getattr(module, "READINGS", {}).items()
    }
