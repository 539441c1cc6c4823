"""Products by Strassen's algorithm, however small they are: programs without onnxruntime, of each
width.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from areas import session
from kernels_run import call_of
from networks import MICROSOFT, Array, Found, Network, difference, only_area, wanted
from standalone_programs import PAYS_EVERYWHERE, PAYS_HERE, Standalone, has_512, widths

from fusionc.graph_kernel.area import KernelKind
from fusionc.graph_kernel.blocked import make_program
from fusionc.graph_kernel.blocked.kinds.convolve import ConvStep
from fusionc.graph_kernel.blocked.make_program import algorithm_of, program_of
from fusionc.graph_kernel.blocked.product_time import strassen_from, strassen_share
from fusionc.graph_kernel.blocked.program import ProgramStep
from fusionc.graph_kernel.c.source import units
from fusionc.graph_kernel.library.build_library import compiled

ROWS = (1, 2, 7, 33, 250)  # the last one is several chunks


def rows_of(form: Callable[[Network, str], str | list[str]], channels: int = 64) -> Network:
    n = Network(seed=11)
    made = form(n, n.input("M", channels))
    n.outputs = made if isinstance(made, list) else [made]
    return n


def gelu(n: Network, x: str) -> str:
    return str(n.op("Gelu", x, domain=MICROSOFT))


def parts(n: Network, x: str) -> list[str]:
    """Parts of a result that begin within a group of channels."""
    y = n.product(x, 64, 256)
    return list(n.op("Split", y, n.const([32, 96, 128], np.int64), axis=-1, outputs=3))


def bottleneck(n: Network, x: str) -> str:
    """Convolutions of 1×1 in front of one with a border, and behind it, whose rows have gaps
    between them.
    """
    y = n.op("Relu", n.conv(x, 64, 160, 1))
    y = n.op("Relu", n.conv(y, 160, 64, 3, strides=[2, 2]))
    return str(
        n.op("Relu", n.op("Add", n.conv(y, 64, 64, 1), n.conv(x, 64, 64, 3, strides=[2, 2])))
    )


def images(height: int, width: int) -> Network:
    n = Network(seed=12)
    n.outputs = [bottleneck(n, n.input("N", 64, height, width))]
    return n


FORMS = {
    "plain": rows_of(lambda n, x: n.product(x, 64, 64, bias=False)),
    "biased": rows_of(lambda n, x: n.product(x, 64, 128)),
    "some_channels_more": rows_of(lambda n, x: n.product(x, 64, 150)),
    "few_channels_more": rows_of(lambda n, x: n.product(x, 64, 65)),
    "transposed": rows_of(lambda n, x: n.op("Gemm", x, n.random(80, 64), n.random(80), transB=1)),
    "relu": rows_of(lambda n, x: n.op("Relu", n.product(x, 64, 64))),
    "gelu": rows_of(lambda n, x: gelu(n, n.product(x, 64, 64))),
    "sum": rows_of(lambda n, x: n.op("Add", n.product(x, 64, 64), x)),
    "activation_and_sum": rows_of(lambda n, x: n.op("Add", gelu(n, n.product(x, 64, 64)), x)),
    "sum_and_activation": rows_of(lambda n, x: gelu(n, n.op("Add", n.product(x, 64, 64), x))),
    "parts": rows_of(parts),
    "one_after_another": rows_of(lambda n, x: n.product(gelu(n, n.product(x, 64, 96)), 96, 70)),
    "pages_apart": rows_of(lambda n, x: n.product(x, 1024, 64), 1024),
    "images": images(9, 13),
    "images_of_one_pixel": images(1, 1),
}


@pytest.fixture(scope="module", autouse=True)
def always() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(make_program, "strassen_from", lambda taken, made: 1)
        yield


@pytest.fixture(scope="module")
def found() -> dict[str, Found]:
    return {name: only_area(network.model()) for name, network in FORMS.items()}


def steps_of(one: Found) -> list[ProgramStep]:
    return [
        step
        for step in program_of(one.area).program.steps
        if algorithm_of(step) is KernelKind.STRASSEN
    ]


@pytest.fixture(scope="module")
def direct(tmp_path_factory: pytest.TempPathFactory) -> Standalone:
    """The same areas without the algorithm."""
    plain = (only_area(network.model(), KernelKind.BLOCKED) for network in FORMS.values())
    return Standalone([one.area for one in plain], tmp_path_factory.mktemp("direct"), ["-O0"])


def compare(one: Found, tensors: list[Array], programs: Standalone) -> None:
    plain = wanted(one.area, tensors)
    for width in widths():
        results = programs.run(one.area, tensors, width)
        assert [
            problem for a, b in zip(plain, results, strict=True) if (problem := difference(a, b))
        ] == []


@pytest.mark.usefixtures("needs_a_compiler")
@pytest.mark.parametrize("name", FORMS)
def test_forms(name: str, found: dict[str, Found], programs: Standalone) -> None:
    assert steps_of(found[name])
    for rows in (1, 3) if name.startswith("images") else ROWS:
        compare(
            found[name], found[name].tensors(FORMS[name].feeds({"M": rows, "N": rows})), programs
        )


@pytest.mark.usefixtures("needs_a_compiler")
def test_it_is_another_algorithm(
    found: dict[str, Found], programs: Standalone, direct: Standalone
) -> None:
    """Results differ in rounding where it is taken, and not where it is not: of numbers that are
    not finite.
    """
    for name in ("plain", "activation_and_sum"):
        one = found[name]
        other = only_area(FORMS[name].model(), KernelKind.BLOCKED)
        feeds = FORMS[name].feeds({"M": 16, "N": 1})
        for is_finite in (True, False):
            for width in widths():
                made = programs.run(one.area, one.tensors(feeds), width)[-1]
                plain = direct.run(other.area, other.tensors(feeds), width)[-1]
                assert np.array_equal(made, plain, equal_nan=True) != is_finite
            feeds = {key: with_infinity(value) for key, value in feeds.items()}


def with_infinity(array: Array) -> Array:
    is_one = np.arange(array.size).reshape(array.shape) == 70
    return np.where(is_one, np.inf, array).astype(np.float32)


@pytest.mark.usefixtures("needs_a_compiler")
@pytest.mark.parametrize("name", ["biased", "activation_and_sum", "parts", "images"])
def test_what_is_not_finite_stays_in_its_rows(
    name: str, found: dict[str, Found], programs: Standalone
) -> None:
    feeds = FORMS[name].feeds({"M": 250, "N": 3}, edges=True)
    compare(found[name], found[name].tensors(feeds), programs)


@pytest.mark.usefixtures("needs_a_compiler")
def test_rows_of_a_few_numbers(found: dict[str, Found], programs: Standalone) -> None:
    """A table that is looked up by a product with rows of one 1 each, beside rows of many numbers.

    Emulated vectors of 16 round products before they add, which is about twice as much.
    """
    one = found["plain"]
    rows = 100 * np.random.default_rng(4).standard_normal((40, 64)).astype(np.float32)
    rows[:20] = np.eye(64, dtype=np.float32)[:20]
    (weights,) = one.constants.values()
    for width in widths():
        (made,) = programs.run(
            one.area, [one.constants.get(name, rows) for name in one.area.inputs], width
        )
        allowed = 1e-6 if width == 2 and not has_512() else 5e-7
        assert (np.abs(made[:20] - weights[:20]) <= allowed * np.abs(weights).max()).all()


@pytest.mark.usefixtures("needs_a_compiler")
def test_zeros_stay_zeros(found: dict[str, Found], programs: Standalone) -> None:
    one = found["plain"]
    rows = np.random.default_rng(3).standard_normal((40, 64)).astype(np.float32)
    rows[5:30] = 0
    for width in widths():
        (made,) = programs.run(
            one.area, [one.constants.get(name, rows) for name in one.area.inputs], width
        )
        assert not made[5:30].any() and made[:5].all() and made[30:].all()


@pytest.mark.usefixtures("needs_a_compiler")
def test_rounding_is_that_of_the_row(found: dict[str, Found], programs: Standalone) -> None:
    """However large others are, from subnormal numbers on."""
    one = found["biased"]
    weights, bias = (one.constants[name] for name in one.area.inputs if name in one.constants)
    rows = np.random.default_rng(0).standard_normal((250, 64)).astype(np.float32)
    sizes = np.float32(10.0) ** np.random.default_rng(1).integers(-38, 36, 250).astype(np.float32)
    rows = (rows * sizes[:, None]).astype(np.float32)
    exact = rows.astype(np.float64) @ weights + bias
    allowed = (
        3e-6
        * (np.abs(rows).max(axis=1, keepdims=True).astype(np.float64) * np.abs(weights).sum(axis=0))
        + 1e-45
    )
    for width in widths():
        (made,) = programs.run(
            one.area,
            [rows if name in one.images else one.constants[name] for name in one.area.inputs],
            width,
        )
        inside = np.abs(exact) < 3e38
        assert (np.abs(made - exact) <= allowed + 3e-7 * np.abs(bias))[inside].all()


@pytest.mark.usefixtures("needs_a_compiler")
@pytest.mark.parametrize("what", ["small", "large", "zero", "infinite", "a few numbers"])
def test_columns_of_other_sizes_are_computed_directly(
    what: str, found: dict[str, Found], programs: Standalone
) -> None:
    """A column that is small beside others would drown in their rounding errors; one of zeros is
    exact.
    """
    one = found["plain"]
    (name,) = one.constants
    weights = one.constants[name].copy()
    if what == "a few numbers":
        weights[:, 5] = np.float32(0.01) * (np.arange(64) == 7)
    else:
        weights[:, 5] *= np.float32(
            {"small": 1e-6, "large": 1e6, "zero": 0, "infinite": np.inf}[what]
        )
    rows = np.random.default_rng(2).standard_normal((40, 64)).astype(np.float32)
    tensors = [weights if n == name else rows for n in one.area.inputs]
    (plain,) = wanted(one.area, tensors)
    for width in widths():
        (made,) = programs.run(one.area, tensors, width)
        assert not difference(plain[:, 5], made[:, 5])
        assert (
            what == "infinite" or (np.abs(plain - made) <= 2e-6 * np.abs(plain).max(axis=0)).all()
        )


@pytest.mark.parametrize("channels", [33, 48, 40])
def test_channels_that_have_no_halves(channels: int) -> None:
    assert not steps_of(
        only_area(rows_of(lambda n, x: n.product(x, channels, 128), channels).model())
    )


def test_convolutions_of_more_than_a_pixel_are_left_alone() -> None:
    n = Network()
    x = n.conv(n.conv(n.input(1, 64, 20, 20), 64, 64, 1, strides=[2, 2]), 64, 64, 1, group=2)
    y = n.conv(x, 64, 64, 3, strides=[2, 2])
    steps = steps_of(only_area(n.model(n.op("Relu", y))))
    # that of pixels which a pool has picked
    assert [type(step.kind) for step in steps] == [ConvStep]


@pytest.mark.parametrize(("taken", "made"), [(768, 768), (768, 3072), (384, 1536), (4096, 4096)])
def test_it_is_taken_from_where_on_it_pays(taken: int, made: int) -> None:
    least = strassen_from(taken, made)
    assert strassen_share(least, taken, made) <= 0.97 < strassen_share(least - 1, taken, made)


def test_few_channels_never_pay() -> None:
    assert strassen_from(64, 64) == 0


def test_known_rows_that_are_too_few_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(make_program, "strassen_from", lambda taken, made: 40)
    for rows, counted in ((39, 0), (40, 1), ("M", 1)):
        n = Network()
        assert len(steps_of(only_area(n.model(n.product(n.input(rows, 64), 64, 64))))) == counted


@pytest.mark.usefixtures("needs_a_compiler")
def test_sizes_may_change_from_run_to_run() -> None:
    """In onnxruntime, with as many channels as two processors need: sums are made once and found
    again.
    """
    n = Network(seed=14)
    one = only_area(n.model(n.product(n.input("M", 64), 64, 64 * 8 * min(os.cpu_count() or 1, 4))))
    made = units([one.area])
    assert sum(unit.text.count(PAYS_HERE) for unit in made) == 1
    everywhere = [
        replace(unit, text=unit.text.replace(PAYS_HERE, PAYS_EVERYWHERE)) for unit in made
    ]
    of_all = session(call_of(one), compiled(everywhere))
    (name,) = one.images

    def difference_of(rows: int) -> str:
        tensors = one.tensors(n.feeds({"M": rows}))
        (made,) = of_all.run(None, {name: tensors[one.area.inputs.index(name)]})
        return difference(wanted(one.area, tensors)[0], made)

    with ThreadPoolExecutor() as pool:  # the first runs at the same time
        assert not any(pool.map(difference_of, (300, 200, 1, 300, 500)))
    assert not any(map(difference_of, (1, 300, 0, 129, 1000)))
