"""Change the batch size of inputs: their first dimension, if the model leaves its size open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from fusionc.errors import UsageError
from fusionc.verify.interface import Port, required_inputs


def resize_batch(model: Path, feeds: Mapping[str, Any], batch: int) -> dict[str, Any]:
    """The feeds with `batch` samples: samples are repeated or left out.

    The batch dimension is the first symbolic dimension that an input begins with. Inputs that begin
    with another dimension stay unchanged. Raises UsageError if no input begins with a symbolic
    dimension.
    """
    ports = _ports(model, feeds)
    batch_symbol = _batch_symbol(ports)
    if batch_symbol is None:
        what = "no input of the model leaves its first dimension open: the batch size is fixed"
        first = next((f' "{port.name}:0"' for port in ports if port.dims), "")
        command = f"fusionc convert --free_dim{first}"
        hint = f"leave --batch_sizes out, or make the dimension symbolic first: {command}"
        raise UsageError(what, where=str(model), hint=hint, code="E10001")
    sized = dict(feeds)
    for port in ports:
        if port.dims and port.dims[0] == batch_symbol:
            value = np.asarray(feeds[port.name])
            if not len(value):
                what = f"the input {port.name} has no sample to repeat"
                hint = "give samples with --inputs"
                raise UsageError(what, where=str(model), hint=hint, code="E10001")
            sized[port.name] = np.take(value, np.arange(batch) % len(value), axis=0)
    return sized


def batch_of(model: Path, feeds: Mapping[str, Any]) -> int:
    """The number of samples in the feeds: the size of the dimension that `resize_batch` changes. If
    no input has such a dimension: the first dimension of the first input that is not scalar.
    """
    ports = _ports(model, feeds)
    batch_symbol = _batch_symbol(ports)
    first = (port.name for port in ports if port.dims and batch_symbol in (None, port.dims[0]))
    return next((int(np.shape(feeds[name])[0]) for name in first if np.ndim(feeds[name])), 1)


def _ports(model: Path, feeds: Mapping[str, Any]) -> list[Port]:
    proto = onnx.load(model, load_external_data=False)
    return [port for port in required_inputs(proto) if port.name in feeds]


def _batch_symbol(ports: Sequence[Port]) -> str | None:
    """The first symbolic dimension that an input begins with."""
    return next(
        (port.dims[0] for port in ports if port.dims and not isinstance(port.dims[0], int)), None
    )
