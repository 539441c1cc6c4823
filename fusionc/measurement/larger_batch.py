"""The same inputs with another number of samples in a batch: the first dimension of those that leave it open."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from fusionc.errors import UsageError
from fusionc.verify.interface import Port, required_inputs


def with_batch(model: Path, feeds: Mapping[str, Any], batch: int) -> dict[str, Any]:
    """The feeds with their samples repeated, or left out, so that there are `batch`.

    Inputs that do not begin with the batch stay as they are. Raises UsageError as `open_batch` does.
    """
    sized, symbol = dict(feeds), open_batch(model, feeds)
    for port in _ports(model, feeds):
        if port.dims and port.dims[0] == symbol:
            value = np.asarray(feeds[port.name])
            sized[port.name] = np.take(value, np.arange(batch) % max(1, len(value)), axis=0)
    return sized


def batch_of(feeds: Mapping[str, Any]) -> int:
    """How many samples the feeds have: the first dimension of the first of them that has one."""
    return next((int(np.shape(value)[0]) for value in feeds.values() if np.ndim(value)), 1)


def open_batch(model: Path, feeds: Mapping[str, Any]) -> str:
    """The batch: the open dimension, of whatever name, with which the first such input of those that are fed begins.

    Raises UsageError where none leaves its first dimension open.
    """
    ports = _ports(model, feeds)
    for port in ports:
        if port.dims and isinstance(port.dims[0], str):
            return port.dims[0]
    what = "no input of the model leaves its first dimension open, so that there is one batch size"
    first = next((f' "{port.name}:0"' for port in ports if port.dims), "")
    hint = f"leave --batch_sizes out, or make the dimension symbolic first: fusionc convert --free_dim{first}"
    raise UsageError(what, where=str(model), hint=hint, code="E10001")


def _ports(model: Path, feeds: Mapping[str, Any]) -> list[Port]:
    return [port for port in required_inputs(onnx.load(model, load_external_data=False)) if port.name in feeds]
