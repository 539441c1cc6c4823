"""Kernels as onnxruntime calls them: their interface, the sizes that they accept, what they
share.
"""

from __future__ import annotations

import platform
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from time import thread_time

import numpy as np
import pytest
from areas import CHAIN, NORM, area_of, differences, kernel_model, plain_model, session

from fusionc.graph_kernel.area import Area
from fusionc.graph_kernel.c import source as source_module
from fusionc.graph_kernel.c.compile import FLAGS, Contents, Unit, compiler
from fusionc.graph_kernel.c.source import kernel_of, reason_against, source, units
from fusionc.graph_kernel.library.build_library import build, compiled

pytestmark = pytest.mark.usefixtures("needs_a_compiler")


def test_every_entry_of_the_interface() -> None:
    """Status, domain, operator, inputs, outputs, shapes, threads and sessions: all are used in
    these three runs.
    """
    area = area_of(CHAIN)
    built = build([area])
    kernel = session(kernel_model(area), built.library)
    large = {
        name: np.random.default_rng(0).standard_normal(3_000_000).astype(np.float32)
        for name in ("x", "y")
    }
    assert not differences([(large["x"] + large["y"]) * large["x"]], kernel.run(None, large))
    with pytest.raises(Exception, match="broadcast an axis"):
        kernel.run(None, {"x": np.zeros(3, np.float32), "y": np.zeros(4, np.float32)})


def floats(**shapes: tuple[int, ...]) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {
        name: np.asarray(rng.standard_normal(shape), np.float32) for name, shape in shapes.items()
    }


SCALAR = "g (float[N,5] x, float s, float[N,5] z) => (float[N,5] y) { a = Mul(x, s) b = Add(a, z) y = Tanh(b) }"
OTHER_SIZES = [
    pytest.param(SCALAR, floats(x=(2, 5), s=(1,), z=(2, 5)), id="a scalar as a vector"),
    pytest.param(SCALAR, floats(x=(2, 5), s=(), z=(1, 5)), id="one symbol, two sizes"),
    pytest.param(SCALAR, floats(x=(1, 5), s=(1, 1, 1), z=(3, 5)), id="a result of more axes"),
    pytest.param(SCALAR, floats(x=(2, 7), s=(), z=(2, 7)), id="another size than the model says"),
    pytest.param(SCALAR, floats(x=(0, 7), s=(), z=(0, 7)), id="nothing"),
    pytest.param(SCALAR, floats(x=(2, 5), s=(), z=(3, 5)), id="sizes that nobody takes"),
    pytest.param(NORM, floats(x=(2, 3), s=(4,)), id="a scale that does not fit"),
]


@pytest.mark.parametrize(("text", "feeds"), OTHER_SIZES)
def test_for_sizes_that_a_kernel_was_not_made_for_the_operators_answer(
    text: str, feeds: dict[str, np.ndarray]
) -> None:
    area = area_of(text)
    assert_like_its_operators(area, build([area]).library, feeds)


def assert_like_its_operators(
    area: Area, library: Path | None, feeds: dict[str, np.ndarray]
) -> None:
    """Both give the same results, or both refuse: each twice, since the first run makes the session
    for the others.
    """
    plain = session(plain_model(area))
    kernel = session(kernel_model(area), library)
    try:
        wanted = plain.run(None, feeds)
    except Exception:
        wanted = None
    for _ in range(2):
        if wanted is None:
            with pytest.raises(Exception, match="Non-zero status code returned while running area"):
                kernel.run(None, feeds)
            continue
        found = kernel.run(None, feeds)
        assert [result.shape for result in found] == [result.shape for result in wanted]
        assert not differences(wanted, found, 1e-6)


def test_several_threads_make_one_session_of_the_operators() -> None:
    area = area_of(SCALAR)
    kernel = session(kernel_model(area), build([area]).library)
    feeds = floats(x=(2, 5), s=(1,), z=(2, 5))
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda _: kernel.run(None, feeds)[0], range(32)))
    assert all(np.array_equal(result, results[0]) for result in results)


@pytest.mark.parametrize(
    "text",
    [
        "(float[4] z) <int64 i = {5}> { a = Neg(x) z = Gather(a, i) }",
        "(float[4] z) <int64 i = {-4}> { a = Neg(x) z = Gather(a, i) }",
        "(float[4] z) <int64[1] s = {0}> { a = Neg(x) z = Squeeze(a, s) }",
        "(float[2,4] z) <int64[2] s = {2, 4}> { a = Reshape(x, s) z = Neg(a) }",
        "(float[?,4] z) { a = Neg(x) y, v, w, u, z = Split <num_outputs = 5>(a) }",
        "(float[?,4] z) <int64[2] s = {1, 4}> { a = Neg(x) y, z = Split(a, s) }",
    ],
)
def test_sizes_that_an_operator_cannot_take_are_its_error(text: str) -> None:
    area = area_of(f"g (float[N,4] x) => {text}")
    assert_like_its_operators(area, build([area]).library, {"x": np.zeros((3, 4), np.float32)})


def test_parts_of_an_old_split_are_even() -> None:
    text = (
        "g (float[N,4] x) => (float[?,4] z, float[?,4] y) { a = Neg(x) z, y = Split <axis = 0>(a) }"
    )
    area = area_of(text, opset=13)
    kernel = session(kernel_model(area), build([area]).library)
    assert kernel.run(None, {"x": np.zeros((4, 4), np.float32)})[0].shape == (2, 4)
    with pytest.raises(Exception, match="cannot be split evenly"):
        kernel.run(None, {"x": np.zeros((3, 4), np.float32)})


def test_every_half_is_read_as_what_it_is() -> None:
    area = area_of("g (float16[N] x) => (float[N] z) { a = Neg(x) z = Cast <to = 1>(a) }")
    x = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    (z,) = session(kernel_model(area), build([area]).library).run(None, {"x": x})
    np.testing.assert_array_equal(z, -x.astype(np.float32))


@pytest.mark.parametrize("n, m", [(5, 5), (1, 5), (5, 1), (1, 1), (0, 1), (0, 0)])
def test_an_unknown_size_may_broadcast(n: int, m: int) -> None:
    area = area_of(CHAIN)
    built = build([area])
    rng = np.random.default_rng(0)
    feeds = {
        "x": rng.standard_normal(n).astype(np.float32),
        "y": rng.standard_normal(m).astype(np.float32),
    }
    wanted = session(plain_model(area)).run(None, feeds)
    assert not differences(wanted, session(kernel_model(area), built.library).run(None, feeds))


# Registers kernels as an onnxruntime does that has another version and lacks one entry of its
# table.
OTHER_VERSION = """
static OrtStatus *missing(void) { return GK_ORT_CreateStatus(gk_api)(GK_FAIL, "this entry is missing"); }
static const OrtApiBase *real;
static void *table[415];
static const char *version(void) { return VERSION; }
static OrtApi *api_of(uint32_t version) {
  OrtApi *api = real->GetApi(version);
  for (int k = 0; k < 415; ++k) table[k] = k == MISSING ? (void *)missing : api[k];
  return table;
}
__attribute__((visibility("default")))
OrtStatus *RegisterCustomOps(OrtSessionOptions *options, const OrtApiBase *base) {
  static const OrtApiBase other = {api_of, version};
  real = base;
  return register_all(options, &other);
}
"""


@pytest.mark.parametrize(("version", "missing"), [("1.24.0", 65), ("1.23.2", 414)])
def test_sizes_are_read_where_they_lie_as_soon_as_onnxruntime_can_say_where(
    version: str, missing: int
) -> None:
    area = area_of(CHAIN)
    text = source([area]).replace("RegisterCustomOps", "register_all")
    library = compiled(
        [
            Unit(
                text
                + OTHER_VERSION.replace("VERSION", f'"{version}"').replace("MISSING", str(missing))
            )
        ]
    )
    feeds = {"x": np.arange(5, dtype=np.float32), "y": np.full(1, 2, np.float32)}
    wanted = session(plain_model(area)).run(None, feeds)
    assert not differences(wanted, session(kernel_model(area), library).run(None, feeds))


@pytest.mark.parametrize("op", ["ReduceMax", "ReduceMin"])
def test_long_doubles_are_what_they_were(op: str) -> None:
    """A kernel that uses MMX registers makes the long doubles of the process NaN."""
    area = area_of(
        f"g (int32[N,M] x) => (int32[1,M] z) <int64[1] a = {{0}}> {{ y = Neg(x) z = {op}(y, a) }}"
    )
    kernel = session(kernel_model(area), build([area]).library)
    numbers = np.arange(5, dtype=np.longdouble)
    kernel.run(None, {"x": np.zeros((3, 5), np.int32)})
    assert (numbers / 3 + numbers * numbers).sum() > 33


def test_float16_is_read_and_written_as_numpy_does() -> None:
    area = area_of("g (float16[N] x, float[M] y) => (float[N] a, float16[M] b) { c = Cast <to = 1>(x) a = "
    "Identity(c)"
                   "d = Identity(y) b = Cast <to = 10>(d) }")  # fmt: skip
    halves = np.arange(65536).astype(np.uint16).view(np.float16)
    middles = (np.arange(65535, dtype=np.uint32) << 13) + (
        np.arange(65535, dtype=np.uint32) % 3 + 0xFFF
    )
    bits = np.concatenate([middles + shift for shift in (0, 112 << 23, 111 << 23, 143 << 23)])
    numbers = np.concatenate([halves.astype(np.float32), bits.astype(np.uint32).view(np.float32)])
    numbers = np.concatenate([numbers, -numbers])
    kernel = session(kernel_model(area), build([area]).library)
    with np.errstate(over="ignore"):
        wanted = [halves.astype(np.float32), numbers.astype(np.float16)]
    assert not differences(wanted, kernel.run(None, {"x": halves, "y": numbers}))


@pytest.mark.timing
def test_to_write_float16_takes_little_longer_than_float() -> None:
    seconds = []
    for kind, to in (("float", 1), ("float16", 10)):
        text = f"g (float[N] x, float[N] y) => ({kind}[N] z) {{ a = Mul(x, y) z = Cast <to = {to}>(a) }}"
        area = area_of(text, name=f"to_{kind}")
        kernel = session(kernel_model(area), build([area]).library, threads=1)
        feeds = dict.fromkeys(("x", "y"), np.ones(100_000, np.float32))
        times = list[float]()
        for _ in range(50):
            start = thread_time()
            kernel.run(None, feeds)
            times.append(thread_time() - start)
        seconds.append(min(times))
    assert seconds[1] < 12 * seconds[0]


def test_equal_areas_share_a_kernel() -> None:
    one = area_of(CHAIN, name="one")
    other = area_of(CHAIN.replace("a =", "b =").replace("(a,", "(b,"), name="other")
    assert kernel_of(one).function == kernel_of(other).function
    assert source([one, other, one]).count("_plan(const") == 1
    with pytest.raises(ValueError, match="two different areas"):
        source([one, area_of(NORM, name="one")])


def test_equal_loops_over_other_sizes_share_their_functions() -> None:
    small, large = (
        area_of(f"g (float[{n},8] x) => (float[{n},8] z) {{ y = Exp(x) z = Neg(y) }}")
        for n in (2, 3)
    )
    text = source([replace(small, name="small"), replace(large, name="large")])
    assert text.count("_plan(const") == 2 and text.count("_body(GK_PARAMETERS") == 1


@pytest.mark.parametrize(
    "text",
    [
        (
            "g (float[N,8] x) => (float[N,8] z) <float a = {#A}, float b = {#B}> {y = Mul(x, a) "
            "v = Clip(y, b) z = Exp(v)}"
        ),
        "g (float[N,8] x) => (float[N,8] z) <double a = {#A}, double b = {#B}> "
        "{ d = Cast <to = 11>(x) y = Mul(d, a) v = Div(y, b) z = Cast <to = 1>(v) }",
        (
            "g (float[N,8] x) => (float[N,8] z) { y = LeakyRelu <alpha = #A>(x) z = Elu <alpha = "
            "#B>(y) }"
        ),
        "g (float[N,8] x) => (float[M,8] z) <float a = {#A}, float b = {#B}> "
        "{ y = Mul(x, a) v = Sub(b, x) w = Add(v, a) z = Concat <axis = 0>(y, w) }",
        "g (float[N,8] x) => (float[N,1] z, float[N,8] y) <float a = {#A}, float b = {#B}, "
        "int64[1] c = {1}> "
        "{ y = Mul(x, a) s = ReduceSum(y, c) z = Max(s, b) }",
    ],
)
def test_areas_that_differ_in_numbers_share_their_functions(text: str) -> None:
    pairs = [("0.3", "0.7"), ("1.7", "0.2"), ("-2.5", "0.6")]
    areas = [
        area_of(text.replace("#A", a).replace("#B", b), name=f"of_{k}")
        for k, (a, b) in enumerate(pairs)
    ]
    whole = source(areas)
    assert whole.count("_plan(const") == 1
    assert whole.count("_body(GK_PARAMETERS") == source(areas[:1]).count("_body(GK_PARAMETERS")
    library = build(areas).library
    x = np.random.default_rng(0).standard_normal((5, 8)).astype(np.float32)
    for area in areas:
        wanted = session(plain_model(area)).run(None, {"x": x})
        assert not differences(
            wanted, session(kernel_model(area), library).run(None, {"x": x}), 1e-5
        )
    with pytest.raises(ValueError, match="two different areas"):
        source([areas[0], replace(areas[1], name=areas[0].name)])


@pytest.mark.parametrize(
    ("text", "is_needed"),
    [
        ("g (float[N,8] x) => (float[N,8] z) { y = Exp(x) z = Neg(y) }", False),
        ("g (float[N,M] x, float[N,1] y) => (float[N,M] z) { z = Add(x, y) }", False),
        (
            "g (float[N,M] x) => (float[M,N] z) { y = Transpose <perm = [1, 0]>(x) z = Exp(y) }",
            False,
        ),
        (CHAIN, True),
    ],
)
def test_functions_for_any_strides_are_there_for_what_may_broadcast(
    text: str, is_needed: bool
) -> None:
    assert ("GK_BODIES_AND_ANY(gk_" in source([area_of(text)])) == is_needed


@pytest.mark.parametrize("sizes", [(5, 1), (1, 5), (1, 1), (5, 7), (0, 1), (1, 0)])
@pytest.mark.parametrize(
    "text",
    [
        (
            "g (float[N,M] x, float[N,1] y, float[M] v) => (float[N,M] z) { a = Add(x, y) z = "
            "Sub(a, v) }"
        ),
        "g (float[N,M] x, float[M] y, float[M] v) => (float[M,N] z) { "
        "t = Transpose <perm = [1, 0]>(x) a = Add(x, y) b = Mul(a, v) c = Transpose <perm = [1, "
        "0]>(b) z = Sub(c, t) }",
    ],
)
def test_sizes_of_1_where_no_function_takes_any_strides(text: str, sizes: tuple[int, int]) -> None:
    area = area_of(text)
    assert "GK_BODIES_AND_ANY(gk_" not in source([area])
    numbers = np.random.default_rng(0)
    known = dict(zip("NM", sizes, strict=True))
    shapes = {name: [known.get(str(n), n) for n in area.values[name].shape] for name in area.inputs}
    feeds = {
        name: numbers.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()
    }
    wanted = session(plain_model(area)).run(None, feeds)
    assert not differences(
        wanted, session(kernel_model(area), build([area]).library).run(None, feeds), 1e-6
    )


def test_a_library_of_several_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    areas = [area_of(CHAIN, name="chain"), area_of(NORM, name="norm")]
    assert len(units(areas)) == 3  # loops, the functions that run them, the list of operators
    monkeypatch.setattr(source_module, "_UNIT", 1)
    texts = units(areas)
    assert len(texts) > len(areas)
    library = compiled(texts)
    rng = np.random.default_rng(0)
    feeds = {
        "x": rng.standard_normal((3, 7)).astype(np.float32),
        "s": rng.standard_normal(7).astype(np.float32),
    }
    chain, norm = areas
    for area, given in ((norm, feeds), (chain, {"x": feeds["s"], "y": feeds["s"]})):
        wanted = session(plain_model(area)).run(None, given)
        assert not differences(wanted, session(kernel_model(area), library).run(None, given), 1e-5)


def test_libraries_share_the_functions_that_run_kernels() -> None:
    """Their object is compiled once for all libraries with as large arrays."""
    several = [[area_of(CHAIN, name="chain")], [area_of(NORM, name="norm")]]
    texts = [[u.text for u in units(areas) if u.contents is Contents.RUNTIME] for areas in several]
    assert len(texts[0]) == 1 and texts[0] == texts[1]


def test_what_no_kernel_computes_is_refused_in_words() -> None:
    area = area_of(
        "g (float[N,4] x, float[4,4] y) => (float[N,4] z) { z = MatMul(x, y) }", name="product"
    )
    assert reason_against(area) == "no kernel computes MatMul"
    built = build([area, area_of(CHAIN, name="chain")])
    assert built.failed == {"product": "no kernel computes MatMul"}
    assert built.library and built.library.is_file()
    assert build([area]).library is None


@pytest.mark.parametrize("end", [2**31 - 1, 2**63 - 1])
def test_a_slice_backwards_to_the_largest_end_is_refused(end: int) -> None:
    """By the standard it is empty, in onnxruntime it goes on to the front."""
    numbers = (
        f"int64[1] s = {{-1}}, int64[1] e = {{{end}}}, int64[1] a = {{0}}, int64[1] t = {{-1}}"
    )
    area = area_of(
        f"g (float[N] x) => (float[M] z) <{numbers}> {{ y = Slice(x, s, e, a, t) z = Neg(y) }}"
    )
    assert (
        reason_against(area) == "onnxruntime gives the end of a backward Slice a meaning of its own"
    )


@pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64"), reason="its instructions are x86-64's"
)
def test_bytes_are_stored_as_vectors_on_every_processor(tmp_path: Path) -> None:
    """AVX-512 without its instructions for bytes made loops over them scalar: five times as
    long.
    """
    text = "g (float[65536] x) => (int8[65536] z) { a = Add(x, x) b = Abs(a) z = Cast <to = 3>(b) }"
    unit = Unit(source([area_of(text)]), Contents.LOOPS)
    command = compiler()
    (tmp_path / "loops.c").write_text(unit.text)
    subprocess.run(
        [
            *command,
            *FLAGS,
            *unit.flags(command),
            "-S",
            "-o",
            tmp_path / "loops.s",
            tmp_path / "loops.c",
        ],
        check=True,
    )
    functions = re.split(r"\n(?=gk_\w+_[0-9]+:\n)", (tmp_path / "loops.s").read_text())
    fast = [f for f in functions if re.match(r"gk_\w{12}_[12]:", f)]
    assert len(fast) == 2
    assert all(re.search("vcvttps2dq.*%[yz]mm", function) for function in fast)
