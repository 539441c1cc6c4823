"""A model file in onnxruntime."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from numpy.typing import NDArray

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


class RunError(Exception):
    """onnxruntime cannot load or run a model; the text is its reason on one line."""


class Runner:
    """Runs one model with onnxruntime's own optimizers off.

    `source` is the model's path, so that external data and files beyond 2 GB work, or its bytes together with the
    `folder` of its external data. With `fresh`, every run gets a new session: operators that draw random numbers then
    draw the same ones in every run. `kernels` is a library with operators of the model's own.
    """

    def __init__(
        self, source: Path | bytes, *, folder: Path | None = None, fresh: bool = False, kernels: Path | None = None
    ) -> None:
        self._source, self._folder, self._fresh, self._kernels = source, folder, fresh, kernels
        self._session = self._open()
        self.outputs = [output.name for output in self._session.get_outputs()]
        ports = [
            *self._session.get_inputs(),
            *self._session.get_overridable_initializers(),
            *self._session.get_outputs(),
        ]
        self._types = {port.name: port.type for port in ports}
        self._raw = any(kind in _RAW_TYPES for kind in self._types.values())
        self._used = False

    def run(self, feeds: Feeds) -> list[Any]:
        """The value of every output, in the order of `outputs`. Raises RunError."""
        if self._fresh and self._used:
            self._session = self._open()
        self._used = True
        quiet = ort.RunOptions()
        quiet.log_severity_level = 4
        try:
            if not self._raw:
                return list(self._session.run(None, dict(feeds), quiet))
            values = {name: self._to_ort(name, value) for name, value in feeds.items()}
            found = self._session.run_with_ort_values(None, values, quiet)
            return [_from_ort(value) for value in found]
        except Exception as error:  # onnxruntime's exceptions share no base class
            raise RunError(_one_line(error)) from error

    def _open(self) -> ort.InferenceSession:
        options = ort.SessionOptions()
        options.log_severity_level = 4
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.intra_op_num_threads = min(2, os.cpu_count() or 1)
        # Planning the reuse of buffers takes quadratic time on graphs with dynamic shapes: 21 s instead of 0.2 s for
        # 6,000 nodes. Freed buffers go back to the arena either way.
        options.enable_mem_reuse = False
        if self._folder is not None:
            options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(self._folder))
        model = self._source if isinstance(self._source, bytes) else str(self._source)
        try:
            if self._kernels is not None:
                options.register_custom_ops_library(str(self._kernels.resolve()))
            return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime's exceptions share no base class
            raise RunError(_one_line(error)) from error

    def _to_ort(self, name: str, value: Any) -> ort.OrtValue:
        kind = self._types[name]
        if kind not in _RAW_TYPES:
            return ort.OrtValue.ortvalue_from_numpy(value)
        result = ort.OrtValue.ortvalue_from_shape_and_type(list(value.shape), _RAW_TYPES[kind])
        raw = onnx.numpy_helper.from_array(value).raw_data
        ctypes.memmove(result.data_ptr(), raw, len(raw))
        return result


def _from_ort(value: ort.OrtValue) -> Any:
    kind = value.data_type()
    if kind not in _RAW_TYPES:
        return value.numpy()
    raw: NDArray[np.uint8] = np.frombuffer(
        ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes()), dtype=np.uint8
    )
    if kind in _SUB_BYTE:  # compared exactly, so that the packed bytes do
        return raw
    return raw.view(onnx.helper.tensor_dtype_to_np_dtype(_RAW_TYPES[kind])).reshape(value.shape())


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text if len(text) <= 400 else text[:397] + "..."
