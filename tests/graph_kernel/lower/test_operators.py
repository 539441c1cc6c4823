"""Every operator, alone, against onnxruntime: every type that both can do, edges included."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest
from areas import (
    area_of,
    build_for_here,
    differences,
    kernel_model,
    plain_model,
    random_array,
    session,
)
from onnx import TensorProto, helper

from fusionc.graph_kernel.area import Area
from fusionc.graph_kernel.c.source import reason_against
from fusionc.graph_kernel.library.build_library import Built, build
from fusionc.graph_kernel.lower.reductions import REDUCTIONS as of_kernels
from fusionc.model.tensors import type_name
from fusionc.verify.reduction_bounds import REDUCTIONS, spreads

pytestmark = pytest.mark.usefixtures("needs_a_compiler")

FLOATS = [TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE]
INTEGERS = [TensorProto.INT32, TensorProto.INT64]
SMALL = [TensorProto.INT8, TensorProto.UINT8]
NUMBERS = [*FLOATS, *INTEGERS, *SMALL]

Case = tuple[str, float]  # a graph, and the share by which results may differ
# call → element types of its inputs; T is that type, x, y, z are inputs. A share of 0 is bitwise.
UNARY = {
    "Abs(x)": 0, "Neg(x)": 0, "Sign(x)": 0, "Relu(x)": 0, "Identity(x)": 0, "Floor(x)": 0, "Ceil(x)": 0, "Round(x)": 0,
    "Sqrt(x)": 0, "Reciprocal(x)": 0, "Exp(x)": 1e-6, "Log(x)": 1e-6, "Erf(x)": 1e-6, "Tanh(x)": 1e-5,
    "Sigmoid(x)": 1e-5, "Softplus(x)": 1e-6, "Softsign(x)": 1e-6, "LeakyRelu <alpha = 0.3>(x)": 0, "Elu(x)": 1e-6,
    "Celu <alpha = 2.0>(x)": 1e-6, "Selu(x)": 1e-6, "ThresholdedRelu(x)": 0, "HardSigmoid(x)": 1e-6, "HardSwish(x)": 1e-6,
    "Gelu(x)": 5e-6, 'Gelu <approximate = "tanh">(x)': 1e-5, "Mish(x)": 1e-5, "Sin(x)": 1e-6, "Cos(x)": 1e-6,
    "Tan(x)": 1e-6, "Asin(x)": 1e-6, "Acos(x)": 1e-6, "Atan(x)": 1e-6, "Sinh(x)": 1e-6, "Cosh(x)": 1e-6, "Asinh(x)": 1e-6,
    "Acosh(x)": 1e-6, "Atanh(x)": 1e-6,
    "Clip(x)": 0, "IsNaN(x)": 0, "IsInf(x)": 0, "IsInf <detect_negative = 0>(x)": 0, "Sum(x)": 0, "Mean(x)": 0,
}  # fmt: skip
BINARY = {
    "Add(x, y)": 0, "Sub(x, y)": 0, "Mul(x, y)": 0, "Div(x, y)": 0, "Max(x, y)": 0, "Min(x, y)": 0, "Pow(x, y)": 2e-6,
    "PRelu(x, y)": 0, "Sum(x, y)": 0, "Mean(x, y)": 0, "Mod <fmod = 1>(x, y)": 0, "Equal(x, y)": 0, "Less(x, y)": 0,
    "Greater(x, y)": 0, "LessOrEqual(x, y)": 0, "GreaterOrEqual(x, y)": 0,
}  # fmt: skip
REDUCED = [
    "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare",
    "ReduceLogSum", "ReduceLogSumExp",
]  # fmt: skip


def _cases() -> dict[str, Case]:
    """Cases by their names."""
    return dict(
        [
            *_unary(),
            *_binary(),
            *_conversions(),
            *_of_booleans(),
            *_of_bits(),
            *_reductions(),
            *_normalizations(),
        ]
    )


def _case(
    call: str, dtype: int, share: float, ins: str, out: str = "T", name: str = ""
) -> tuple[str, Case]:
    """A call that keeps the shape of its inputs, for one element type."""
    typed = ", ".join(
        f"{type_name(dtype) if kind == 'T' else kind}[N,M] {n}" for n, kind in _ports(ins)
    )
    half = 2e-3 if dtype == TensorProto.FLOAT16 and share else share
    out_type = type_name(dtype) if out == "T" else out
    graph = f"g ({typed}) => ({out_type}[N,M] o) {{ o = {call} }}"
    return f"{name or call}, {type_name(dtype)}", (graph, half)


def _unary() -> Iterator[tuple[str, Case]]:
    for call, share in UNARY.items():
        of_integers = call in ("Abs(x)", "Neg(x)", "Sign(x)", "Relu(x)", "Clip(x)")
        is_single = call.startswith(("Celu", "Tan(", "A", "Sinh", "Cosh")) and call != "Abs(x)"
        floats = [TensorProto.FLOAT] if is_single else FLOATS
        for dtype in [*floats, *([*INTEGERS, TensorProto.INT8] if of_integers else [])]:
            yield _case(call, dtype, share, "x:T", "bool" if call.startswith("Is") else "T")


def _binary() -> Iterator[tuple[str, Case]]:
    for call, share in BINARY.items():
        compares = call.startswith(("Equal", "Less", "Greater"))
        for dtype in FLOATS if call.startswith(("Mean", "Sum")) else NUMBERS:
            yield _case(call, dtype, share, "x:T y:T", "bool" if compares else "T")
    for dtype in [*INTEGERS, *SMALL]:
        yield _case("Mod(x, y)", dtype, 0, "x:T y:T")


def _conversions() -> Iterator[tuple[str, Case]]:
    for dtype in NUMBERS:
        yield _case("Where(c, x, y)", dtype, 0, "c:bool x:T y:T")
        for to in [*NUMBERS, TensorProto.BOOL]:
            out = type_name(to)
            yield _case(f"Cast <to = {to}>(x)", dtype, 0, "x:T", out, f"Cast to {out}")


def _of_booleans() -> Iterator[tuple[str, Case]]:
    for call in ("And(x, y)", "Or(x, y)", "Xor(x, y)", "Equal(x, y)"):
        yield _case(call, TensorProto.BOOL, 0, "x:T y:T")
    yield _case("Not(x)", TensorProto.BOOL, 0, "x:T")


def _of_bits() -> Iterator[tuple[str, Case]]:
    for dtype in [*INTEGERS, *SMALL]:
        yield _case("BitwiseNot(x)", dtype, 0, "x:T")
        for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
            yield _case(f"{op}(x, y)", dtype, 0, "x:T y:T")


def _reductions() -> Iterator[tuple[str, Case]]:
    # axes, keepdims, shape of the result
    ways = [("1", 0, "N"), ("1", 1, "N,1"), ("0", 1, "1,M"), ("0, 1", 1, "1,1")]
    for dtype, op, (axes, keep, shape) in product(
        (TensorProto.FLOAT, TensorProto.INT32), REDUCED, ways
    ):
        text = type_name(dtype)
        constant = f"int64[{axes.count(',') + 1}] a = {{{axes}}}"
        graph = (
            f"g ({text}[N,M] x) => ({text}[{shape}] o) <{constant}>"
            f" {{ o = {op} <keepdims = {keep}>(x, a) }}"
        )
        yield f"{op} of {axes}, keepdims {keep}, {text}", (graph, 1e-5)


def _normalizations() -> Iterator[tuple[str, Case]]:
    for call in ("Softmax(x)", "Softmax <axis = 0>(x)", "LogSoftmax(x)"):
        for dtype in FLOATS:
            yield _case(call, dtype, 1e-5, "x:T")
    yield (
        "LayerNormalization",
        (
            "g (float[N,M] x, float[M] s, float[M] b) => (float[N,M] o)"
            " { o = LayerNormalization(x, s, b) }",
            1e-4,
        ),
    )
    for outputs, ports in (
        ("o, m", "float[N,M] o, float[N,1] m"),
        ("o, m, i", "float[N,M] o, float[N,1] m, float[N,1] i"),
    ):
        yield (
            f"LayerNormalization, outputs {outputs}",
            (
                f"g (float[N,M] x, float[M] s) => ({ports}) {{ {outputs} = LayerNormalization(x, s) }}",
                1e-4,
            ),
        )


def _ports(text: str) -> list[tuple[str, str]]:
    return [(p.split(":")[0], p.split(":")[1]) for p in text.split()]


EVERY = _cases()
REFUSED = {f"{op}(x, y), {kind}": f"no kernel computes {op} of such elements"
           for op in ("Pow", "PRelu") for kind in ("int8", "uint8")} | {
    f"{op} of {how}, int32": f"no kernel computes {op} of integers"
    for op in ("ReduceL2", "ReduceLogSum", "ReduceLogSumExp")
    for how in ("1, keepdims 0", "1, keepdims 1", "0, keepdims 1", "0, 1, keepdims 1")
}  # fmt: skip
NOT_OF_ONNXRUNTIME = [
    "Relu(x), int64", "PRelu(x, y), int32", "PRelu(x, y), int64",
    *(f"{call}, double" for call in (
        "Erf(x)", "Softplus(x)", "Softsign(x)", "LeakyRelu <alpha = 0.3>(x)", "Elu(x)", "Selu(x)", "ThresholdedRelu(x)",
        "HardSigmoid(x)", "HardSwish(x)", "Gelu(x)", "Mish(x)", "Mean(x)", "Mean(x, y)", "PRelu(x, y)",
    )),
]  # fmt: skip
CASES = {
    name: case
    for name, case in EVERY.items()
    if name not in REFUSED and name not in NOT_OF_ONNXRUNTIME
}
SIZES = [(1, 1), (3, 5), (5, 64), (7, 100), (1, 3000), (0, 4)]  # of N and M


@pytest.mark.parametrize("name", REFUSED)
def test_what_kernels_refuse(name: str) -> None:
    assert reason_against(area_of(EVERY[name][0])) == REFUSED[name]


@pytest.mark.parametrize("name", NOT_OF_ONNXRUNTIME)
def test_what_kernels_compute_and_onnxruntime_does_not(name: str) -> None:
    area = area_of(EVERY[name][0])
    assert reason_against(area) is None
    with pytest.raises(Exception, match="NOT_IMPLEMENTED"):
        session(plain_model(area))


@pytest.fixture(scope="module")
def library() -> tuple[dict[str, Area], Built]:
    areas = {
        name: area_of(text, name=f"op_{k}") for k, (name, (text, _)) in enumerate(CASES.items())
    }
    return areas, build_for_here(list(areas.values()))


def test_what_kernels_reduce_is_in_the_table_of_what_depends_on_the_order() -> None:
    assert set(of_kernels) <= set(REDUCTIONS)


@pytest.mark.parametrize("name", CASES)
def test_as_onnxruntime(name: str, library: tuple[dict[str, Area], Built]) -> None:
    areas, built = library
    area = areas[name]
    share = CASES[name][1]
    plain = session(plain_model(area))
    kernel = session(kernel_model(area), built.library)
    for seed, (n, m) in enumerate(SIZES):
        if (
            0 in (n, m)
            and ("Reduce" in name or "max" in name)
            and not name.startswith("ReduceMean")
        ):
            continue  # the largest of nothing
        feeds = feeds_of(area, seed, n, m, name)
        found = difference(area, plain, share, feeds, kernel.run(None, feeds))
        assert not found, f"{n}×{m}: {found}"


def difference(
    area: Area, plain: Any, share: float, feeds: dict[str, np.ndarray], got: list[np.ndarray]
) -> str:
    """How what a kernel gave differs from what onnxruntime computes in the session `plain`, "" if it does not."""
    wanted = plain.run(None, feeds)
    if area.nodes[0].op_type in REDUCTIONS:
        got = _as_ordered(area, feeds, wanted, got)
    return differences(wanted, got, share)


def _as_ordered(
    area: Area, feeds: dict[str, np.ndarray], wanted: list[np.ndarray], got: list[np.ndarray]
) -> list[np.ndarray]:
    """What a kernel gave, where another order of a reduction may give that: what onnxruntime gave."""
    node = area.nodes[0]
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    inputs = [feeds.get(name, area.constants.get(name)) for name in node.input]
    if inputs[0].dtype.kind != "f":
        return got
    ordered = []
    for one, other, spread in zip(
        wanted, got, spreads(node.op_type, attributes, inputs, wanted), strict=True
    ):
        with np.errstate(all="ignore"):
            near = np.abs(one.astype(np.float64) - other) <= 4 * spread
        ordered.append(np.where(near | np.isinf(spread), one, other))
    return ordered


def feeds_of(area: Area, seed: int, n: int, m: int, name: str) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    edges = not name.startswith("Cast")  # no integer is NaN
    feeds = {}
    for k, key in enumerate(area.inputs):
        value = area.values[key]
        shape = [{"N": n, "M": m}[d] if isinstance(d, str) else d for d in value.shape]
        feeds[key] = random_array(rng, value.dtype, shape, edges=edges)
        if k == 1 and name.startswith(("Div", "Mod", "Pow")) and feeds[key].dtype.kind in "iu":
            feeds[key] = np.abs(feeds[key]) + 1  # by zero is undefined
    if name.startswith(("Cast", "Pow(x, y), int", "Pow(x, y), uint")) and "uint8" in name:
        feeds = {key: np.abs(array) for key, array in feeds.items()}
    return feeds


@pytest.mark.parametrize("power", ["int64 n = {4}", "double n = {4}", "int32 n = {4}"])
def test_a_power_has_the_range_of_its_type(power: str) -> None:
    """Whatever it is computed in."""
    text = f"g (float[N] x) => (float[N] z) <{power}, float s = {{1e-30}}> {{ p = Pow(x, n) z = Mul(p, s) }}"
    area = area_of(text)
    feeds = {"x": np.array([1e10, 1e5, 2], np.float32)}
    (made,) = session(kernel_model(area), build([area]).library).run(None, feeds)
    (wanted,) = session(plain_model(area)).run(None, feeds)
    assert np.isinf(made[0]) and not differences([wanted], [made], 1e-6)
