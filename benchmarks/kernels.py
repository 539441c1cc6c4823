"""Measure how fast generated kernels are, compared with the same operators in onnxruntime at its
default level.

    python benchmarks/kernels.py               every case
    python benchmarks/kernels.py chain rotary  cases whose name contains one of the words

Two sessions run in turn in one process and on one thread pool: the plain model and the kernel.
Before that, the plain model runs in turn with itself: the second column shows how much two equal
sessions differ. The pairs are separate, because a third session would take space in the cache.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "graph_kernel"))
from areas import area_of, differences, kernel_model, plain_model, random_array

from fusionc.graph_kernel.area import Area
from fusionc.graph_kernel.library.build_library import build

_SECONDS = 0.8  # for each pair of sessions
_THREADS = 2

_CHEAP = """g (float[N] x, float[N] y) => (float[N] z) <float h = {0.5}, float q = {0.25}> {
    a = Add(x, y) b = Mul(a, h) c = Sub(b, x) d = Abs(c) e = Mul(d, y) f = Add(e, q)
    k = Neg(f) l = Max(k, x) m = Mul(l, l) n = Sub(m, h) o = Min(n, y) z = Add(o, x)
}"""
_HEAVY = """g (float[N] x, float[N] y) => (float[N] z) <float h = {0.5}> {
    a = Add(x, y) b = Tanh(a) c = Mul(b, x) d = Sigmoid(c) e = Mul(d, c) f = Neg(e)
    k = Mul(f, h) l = Exp(k) m = Add(l, y) n = Mul(m, h) o = Erf(n) z = Add(o, b)
}"""
_RMS = """g (float[B,S,768] x, float[768] w) => (float[B,S,768] z) <float two = {2}, float eps = {1e-6}> {
    a = Pow(x, two) b = ReduceMean<axes=[-1]>(a) c = Add(b, eps) d = Sqrt(c) e = Div(x, d) z = Mul(e, w)
}"""
_NORM = """g (float[B,S,768] x, float[B,S,768] r, float[768] w, float[768] v) => (float[B,S,768] s, float[B,S,768] z) {
    s = Add(x, r) z = LayerNormalization<axis=-1>(s, w, v)
}"""
_SWIGLU = """g (float[B,S,2048] x, float[B,S,2048] y) => (float[B,S,2048] z) { a = Sigmoid(x) b = Mul(x, a) z = Mul(b, y) }"""
_GELU = """g (float[B,S,3072] x) => (float[B,S,3072] z)
    <float three = {3}, float c = {0.044715}, float s = {0.7978845608}, float one = {1}, float half = {0.5}> {
    a = Pow(x, three) b = Mul(a, c) d = Add(x, b) e = Mul(d, s) f = Tanh(e) k = Add(f, one) l = Mul(x, k) z = Mul(l, half)
}"""
_SOFTMAX = """g (float[B,H,S,T] x, float[B,1,1,T] m) => (float[B,H,S,T] z) <float s = {0.125}> {
    a = Mul(x, s) b = Add(a, m) z = Softmax<axis=-1>(b)
}"""
_ROTARY = """g (float[B,H,S,64] x, float[S,64] c, float[S,64] n) => (float[B,H,S,64] z)
    <int64[1] p = {0}, int64[1] q = {32}, int64[1] m = {9223372036854775807}, int64[1] ax = {-1}> {
    a = Slice(x, p, q, ax) b = Slice(x, q, m, ax) nb = Neg(b) r = Concat<axis=-1>(nb, a)
    xc = Mul(x, c) rn = Mul(r, n) z = Add(xc, rn)
}"""

# by name: text, sizes of the symbols, opset
CASES: dict[str, tuple[str, dict[str, int], int]] = {
    "cheap chain, 1,000,000": (_CHEAP, {"N": 1_000_000}, 17),
    "cheap chain, 1,000": (_CHEAP, {"N": 1_000}, 17),
    "heavy chain, 1,000,000": (_HEAVY, {"N": 1_000_000}, 17),
    "heavy chain, 1,000": (_HEAVY, {"N": 1_000}, 17),
    "RMS norm, 1×128×768": (_RMS, {"B": 1, "S": 128}, 17),
    "RMS norm, 1×1×768": (_RMS, {"B": 1, "S": 1}, 17),
    "residual + LayerNorm, 1×128×768": (_NORM, {"B": 1, "S": 128}, 17),
    "residual + LayerNorm, 1×16×768": (_NORM, {"B": 1, "S": 16}, 17),
    "SwiGLU, 1×128×2048": (_SWIGLU, {"B": 1, "S": 128}, 17),
    "SwiGLU, 1×1×2048": (_SWIGLU, {"B": 1, "S": 1}, 17),
    "tanh GELU, 1×128×3072": (_GELU, {"B": 1, "S": 128}, 17),
    "tanh GELU, 1×1×3072": (_GELU, {"B": 1, "S": 1}, 17),
    "masked softmax, 1×12×128×128": (_SOFTMAX, {"B": 1, "H": 12, "S": 128, "T": 128}, 17),
    "masked softmax, 1×12×1×128": (_SOFTMAX, {"B": 1, "H": 12, "S": 1, "T": 128}, 17),
    "rotary, 1×12×128×64": (_ROTARY, {"B": 1, "H": 12, "S": 128}, 17),
    "rotary, 1×12×1×64": (_ROTARY, {"B": 1, "H": 12, "S": 1}, 17),
}


def main(words: list[str]) -> None:
    ort.set_global_thread_pool_sizes(_THREADS, 1)
    chosen = {
        name: case
        for name, case in CASES.items()
        if not words or any(word in name for word in words)
    }
    areas = {
        name: area_of(text, name=f"case_{k}", opset=opset)
        for k, (name, (text, _, opset)) in enumerate(chosen.items())
    }
    print(f"{'case':34} {'onnxruntime':>12} {'A/A':>6} {'kernel':>10} {'times':>7}")
    built = build(list(areas.values()))
    if built.failed:
        sys.exit(str(built.failed))
    for name, area in areas.items():
        plain, kernel, again = measured(area, chosen[name][1], built.library)
        print(
            f"{name:34} {plain * 1e6:10.1f}µs {again:6.3f} {kernel * 1e6:8.1f}µs "
            f"{plain / kernel:6.2f}×"
        )


def measured(area: Area, sizes: dict[str, int], library: Path | None) -> tuple[float, float, float]:
    """The seconds of the plain model, the seconds of the kernel, and the ratio of two sessions of
    the plain model.
    """
    rng = np.random.default_rng(0)
    feeds = {}
    for name in area.inputs:
        value = area.values[name]
        shape = [sizes.get(dim, dim) if isinstance(dim, str) else dim for dim in value.shape]
        feeds[name] = random_array(rng, value.dtype, shape, edges=False)
    plain = _session(plain_model(area))
    again = _session(plain_model(area))
    kernel = _session(kernel_model(area), library)
    if found := differences(plain.run(None, feeds), kernel.run(None, feeds), 1e-3):
        sys.exit(f"{area.name}: {found}")
    bound = [_bound(session, area, feeds) for session in (plain, again, kernel)]
    first, second = _interleaved(bound[0], bound[1])
    return (*_interleaved(bound[0], bound[2]), second / first)


def _bound(
    session: ort.InferenceSession, area: Area, feeds: Mapping[str, np.ndarray]
) -> tuple[ort.InferenceSession, ort.IOBinding]:
    binding = session.io_binding()
    for name, array in feeds.items():
        binding.bind_cpu_input(name, array)
    for name in area.outputs:
        binding.bind_output(name)
    return session, binding


def _interleaved(*bound: tuple[ort.InferenceSession, ort.IOBinding]) -> tuple[float, ...]:
    """The seconds of each session: the first quartile, because other processes may use the machine."""
    rng = np.random.default_rng(0)
    times: list[list[float]] = [[] for _ in bound]
    end = time.perf_counter() + _SECONDS
    turn = 0
    while time.perf_counter() < end or turn < 15:
        for k in rng.permutation(len(bound)):
            session, binding = bound[k]
            begin = time.perf_counter()
            session.run_with_iobinding(binding)
            times[k].append(time.perf_counter() - begin)
        turn += 1
    return tuple(float(np.percentile(t[len(t) // 10 :], 25)) for t in times)


def _session(model: onnx.ModelProto, library: Path | None = None) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.use_per_session_threads = False
    if library:
        options.register_custom_ops_library(str(library))
    return ort.InferenceSession(model.SerializeToString(), options)


if __name__ == "__main__":
    main(sys.argv[1:])
