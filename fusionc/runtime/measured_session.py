"""One model in a process that has nothing else to do: how long it takes to load and to run, and how
much memory.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import onnxruntime as ort

from fusionc.runtime.session_settings import settings_of

# Threads that wait for the next run by spinning would take the processor from the model whose turn
# it is: the same model differed by a quarter from process to process, instead of by a twentieth.
_STOP_SPINNING = "session.force_spinning_stop"
_SHORT = 0.2  # of the time of some runs; if one takes less, a first one does not count


def deployed_options(
    libraries: Sequence[str], settings: Mapping[str, Any], is_optimized: bool
) -> ort.SessionOptions:
    """Options as a user of a model has them, with these settings; an optimized model is not
    optimized again.
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
    """Loads a model when it is made: `load_seconds`, and the bytes of memory `before` and at the
    peak of that. Its threads spin while a run goes on, as the settings have it, and not between two
    runs.
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
        taken = {
            port.name
            for port in (*self._session.get_inputs(), *self._session.get_overridable_initializers())
        }
        self._feeds = {name: value for name, value in feeds.items() if name in taken}
        self._last = 0.0

    def runs(self, seconds: float) -> list[float]:
        """How long each of the runs takes that this time allows, one at least."""
        if self._last < seconds * _SHORT:
            self._run()
        end = perf_counter() + seconds
        found = [self._run()]
        while perf_counter() < end:
            found.append(self._run())
        return found

    def _run(self) -> float:
        start = perf_counter()
        self._session.run(None, self._feeds)
        self._last = perf_counter() - start
        return self._last


def peak_memory() -> int:
    """The most bytes that this process has held at a time.

    On Linux `ru_maxrss` would begin with the peak of the parent process.
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
