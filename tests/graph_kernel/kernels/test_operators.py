"""Every operator, alone, against onnxruntime: every type that both can do, edges included."""

from __future__ import annotations

import numpy as np
import pytest
from areas import TYPES, area_of, differences, kernel_model, plain_model, random_array, session
from onnx import TensorProto

from fusionc.graph_kernel import kernels
from fusionc.graph_kernel.area import Area

SPELLING = {
    TensorProto.FLOAT: "float", TensorProto.FLOAT16: "float16", TensorProto.DOUBLE: "double",
    TensorProto.INT32: "int32", TensorProto.INT64: "int64", TensorProto.BOOL: "bool",
    TensorProto.INT8: "int8", TensorProto.UINT8: "uint8",
}  # fmt: skip
FLOATS = [TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE]
INTEGERS = [TensorProto.INT32, TensorProto.INT64]
SMALL = [TensorProto.INT8, TensorProto.UINT8]
NUMBERS = [*FLOATS, *INTEGERS, *SMALL]

# call → element types of its inputs; T is that type, x, y, z are inputs. A share of 0 is bitwise.
UNARY = {
    "Abs(x)": 0, "Neg(x)": 0, "Sign(x)": 0, "Relu(x)": 0, "Identity(x)": 0, "Floor(x)": 0, "Ceil(x)": 0, "Round(x)": 0,
    "Sqrt(x)": 0, "Reciprocal(x)": 0, "Exp(x)": 1e-6, "Log(x)": 1e-6, "Erf(x)": 1e-6, "Tanh(x)": 1e-5,
    "Sigmoid(x)": 1e-5, "Softplus(x)": 1e-6, "Softsign(x)": 1e-6, "LeakyRelu <alpha = 0.3>(x)": 0, "Elu(x)": 1e-6,
    "Celu <alpha = 2.0>(x)": 1e-6, "Selu(x)": 1e-6, "ThresholdedRelu(x)": 0, "HardSigmoid(x)": 1e-6, "HardSwish(x)": 1e-6,
    "Gelu(x)": 2e-6, 'Gelu <approximate = "tanh">(x)': 1e-5, "Mish(x)": 1e-5, "Sin(x)": 1e-6, "Cos(x)": 1e-6,
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


def _cases() -> dict[str, tuple[str, float]]:
    """Name → graph, share."""
    cases: dict[str, tuple[str, float]] = {}

    def add(name: str, dtype: int, call: str, share: float, ins: str, out: str, dims: str = "N,M") -> None:
        typed = ", ".join(f"{SPELLING[dtype] if kind == 'T' else kind}[{dims}] {n}" for n, kind in _ports(ins))
        half = 2e-3 if dtype == TensorProto.FLOAT16 and share else share
        key = f"{name}, {SPELLING[dtype]}"
        out_type = SPELLING[dtype] if out == "T" else out
        cases[key] = (f"g ({typed}) => ({out_type}[{dims}] o) {{ o = {call} }}", half)

    for call, share in UNARY.items():
        of_integers = call in ("Abs(x)", "Neg(x)", "Sign(x)", "Relu(x)", "Clip(x)")
        floats = [TensorProto.FLOAT] if call.startswith("Celu") else FLOATS
        for dtype in [*floats, *([*INTEGERS, TensorProto.INT8] if of_integers else [])]:
            add(call, dtype, call, share, "x:T", "bool" if call.startswith("Is") else "T")
    for call, share in BINARY.items():
        compares = call.split("(")[0] in ("Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual")
        for dtype in FLOATS if call.startswith(("Mean", "Sum")) else NUMBERS:
            add(call, dtype, call, share, "x:T y:T", "bool" if compares else "T")
    for dtype in [*INTEGERS, *SMALL]:
        add("Mod(x, y)", dtype, "Mod(x, y)", 0, "x:T y:T", "T")
    for dtype in NUMBERS:
        add("Where(c, x, y)", dtype, "Where(c, x, y)", 0, "c:bool x:T y:T", "T")
        for to in [*NUMBERS, TensorProto.BOOL]:
            out = SPELLING[to]
            add(f"Cast to {out}", dtype, f"Cast <to = {to}>(x)", 0, "x:T", out)
    for call in ("And(x, y)", "Or(x, y)", "Xor(x, y)", "Equal(x, y)"):
        add(call, TensorProto.BOOL, call, 0, "x:T y:T", "T")
    add("Not(x)", TensorProto.BOOL, "Not(x)", 0, "x:T", "T")
    for dtype in (TensorProto.FLOAT, TensorProto.INT32):
        for op in REDUCED:
            for axes in ("1", "0", "0, 1"):
                for keep in (0, 1) if axes == "1" else (1,):
                    text = "float" if dtype == TensorProto.FLOAT else SPELLING[dtype]
                    shape = (
                        {"1": "N,1", "0": "1,M", "0, 1": "1,1"}[axes]
                        if keep
                        else {"1": "N", "0": "M", "0, 1": ""}[axes]
                    )
                    cases[f"{op} of {axes}, keepdims {keep}, {text}"] = (
                        f"g ({text}[N,M] x) => ({text}[{shape}] o) <int64[{axes.count(',') + 1}] a = {{{axes}}}>"
                        f" {{ o = {op} <keepdims = {keep}>(x, a) }}",
                        1e-5,
                    )
    for call in ("Softmax(x)", "Softmax <axis = 0>(x)", "LogSoftmax(x)"):
        for dtype in FLOATS:
            add(call, dtype, call, 1e-5, "x:T", "T")
    cases["LayerNormalization"] = (
        "g (float[N,M] x, float[M] s, float[M] b) => (float[N,M] o) { o = LayerNormalization(x, s, b) }",
        1e-4,
    )
    return cases


def _ports(text: str) -> list[tuple[str, str]]:
    return [(p.split(":")[0], p.split(":")[1]) for p in text.split()]


CASES = _cases()
# onnxruntime lets a NaN through or not, depending on where it lies; its Sign of float16 makes it 0
_NO_NAN = ("ReduceMax", "ReduceMin", "ReduceLogSumExp", "LogSoftmax", "Cast", "Sign(x), float16")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Area], kernels.Built]:
    areas = {name: area_of(text, name=f"op_{k}") for k, (name, (text, _)) in enumerate(CASES.items())}
    return areas, kernels.build(list(areas.values()), tmp_path_factory.mktemp("kernels") / "operators.so")


@pytest.mark.parametrize("name", CASES)
def test_as_onnxruntime(name: str, library: tuple[dict[str, Area], kernels.Built]) -> None:
    areas, built = library
    area, share = areas[name], CASES[name][1]
    if area.name in built.failed:
        pytest.skip(f"refused: {built.failed[area.name]}")
    try:
        plain = session(plain_model(area))
    except Exception as error:
        assert "NOT_IMPLEMENTED" in str(error)
        pytest.skip("onnxruntime has no kernel for that type")
    kernel = session(kernel_model(area), built.library)
    for seed, (n, m) in enumerate([(1, 1), (3, 5), (5, 64), (7, 100), (1, 3000), (0, 4)]):
        if 0 in (n, m) and ("Reduce" in name or "max" in name):
            continue  # the largest of nothing
        feeds = _feeds(area, seed, n, m, name)
        found = differences(plain.run(None, feeds), kernel.run(None, feeds), share)
        assert not found, f"{n}×{m}: {found}"


def _feeds(area: Area, seed: int, n: int, m: int, name: str) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    edges = not name.startswith(_NO_NAN)
    feeds = {}
    for k, key in enumerate(area.inputs):
        value = area.values[key]
        shape = [{"N": n, "M": m}[d] if isinstance(d, str) else d for d in value.shape]
        feeds[key] = random_array(rng, value.dtype, shape, edges=edges)
        if k == 1 and name.startswith(("Div", "Mod", "Pow")) and feeds[key].dtype.kind in "iu":
            feeds[key] = np.abs(feeds[key]) + 1  # by zero is undefined
    if name.startswith(("Cast", "Pow(x, y), int", "Pow(x, y), uint")) and "uint8" in name:
        feeds = {key: np.abs(array) for key, array in feeds.items()}
    assert set(TYPES) >= {area.values[key].dtype for key in area.inputs}
    return feeds
