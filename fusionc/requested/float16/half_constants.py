"""Constants of float32 as float16."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto

from fusionc.model.graph import Edge
from fusionc.model.tensors import to_proto

LARGEST = float(np.finfo(np.float16).max)


@dataclass
class HalfConstants:
    """Converts constants of a model to float16. Each is converted once, and stays in memory."""

    _arrays: dict[str, NDArray[np.float16]] = field(default_factory=dict)
    _faults: dict[str, str] = field(default_factory=dict)

    def tensor(self, value: Edge, name: str) -> TensorProto:
        """The constant in float16, with this name."""
        return to_proto(self._of(value), name)

    def fault(self, value: Edge, *, is_limit: bool) -> str:
        """Why float16 cannot hold a constant; "" if it can. A constant that is a limit of other
        values may become infinite, because it then limits nothing.
        """
        self._of(value)
        fault = self._faults[value.name]
        return "" if is_limit and fault == TOO_LARGE else fault

    def _of(self, value: Edge) -> NDArray[np.float16]:
        if value.name not in self._arrays:
            array = value.constant()
            assert array is not None
            with np.errstate(over="ignore"):
                half = array.astype(np.float16)
            self._arrays[value.name] = half
            self._faults[value.name] = _fault(array, half)
        return self._arrays[value.name]


TOO_LARGE = "it has a constant that is infinite in float16"
_TOO_SMALL = "it has a constant that is 0 in float16"


def _fault(array: NDArray[Any], half: NDArray[np.float16]) -> str:
    infinite = np.isinf(half)
    if infinite.any() and np.isfinite(array[infinite]).any():
        return TOO_LARGE
    return _TOO_SMALL if array.any() and not half.any() else ""
