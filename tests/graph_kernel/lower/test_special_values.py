"""Every operator on NaN, infinities, both zeros, subnormal and the largest numbers, in all pairs: as onnxruntime."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from areas import Feeds, area_of, build_for_here, kernel_model, plain_model, session
from onnx import helper
from test_operators import CASES as ALONE

from fusionc.graph_kernel.area import Area
from fusionc.graph_kernel.library.build_library import Built, build

pytestmark = [pytest.mark.usefixtures("needs_a_compiler"), pytest.mark.long]

TYPES = {"float": np.float32, "float16": np.float16, "double": np.float64}
ROUNDING = {
    "e": 2e-3,
    "f": 1e-5,
    "d": 1e-5,
}  # shares of a number that an operator may be off by, by its type
FLUSHED = 1e-6  # what onnxruntime's exponentials may make 0
# Calls whose p is a constant: what else is written for these than for inputs.
OF_CONSTANTS = {
    "Max(x, p)": (0.0, -0.0, np.nan), "Max(p, x)": (0.0, -0.0), "Min(x, p)": (0.0, -0.0), "Min(p, x)": (0.0, -0.0, np.nan),
    "Max(x, p, y)": (0.0,), "Where(c, p, x)": (-0.0,), "Where(c, x, p)": (-0.0,),
    "Pow(x, p)": (0.0, 1.0, 2.0, 3.0, 0.5, -1.0, -0.5, 1.5), "Clip(x, p)": (-1.0, np.nan, np.inf), "Clip(x, , p)": (1.0,),
    "Clip(x, p, p)": (1.0,), "Div(x, p)": (0.0, -0.0, np.inf), "Mul(x, p)": (0.0, np.inf), "Equal(x, p)": (np.nan,),
}  # fmt: skip
OF_ATTRIBUTES = [
    "LeakyRelu <alpha = -0.5>(x)", "LeakyRelu <alpha = 0.0>(x)", "ThresholdedRelu <alpha = -0.5>(x)",
    "HardSigmoid <alpha = -0.5>(x)", "IsInf <detect_positive = 0>(x)", "Sum(x, y, x)",
]  # fmt: skip
EXACT = (
    "Max",
    "Min",
    "Where",
    "Clip",
    "Div",
    "Mul",
    "Equal",
    "LeakyRelu",
    "ThresholdedRelu",
    "IsInf",
    "Sum",
)


def _alone() -> dict[str, tuple[Area, bool]]:
    """Areas of the operators as they are, and whether their results are bitwise."""
    whole = ("Reduce", "Softmax", "LogSoftmax", "LayerNormalization")
    cases = {name: case for name, case in ALONE.items() if not name.startswith(whole)}
    numbers = {name: f"op_{k}" for k, name in enumerate(ALONE)}
    return {
        name: (area_of(text, name=numbers[name]), not share)
        for name, (text, share) in cases.items()
    }


def _further() -> dict[str, tuple[Area, bool]]:
    calls = [(call, value) for call, values in OF_CONSTANTS.items() for value in values]
    calls += [(call, 0.0) for call in OF_ATTRIBUTES]
    areas = dict[str, tuple[Area, bool]]()
    for name, dtype in TYPES.items():
        for call, value in calls:
            if name == "double" and call in OF_ATTRIBUTES and not call.startswith(("IsInf", "Sum")):
                continue  # onnxruntime has none
            constants = {"p": np.asarray(value, dtype)}
            area = area_of(_graph_of(call, name), constants, name=f"further_{len(areas)}")
            areas[f"{call} of {value}, {name}"] = (area, call.startswith(EXACT))
    return areas


def _graph_of(call: str, name: str) -> str:
    """The text of a graph with one call on tensors of a type."""
    read = [key for key in "cxy" if f"{key}," in f"{call[:-1]},"]
    inputs = ", ".join(f"{'bool' if key == 'c' else name}[N] {key}" for key in read)
    out = "bool" if call.startswith(("Equal", "IsInf")) else name
    return f"g ({inputs}) => ({out}[N] o) {{ o = {call} }}"


ALL = _alone() | _further()


@pytest.fixture(scope="module")
def alone() -> Built:
    """The library that the tests of operators have."""
    return build_for_here(
        [area_of(text, name=f"op_{k}") for k, (text, _) in enumerate(ALONE.values())]
    )


@pytest.fixture(scope="module")
def further() -> Built:
    return build_for_here([area for area, _ in _further().values()])


@cache
def _specials(kind: np.dtype) -> np.ndarray:
    if kind.kind == "b":
        return np.array([False, True])
    if kind.kind in "iu":
        info = np.iinfo(kind)
        return np.array([info.min, info.max, info.max - 1, 0, 1, 2, 5], kind)
    info = np.finfo(kind)
    positive = [
        0,
        info.smallest_subnormal,
        info.tiny / 2,
        info.tiny,
        0.5,
        1,
        2.5,
        3,
        100,
        info.max / 2,
        info.max,
        np.inf,
    ]
    return np.array([*positive, *(-x for x in positive[1:]), -0.0, np.nan], kind)


def _pairs(area: Area) -> Feeds:
    """All combinations of the special values of inputs, but for divisions of integers, of which some are undefined."""
    kinds = [helper.tensor_dtype_to_np_dtype(area.values[name].dtype) for name in area.inputs]
    grids = [grid.reshape(-1) for grid in np.meshgrid(*map(_specials, kinds), indexing="ij")]
    if area.nodes[0].op_type in ("Div", "Mod") and kinds[-1].kind in "iu":
        grids[-1] = np.where(grids[-1] == 0, 3, grids[-1]).astype(kinds[-1])
    shapes = [(1,) * (len(area.values[name].shape) - 1) + (-1,) for name in area.inputs]
    return {
        name: grid.reshape(shape)
        for name, grid, shape in zip(area.inputs, grids, shapes, strict=True)
    }


def _is_alike(wanted: np.ndarray, got: np.ndarray, is_exact: bool) -> np.ndarray:
    if wanted.dtype.kind != "f":
        return wanted == got
    with np.errstate(all="ignore"):
        off = np.abs(wanted.astype(np.float64) - got)
        alike = (wanted == got) & (np.signbit(wanted) == np.signbit(got)) | np.isnan(
            wanted
        ) & np.isnan(got)
        share = ROUNDING[wanted.dtype.char]
        near = np.isfinite(wanted) & np.isfinite(got) & (off <= share * np.abs(wanted) + FLUSHED)
    return alike if is_exact else alike | near


@pytest.mark.parametrize("name", ALL)
def test_special_values_as_in_onnxruntime(name: str, alone: Built, further: Built) -> None:
    area, is_exact = ALL[name]
    feeds = _pairs(area)
    built = alone if area.name.startswith("op_") else further
    (wanted,) = session(plain_model(area)).run(None, feeds)
    (got,) = session(kernel_model(area), built.library).run(None, feeds)
    wrong = np.flatnonzero(~_is_alike(wanted, got, is_exact))
    found = [
        (*(feeds[key].flat[k] for key in feeds), wanted.flat[k], got.flat[k]) for k in wrong[:3]
    ]
    assert not found, (
        f"{wrong.size} of {wanted.size} differ; inputs, onnxruntime's, the kernel's: {found}"
    )


@pytest.mark.parametrize(("kind", "far"), [("float", -18.0), ("double", -36.75)])
def test_sigmoid_is_0_where_that_of_onnxruntime_is(kind: str, far: float) -> None:
    """What rounds up, compares or divides behind it makes something else of a number next to 0."""
    area = area_of(
        f"g ({kind}[N] x) => ({kind}[N] o) {{ o = Sigmoid(x) }}", name=f"sigmoid_of_{kind}"
    )
    feeds = {"x": np.array([far, 2 * far, 5 * far, -1e6], TYPES[kind])}
    for ran in (session(plain_model(area)), session(kernel_model(area), build([area]).library)):
        assert not ran.run(None, feeds)[0].any()
