"""The registry of the kinds of steps, in the order of the files' names.

To add a kind, write a file in this folder, a header with the same name, and a test. The file
defines a subclass of StepKind whose name ends in Step, with fields, traits (such as
`keeps_pixels`), C functions and a time estimate. It may also define READINGS: functions that turn
operators into such steps. A reading must note the image that the step makes (`images.note(out,
image)`).

In the header, functions that are compiled for each width of vectors are between #ifdef GB_V and
#else. Functions that are compiled only once are after #else. A task computes one block of channels
of one image. It must use whole vectors (GB(vec), GB(load), GB(all)), because loops over single
floats are slow. It must end with GB(activate); otherwise an activation that was fused into the step
is lost. In the lanes after the last channel, a task may write anything. `by_element.h` is the
shortest example.

The test is tests/graph_kernel/blocked/test_NAME.py. Its table COMPUTED says, for each step (by its
name in C), how numpy computes the same; see COMPUTED in interpreter.py of that folder.
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
    """The names of the files in this folder, without their suffixes."""
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
    """Operator → how it becomes a step, for operators that are read in the file of a kind."""
    return {
        operator: reading
        for module in _modules()
        for operator, reading in getattr(module, "READINGS", {}).items()
    }
