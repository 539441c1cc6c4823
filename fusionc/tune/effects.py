"""What takes effect in a conversion, so that it could be switched off, and what would if it were
switched on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx

from fusionc import passes
from fusionc.bisect.changed_switches import named_by_option
from fusionc.custom.loading import load_passes
from fusionc.errors import FusioncError
from fusionc.model.operators import KERNELS
from fusionc.options import Options
from fusionc.report import Report
from fusionc.rewrite import Pass
from fusionc.tune.configuration import Configuration

_OF_AREAS = "areas"  # the topic of passes that stand for areas, which have names of their own


def effects(
    asked: Options,
    base: Configuration,
    convert: Callable[[Configuration, Path], Report],
    folder: Path,
) -> dict[str, Any]:
    """The passes with their topics, the areas, and the passes that are off by default, as
    `candidates.Facts` has them.

    `convert` makes the model of a configuration in a file.
    """
    registry = {p.name: p for p in load_passes(asked.custom_passes)}
    # which stay as they are
    chosen = named_by_option(asked.optimization_switch, list(registry.values()))
    effective = _effective(convert(base, folder / "base.onnx"))
    functions = onnx.load(folder / "base.onnx", load_external_data=False).functions
    areas = [function.name for function in functions if function.domain == KERNELS]
    topics = {name: _topic(p) for name, p in registry.items()}
    free = [
        name
        for name in effective
        if name in registry and name not in chosen and registry[name].default != "must"
    ]
    off = [
        name for name, p in registry.items() if p.default == "off" and p.numerics != "approximate"
    ]
    off = [name for name in off if name not in effective and name not in chosen]
    awake = _awake(
        off, lambda on: _effective(convert(replace(base, on=frozenset(on)), folder / "awake.onnx"))
    )
    return {
        "passes": {
            name: topics[name] for name in free if not (areas and topics[name] == _OF_AREAS)
        },
        "areas": areas,
        "idle": awake,
    }


def _awake(off: Sequence[str], effective: Callable[[Sequence[str]], Collection[str]]) -> list[str]:
    """Which of the passes that are off would take effect; one that fails is off for a reason, and
    is left out.
    """
    try:
        found = effective(off)
    except FusioncError as error:
        if error.code == "E13004":  # there may be room the next time
            raise
        half = len(off) // 2
        return [*_awake(off[:half], effective), *_awake(off[half:], effective)] if half else []
    return [name for name in off if name in found]


def _effective(report: Report) -> dict[str, None]:
    """The passes that took effect, in order."""
    return dict.fromkeys(count.pass_name for count in report.patterns if count.effected)


def _topic(p: Pass) -> str:
    module = type(p).__module__
    return module.split(".")[-2] if module.startswith(passes.__name__) else "your own"
