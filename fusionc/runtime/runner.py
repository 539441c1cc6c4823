"""A model in onnxruntime, loaded once and run as often as one likes."""

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

# Types that numpy does not know; onnxruntime takes and gives them as bytes.
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
    opened: list[Runner] | None = None
    runs = 0
    most: int | None = None  # bytes


_state = _State()


def closes_runners(function: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]:
    """Close all runners that the function makes when it returns."""

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
    """How many runs this thread has asked for, of whatever model."""
    return _state.runs


@contextmanager
def run_memory(most: int | None) -> Iterator[None]:
    """Limit the bytes that each run inside takes, in addition to those that its process holds; more
    is OutOfMemory.
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
    """Why onnxruntime cannot load a model; None if it can, or was too slow to tell."""
    try:
        Runner(path, level=level, kernels=kernels).close()
    except RunError as error:
        return None if isinstance(error, Overdue) else str(error)
    return None


class Runner:
    """Runs one model, by default with onnxruntime's own optimizers off.

    `source` is the model's path, so that external data and files beyond 2 GB work, or its bytes
    together with the `folder` of its external data. With `fresh`, every run gets a new session:
    operators that draw random numbers then draw the same ones in every run. `kernels` is a library
    with operators of the model, in addition to those that `custom_operators` has put in use. At a
    `level` above "disabled", onnxruntime's own optimizers are on. `entries` are those of the
    session's configuration.

    A crash, or a lack of memory, counts only if it happens again in a new process that holds just
    this model. Other runners that were open in the old process open again by themselves.
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
            found = request(
                "run",
                self._number,
                values,
                self._raw(),
                self._is_fresh,
                _state.most,
                only=self._home,
            )
            return list(map(_received, found))

        return insist(run)

    def run_each(self, several: Sequence[Feeds]) -> list[tuple[list[Any] | None, str]]:
        """What `run` returns for each of several inputs, or None and why it fails; one message
        instead of many.

        Raises RunError if the process ends, or takes too long.
        """
        _state.runs += len(several)
        values = [
            {name: self._handed_over(name, value) for name, value in feeds.items()}
            for feeds in several
        ]

        def run() -> list[tuple[list[Any] | None, str]]:
            self._open()
            ran = request(
                "run_each", self._number, values, self._raw(), _state.most, only=self._home
            )
            return [
                (None if found is None else list(map(_received, found)), why) for found, why in ran
            ]

        return insist(run)

    def _raw(self) -> set[str]:
        return {kind for kind in self.types.values() if kind in _RAW_TYPES}

    def close(self) -> None:
        """Free the session, and with it the model; the next run would make another one."""
        if self._home is not None and self._home is current():
            with suppress(Crashed):  # another thread has ended the process, and the session with it
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
    # compared exactly, for which their bits do; the first element has the lowest
    if kind in _SUB_BYTE:
        bits = int(kind[-2])
        places = value.data[:, None] >> np.array(range(0, 8, bits), np.uint8) & (1 << bits) - 1
        return places.reshape(-1)[: math.prod(value.shape)].reshape(value.shape)
    return value.data.view(onnx.helper.tensor_dtype_to_np_dtype(_RAW_TYPES[kind])).reshape(
        value.shape
    )
