from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from harness import Fires, Stays, effected, optimize, parse, pass_of, session, tables

from fusionc.passes import PASSES

STFT = "agraph (float[B,{},{}] x) => (float[B,F,K,2] y) <int64 s = {{{}}}, float[8] w, int64 n = {{{}}}> {{ {} }}"
ALL = "y = STFT (x, s, w, n)"


NO_LAST_AXIS = (
    "agraph (float[B,L] x) => (float[B,F,K,2] y) <int64 s = {4}, float[8] w> { y = STFT (x, s, w) }"
)


def stft(
    node: str = ALL, signal: str = "32", parts: int = 1, step: int = 4, length: int = 8
) -> str:
    return STFT.format(signal, parts, step, length, node)


def fires(name: str, graph: str, opset: int = 17, first: str = "Transpose", **more: int) -> Fires:
    operators = [first, "Conv", "Transpose", "Reshape"]
    return Fires(
        name,
        graph,
        operators,
        opset=opset,
        sizes={"B": 2, "L": 40, **more},
        edge_values=False,
        zero_sizes=False,
    )


SIGN = "depends on the rounding of numbers near 0"
# What exporters write of a complex spectrum: its parts, taken apart along the last axis.
PHASE = """agraph (float[B,L,1] x) => (float[B,F,K] y)
    <int64 step = {{5}}, float[20] w, int64 one = {{1}}, int64 none = {{0}}, float zero = {{0}}> {{
    x_ = STFT (x, step, w) re = Gather <axis = 3> (x_, none) im = Gather <axis = 3> (x_, one) {} }}"""
COMPLEX = "the signal is not real"

STAYS = [
    Stays(
        "two steps",
        stft().replace("int64 s = {4}", "int64[2] s = {4, 4}"),
        "the step is not a single number",
        17,
        valid=False,
    ),
    Stays(
        "two lengths",
        stft().replace("int64 n = {8}", "int64[2] n = {8, 8}"),
        "the length of a frame is not a single number",
        17,
        valid=False,
    ),
    Stays("a complex signal", stft("y = STFT <onesided = 0> (x, s, w, n)", parts=2), COMPLEX),
    Stays(
        "a signal of unknown shape",
        "agraph (float[B,L,P] x) => (float[B,F,K,2] y) <int64 s = {4}, float[8] w> { y = STFT (x, s, w) }",
        "whether the signal is real or complex is unknown",
    ),
    Stays(
        "a window that is computed",
        "agraph (float[B,32,1] x, float[8] w) => (float[B,F,K,2] y) <int64 s = {4}> { y = STFT (x, s, w) }",
        None,
    ),
    Stays(
        "a step that is an input",
        "agraph (float[B,32,1] x, int64 s) => (float[B,F,K,2] y) <float[8] w> { y = STFT (x, s, w) }",
        None,
    ),
    Stays(
        "a signal of unknown rank",
        "agraph (float x) => (float[B,F,K,2] y) <int64 s = {4}, float[8] w> { y = STFT (x, s, w) }",
        "the rank of the signal is not 2 or 3",
        valid=False,
    ),
    Stays(
        "a window of another length",
        stft(length=6),
        "the window does not have the length of a frame",
        valid=False,
    ),
    Stays(
        "a power of two, and long",
        "agraph (float[B,2000,1] x) => (float[B,F,K,2] y) <int64 s = {99}, float[512] w> { y = STFT (x, s, w) }",
        "the transform is faster than a product with a matrix of this size",
    ),
    Stays(
        "a large matrix",
        "agraph (float[B,2000,1] x) => (float[B,F,K,2] y) <int64 s = {99}, float[1200] w> { y = STFT (x, s, w) }",
        "the transform is faster than a product with a matrix of this size",
    ),
    *[
        Stays(
            f"{decider} behind it",
            PHASE.format(body),
            f"the result of the later {decider} {SIGN}",
            17,
        )
        for decider, body in {
            "Atan": "q = Div (im, re) p = Atan (q) y = Squeeze (p)",
            "Sign": "s = Sign (im) y = Squeeze (s)",
            "Div": "q = Div (re, im) y = Squeeze (q)",
            "Reciprocal": "n = Neg (im) q = Reciprocal (n) y = Squeeze (q)",
            "Sqrt": "n = Add (im, im) q = Sqrt (n) y = Squeeze (q)",
            "Log": "q = Log (im) y = Squeeze (q)",
            "Greater": "g = Greater (im, zero) a = Where (g, re, im) y = Squeeze (a)",
        }.items()
    ],
    Stays("another target", stft(), "for target onnx no gain is known", target="onnx"),
    Stays(
        "elements without a kernel",
        stft().replace("float", "double"),
        "no CPU kernel for Conv of double",
    ),
]

FIRES = [
    fires("both", stft()),
    fires("the window alone", stft("y = STFT (x, s, w)")),
    fires("the length alone", stft("y = STFT (x, s, , n)")),
    fires("no power of two", stft("y = STFT (x, s, , n)", length=6)),
    fires("odd", stft("y = STFT (x, s, , n)", length=7)),
    fires("one number", stft("y = STFT (x, s, , n)", length=1)),
    fires("both sides", stft("y = STFT <onesided = 0> (x, s, w, n)")),
    fires("any length", stft(signal="L")),
    fires("a step beyond the frame", stft(step=11)),
    fires("a newer opset", stft(), 20),
    fires("a signal without its last axis", NO_LAST_AXIS, first="Unsqueeze"),
]

FIRES.append(
    Fires(
        "magnitudes behind it",
        PHASE.format(
            "r2 = Mul (re, re) i2 = Mul (im, im) s = Add (r2, i2) q = Sqrt (s) y = Squeeze (q)"
        ),
        [
            "Transpose",
            "Conv",
            "Transpose",
            "Reshape",
            "Gather",
            "Gather",
            "Mul",
            "Mul",
            "Add",
            "Sqrt",
            "Squeeze",
        ],
        opset=17,
        sizes={"B": 2, "L": 200},
        edge_values=False,
        zero_sizes=False,
    )
)

test_stays, test_fires = tables("StftToConvPass", STAYS, FIRES, in_functions="never")


@pytest.mark.parametrize(("length", "largest"), [(400, 1e-6), (100, 1e-6), (320, 1e-6), (64, 1e-6)])
def test_the_sum_is_nearer_to_the_truth_than_the_transform(length: int, largest: float) -> None:
    text = f"agraph (float[1,4000,1] x) => (float[1,F,K,2] y) <int64 s = {{160}}, float[{length}] w> {{ y = STFT (x, s, w) }}"
    model = parse(text, 17)
    result, counts = optimize(model, [pass_of("StftToConvPass")])
    assert effected(counts) == 1
    x = np.random.default_rng(length).normal(size=(1, 4000, 1)).astype(np.float32)
    window = onnx.numpy_helper.to_array(model.graph.initializer[1]).astype(np.float64)
    frames = [x[0, at : at + length, 0] * window for at in range(0, 4000 - length + 1, 160)]
    exact = np.fft.rfft(frames)
    exact = np.stack([exact.real, exact.imag], -1)[None]
    errors = [
        np.abs(
            onnxruntime.InferenceSession(m.SerializeToString()).run(None, {"x": x})[0] - exact
        ).max()
        for m in (model, result)
    ]
    assert errors[1] <= 2 * errors[0] and errors[1] <= largest * np.abs(exact).max()


def test_a_division_by_the_magnitude_decides_nothing() -> None:
    body = "r2 = Mul (re, re) i2 = Mul (im, im) s = Add (r2, i2) q = Sqrt (s) d = Div (re, q) y = Squeeze (d)"
    _, counts = optimize(parse(PHASE.format(body), 17), [pass_of("StftToConvPass")])
    assert effected(counts) == 1


def test_a_phase_stays_as_it_is() -> None:
    """At the first and the last frequency the sum has imaginary parts of 0: there the angle would turn by 2π."""
    body = """g = Greater (im, zero) q = Div (im, re) a = Atan (q) u = Add (a, pi) d = Sub (a, pi) o = Where (g, u, d)
        l = Less (re, zero) p = Where (l, o, a) y = Identity (p)"""
    model = parse(
        PHASE.format(body).replace("zero = {0}", "zero = {0}, float pi = {3.1415927}"), 17
    )
    result, _ = optimize(model, [p for p in PASSES if p.default != "off"])
    x = np.random.default_rng(0).normal(size=(2, 200, 1)).astype(np.float32)
    before, after = (session(m).run(None, {"x": x})[0] for m in (model, result))
    np.testing.assert_allclose(after, before, rtol=0, atol=1e-4)
