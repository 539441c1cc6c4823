"""The same inputs with another number of samples in a batch: the first dimension of those that leave it open."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from fusionc.errors import UsageError
from fusionc.verify.interface import required_inputs


def with_batch(model: Path, feeds: Mapping[str, Any], batch: int) -> dict[str, Any]:
    """The feeds with their samples repeated, or left out, so that there are `batch`.

    The batch is the open dimension, of whatever name, with which the first such input begins; inputs that begin with
    another one stay as they are. Raises UsageError where no input leaves its first dimension open.
    """
    ports = [port for port in required_inputs(onnx.load(model, load_external_data=False)) if port.name in feeds]
    open_ = [port.dims[0] for port in ports if port.dims and not isinstance(port.dims[0], int)]
    if not open_:
        what = "no input of the model leaves its first dimension open, so that there is one batch size"
        first = next((f' "{port.name}:0"' for port in ports if port.dims), "")
        hint = f"leave --batch_sizes out, or make the dimension symbolic first: fusionc convert --free_dim{first}"
        raise UsageError(what, where=str(model), hint=hint, code="E10001")
    sized = dict(feeds)
    for port in ports:
        if port.dims and port.dims[0] == open_[0]:
            value = np.asarray(feeds[port.name])
            sized[port.name] = np.take(value, np.arange(batch) % max(1, len(value)), axis=0)
    return sized


def batch_of(feeds: Mapping[str, Any]) -> int:
    """How many samples the feeds have: the first dimension of the first of them that has one."""
    return next((int(np.shape(value)[0]) for value in feeds.values() if np.ndim(value)), 1)
