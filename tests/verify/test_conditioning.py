"""How much a reference amplifies rounding: what is moved, by how much, and what is measured of
it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from harness import parse
from onnx import helper, numpy_helper

from fusionc.runtime.run_errors import OutOfMemory
from fusionc.runtime.runner import closes_runners
from fusionc.verify import conditioning
from fusionc.verify.compare import largest_difference
from fusionc.verify.conditioning import (
    Conditioning,
    _moved,
    _moved_value,
    steps,
)
from fusionc.verify.model_file import ModelFile
from fusionc.verify.verification import verify


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_each_number_moves_by_one_place_at_most(dtype: type) -> None:
    values = np.random.default_rng(0).uniform(-2, 2, 3000).astype(dtype)
    values[:6] = [0, -0.0, np.nan, np.inf, -np.inf, np.finfo(dtype).max]
    moved = _moved(values, np.random.default_rng(1))
    assert moved.dtype == values.dtype
    with np.errstate(over="ignore", invalid="ignore"):
        exact = (values.astype(np.float64) * 16) % 1 == 0
        places = np.nextafter(values, dtype(-np.inf)), np.nextafter(values, dtype(np.inf))
    down, up = ((moved == place) & (moved != values) for place in places)
    same = (moved == values) | (np.isnan(moved) & np.isnan(values))
    assert (down | up | same).all() and same[exact | ~np.isfinite(values)].all()
    for share in (down, up, same & ~exact):
        assert 800 < share.sum() < 1200


def test_what_is_no_float_stays() -> None:
    rng = np.random.default_rng(0)
    numbers = np.arange(3)
    words = np.array(["a"], object)
    third = np.full(99, 1 / 3)
    assert _moved_value(numbers, rng) is numbers and _moved_value(words, rng) is words
    assert _moved_value("text", rng) == "text"
    kept, moved = _moved_value([numbers, third], rng)
    assert kept is numbers and not np.array_equal(moved, third)


@closes_runners
def measured(
    tmp_path: Path,
    text: str,
    weights: dict[str, np.ndarray[Any, Any]],
    as_nodes: bool = False,
    **feeds: Any,
) -> dict[str, float]:
    model = parse(text)
    tensors = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    nodes = [helper.make_node("Constant", [], [tensor.name], value=tensor) for tensor in tensors]
    if as_nodes:
        nodes += model.graph.node
        del model.graph.node[:]
        model.graph.node.extend(nodes)
    else:
        model.graph.initializer.extend(tensors)
    path = tmp_path / "m.onnx"
    onnx.save(model, path, save_as_external_data=True, size_threshold=0, location="m.data")
    runner = ModelFile(path).runner()
    outputs = runner.run(feeds)
    moved = list(Conditioning(path, runner).draws(feeds))
    assert len(moved) > 1
    return {
        name: max(largest_difference(outputs[k], other[k]) for other in moved)
        for k, name in enumerate(runner.outputs)
    }


SCALED = "agraph (float[N] x) => (float[N] y, float[N] z, int64[1] n) {{ {} z = Identity (x) n = Shape (x) }}"
ULP = 2.0**-25  # of numbers between a quarter and a half


@pytest.mark.parametrize("as_nodes", [False, True])
def test_weights_and_inputs_are_moved(tmp_path: Path, as_nodes: bool) -> None:
    """A thousand times what is between a number and a weight: as many times a unit in the last
    place of each.
    """
    text = SCALED.format("d = Sub (x, w) y = Mul (d, k)")
    third = np.full(64, 1 / 3, np.float32)
    exact = np.full(64, 0.25, np.float32)
    k = np.float32(1024)
    weights = {"w": third, "k": np.array(k)}
    both = measured(tmp_path, text, weights, as_nodes, x=third)
    assert both == {"y": 2 * 1024 * ULP, "z": ULP, "n": 0.0}
    of_inputs = measured(tmp_path, text, weights | {"w": exact}, as_nodes, x=third)
    assert of_inputs == {"y": 1024 * ULP, "z": ULP, "n": 0.0}
    of_weights = measured(tmp_path, text, weights, as_nodes, x=exact)
    assert of_weights == {"y": 1024 * ULP, "z": 0.0, "n": 0.0}
    assert measured(tmp_path, text, weights | {"w": exact}, as_nodes, x=exact) == {
        "y": 0.0,
        "z": 0.0,
        "n": 0.0,
    }


@pytest.mark.parametrize("kind", ["float16", "double"])
def test_weights_of_other_types_are_moved(tmp_path: Path, kind: str) -> None:
    dtype = np.dtype("f2" if kind == "float16" else "f8")
    weights = np.full(64, 1 / 3, dtype)
    found = measured(
        tmp_path,
        f"agraph ({kind}[N] x) => ({kind}[N] y) {{ y = Add (x, w) }}",
        {"w": weights},
        x=np.zeros(64, dtype),
    )
    assert found == {"y": float(np.spacing(weights[0]))}


def test_random_numbers_are_no_noise(tmp_path: Path) -> None:
    """The moved model draws what the reference draws, in each run anew."""
    text = "agraph (float[N] x) => (float[N] y) { r = RandomNormalLike (x) y = Add (r, x) }"
    assert measured(tmp_path, text, {}, x=np.full(8, 0.25, np.float32)) == {"y": 0.0}


def test_a_model_of_more_bytes_than_are_copied_keeps_its_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Doubles of 8 bytes each; protobuf would refuse to write as many as 4 bytes let through."""
    weights = {"w": np.full(100, 1 / 3)}
    text = "agraph (double[100] x) => (double[100] y) { y = Sub (w, x) }"
    for most, moves in ((800, True), (799, False)):
        monkeypatch.setattr(conditioning, "LARGEST_COPY", most)
        found = measured(tmp_path, text, weights, x=np.zeros(100))
        assert (found["y"] > 0) == moves


@pytest.mark.parametrize(
    "reference, candidate, moved, expected",
    [
        ([3, 7, 7, 7], [3, 6, 6, 7], [3, 7, 6, 6], [False, False, True, False]),
        ([True, True], [True, False], [False, False], [False, True]),
        ([3.0, 7.0, 7.0], [3.001, 6.0, 6.002], [3.0, 7.0, 6.0], [False, False, True]),
        ([1.0, np.nan, 1.0], [np.inf, 1.0, np.nan], [np.inf, np.inf, np.nan], [True, False, True]),
        (["a", "b"], ["b", "b"], ["b", "a"], [True, False]),
    ],
)
def test_where_the_reference_itself_steps(
    reference: Any, candidate: Any, moved: Any, expected: list[bool]
) -> None:
    dtype = {str: object, float: np.float32}.get(type(reference[0]))
    values = [np.array(value, dtype) for value in (reference, candidate, moved)]
    assert np.array_equal(steps(*values), np.where(expected, np.inf, 0.0))
    assert steps(values[0], values[1], values[2][:1]) is None
    assert steps([values[0]], [values[1]], [values[2]]) is None


def cancelling(path: Path, factor: float, outputs: str = "", more: str = "") -> Path:
    """y = x · factor + 12345.7 - 12345.7, which amplifies rounding, and other outputs."""
    constants = (
        f"float[1] plus = {{12345.7}}, float[1] minus = {{12345.7}}, float[1] factor = {{{factor}}}"
    )
    body = f"s = Mul (x, factor) a = Add (s, plus) y = Sub (a, minus) {more}"
    onnx.save(
        parse(f"agraph (float[N,64] x) => (float[N,64] y{outputs}) <{constants}> {{ {body} }}"),
        path,
    )
    return path


def test_of_such_a_model_one_sample_may_decide_nothing_and_others_do(tmp_path: Path) -> None:
    """What is off by more than moved weights explain, and by less than rounding in between may, is
    left out.
    """
    seen = dict[float, str]()
    for factor in (1.0, 1.005, 1.02):
        candidate = cancelling(tmp_path / f"{factor}.onnx", factor)
        seen[factor] = verify(tmp_path / "1.0.onnx", candidate).summary
    assert seen[1.0].startswith("equal in 7 runs")
    assert re.match("different: y, (seed [12]|.*magnitudes)", seen[1.005]), (
        "not by the first sample"
    )
    assert seen[1.02].startswith("different: y, seed 0, ")


@pytest.mark.parametrize(
    "ways, status", [(conditioning._OTHER_WEIGHTS, "impossible"), (0, "different")]
)
def test_of_such_a_model_weights_are_moved_in_several_ways(
    ways: int, status: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first way moves two weights alike, of which the difference counts; another one does not,
    and explains all.
    """
    monkeypatch.setattr(conditioning, "_OTHER_WEIGHTS", ways)
    constants = "float[1] plus = {12345.7}, float[1] w = {%s}, float[1] v = {0.33333334}, float[1] k = {5.5e5}"
    text = (
        f"agraph (float[N,64] x) => (float[N,64] y) <{constants}, float[1] minus = {{12345.7}}> {{"
    )
    body = "t = Add (x, x) s = Add (t, plus) c = Sub (s, minus) d = Sub (w, v) e = Mul (d, k) y = Add (c, e) }"
    paths = [tmp_path / "reference.onnx", tmp_path / "candidate.onnx"]
    for path, weight in zip(paths, ("0.33333334", "0.33333337"), strict=True):
        onnx.save(parse(f"{text % weight} {body}"), path)
    assert verify(*paths, nonfinite=False).status == status


AMPLIFYING = (
    "agraph (float[64] x) => (float[64] y) <float[64] w = {1}> { d = Sub (x, w) y = Mul (d, x) }"
)


def amplifying(tmp_path: Path) -> tuple[Path, dict[str, Any]]:
    """A model whose weights may be moved, and its inputs."""
    model = parse(AMPLIFYING)
    model.graph.initializer[0].CopyFrom(
        numpy_helper.from_array(np.full(64, 1 / 3, np.float32), "w")
    )
    onnx.save(model, tmp_path / "m.onnx")
    return tmp_path / "m.onnx", {"x": np.full(64, 0.3, np.float32)}


@pytest.mark.parametrize("most, kept", [(1 << 20, {0, 1, 2, 3}), (0, {0})])
@closes_runners
def test_of_a_large_model_one_way_at_a_time_is_in_memory(
    most: int, kept: set[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conditioning, "_SMALL_MODEL", most)
    path, feeds = amplifying(tmp_path)
    measured = Conditioning(path, ModelFile(path).runner())
    first = list(measured.draws(feeds))
    found = []
    is_open = []
    for outputs in measured.other_draws(feeds):
        found.append(outputs[0])
        is_open.append(
            {way for way, runner in measured._moved.items() if runner and runner._home is not None}
        )
    assert len(found) == conditioning._OTHER_WEIGHTS * conditioning._OTHER_DRAWS
    assert is_open[-1] == ({0, 1, 2, 3} if most else {3})
    assert set(measured._moved) == kept
    assert len({array.tobytes() for array in [*found, *(outputs[0] for outputs in first)]}) == len(
        found
    ) + len(first)
    assert np.array_equal(first, list(measured.draws(feeds))), (
        "and the first way is the same as before"
    )


def test_a_way_that_cannot_be_run_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is said of weights that were not moved."""
    path, feeds = amplifying(tmp_path)
    made = conditioning.seeded_runner
    calls = []

    def fails_later(model: onnx.ModelProto, folder: Path) -> Any:
        calls.append(model)
        if len(calls) > 2:
            raise OutOfMemory("no more")
        return made(model, folder)

    monkeypatch.setattr(conditioning, "seeded_runner", fails_later)
    measured = Conditioning(path, ModelFile(path).runner())
    assert len(list(measured.draws(feeds))) == conditioning._DRAWS
    assert len(list(measured.other_draws(feeds))) == conditioning._OTHER_DRAWS


def test_a_model_that_does_not_amplify_is_not_moved_in_other_ways(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They cost sessions, and explain nothing."""
    asked = []
    monkeypatch.setattr(
        Conditioning, "other_draws", lambda self, feeds: asked.append(1) or iter(())
    )
    paths = [tmp_path / "a.onnx", tmp_path / "b.onnx"]
    for path, factor in zip(paths, ("0.333", "0.334"), strict=True):
        onnx.save(
            parse(
                f"agraph (float[N] x) => (float[N] y) <float k = {{{factor}}}> {{ y = Mul (x, k) }}"
            ),
            path,
        )
    assert verify(*paths).status == "different" and not asked
    paths = [cancelling(tmp_path / f"{factor}.onnx", factor) for factor in (1.0, 1.02)]
    assert verify(*paths).status == "different" and asked


def test_another_trouble_decides_where_rounding_is_amplified(tmp_path: Path) -> None:
    seen = []
    for name, factor, step in (("a", 1.0, 1), ("b", 1.005, 1), ("c", 1.005, 2)):
        more = f"n = Shape (x) t = Constant <value = int64 {{{step}}}> () z = Mul (n, t)"
        candidate = cancelling(tmp_path / f"{name}.onnx", factor, ", int64[2] z", more)
        seen.append(verify(tmp_path / "a.onnx", candidate, nonfinite=False))
    same, near, wrong = seen
    assert same.status == "equal" and not near.summary.startswith("different: y, seed 0,")
    assert wrong.status == "different" and ", seed 0, " in wrong.summary, wrong.summary
    assert {difference.subject for difference in wrong.differences} == {"y", "z"}


QUANTIZED = """agraph (float[N, 64] x) => (int32[N, 64] y) {
    axis = Constant <value_ints = [1]> () m = ReduceMax (x, axis) c = Constant <value_float = 49.0> ()
    %s
    y = Cast <to = 6> (f)
}"""
DIVIDED = "s = Div (m, c) q = Div (x, s) f = Floor (q)"
MULTIPLIED = "r = Div (c, m) q = Mul (x, r) f = Floor (q)"
ONE_LESS = "r = Div (c, m) q = Mul (x, r) e = Floor (q) one = Constant <value_float = 1.0> () f = Sub (e, one)"


@pytest.mark.parametrize("steps, status", [(MULTIPLIED, "equal"), (ONE_LESS, "different")])
def test_an_integer_on_a_step_decides_nothing(tmp_path: Path, steps: str, status: str) -> None:
    """The largest element of a row is 49 steps of the row's scale, or just below: 48 and 49 are
    both right for it, but nothing else is.
    """
    paths = [tmp_path / "reference.onnx", tmp_path / "candidate.onnx"]
    for path, text in zip(paths, (DIVIDED, steps), strict=True):
        onnx.save(parse(QUANTIZED % text), path)
    found = verify(*paths)
    assert found.status == status, found.summary
    assert ("rounding decides" in found.summary) == (status == "equal")


def test_an_integer_on_a_step_that_neighbours_do_not_take(tmp_path: Path) -> None:
    """Of these numbers, and of those beside them, 127 parts are just below 127; of others around
    them they are 127.
    """
    text = """agraph (float[N] x) => (int32[N] y) <float k = {%s}> {
        s = %s (x, k) q = Div (x, s) f = Floor (q) y = Cast <to = 6> (f) }"""
    paths = [tmp_path / "reference.onnx", tmp_path / "candidate.onnx"]
    for path, part in zip(paths, (("127", "Div"), ("0.007874015748031496", "Mul")), strict=True):
        onnx.save(parse(text % part), path)
    x = np.array(
        [1.889487862586975, 1.2986961603164673, 1.7320061922073364, 1.6526145935058594], np.float32
    )
    np.savez(tmp_path / "x.npz", x=x)
    assert verify(*paths, inputs=tmp_path / "x.npz").status == "equal"


POLE = """agraph (float[N,64] x) => (float[N,64] y) <float[64,64] W = {%s}, float k = {%s},
    float[64] pole = {%s}, float[64] other = {%s}, float one = {1}> {
        p = MatMul (x, W) c = Div (p, k) m = ReduceMean <axes = [-1]> (c) n = Sub (c, m)
        r = ReduceMean <axes = [-1]> (n) q = Mul (r, pole) u = Mul (x, other) e = Add (q, u)
        y = Div (one, e) }"""


@pytest.mark.parametrize("poles, status", [(1, "equal"), (8, "different")])
def test_a_divisor_that_rounding_makes_zero_decides_nothing(
    tmp_path: Path, poles: int, status: str
) -> None:
    """The mean of numbers without their mean is a few last places long, or 0."""
    weights = np.random.default_rng(0).uniform(-1, 1, 64 * 64)
    paths = [tmp_path / "reference.onnx", tmp_path / "candidate.onnx"]
    for path, factor, count in zip(paths, (1, 3), (1, poles), strict=True):
        scaled = ", ".join(f"{weight:.9g}" for weight in (weights * factor).astype(np.float32))
        is_pole = np.arange(64) < count
        pole, other = (", ".join(map(str, mask.astype(int))) for mask in (is_pole, ~is_pole))
        onnx.save(parse(POLE % (scaled, factor, pole, other), 17), path)
    found = verify(*paths)
    assert found.status == status, found.summary
