"""Find the passes and areas (operators that one generated kernel computes) that take effect in a
conversion, and the passes that would take effect if they were switched on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx

from fusionc import passes
from fusionc.bisect.changed_switches import named_by_option
from fusionc.custom.loading import load_passes
from fusionc.errors import FusioncError
from fusionc.options import Options
from fusionc.report import Report
from fusionc.report.area_labels import area_labels
from fusionc.rewrite import Pass
from fusionc.tune.configuration import Configuration

_AREAS_TOPIC = "areas"  # the topic of passes that make areas


def effects(
    options: Options,
    base: Configuration,
    convert: Callable[[Configuration, Path], Report],
    folder: Path,
) -> dict[str, Any]:
    """The fields of `candidates.Facts`, except `optimizers`.

    `convert` converts to a configuration, and writes the model to a file.
    """
    registry = {p.name: p for p in load_passes(options.custom_passes)}
    effective = _effective(convert(base, folder / "base.onnx"))
    labels = area_labels(onnx.load(folder / "base.onnx", load_external_data=False))
    # if the user switched a pass on or off by name, it stays in this state
    named = named_by_option(options.optimization_switch, list(registry.values()))
    free = {name: p for name, p in registry.items() if name not in named}
    off = [name for name, p in free.items() if name not in effective and _can_be_switched_on(p)]

    def effective_with(names: Sequence[str]) -> Collection[str]:
        return _effective(convert(replace(base, on=frozenset(names)), folder / "idle.onnx"))

    return {
        # if there are areas, they are switched off one by one instead of by their passes
        "passes": _topics(effective, free, without=_AREAS_TOPIC if labels else None),
        "areas": list(labels),
        "labels": labels,
        "idle": _idle_passes(off, effective_with),
    }


def _topics(
    effective: Iterable[str], free: Mapping[str, Pass], without: str | None
) -> dict[str, str]:
    """Passes that take effect and can be switched off → the topic of each. The topic `without` is
    left out.
    """
    passes_in_order = [free[name] for name in effective if name in free]
    topics = {p.name: _topic(p) for p in passes_in_order if p.default != "must"}
    return {name: topic for name, topic in topics.items() if topic != without}


def _idle_passes(
    off: Sequence[str], effective: Callable[[Sequence[str]], Collection[str]]
) -> list[str]:
    """The passes in `off` that would take effect if they were switched on. If a conversion with
    them fails, they are divided into halves; passes that fail alone are left out.
    """
    try:
        names = effective(off)
    except FusioncError as error:
        if error.code == "E13004":  # the disk is full, which says nothing about these passes
            raise
        half = len(off) // 2
        if not half:
            return []
        return [*_idle_passes(off[:half], effective), *_idle_passes(off[half:], effective)]
    return [name for name in off if name in names]


def _can_be_switched_on(p: Pass) -> bool:
    return p.default == "off" and p.numerics != "approximate"


def _effective(report: Report) -> dict[str, None]:
    """The passes that took effect, in the order in which they ran."""
    return dict.fromkeys(count.pass_name for count in report.patterns if count.effected)


def _topic(p: Pass) -> str:
    module = type(p).__module__
    return module.split(".")[-2] if module.startswith(passes.__name__) else "your own"
