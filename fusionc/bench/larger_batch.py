"""The same inputs with another number of samples in a batch: the first dimension of inputs that
leave it open.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from fusionc.errors import UsageError
from fusionc.verify.interface import Port, required_inputs


def resize_batch(model: Path, feeds: Mapping[str, Any], batch: int) -> dict[str, Any]:
    """The feeds with their samples repeated or left out, so that there are `batch` samples.

    The batch is the first open dimension that an input begins with, whatever its name. Inputs that
    begin with another dimension stay as they are. Raises UsageError if no input leaves its first
    dimension open.
    """
    ports = _ports(model, feeds)
    opened = _open_dimension(ports)
    if opened is None:
        what = (
            "no input of the model leaves its first dimension open, so that there is one batch size"
        )
        first = next((f' "{port.name}:0"' for port in ports if port.dims), "")
        command = f"fusionc convert --free_dim{first}"
        hint = f"leave --batch_sizes out, or make the dimension symbolic first: {command}"
        raise UsageError(what, where=str(model), hint=hint, code="E10001")
    sized = dict(feeds)
    for port in ports:
        if port.dims and port.dims[0] == opened:
            value = np.asarray(feeds[port.name])
            if not len(value):
                what = f"the input {port.name} has no sample to repeat"
                hint = "give some with --inputs"
                raise UsageError(what, where=str(model), hint=hint, code="E10001")
            sized[port.name] = np.take(value, np.arange(batch) % len(value), axis=0)
    return sized


def batch_of(model: Path, feeds: Mapping[str, Any]) -> int:
    """How many samples the feeds have: the dimension that `resize_batch` changes, else the first
    dimension of the first input that has one.
    """
    ports = _ports(model, feeds)
    opened = _open_dimension(ports)
    first = (port.name for port in ports if port.dims and opened in (None, port.dims[0]))
    return next((int(np.shape(feeds[name])[0]) for name in first if np.ndim(feeds[name])), 1)


def _ports(model: Path, feeds: Mapping[str, Any]) -> list[Port]:
    proto = onnx.load(model, load_external_data=False)
    return [port for port in required_inputs(proto) if port.name in feeds]


def _open_dimension(ports: Sequence[Port]) -> str | None:
    """The open dimension of the first input that begins with one."""
    return next(
        (port.dims[0] for port in ports if port.dims and not isinstance(port.dims[0], int)), None
    )
