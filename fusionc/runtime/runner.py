"""Load a model in onnxruntime once and run it repeatedly."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import wraps
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import Any, ParamSpec, TypeVar

import numpy as np
import onnx

from fusionc.runtime.custom_operators import libraries_in_use
from fusionc.runtime.process import Process, current, insist, request, start
from fusionc.runtime.run_errors import Crashed, Overdue, RunError
from fusionc.runtime.wire import Raw

Feeds = Mapping[str, Any]

# The types that numpy lacks. Tensors of these types are given to onnxruntime, and returned by it,
# as bytes.
_RAW_TYPES = {
    f"tensor({name})": getattr(onnx.TensorProto, name.upper())
    for name in (
        "bfloat16",
        "float8e4m3fn",
        "float8e4m3fnuz",
        "float8e5m2",
        "float8e5m2fnuz",
        "int4",
        "uint4",
        "int2",
        "uint2",
    )
}
_SUB_BYTE = ("tensor(int4)", "tensor(uint4)", "tensor(int2)", "tensor(uint2)")
_numbers = count()
_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


class _State(threading.local):
    opened: list[Runner] | None = None  # the runners that `closes_runners` will close
    runs = 0  # the number of runs so far
    most: int | None = None  # the memory limit of a run in bytes


_state = _State()


def closes_runners(function: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]:
    """A decorator that closes all runners which the function creates, when the function ends."""

    @wraps(function)
    def closing(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Result:
        before = _state.opened
        _state.opened = []
        try:
            return function(*args, **kwargs)
        finally:
            for runner in list(_state.opened):
                runner.close()
            _state.opened = before

    return closing


def runs_so_far() -> int:
    """The number of runs that this thread has requested, of any model."""
    return _state.runs


@contextmanager
def run_memory(most: int | None) -> Iterator[None]:
    """A context manager that limits the memory that each run may take in addition to the memory in
    use. A run that exceeds the limit raises OutOfMemory.
    """
    before = _state.most
    _state.most = most
    try:
        yield
    finally:
        _state.most = before


def fault_of_loading(
    path: Path, level: str = "disabled", kernels: Path | None = None
) -> str | None:
    """Why onnxruntime cannot load a model. None if onnxruntime can load it. Also None if loading
    takes longer than the limit of a step (--timeout), because the model may still be valid.
    """
    try:
        Runner(path, level=level, kernels=kernels).close()
    except RunError as error:
        return None if isinstance(error, Overdue) else str(error)
    return None


class Runner:
    """Runs one model, by default with onnxruntime's own optimizers off.

    source     the path of the model, or its bytes; only a path allows files larger than 2 GB
    folder     the folder of external data, if `source` is bytes
    fresh      create a new session for every run, so that random operators draw the same numbers in
               each run
    kernels    the library with the generated kernels of the model, in addition to the libraries of
               `custom_operators`
    level      the level of onnxruntime's own optimizers
    entries    entries of the session configuration

    After a crash or a lack of memory, the request is repeated in a new process that has only this
    model. A second failure raises the error. Other runners of the old process are opened again when
    they are used.
    """

    def __init__(
        self,
        source: Path | bytes,
        *,
        folder: Path | None = None,
        fresh: bool = False,
        kernels: Path | None = None,
        level: str = "disabled",
        entries: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._number = next(_numbers)
        self._is_fresh = fresh
        self._source = (
            source if isinstance(source, bytes) else os.path.abspath(source),
            None if folder is None else os.path.abspath(folder),
            (*libraries_in_use(), *(() if kernels is None else (str(kernels.resolve()),))),
            level,
            dict(entries),
        )
        self._home: Process | None = None  # the process that has the session
        self.outputs: list[str] = []
        self.types: dict[str, str] = {}
        insist(self._open)

    @property
    def is_fresh(self) -> bool:
        """Whether every run gets a new session."""
        return self._is_fresh

    def run(self, feeds: Feeds) -> list[Any]:
        """The value of every output, in the order of `outputs`. Raises RunError."""
        _state.runs += 1
        values = {name: self._handed_over(name, value) for name, value in feeds.items()}

        def run() -> list[Any]:
            self._open()
            values_of_outputs = request(
                "run",
                self._number,
                values,
                self._raw(),
                self._is_fresh,
                _state.most,
                only=self._home,
            )
            return list(map(_received, values_of_outputs))

        return insist(run)

    def run_each(self, several: Sequence[Feeds]) -> list[tuple[list[Any] | None, str]]:
        """Run the model on several sets of inputs with a single message to the process. For each
        set, return (the outputs, ""), or (None, the reason why the run failed).

        Raises RunError if the process ends or takes too long.
        """
        _state.runs += len(several)
        values = [
            {name: self._handed_over(name, value) for name, value in feeds.items()}
            for feeds in several
        ]

        def run() -> list[tuple[list[Any] | None, str]]:
            self._open()
            results = request(
                "run_each", self._number, values, self._raw(), _state.most, only=self._home
            )
            return [
                (None if outputs is None else list(map(_received, outputs)), why)
                for outputs, why in results
            ]

        return insist(run)

    def _raw(self) -> set[str]:
        return {kind for kind in self.types.values() if kind in _RAW_TYPES}

    def close(self) -> None:
        """Free the session with the model. The next run would create a new session."""
        if self._home is not None and self._home is current():
            with suppress(Crashed):  # if another thread has ended the process, the session is gone
                request("close", self._number, only=self._home)
        self._home = None
        if _state.opened is not None and self in _state.opened:
            _state.opened.remove(self)

    def _open(self) -> None:
        process = start()
        if self._home is not process:
            if _state.opened is not None and self not in _state.opened:
                _state.opened.append(self)
            self.outputs, self.types = request("open", self._number, *self._source, only=process)
            self._home = process

    def _handed_over(self, name: str, value: Any) -> Any:
        kind = self.types.get(name)
        if kind not in _RAW_TYPES or not isinstance(value, np.ndarray):
            return value
        data = np.frombuffer(onnx.numpy_helper.from_array(value).raw_data, np.uint8)
        return Raw(_RAW_TYPES[kind], value.shape, data)


def _received(value: Any) -> Any:
    if not isinstance(value, Raw):
        return value
    kind = str(value.elem_type)
    # Values of types that numpy lacks are only compared exactly, so their bits suffice. If several
    # elements share a byte, the first element has the lowest bits.
    if kind in _SUB_BYTE:
        bits = int(kind[-2])
        places = value.data[:, None] >> np.array(range(0, 8, bits), np.uint8) & (1 << bits) - 1
        return places.reshape(-1)[: math.prod(value.shape)].reshape(value.shape)
    return value.data.view(onnx.helper.tensor_dtype_to_np_dtype(_RAW_TYPES[kind])).reshape(
        value.shape
    )
