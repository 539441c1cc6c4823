"""How kernels run: loops that are made one, bounds of slices, and rows that need more memory than
the stack has.
"""

from __future__ import annotations

import ctypes
import itertools
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import sanitized
from areas import area_of, differences, kernel_model, plain_model, session

from fusionc.graph_kernel.c.compile import Unit
from fusionc.graph_kernel.c.headers import header
from fusionc.graph_kernel.library.build_library import build, compiled
from fusionc.graph_kernel.lower.data_movement import _bounds

pytestmark = pytest.mark.usefixtures("needs_a_compiler")

EXPORTS = """
#define EXPORT __attribute__((visibility("default")))
EXPORT int64_t slice_start(int64_t n, int64_t start, int64_t step) { return gk_slice_start(n, start, step); }
EXPORT int64_t slice_length(int64_t n, int64_t start, int64_t end, int64_t step) {
  return gk_slice_length(n, start, end, step);
}
/* Two accesses in two loops; what becomes of the inner one's extent. */
static void any_strides(GK_PARAMETERS) { (void)q, (void)base, (void)rows, (void)n, (void)scratch; }
EXPORT int64_t collapsed(int64_t outer, int64_t inner, int64_t a0, int64_t a1, int64_t b0, int64_t b1, int64_t any) {
  gk_access access[] = {{0, 4, 1, 0, 1}, {1, 4, 1, 0, b1 != 0}};
  gk_body *const bodies[4] = {NULL, NULL, NULL, any ? any_strides : NULL};
  gk_form form = {.bodies = bodies, .access = access, .accesses = 2, .grid = 1, .row = 1, .divisible = 1};
  gk_piece piece = {{outer, inner}, {{a0, a1}, {b0, b1}}, {0}};
  int first = gk_collapse(&form, &piece, 0, 1, 1);
  return first == 1 ? piece.extent[1] : -1;
}
"""
TURNED = """g (float[N,B,A] x) => (float[N,A,B] z) <int64[2] axes = {1, 2}> {
    t = Transpose <perm = [0, 2, 1]>(x) e = Exp(t) m = ReduceMax(e, axes) z = Sub(e, m) }"""


@pytest.fixture(scope="module")
def library() -> ctypes.CDLL:
    text = "#include <stddef.h>\n#include <stdint.h>\nenum { GK_VARIABLES = 2, GK_ACCESSES = 2, GK_NUMBERS = 1 };\n"
    headers = "".join(map(header, ("mathematics.h", "kernel.h", "runtime.h")))
    library = ctypes.CDLL(str(compiled([Unit(text + headers + EXPORTS)])))
    for name, count in (("slice_start", 3), ("slice_length", 4), ("collapsed", 7)):
        function = getattr(library, name)
        function.restype = ctypes.c_int64
        function.argtypes = [ctypes.c_int64] * count
    return library


def test_bounds_of_slices_are_those_of_known_sizes(library: ctypes.CDLL) -> None:
    places = [-(2**62), -9, -5, -4, -1, 0, 1, 4, 5, 9, 2**62]
    for size, start, end, step in itertools.product(
        range(6), places, places, (-(2**62), -3, -1, 1, 2, 2**62)
    ):
        first, length = _bounds(size, start, end, step)
        assert library.slice_length(size, start, end, step) == length, (size, start, end, step)
        if length:
            assert library.slice_start(size, start, step) == first, (size, start, end, step)


@pytest.mark.parametrize(
    ("loops", "expected"),
    [
        ((3, 4, 4, 1, 4, 1), 12),
        ((3, 4, 8, 1, 4, 1), -1),
        ((3, 4, 1, 1, 1, 1), -1),
        ((3, 4, 4, 1, 0, 0), 12),
        ((3, 4, 4, 1, 1, 0), -1),
        ((3, 1, 7, 1, 5, 1), 3),
        ((3, 1, 7, 1, 5, 0), -1),  # what is read once for a row must stay the same
        ((1, 4, 9, 1, 9, 1), 4),
        ((3, 0, 0, 1, 0, 1), 0),
    ],
)
def test_loops_that_are_walked_through_as_one_are_one(
    loops: tuple[int, ...], expected: int, library: ctypes.CDLL
) -> None:
    assert library.collapsed(*loops, True) == expected


@pytest.mark.parametrize(
    ("loops", "expected"),
    [
        ((3, 1, 7, 1, 5, 1), -1),
        ((3, 1, 7, 1, 1, 1), -1),
        ((3, 1, 1, 1, 1, 1), 3),
        ((3, 4, 4, 1, 4, 1), 12),
    ],
)
def test_a_loop_of_one_turn_stays_where_no_body_takes_other_strides(
    loops: tuple[int, ...], expected: int, library: ctypes.CDLL
) -> None:
    assert library.collapsed(*loops, False) == expected


def test_a_row_of_one_element_and_what_is_read_once_for_it() -> None:
    area = area_of("g (float[N,M] x, float[N,1] s) => (float[N,M] z) { z = Add(x, s) }")
    feeds = {
        "x": np.arange(5, dtype=np.float32).reshape(5, 1),
        "s": 10 * np.ones((5, 1), np.float32).cumsum(0),
    }
    wanted = session(plain_model(area)).run(None, feeds)
    assert not differences(
        wanted, session(kernel_model(area), build([area]).library).run(None, feeds)
    )


def test_rows_that_are_larger_than_the_stack(tmp_path: Path) -> None:
    area = area_of(TURNED)
    feeds = {"x": np.random.default_rng(0).standard_normal((2, 150, 130)).astype(np.float32)}
    wanted = session(plain_model(area)).run(None, feeds)
    assert not differences(
        wanted, session(kernel_model(area), build([area]).library).run(None, feeds), 1e-6
    )
    if sanitized.works(tmp_path):
        assert not sanitized.findings({"area": area}, {"area": [feeds]}, tmp_path, Counter())
