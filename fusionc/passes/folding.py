"""What folding costs: bytes of results and of constants that are not needed any more."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from fusionc.model.graph import Constant, Edge, Node


def known_bytes(value: Edge | None) -> int:
    """Bytes of a value as far as its shape is known before anything is computed; else 0."""
    shape, dtype = (None, None) if value is None else (value.shape, value.dtype)
    if shape is None or dtype is None or not all(isinstance(d, int) for d in shape):
        return 0
    return math.prod(d for d in shape if isinstance(d, int)) * dtype.itemsize


def freed_bytes(nodes: Iterable[Node]) -> int:
    """Bytes of the constants that nobody needs once these nodes are constants themselves."""
    freed, pending = 0, list(nodes)
    missing: dict[Edge, int] = {}  # users of a value that are not known to go
    while pending:
        for value in dict.fromkeys(pending.pop().inputs):
            if value is None or value.is_output:
                continue
            missing[value] = missing.get(value, value.use_count) - 1
            if missing[value] > 0:
                continue
            if isinstance(value, Constant):
                freed += value.nbytes
            elif (array := value.constant()) is not None:
                freed += stored_bytes([array])
            elif value.producer is not None and all(
                o is None or o is value or missing.get(o, o.use_count) == 0 for o in value.producer.outputs
            ):
                pending.append(value.producer)
    return freed


def stored_bytes(arrays: Iterable[np.ndarray[Any, Any]]) -> int:
    """Bytes of the elements as a model stores them."""
    total = 0
    for array in arrays:
        is_text = array.dtype.kind == "O"
        total += sum(len(s.encode() if isinstance(s, str) else s) for s in array.flat) if is_text else array.nbytes
    return total
