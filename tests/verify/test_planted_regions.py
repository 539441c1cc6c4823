"""On models of many kinds: a wrong region is never excused, wherever it lies; a flip of one
quantization step is.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from harness import parse
from onnx import TensorProto, numpy_helper

from fusionc.verify.verification import verify

SAMPLES = sorted((Path(__file__).parents[2] / "sample_models").glob("*.onnx"))
QDQ = """q = QuantizeLinear (x, s, z) d = DequantizeLinear (q, s, z) m = MatMul (d, v) r = QuantizeLinear (m, s2, z)
    {} = DequantizeLinear (r, s2, z) """
BUILT = {
    "normalized": "m = MatMul (x, v) l = LayerNormalization (m, g) y = Softmax (l)",
    "joined": "t = Tanh (x) b = Mul (t, c) p = Sigmoid (x) y = Concat <axis = 1> (b, p)",
    "reduced": "e = Exp (x) t = ReduceSum <keepdims = 1> (e, a) d = Div (e, t) y = Log (d)",
    "half": (
        "h = Cast <to = 10> (x) e = Sigmoid (h) k = Cast <to = 10> (c) m = Mul (e, k) y = Cast "
        "<to = 1> (m)"
    ),
    "rounded": "m = MatMul (x, v) r = Div (m, s) f = Round (r) d = Mul (f, s) y = MatMul (d, v)",
    "quantized": QDQ.format("y"),
    "quantized on request": "q, u, o = DynamicQuantizeLinear (x) i = MatMulInteger (q, w, o) f = Cast <to = 1> (i) "
    "y = Mul (f, u)",
    "quantized twice": QDQ.format("t") + "n = Relu (t) q2, u, o = DynamicQuantizeLinear (n) "
    "i = MatMulInteger (q2, w, o) f = Cast <to = 1> (i) y = Mul (f, u)",
    "quantized output": "m = MatMul (x, v) y = QuantizeLinear (m, s2, z)",
}
GRIDS = {
    "rounded": "f",
    "quantized": "q",
    "quantized on request": "q",
    "quantized twice": "q2",
    "quantized output": "y",
}
PLACES = {"first": 0.0, "middle": 0.47, "last": 0.9}


def built(name: str) -> onnx.ModelProto:
    kind = "uint8" if name == "quantized output" else "float"
    model = parse(f"agraph (float[N,48] x) => ({kind}[N,M] y) {{ {BUILT[name]} }}")
    rng = np.random.default_rng(0)
    values = {
        "v": rng.normal(size=(48, 48)).astype(np.float32),
        "w": rng.integers(-127, 128, (48, 48)).astype(np.int8),
        "g": rng.uniform(0.5, 2, 48).astype(np.float32),
        "c": np.array(97.3, np.float32),
        "a": np.array([1]),
        "s": np.array(0.0317, np.float32),
        "s2": np.array(0.217, np.float32),
        "z": np.array(121, np.uint8),
    }
    read = {name for node in model.graph.node for name in node.input}
    model.graph.initializer.extend(
        numpy_helper.from_array(v, n) for n, v in values.items() if n in read
    )
    return model


def planted(
    model: onnx.ModelProto, name: str, body: str, **constants: np.ndarray
) -> onnx.ModelProto:
    """The model with a value made another one: `body` makes it, `name`, of `before`, and of where
    its elements lie.
    """
    made = onnx.ModelProto()
    made.CopyFrom(model)
    for node in made.graph.node:
        node.output[:] = [f"{out}.before" if out == name else out for out in node.output]
    text = f"""agraph () => () {{ shape = Shape (before) size = ReduceProd <keepdims = 0> (shape)
        zero = Constant <value_int = 0> () one = Constant <value_int = 1> () places = Range (zero, size, one)
        at = Reshape (places, shape) {body} }}"""
    own = onnx.parser.parse_graph(text)
    for node in own.node:
        for names in (node.input, node.output):
            names[:] = [
                f"{name}.before"
                if one == "before"
                else name
                if one == "result"
                else f"{name}.{one}"
                for one in names
            ]
    at = next(k for k, node in enumerate(made.graph.node) if f"{name}.before" in node.output) + 1
    nodes = [*made.graph.node[:at], *own.node, *made.graph.node[at:]]
    del made.graph.node[:]
    made.graph.node.extend(nodes)
    made.graph.initializer.extend(
        numpy_helper.from_array(v, f"{name}.{n}") for n, v in constants.items()
    )
    return made


def with_region(model: onnx.ModelProto, start: float | None, is_half: bool) -> onnx.ModelProto:
    """A tenth of the output, from there on or every tenth element, ten times as far off as the
    tolerance.
    """
    if start is None:
        body = "ten = Constant <value_int = 10> () left = Mod (at, ten) where = Equal (left, zero)"
    else:
        body = """all = Cast <to = 1> (size) b = Mul (all, start) p = Cast <to = 1> (at) e = Mul (all, end)
            from = GreaterOrEqual (p, b) to = Less (p, e) where = And (from, to)"""
    body += """ magnitudes = Abs (before) largest = ReduceMax <keepdims = 0> (magnitudes) c = Mul (largest, absolute)
        d = Mul (magnitudes, relative) off = Add (c, d) wrong = Add (before, off)
        result = Where (where, wrong, before)"""
    tolerance = (0.04, 0.04) if is_half else (1e-3, 1e-2)
    constants = dict(zip(("absolute", "relative"), map(np.float32, tolerance), strict=True))
    places = {} if start is None else {"start": np.float32(start), "end": np.float32(start + 0.1)}
    return planted(model, model.graph.output[0].name, body, **constants, **places)


def with_step(
    model: onnx.ModelProto,
    name: str,
    where: str = "Equal (left, place)",
    left: str = "Add (at, zero)",
) -> onnx.ModelProto:
    """One element of a grid on the next step, or others."""
    kind, most = (TensorProto.FLOAT, 1 << 20) if name == "f" else (TensorProto.UINT8, 255)
    body = f"""i = Cast <to = 6> (before) left = {left} where = {where} w = Cast <to = 6> (where) m = Add (i, w)
        k = Min (m, most) result = Cast <to = {kind}> (k)"""
    return planted(
        model, name, body, place=np.array(17), eight=np.array(8), most=np.array(most, np.int32)
    )


def status(
    tmp_path: Path, reference: onnx.ModelProto, candidate: onnx.ModelProto
) -> tuple[str, str]:
    paths = [tmp_path / "a.onnx", tmp_path / "b.onnx"]
    for path, proto in zip(paths, (reference, candidate), strict=True):
        onnx.save(proto, path)
    found = verify(*paths, nonfinite=False)
    return found.status, found.summary


@pytest.mark.parametrize("place", [*PLACES, "every tenth"])
@pytest.mark.parametrize(
    "name", [*(path.stem for path in SAMPLES), *(n for n in BUILT if n != "quantized output")]
)
def test_a_wrong_region_is_never_excused(name: str, place: str, tmp_path: Path) -> None:
    sample = next((path for path in SAMPLES if path.stem == name), None)
    model = onnx.load(sample) if sample else built(name)
    found, summary = status(tmp_path, model, with_region(model, PLACES.get(place), name == "half"))
    assert found == "different", summary


@pytest.mark.parametrize("name", GRIDS)
def test_a_flip_of_one_step_is_excused(name: str, tmp_path: Path) -> None:
    model = built(name)
    found, summary = status(tmp_path, model, with_step(model, GRIDS[name]))
    assert (
        found == "equal"
        and summary.count("on the next step") == 2
        and "at level all, in " in summary
    ), summary


@pytest.mark.parametrize(
    "left", ["Mod (at, eight)", "Add (at, zero)"], ids=["every eighth", "the first ones"]
)
@pytest.mark.parametrize("name", GRIDS)
def test_a_region_on_the_next_step_is_not(name: str, left: str, tmp_path: Path) -> None:
    model = built(name)
    where = "Less (left, one)" if left.startswith("Mod") else "Less (left, eight)"
    found, summary = status(tmp_path, model, with_step(model, GRIDS[name], where, left))
    assert found == "different", summary
