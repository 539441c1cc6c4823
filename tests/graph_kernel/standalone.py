"""Generated C as a program of its own, without onnxruntime: under sanitizers, or on another kind of
processor.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from onnx import helper, numpy_helper

from fusionc.graph_kernel.area import Area
from fusionc.graph_kernel.c.source import source


def program(areas: Sequence[Area]) -> str:
    """The C text of a program with the kernels of these areas. A kernel is chosen by its number."""
    return hosted(source(areas), Path(__file__).parent / "standalone.c")


def hosted(text: str, main: Path) -> str:
    """The C text of a program: the text of a library, a stand-in for onnxruntime, and the file with
    main().
    """
    return "".join(
        [text, (Path(__file__).parent / "standalone_host.h").read_text(), main.read_text()]
    )


def call(number: int, area: Area, feeds: Mapping[str, np.ndarray]) -> bytes:
    """The input with which the program runs the kernel of this number."""
    parts = [np.int32(number).tobytes()]
    for name in area.inputs:
        parts += [
            np.array(feeds[name].shape, np.int64).tobytes(),
            numpy_helper.from_array(np.ascontiguousarray(feeds[name])).raw_data,
        ]
    return b"".join(parts)


def outputs(area: Area, written: bytes) -> list[np.ndarray]:
    """The outputs of one run, from the bytes that the program wrote."""
    found = list[np.ndarray]()
    at = 0
    for value in (area.values[name] for name in area.outputs):
        shape = np.frombuffer(written, np.int64, len(value.shape), at).tolist()
        at += 8 * len(shape)
        dtype = helper.tensor_dtype_to_np_dtype(value.dtype)
        count = math.prod(shape)
        found.append(np.frombuffer(written, dtype, count, at).reshape(shape))
        at += found[-1].nbytes
    assert at == len(written)
    return found
