"""Write input values to a file that the verification reads."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np

from fusionc.errors import UsageError, said
from fusionc.model.tensors import Array


@contextmanager
def sample_file(values: Mapping[str, Any]) -> Iterator[Path | None]:
    """A context manager that gives the path of a temporary .npz file with these arrays by input
    name, or `None` if `values` is empty.

    Raises UsageError if a value is not an array of numbers or text.
    """
    if not values:
        yield None
        return
    arrays = {name: _array(name, value) for name, value in values.items()}
    with tempfile.TemporaryDirectory(prefix="fusionc-inputs-") as folder:
        path = Path(folder, "inputs.npz")
        with ZipFile(path, "w") as archive:
            # not with numpy.savez: it fails if an input has the name of an argument of savez
            for name, array in arrays.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, array, allow_pickle=False)
        yield path


def _array(name: str, value: Any) -> Array:
    try:
        array = np.asarray(value)
        reason = "it contains Python objects" if array.dtype.hasobject else ""
    except ValueError as error:
        reason = said(error)
    if reason:
        what = f"the value of {name} is not an array of numbers or text: {reason}"
        hint = "give a numpy array with the element type of the input; array.astype(str) for text"
        raise UsageError(what, hint=hint, code="E10001")
    return array
