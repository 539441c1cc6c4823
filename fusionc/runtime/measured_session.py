"""Measure one model in a process that does nothing else: the time to load the model, the time to
run it, and its memory.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import onnxruntime as ort

from fusionc.runtime.session_settings import settings_of

# Several models are measured in turn, each in its own process. Threads must not spin between runs,
# because spinning would take processor time from the model whose turn it is. With spinning, times
# of the same model differed by 25 % between processes, and without spinning by 5 %.
_STOP_SPINNING = "session.force_spinning_stop"
# A slice is the time for which a model runs when it is its turn. If a run takes less than this
# share of a slice, each slice begins with a run that is not measured, to warm up.
_SHORT = 0.2


def deployed_options(
    libraries: Sequence[str], settings: Mapping[str, Any], is_optimized: bool
) -> ort.SessionOptions:
    """The session options of a user who runs the model with these settings. If the model
    `is_optimized` already, onnxruntime's optimizers are off.
    """
    options = ort.SessionOptions()
    options.log_severity_level = 4
    if is_optimized:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    settings_of(settings).apply(options)
    for library in libraries:
        options.register_custom_ops_library(library)
    return options


class MeasuredSession:
    """A session for measuring. The constructor loads the model and measures the loading:
    `load_seconds`, and the peak memory in bytes `before` and after loading (`loaded`). During a run
    the threads of the session spin if the settings say so. Between two runs they do not spin.
    """

    def __init__(
        self,
        model: str,
        libraries: Sequence[str],
        settings: Mapping[str, Any],
        is_optimized: bool,
        feeds: Any,
    ) -> None:
        self.before = peak_memory()
        start = perf_counter()
        options = deployed_options(libraries, settings, is_optimized)
        options.add_session_config_entry(_STOP_SPINNING, "1")
        self._session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        self.load_seconds = perf_counter() - start
        self.loaded = peak_memory()
        names = {
            port.name
            for port in (*self._session.get_inputs(), *self._session.get_overridable_initializers())
        }
        self._feeds = {name: value for name, value in feeds.items() if name in names}
        self._last = 0.0

    def runs(self, seconds: float) -> list[float]:
        """Run the model repeatedly for `seconds`, at least once. Return the seconds of each run."""
        if self._last < seconds * _SHORT:
            self._run()
        end = perf_counter() + seconds
        times = [self._run()]
        while perf_counter() < end:
            times.append(self._run())
        return times

    def _run(self) -> float:
        start = perf_counter()
        self._session.run(None, self._feeds)
        self._last = perf_counter() - start
        return self._last


def peak_memory() -> int:
    """The peak memory of this process in bytes.

    On Linux `ru_maxrss` is not used, because it would include the peak of the parent process.
    """
    try:
        status = Path("/proc/self/status").read_text()
        return next(
            int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM:")
        )
    except (OSError, StopIteration):
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if os.uname().sysname == "Darwin" else peak * 1024
