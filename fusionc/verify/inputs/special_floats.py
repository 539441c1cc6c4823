"""Numbers that reveal differences that ordinary numbers hide: many magnitudes, signed zeros,
denormals, ties, NaN and Inf.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

NOT_FINITE = (np.nan, np.inf, -np.inf)


def mixed_magnitudes(
    normal: NDArray[np.float64], dtype: np.dtype[Any], rng: np.random.Generator
) -> NDArray[np.float64]:
    """Numbers with the signs of `normal` and with magnitudes from 1e-3 to 1e3 (in types of 2 bytes
    from 1e-2 to 10), with some special numbers among them.
    """
    is_wide = dtype.itemsize >= 4
    values = np.asarray(
        np.sign(normal) * 10.0 ** rng.uniform(*((-3, 3) if is_wide else (-2, 1)), normal.shape)
    )
    smallest = 1e-310 if dtype.name == "float64" else 1e-40 if is_wide else 1e-7
    return sprinkled(values, (-0.0, 0.0, 0.5, -1.5, 2.5, 1.0, smallest, -smallest), rng)


def sprinkled(
    values: NDArray[np.float64], specials: tuple[float, ...], rng: np.random.Generator
) -> NDArray[np.float64]:
    """The values, with one in fifty replaced by special values. Each special value occurs at least
    once if there is room.

    Only the first half along the first axis changes, so that a batch keeps ordinary rows.
    """
    if not values.size:
        return values
    rows = (
        values.reshape(values.shape[0], -1)[: max(1, values.shape[0] // 2)]
        if values.ndim
        else values.reshape(1, 1)
    )
    flat = np.ascontiguousarray(rows).reshape(-1)
    count = min(flat.size, max(len(specials), flat.size // 50))
    places = rng.choice(flat.size, count, replace=False)
    flat[places] = np.resize(specials, count)
    rows[...] = flat.reshape(rows.shape)
    return values
