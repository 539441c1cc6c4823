"""The work of the other process with onnxruntime. Its answers are plain data and arrays."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import onnxruntime as ort
from onnxruntime.capi.onnxruntime_pybind11_state import (
    get_all_operator_schema,
    get_all_opkernel_def,
)

from fusionc.runtime.cores import cores
from fusionc.runtime.file_limit import unlimited_files
from fusionc.runtime.measured_session import MeasuredSession, deployed_options, peak_memory
from fusionc.runtime.memory import fill_allocations, limit_growth
from fusionc.runtime.optimized_by import optimized_by
from fusionc.runtime.processor_time import processor_time
from fusionc.runtime.profile_events import Summary, summary_of
from fusionc.runtime.session_settings import SessionSettings
from fusionc.runtime.wire import Raw

_LEVELS = {
    "disabled": ort.GraphOptimizationLevel.ORT_DISABLE_ALL,
    "basic": ort.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    "extended": ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    "all": ort.GraphOptimizationLevel.ORT_ENABLE_ALL,
}
_PROVIDERS = ["CPUExecutionProvider"]
# of a session that is compared: on machines with more, sums are not split into other parts
_MOST_THREADS = 2
_WORTH_MAPPING = 1024  # bytes of a weight


@dataclass
class _Opened:
    source: tuple[Any, ...]
    session: ort.InferenceSession | None
    is_used: bool = False


class Sessions:
    """The sessions that are open, by the numbers that the caller gives them."""

    def __init__(self) -> None:
        self._opened: dict[int, _Opened] = {}
        self._measured: MeasuredSession | None = None
        self._has_arena = True

    def open(
        self,
        number: int,
        model: str | bytes,
        folder: str | None,
        libraries: Sequence[str],
        level: str,
        entries: Mapping[str, str],
    ) -> tuple[list[str], dict[str, str]]:
        """Make a session; the names of its outputs, and the types of all ports."""
        limit_growth()
        source = (model, folder, libraries, level, entries, self._has_arena)
        session = _session(*source)
        self._opened[number] = _Opened(source, session)
        outputs = session.get_outputs()
        ports = [*session.get_inputs(), *session.get_overridable_initializers(), *outputs]
        return [output.name for output in outputs], {port.name: port.type for port in ports}

    def run(
        self,
        number: int,
        feeds: Mapping[str, Any],
        raw: Collection[str],
        is_fresh: bool,
        most: int | None = None,
    ) -> list[Any]:
        """All outputs. `raw`: the types of ports that numpy does not know. `is_fresh`: in a new
        session. `most`: bytes that it may take in addition to those that are held.
        """
        limit_growth(most)
        opened = self._opened[number]
        if opened.session is None or (is_fresh and opened.is_used):
            opened.session = None  # first, so that there are not two
            opened.session = _session(*opened.source)
        opened.is_used = True
        quiet = ort.RunOptions()
        quiet.log_severity_level = 4
        if not raw:
            return [_plain(value) for value in opened.session.run(None, dict(feeds), quiet)]
        values = {name: _to_ort(value) for name, value in feeds.items()}
        return [
            _from_ort(value, raw)
            for value in opened.session.run_with_ort_values(None, values, quiet)
        ]

    def run_each(
        self,
        number: int,
        several: Sequence[Mapping[str, Any]],
        raw: Collection[str],
        most: int | None = None,
    ) -> list[tuple[list[Any] | None, str]]:
        """All outputs for each of several inputs; if onnxruntime fails, None and its message.
        `most`: as in run.
        """
        found: list[tuple[list[Any] | None, str]] = []
        for feeds in several:
            try:
                found.append((self.run(number, feeds, raw, is_fresh=False, most=most), ""))
            except Exception as error:  # onnxruntime's exceptions share no base class
                found.append((None, str(error)))
        return found

    def close(self, number: int) -> None:
        """Free what the session holds."""
        self._opened.pop(number, None)

    def compute(
        self,
        model: bytes,
        names: Sequence[str],
        feeds: Mapping[str, Any],
        most: int,
        seconds: float,
    ) -> list[Any]:
        """These outputs of a model that is needed once, in at most that many bytes of memory and
        seconds of processor time, which the load of the machine does not change: what takes longer
        ends the process.
        """
        limit_growth(most)
        options = _options()
        options.intra_op_num_threads = 1  # the same sums in the same order every time
        with processor_time(seconds):
            session = ort.InferenceSession(model, options, providers=_PROVIDERS)
            results = session.run(list(names), dict(feeds))
        if any(not isinstance(result, np.ndarray) for result in results):
            raise TypeError("a result is not a tensor")
        return list(results)

    def write_optimized(self, model: str, libraries: Sequence[str], target: str, data: str) -> None:
        """Write the model as the optimizers leave it at their highest level, with its weights and
        what kernels make of them in a file `data` next to it.
        """
        limit_growth()
        options = _options()
        options.graph_optimization_level = _LEVELS["all"]
        options.optimized_model_filepath = target
        options.add_session_config_entry(
            "session.optimized_model_external_initializers_file_name", data
        )
        options.add_session_config_entry(
            "session.optimized_model_external_initializers_min_size_in_bytes", str(_WORTH_MAPPING)
        )
        options.add_session_config_entry(
            "session.save_external_prepacked_constant_initializers", "1"
        )
        for library in libraries:
            options.register_custom_ops_library(library)
        with unlimited_files():
            ort.InferenceSession(model, options, providers=_PROVIDERS)

    def measure_load(
        self,
        model: str,
        libraries: Sequence[str],
        settings: Mapping[str, Any],
        is_optimized: bool,
        feeds: Mapping[str, Any],
    ) -> tuple[float, int, int]:
        """Load a model to be measured; returns the seconds that it takes, and the most bytes before
        and after it.
        """
        self._measured = MeasuredSession(model, libraries, settings, is_optimized, feeds)
        return self._measured.load_seconds, self._measured.before, self._measured.loaded

    def measure_runs(self, seconds: float) -> tuple[list[float], int]:
        """The seconds of each of some runs of that model, and the most bytes until now."""
        assert self._measured is not None
        return self._measured.runs(seconds), peak_memory()

    def optimized_by(
        self,
        model: str,
        libraries: Sequence[str],
        settings: Mapping[str, Any],
        is_optimized: bool,
        target: str,
    ) -> list[str]:
        """Write what the optimizers make of a model, as a user has it; those that changed
        something.
        """
        limit_growth()
        return optimized_by(model, libraries, settings, is_optimized, target)

    def profile(
        self,
        model: str,
        libraries: Sequence[str],
        settings: Mapping[str, Any],
        is_optimized: bool,
        feeds: Mapping[str, Any],
        most_runs: int,
        seconds: float,
        folder: str,
    ) -> Summary:
        """The times of a model as a user has it, in some runs after a first one that does not
        count; its profile is written into a folder.
        """
        limit_growth()
        options = deployed_options(libraries, settings, is_optimized)
        options.enable_profiling = True
        options.profile_file_prefix = os.path.join(folder, "profile")
        session = ort.InferenceSession(model, options, providers=_PROVIDERS)
        session.run(None, dict(feeds))
        began = perf_counter()
        for _ in range(most_runs):
            session.run(None, dict(feeds))
            if perf_counter() - began > seconds:
                break
        with unlimited_files():  # a node in a loop is noted each time
            file = session.end_profiling()
        return summary_of(Path(file))

    def seconds_of_run(
        self, model: str, libraries: Sequence[str], feeds: Mapping[str, Any], seconds: float
    ) -> float:
        """The shortest of as many runs on one thread as this time allows."""
        limit_growth()
        options = deployed_options(libraries, SessionSettings(threads=1).as_json(), False)
        session = ort.InferenceSession(model, options, providers=_PROVIDERS)
        shortest = inf
        began = perf_counter()
        while perf_counter() - began < seconds or shortest == inf:
            start = perf_counter()
            session.run(None, dict(feeds))
            shortest = min(shortest, perf_counter() - start)
        return shortest

    def fill_memory(self, byte: int) -> None:
        """Fill the unwritten memory of sessions that are opened from now on with this byte, if the
        system can.

        They have no arena, in which they would find what other values have left; 0 gives them one
        again.
        """
        self._has_arena = not byte
        fill_allocations(byte)

    def load_library(self, path: str) -> None:
        """Load a library of custom operators."""
        ort.SessionOptions().register_custom_ops_library(path)

    def operators(self) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
        """The kernels of the CPU, each with its domain, operator, first and last version and type
        constraints; and the operators, each with its domain, name, first version and the type
        parameters of its inputs.
        """
        kernels = [
            (k.domain, k.op_name, *k.version_range, dict(k.type_constraints))
            for k in get_all_opkernel_def()
            if k.provider in _PROVIDERS
        ]
        schemas = get_all_operator_schema()
        return kernels, [
            (s.domain, s.name, s.since_version, tuple(i.typeStr for i in s.inputs)) for s in schemas
        ]


def _options() -> ort.SessionOptions:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return options


def _session(
    model: str | bytes,
    folder: str | None,
    libraries: Sequence[str],
    level: str,
    entries: Mapping[str, str],
    has_arena: bool,
) -> ort.InferenceSession:
    options = _options()
    options.enable_cpu_mem_arena = has_arena
    options.graph_optimization_level = _LEVELS[level]
    options.intra_op_num_threads = min(_MOST_THREADS, cores())
    # Planning the reuse of buffers takes quadratic time on graphs with dynamic shapes: 21 s instead
    # of 0.2 s for 6,000 nodes. Freed buffers go back to the arena either way.
    options.enable_mem_reuse = False
    # A thread that waits for work by spinning takes the processor from the caller, whose turn it is
    # between two runs.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if folder is not None:
        options.add_session_config_entry(
            "session.model_external_initializers_file_folder_path", folder
        )
    for key, value in entries.items():
        options.add_session_config_entry(key, value)
    for library in libraries:
        options.register_custom_ops_library(library)
    return ort.InferenceSession(model, options, providers=_PROVIDERS)


def _plain(value: Any) -> Any:
    """The value, if it is one of the kinds that can be handed over and compared."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if value is None or isinstance(value, np.ndarray | np.generic | str | bytes | int | float):
        return value
    raise TypeError(f"a value is of the type {type(value).__name__}, which cannot be compared")


def _to_ort(value: Any) -> ort.OrtValue:
    if not isinstance(value, Raw):
        return ort.OrtValue.ortvalue_from_numpy(value)
    result = ort.OrtValue.ortvalue_from_shape_and_type(list(value.shape), value.elem_type)
    ctypes.memmove(result.data_ptr(), value.data.ctypes.data, value.data.nbytes)
    return result


def _from_ort(value: ort.OrtValue, raw: Collection[str]) -> Any:
    kind = value.data_type()
    if kind not in raw:
        return _plain(value.numpy())
    data = np.frombuffer(
        ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes()), dtype=np.uint8
    )
    return Raw(kind, tuple(value.shape()), data)
