"""What the preset "exact" makes of formulas is bit for bit what they were: −0, subnormal numbers and NaN, too.

onnxruntime computes some operators in other ways for scalars, for rows of one element, and for elements that fill no
vector, so that shapes matter as much as numbers do.
"""

from __future__ import annotations

import numpy as np
import pytest
from harness import effected, optimize, session
from numpy.typing import NDArray
from onnx import ModelProto, helper, numpy_helper

from fusionc.passes import PASSES

Array = NDArray[np.floating]
EXACT = [
    p for p in PASSES if p.default == "must" or (p.default == "on" and p.numerics == "bitwise")
]
SHAPES = [(1,), (7,), (1000, 1), (1, 1000), (37, 3), (3, 5, 1, 7), (2, 33, 17)]
LARGE = [(1, 1_000_000), (1_000_000, 1), (1003, 997)]
ROUNDED = {np.float16: "float16", np.float32: "float", np.float64: "double"}
# Of x, and c that is given: formulas that a pass makes shorter, or would but for the last bit.
FORMULAS = {
    "square": ("y = Pow (x, c)", 2.0),
    "first power": ("y = Pow (x, c)", 1.0),
    "minus zero": ("y = Sub (x, c)", 0.0),
    "minus": ("y = Sub (x, c)", 0.3),
    "plus −0": ("y = Add (x, c)", -0.0),
    "plus zero": ("y = Add (x, c)", 0.0),
    "times one": ("y = Mul (x, c)", 1.0),
    "through one": ("y = Div (x, c)", 1.0),
    "negative product": ("n = Neg (x) y = Mul (n, c)", 0.7),
    "at least zero": ("y = Max (x, c)", 0.0),
    "limits": ("a = Min (x, c) y = Relu (a)", 6.0),
    "limits that meet": ("a = Max (x, c) y = Clip (a, c)", -0.0),
    "sum of one": ("k = Constant <value_ints = [-1]> () y = ReduceSum (x, k)", 0.0),
    "mean of one": ("k = Constant <value_ints = [0]> () y = ReduceMean <keepdims = 0> (x, k)", 0.0),
    "largest of one": (
        "k = Constant <value_ints = [0]> () y = ReduceMax <keepdims = 0> (x, k)",
        0.0,
    ),
    "twice": ("a = Relu (x) b = Relu (a) d = Abs (b) y = Abs (d)", 0.0),
    "there and back": ("a = Neg (x) b = Neg (a) d = Identity (b) e = Sqrt (d) y = Add (e, e)", 0.0),
    "a choice": (
        "t = Constant <value_ints = [1]> () w = Cast <to = 9> (t) y = Where (w, x, x)",
        0.0,
    ),
    "equal parts": ("a = Tanh (x) b = Tanh (x) y = Sub (a, b)", 0.0),
    "a constant of functions": ("d = Exp (c) e = Log (d) y = Mul (x, e)", 0.3),
    **{
        f"{op} of transposed": (
            f"a = Transpose (x) b = {op} ({'a, c' if two else 'a'}) y = Transpose (b)",
            0.7,
        )
        for op, two in (
            ("Log", 0),
            ("Tanh", 0),
            ("Exp", 0),
            ("Sqrt", 0),
            ("Add", 1),
            ("Div", 1),
            ("Pow", 1),
            ("Max", 1),
        )
    },
}


def made_of(body: str, number: float, shape: tuple[int, ...], kind: type) -> ModelProto:
    dims = ",".join(map(str, shape))
    text = f'<ir_version: 10, opset_import: ["" : 18]> g ({ROUNDED[kind]}[{dims}] x) => ({ROUNDED[kind]} y) {{ {body} }}'
    model = helper.onnx.parser.parse_model(text)
    model.graph.initializer.append(numpy_helper.from_array(np.array(number, kind), "c"))
    for value in (value for value in model.graph.output):
        value.type.tensor_type.ClearField("shape")
    return model


def numbers(shape: tuple[int, ...], kind: type, seed: int) -> Array:
    rng = np.random.default_rng(seed)
    about = np.finfo(kind)
    edges = [
        0,
        -0.0,
        np.nan,
        np.inf,
        -np.inf,
        about.smallest_subnormal,
        -about.tiny / 2,
        about.max,
        -1,
        0.5,
    ]
    ordinary = (rng.standard_normal(shape) * rng.choice([0.1, 1, 30], shape)).astype(kind)
    return (
        ordinary
        if seed == 0
        else np.where(rng.random(shape) < 0.2, rng.choice(edges, shape), ordinary).astype(kind)
    )


def bits(array: Array) -> bytes:
    """Of NaN there are many, which stand for the same."""
    return np.where(np.isnan(array), array.dtype.type(np.nan), array).tobytes()


def assert_same_bits(formula: str, shape: tuple[int, ...], kind: type) -> int:
    if (
        kind is np.float16 and formula == "a constant of functions"
    ):  # onnxruntime does not round it, a file has to
        return 0
    model = made_of(*FORMULAS[formula], shape, kind)
    result, counts = optimize(model, EXACT)
    if effected(counts):
        for seed in range(2):
            x = numbers(shape, kind, seed)
            before, after = (session(it).run(None, {"x": x})[0] for it in (model, result))
            assert before.shape == after.shape and bits(before) == bits(after), (
                formula,
                shape,
                kind,
                seed,
            )
    return effected(counts)


@pytest.mark.parametrize("kind", ROUNDED, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_formulas_keep_their_bits(shape: tuple[int, ...], kind: type) -> None:
    assert sum(assert_same_bits(formula, shape, kind) for formula in FORMULAS) > 5


@pytest.mark.parametrize("shape", LARGE, ids=str)
def test_a_million_elements_keep_their_bits(shape: tuple[int, ...]) -> None:
    for formula in ("square", "negative product", "Log of transposed"):
        assert_same_bits(formula, shape, np.float32)
