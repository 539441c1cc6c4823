"""Factors and numbers to add, one after the other: when they may be one."""

from __future__ import annotations

import math

import pytest

from fusionc.graph_kernel.blocked.joined_line import joined_line


@pytest.mark.parametrize(
    ("first", "second", "line"),
    [
        ((1.0, 0.25), (1.0, 0.5), (1.0, 0.75)),
        ((2.0, 0.0), (4.0, 0.5), (8.0, 0.5)),
        ((2.0, 0.5), (1.0, 0.5), (2.0, 1.0)),
        ((0.0, 0.0), (2.0, 1.0), (0.0, 1.0)),
        ((2.0, 0.5), (4.0, 0.0), None),
        ((1.0, 12582912.0), (1.0, -12582912.0), None),
        ((1.0, 12582912.0), (1.0, -12582911.5), None),
        ((1e20, 0.0), (1e20, 0.0), None),
        ((1e-30, 0.0), (1e-30, 0.0), None),
        ((1e30, 0.0), (1e-30, 0.0), None),
        ((1e-30, 0.0), (1e30, 0.0), None),
        ((1e-3, 0.0), (1e3, 0.0), (1.0, 0.0)),
        ((1e12, 0.0), (1e3, 0.0), (1e15, 0.0)),
        ((2.0, 0.0), (math.inf, 0.0), None),
        ((1.0, math.nan), (1.0, 0.0), None),
        ((1.0, (0.5, 0.25)), (1.0, 0.5), None),
    ],
)
def test_two_lines(
    first: tuple[object, object], second: tuple[object, object], line: tuple[float, float] | None
) -> None:
    assert joined_line(first, second) == line
