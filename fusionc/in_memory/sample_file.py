"""Values for the inputs of a model, as a file that the verification reads."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np


@contextmanager
def sample_file(values: Mapping[str, Any]) -> Iterator[Path | None]:
    """An .npz file with these arrays by input name, for as long as it is used; None where there are none."""
    if not values:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="fusionc-inputs-") as folder:
        path = Path(folder, "inputs.npz")
        with ZipFile(path, "w") as archive:
            for name, value in values.items():  # numpy.savez has arguments that an input may be called like
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, np.asarray(value), allow_pickle=False)
        yield path
