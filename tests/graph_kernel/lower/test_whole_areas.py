"""Areas of several operators: what is one loop nest, and that all of them compute what onnxruntime computes."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

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
    settled_by,
)
from onnx import helper

from fusionc.graph_kernel.area import Area
from fusionc.graph_kernel.c.source import kernel_of, reason_against
from fusionc.graph_kernel.library.build_library import Built, build

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))
import area_fuzz
import kernels as benchmark
import sanitized
from area_models import Maker

pytestmark = pytest.mark.usefixtures("needs_a_compiler")

ONE_NEST = [name for name in benchmark.CASES if "1,000" not in name and "rotary" not in name]


@pytest.fixture(scope="module")
def cases() -> tuple[dict[str, object], Built]:
    areas = {
        n: area_of(text, name=f"c{k}", opset=o)
        for k, (n, (text, _, o)) in enumerate(benchmark.CASES.items())
    }
    return areas, build_for_here(list(areas.values()))


@pytest.mark.parametrize("name", benchmark.CASES)
def test_known_shapes_of_networks(name: str, cases: tuple[dict[str, object], Built]) -> None:
    areas, built = cases
    area = areas[name]
    sizes = dict(benchmark.CASES[name][1])
    assert not built.failed
    plain = session(plain_model(area))
    kernel = session(kernel_model(area), built.library)
    rng = np.random.default_rng(0)
    for factor in (1, 3):
        feeds = {}
        for key in area.inputs:
            shape = [
                sizes[d] * factor % 1000 + 1 if isinstance(d, str) else d
                for d in area.values[key].shape
            ]
            feeds[key] = random_array(rng, area.values[key].dtype, shape, edges=factor == 3)
        wanted = plain.run(None, feeds)
        got = kernel.run(None, feeds)
        pairs = (
            settled_by(plain_model(area), feeds, wanted, got)
            if differences(wanted, got, 1e-3)
            else []
        )
        assert not differences([one for one, _ in pairs], [other for _, other in pairs], 1e-3)


@pytest.mark.parametrize("name", ONE_NEST)
def test_rows_and_elements_are_one_pass(name: str) -> None:
    assert kernel_of(area_of(benchmark.CASES[name][0], opset=17)).nests == 1


@pytest.mark.parametrize("kind", ["float", "double"])
def test_a_row_may_be_divided_by_what_has_no_inverse(kind: str) -> None:
    area = area_of(
        f"g ({kind}[N,M] x) => ({kind}[N,M] z) <int64[1] a = {{-1}}> {{ m = ReduceMax(x, a) z = Div(x, m) }}"
    )
    dtype = np.dtype("f4" if kind == "float" else "f8")
    largest = np.array(
        [[np.finfo(dtype).smallest_subnormal * 40], [0], [-0.0], [np.inf], [np.finfo(dtype).max]],
        dtype,
    )
    x = np.concatenate(
        [largest * np.array([1, 0.5, 0.25, -1], dtype), np.zeros_like(largest)], axis=1
    )
    wanted = session(plain_model(area)).run(None, {"x": x})
    assert not differences(
        wanted, session(kernel_model(area), build([area]).library).run(None, {"x": x}), 1e-6
    )


@pytest.mark.parametrize("kind", ["float", "float16", "double"])
def test_the_largest_of_a_row_divided_by_itself_is_one(kind: str) -> None:
    """As it is not where rows are multiplied by an inverse: 41 times 1/41 is less than 1 in float32."""
    area = area_of(
        f"g ({kind}[N,M] x) => ({kind}[N,M] z) <int64[1] a = {{-1}}> {{ m = ReduceMax(x, a) q = Div(x, m) z = Floor(q) }}"
    )
    dtype = np.dtype({"float": "f4", "double": "f8"}.get(kind, "f2"))
    x = (np.arange(1, 1001)[:, None] * np.array([1, 0.5])).astype(dtype)
    (found,) = session(kernel_model(area), build([area]).library).run(None, {"x": x})
    assert (found == [1, 0]).all()


@pytest.mark.parametrize("kind", ["float", "float16", "double"])
def test_the_logarithm_of_a_softmax_is_finite_as_far_as_floats_go(kind: str) -> None:
    area = area_of(f"g ({kind}[N,M] x) => ({kind}[N,M] z) {{ s = Softmax(x) z = Log(s) }}")
    """On some processors onnxruntime's Softmax makes 0 of what is subnormal, so that it is no measure here."""
    x = np.array([[0, -50, -87, -88, -90, -95, -100, -103, -800]]).astype(
        {"float": "f4", "double": "f8"}.get(kind, "f2")
    )
    powers = np.exp(x.astype("f8")).astype(
        "f8" if kind == "double" else "f4"
    )  # the largest is 1, and so is their sum
    with np.errstate(divide="ignore"):
        wanted = np.log(powers.astype("f8")).astype(x.dtype)
    found = session(kernel_model(area), build([area]).library).run(None, {"x": x})
    assert not differences([wanted], found, 1e-3) and np.isfinite(found[0][0, :8]).all()


ATTRIBUTES = {"LeakyRelu": ["alpha"], "Elu": ["alpha"], "HardSigmoid": ["alpha", "beta"], "Selu": ["alpha", "gamma"],
              "ThresholdedRelu": ["alpha"], "Celu": ["alpha"]}  # fmt: skip


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(
    ("op", "name"), [(op, name) for op, names in ATTRIBUTES.items() for name in names]
)
def test_no_kernel_has_attributes_that_are_no_numbers(op: str, name: str, value: float) -> None:
    area = area_of(f"g (float[N] x) => (float[N] z) {{ z = {op} (x) }}")
    assert reason_against(area) is None
    area.nodes[0].attribute.append(helper.make_attribute(name, value))
    assert reason_against(area) == f"no kernel computes {op} where {name} is {value:g}"


def test_no_kernel_divides_by_the_attribute_of_celu_where_it_is_0() -> None:
    area = area_of("g (float[N] x) => (float[N] z) { z = Celu <alpha = 0.0> (x) }")
    assert reason_against(area) == "no kernel computes Celu where alpha is 0"


LONG = {
    "of one size": "(float[N] x, float[N] y) => (float[N] a, float[N] z) { a = Sub(x, y) z = Max(a, x) }",
    "float16": "(float16[N] x, float16[N] y) => (float16[N] z) { a = Sub(x, y) z = Max(a, x) }",
    "double and bool": "(double[N] x, bool[N] y) => (double[N] z) { a = Neg(x) z = Where(y, a, x) }",
    "int64": "(int64[N] x, int64[1] y) => (int64[N] z) { a = Sub(x, y) z = Min(a, x) }",
    "every other element": "(float[N] x, float[M] y) => (float[K] z) <int64[1] s = {0}, int64[1] e = {9223372036854775807},"
    " int64[1] a = {0}, int64[1] t = {2}> { c = Slice(x, s, e, a, t) z = Add(c, y) }",
    "transposed": "(float[N,3] x, float[3,N] y) => (float[3,N] z) { c = Transpose <perm = [1, 0]> (x) z = Add(c, y) }",
    "rows": "(float[3,N] x, float[N] y) => (float[3,N] z) { a = Sub(x, y) z = Max(a, x) }",
}


@pytest.fixture(scope="module")
def long_rows() -> tuple[dict[str, Area], Built]:
    areas = {
        name: area_of(f"g {text}", name=f"long_{k}") for k, (name, text) in enumerate(LONG.items())
    }
    return areas, build_for_here(list(areas.values()))


@pytest.mark.parametrize("n", [0, 31, 511, 512, 513, 543, 544, 2047, 2049, 2081, 300_001])
@pytest.mark.parametrize("name", LONG)
def test_long_rows_are_computed_to_their_ends(
    name: str, n: int, long_rows: tuple[dict[str, Area], Built]
) -> None:
    area = long_rows[0][name]
    sizes = {"N": n, "M": (n + 1) // 2}
    rng = np.random.default_rng(n)
    shapes = {key: [sizes.get(str(d), d) for d in area.values[key].shape] for key in area.inputs}
    feeds = {
        key: random_array(rng, area.values[key].dtype, shape, edges=True)
        for key, shape in shapes.items()
    }
    wanted = session(plain_model(area)).run(None, feeds)
    found = session(kernel_model(area), long_rows[1].library).run(None, feeds)
    assert not differences(wanted, found, 0.0)


SIGNED = ["Abs(x)", "Neg(x)", "Sign(x)", "Relu(x)", "Ceil(x)", "Round(x)", "Sqrt(x)", "LeakyRelu(x)", "HardSwish(x)",
          "Softsign(x)", "Tanh(x)", "Clip(x)", "Max(x, y)", "Min(x, y)", "Mod <fmod = 1>(x, y)", "Mul(x, y)", "Pow(x, h)"]  # fmt: skip


@pytest.fixture(scope="module")
def signed() -> tuple[list[Area], Built]:
    text = "g (float[N] x, float[N] y) => (float[N] z) <float h = {{0.5}}> {{ t = {} z = Reciprocal(t) }}"
    areas = [area_of(text.format(call), name=f"signed_{k}") for k, call in enumerate(SIGNED)]
    return areas, build_for_here(areas)


@pytest.mark.parametrize("number", range(len(SIGNED)), ids=SIGNED)
def test_zeros_keep_their_signs(number: int, signed: tuple[list[Area], Built]) -> None:
    areas, built = signed
    area = areas[number]
    x = np.array([0.0, -0.0, -0.3, 0.4, -1, 1, -np.inf, np.inf, np.nan], np.float32)
    plain = session(plain_model(area))
    kernel = session(kernel_model(area), built.library)
    for y in (np.roll(x, 3), np.zeros_like(x), -np.zeros_like(x)):
        feeds = {"x": x, "y": y}
        assert not differences(plain.run(None, feeds), kernel.run(None, feeds), 1e-5)


def test_what_has_no_float16_is_infinite() -> None:
    area = area_of("g (float16[N] x) => (bool[N] z) { s = Mul(x, x) z = IsInf(s) }")
    x = np.array([1, 255, 256, -300, np.inf, np.nan], np.float16)
    (found,) = session(kernel_model(area), build([area]).library).run(None, {"x": x})
    assert found.tolist() == [False, False, True, True, True, False]


def test_random_areas(tmp_path: Path) -> None:
    counts: Counter[str] = Counter()
    assert not area_fuzz.run_batch(3, range(24), tmp_path, counts, sanitize=False)
    assert counts["compared"] > 16


@pytest.mark.long
def test_under_sanitizers(tmp_path: Path) -> None:
    if not sanitized.works(tmp_path):
        pytest.skip("the compiler has no AddressSanitizer")
    makers = {f"area_{n}": Maker(f"4/{n}") for n in range(12)}
    areas = {name: maker.area(name) for name, maker in makers.items()}
    feeds = {name: [makers[name].feeds(turn) for turn in range(2)] for name in areas}
    assert not sanitized.findings(areas, feeds, tmp_path, Counter())


@pytest.mark.parametrize("op", ["ReduceMax", "ReduceSum"])
def test_no_kernel_reduces_nothing(op: str) -> None:
    """onnxruntime gives the shape [2, 0, 4] here, ONNX [2, 0, 1]."""
    area = area_of(
        f"g (float[2,0,4] x) => (float[2,0,M] z) <int64[1] a = {{-1}}> {{ z = {op}(x, a) }}"
    )
    assert reason_against(area) == f"no kernel computes {op} of nothing"
