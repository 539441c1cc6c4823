"""The requests that the child process answers with onnxruntime. Answers are plain data and
arrays.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from time import monotonic, perf_counter
from typing import Any

import numpy as np
import onnxruntime as ort
from onnxruntime.capi.onnxruntime_pybind11_state import (
    get_all_operator_schema,
    get_all_opkernel_def,
)

from fusionc.runtime.cores import cores
from fusionc.runtime.error_clause import error_clause
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
# The number of threads of a session whose outputs are compared. The number is the same on all
# machines, because another number of threads would split sums in another way and round differently.
_MOST_THREADS = 2
_SMALL = 64 * 1024  # bytes; a smaller model gets one thread
# With several threads, each thread quantizes its part of a batch of this operator with a scale of
# its own. Therefore its results depend on the number of threads by more than rounding.
_DIVIDED = b"DynamicQuantizeLSTM"
# A profile has at least this many runs, unless they take longer than _LONGEST_PROFILE.
_LEAST_RUNS = 5
_LONGEST_PROFILE = 60.0  # seconds
_LIMIT_AGE = 0.1  # seconds after which the memory limit of several runs is set again
_WORTH_MAPPING = 1024  # bytes; a smaller weight is not worth mapping from a file


@dataclass
class _Opened:
    source: tuple[Any, ...]
    session: ort.InferenceSession | None
    is_used: bool = False


class Sessions:
    """The open sessions, by numbers that the caller chooses."""

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
        """Create a session. Return the names of its outputs, and the types of all inputs and
        outputs by name.
        """
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
        """Run a model and return all outputs. `raw` are the types of inputs and outputs that numpy
        lacks. `is_fresh` asks for a new session. `most` is the memory in bytes that the run may
        take in addition to the memory in use.
        """
        limit_growth(most)
        return self._run(number, feeds, raw, is_fresh)

    def _run(
        self, number: int, feeds: Mapping[str, Any], raw: Collection[str], is_fresh: bool
    ) -> list[Any]:
        opened = self._opened[number]
        if opened.session is None or (is_fresh and opened.is_used):
            opened.session = None  # freed first, because two sessions would need more memory
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
        """Run a model on several sets of inputs. For each set, return (all outputs, ""), or
        (None, the message) if onnxruntime fails. `run` explains `raw` and `most`.
        """
        results: list[tuple[list[Any] | None, str]] = []
        limited_at = -_LIMIT_AGE
        for feeds in several:
            # the limit is not set for every run, because that takes longer than running a small
            # model
            if most is not None or monotonic() - limited_at >= _LIMIT_AGE:
                limit_growth(most)
                limited_at = monotonic()
            try:
                results.append((self._run(number, feeds, raw, is_fresh=False), ""))
            except Exception as error:  # onnxruntime's exceptions have no common base class
                results.append((None, error_clause(str(error))))
        return results

    def close(self, number: int) -> None:
        """Free a session."""
        self._opened.pop(number, None)

    def compute(
        self,
        model: bytes,
        names: Sequence[str],
        feeds: Mapping[str, Any],
        most: int,
        seconds: float,
    ) -> list[Any]:
        """Run a model once and return these outputs. The run may take at most `most` bytes of
        memory and `seconds` of processor time, which does not depend on the load of the machine. If
        the run takes longer, the process ends.
        """
        limit_growth(most)
        options = _options()
        options.intra_op_num_threads = 1  # sums are always computed in the same order
        with processor_time(seconds):
            session = ort.InferenceSession(model, options, providers=_PROVIDERS)
            results = session.run(list(names), dict(feeds))
        if any(not isinstance(result, np.ndarray) for result in results):
            raise TypeError("a result is not a tensor")
        return list(results)

    def write_optimized(self, model: str, libraries: Sequence[str], target: str, data: str) -> None:
        """Write the model that onnxruntime's optimizers make at their highest level. The file
        `data` next to the written model gets the weights, and the packed copies that kernels make
        of them.
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
        """Load a model for measuring. Return the seconds of loading, and the peak memory in bytes
        before and after loading.
        """
        self._measured = MeasuredSession(model, libraries, settings, is_optimized, feeds)
        return self._measured.load_seconds, self._measured.before, self._measured.loaded

    def measure_runs(self, seconds: float) -> tuple[list[float], int]:
        """Run the model of `measure_load` repeatedly for `seconds`. Return the seconds of each run,
        and the peak memory in bytes.
        """
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
        """Write the model that onnxruntime's optimizers make with a user's settings. Return the
        optimizers that changed the model.
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
        """The times of the operators of a model with a user's settings. The first run does not
        count. onnxruntime writes its profile to `folder`.
        """
        limit_growth()
        options = deployed_options(libraries, settings, is_optimized)
        options.enable_profiling = True
        options.profile_file_prefix = os.path.join(folder, "profile")
        session = ort.InferenceSession(model, options, providers=_PROVIDERS)
        session.run(None, dict(feeds))
        began = perf_counter()
        for number in range(most_runs):
            session.run(None, dict(feeds))
            passed = perf_counter() - began
            if passed > (seconds if number + 1 >= _LEAST_RUNS else _LONGEST_PROFILE):
                break
        with unlimited_files():  # a profile may be large: a Loop has events for each iteration
            file = session.end_profiling()
        return summary_of(Path(file))

    def seconds_of_run(
        self, model: str, libraries: Sequence[str], feeds: Mapping[str, Any], seconds: float
    ) -> float:
        """The time of the shortest run on one thread. The model runs repeatedly for `seconds`."""
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
        """In sessions that are created from now on, fill uninitialized memory with this byte, if
        the system supports this. 0 ends the filling.

        Such sessions do not have an arena, because its memory still contains earlier values.
        """
        self._has_arena = not byte
        fill_allocations(byte)

    def load_library(self, path: str) -> None:
        """Load a library of custom operators."""
        ort.SessionOptions().register_custom_ops_library(path)

    def operators(self) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
        """The CPU kernels and the operators of onnxruntime.

        A kernel is (domain, operator, first version, last version, type constraints). An operator
        is (domain, name, first version, type parameters of its inputs, those of its outputs, the
        type parameters that may be float16).
        """
        kernels = [
            (k.domain, k.op_name, *k.version_range, dict(k.type_constraints))
            for k in get_all_opkernel_def()
            if k.provider in _PROVIDERS
        ]
        schemas = get_all_operator_schema()
        return kernels, [
            (
                s.domain,
                s.name,
                s.since_version,
                tuple(i.typeStr for i in s.inputs),
                tuple(o.typeStr for o in s.outputs),
                tuple(
                    c.type_param_str
                    for c in s.type_constraints
                    if "tensor(float16)" in c.allowed_type_strs
                ),
            )
            for s in schemas
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
    # Generated kernels are run with several threads, because they divide their work themselves.
    threads = 1 if not libraries and _is_small(model) else _MOST_THREADS
    options.intra_op_num_threads = min(threads, cores())
    # Planning the reuse of buffers takes quadratic time for graphs with dynamic shapes: for 6,000
    # nodes 21 s instead of 0.2 s. Without a plan, freed buffers still return to the arena.
    options.enable_mem_reuse = False
    # Threads that spin between two runs would take processor time from the caller.
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


def _is_small(model: str | bytes) -> bool:
    """Whether one thread is enough, because creating a second one would take longer than running
    the model. This is assumed if the file of the model is small, if the model has no tensor in
    another file, and if it does not have the operator _DIVIDED, whose results depend on the number
    of threads.
    """
    if isinstance(model, str):
        try:
            with open(model, "rb") as file:
                model = file.read(_SMALL)
        except OSError:  # onnxruntime says what is wrong
            return False
    # "location" is the key that names another file
    return len(model) < _SMALL and b"location" not in model and _DIVIDED not in model


def _plain(value: Any) -> Any:
    """The value, if it has a type that can be sent and compared. Raises TypeError otherwise."""
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
