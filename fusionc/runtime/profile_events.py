"""Sum the events of onnxruntime's profile by operator."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

# The four fields of `profile.Profile`.
Summary = tuple[int, float, float, dict[str, tuple[float, float]]]


def summary_of(file: Path) -> Summary:
    """The average of the faster half of all runs. The first run is left out."""
    # names may contain control characters and invalid UTF-8
    events = json.loads(file.read_text(encoding="utf-8", errors="replace"), strict=False)
    runs = sorted((event for event in events if event["name"] == "model_run"), key=_start)[1:]
    runs = sorted(sorted(runs, key=_duration)[: (len(runs) + 1) // 2], key=_start)
    starts = [_start(run) for run in runs]

    def is_in_run(event: Mapping[str, Any]) -> bool:
        at = bisect_right(starts, _start(event)) - 1
        return at >= 0 and _start(event) <= starts[at] + _duration(runs[at])

    kernels = [
        event
        for event in events
        if event["cat"] == "Node" and event["name"].endswith("_kernel_time") and is_in_run(event)
    ]
    total = sum(map(_duration, runs))
    summed: dict[str, tuple[int, int]] = {}
    for operator, own in _own_times(kernels):
        count, before = summed.get(operator, (0, 0))
        summed[operator] = (count + 1, before + own)
    inside = sum(microseconds for _, microseconds in summed.values())
    scale = 1e-6 / len(runs)
    operators = {name: (count / len(runs), own * scale) for name, (count, own) in summed.items()}
    return len(runs), total * scale, max(0, total - inside) * scale, operators


def _own_times(events: Sequence[Mapping[str, Any]]) -> Iterable[tuple[str, int]]:
    """The operator of each event, and its microseconds without the events inside it. For example,
    the event of a Loop contains the events of its body.
    """
    # for each event that contains the current event: its number in `events`, and its end
    open_events: list[tuple[int, int]] = []
    own = [_duration(event) for event in events]
    for number in sorted(range(len(events)), key=lambda at: (_start(events[at]), -own[at])):
        start = _start(events[number])
        duration = _duration(events[number])
        while open_events and open_events[-1][1] < start + duration:
            open_events.pop()
        if open_events:
            own[open_events[-1][0]] -= duration
        open_events.append((number, start + duration))
    return [
        (str(event["args"]["op_name"]), max(0, time))
        for event, time in zip(events, own, strict=True)
    ]


def _start(event: Mapping[str, Any]) -> int:
    return int(event["ts"])


def _duration(event: Mapping[str, Any]) -> int:
    return int(event["dur"])
