"""The project's own functions: how far they are from the truth, over floats of every size."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable

import numpy as np
import pytest
from areas import area_of, plain_model, session

from fusionc.graph_kernel.c.compile import Unit
from fusionc.graph_kernel.c.headers import header
from fusionc.graph_kernel.library.build_library import compiled

pytestmark = pytest.mark.usefixtures("needs_a_compiler")

# What they compute, from where to where they are called, and how many units in the last place they
# may be off.
FUNCTIONS: dict[str, tuple[Callable[[np.ndarray], np.ndarray], float, float, float]] = {
    "exp": (np.exp, -110.0, 95.0, 4),
    "log": (np.log, 1e-45, 3.4e38, 4),
    "tanh": (np.tanh, -15.0, 15.0, 4),
    "erf": (np.vectorize(math.erf, otypes=[float]), -6.0, 6.0, 1),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), -86.0, 100.0, 4),
    "logistic": (lambda x: np.where(x <= -18, 0, 1 / (1 + np.exp(-x))), -86.0, 100.0, 4),
    "exp_of_negative": (np.exp, -87.0, 0.0, 4),
    "any_expm1": (np.expm1, -100.0, 88.0, 4),
    "near_sin": (np.sin, -4194304.0, 4194304.0, 1),
    "near_cos": (np.cos, -4194304.0, 4194304.0, 1),
    "sin": (np.sin, -3e38, 3e38, 1),
    "cos": (np.cos, -3e38, 3e38, 1),
    "asin": (np.arcsin, -1.0, 1.0, 4),
    "acos": (np.arccos, -1.0, 1.0, 4),
    "atan": (np.arctan, -3e38, 3e38, 4),
    "log1p": (np.log1p, 0.0, 1e30, 4),
}
# Whether this machine multiplies and adds at once is asked of the kernels' own runtime.
MACHINE = """
#define EXPORT __attribute__((visibility("default")))
#if defined(__x86_64__) /* some of the bodies do, where the processor can */
#define FUSED GK_AVX2
EXPORT int fuses(void) { return gk_best_body() > 0; }
#else /* all of them do, or none */
#define FUSED
EXPORT int fuses(void) { return GK_FUSED; }
#endif
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    text = "#include <stddef.h>\n#include <stdint.h>\nenum { GK_VARIABLES = 1, GK_ACCESSES = 1, GK_NUMBERS = 1 };\n"
    text += header("mathematics.h") + header("kernel.h") + header("runtime.h") + MACHINE
    for name in FUNCTIONS:
        for machine, target in (("plain", ""), ("fused", "FUSED"), ("emulated", "")):
            text += (
                f"EXPORT {target} void {name}_{machine}(const float *x, float *y, ptrdiff_t n) {{\n"
                f"gk_machine machine = gk_machine_with({int(machine != 'plain')});\n"
                f"#pragma omp simd\nfor (ptrdiff_t i = 0; i < n; ++i) y[i] = gk_{name}_f32(x[i], "
                f"machine); }}\n"
            )
    return ctypes.CDLL(str(compiled([Unit(text)])))


def _applied(library: ctypes.CDLL, name: str, x: np.ndarray) -> np.ndarray:
    y = np.empty_like(x)
    pointer = ctypes.POINTER(ctypes.c_float)
    getattr(library, name)(
        x.ctypes.data_as(pointer), y.ctypes.data_as(pointer), ctypes.c_ssize_t(x.size)
    )
    return y


def _samples(low: float, high: float) -> np.ndarray:
    sizes = np.geomspace(1e-38, max(abs(low), abs(high)), 100_000)
    every = np.concatenate([np.linspace(low, min(high, 1e4), 300_000), sizes, -sizes]).astype(
        np.float32
    )
    return every[(every >= low) & (every <= high)]


@pytest.mark.parametrize("machine", ["plain", "fused"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_units_in_the_last_place(name: str, machine: str, library: ctypes.CDLL) -> None:
    if machine == "fused" and not library.fuses():
        # the C library multiplies and adds with one rounding, too, and takes its time
        machine = "emulated"
    function, low, high, most = FUNCTIONS[name]
    x = _samples(low, high)
    with np.errstate(all="ignore"):
        wanted = function(x.astype(np.float64))
        got = _applied(library, f"{name}_{machine}", x).astype(np.float64)
        in_float = wanted.astype(np.float32)
        unit = np.spacing(np.abs(in_float)).astype(np.float64)
        off = np.where(in_float == got, 0, np.abs(got - wanted) / unit)
    assert np.nanmax(off) < most, f"{np.nanmax(off)} at {x[np.nanargmax(off)]}"


@pytest.mark.parametrize("machine", ["plain", "emulated"])
def test_erf_near_1_is_that_of_onnxruntime(machine: str, library: ctypes.CDLL) -> None:
    """1 + erf(x) is all that is left of a GELU, and a last bit of erf a large part of it."""
    x = -np.linspace(2.2, 4.5, 50_000).astype(np.float32)
    area = area_of("g (float[N] x) => (float[N] z) { z = Erf(x) }")
    (wanted,) = session(plain_model(area)).run(None, {"x": x})
    assert np.mean(_applied(library, f"erf_{machine}", x) != wanted) < 0.01


# NaNs with other bits
CARRYING = np.array([0x7FC00001, 0x7FC001FF, 0xFFFFFFFF], np.uint32).view(np.float32)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_is_no_number(name: str, library: ctypes.CDLL) -> None:
    edges = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0], np.float32)
    if name == "exp_of_negative":
        edges = edges[[0, 2, 3, 4]]
    if name == "log1p":
        edges = edges[[0, 1, 3]]
    edges = np.concatenate([edges, CARRYING])
    with np.errstate(all="ignore"):
        wanted = FUNCTIONS[name][0](edges.astype(np.float64))
    assert np.array_equal(
        _applied(library, f"{name}_plain", edges), wanted.astype(np.float32), equal_nan=True
    )
