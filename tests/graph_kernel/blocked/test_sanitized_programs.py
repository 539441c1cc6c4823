"""Steps stay inside their memory, and do nothing undefined: areas of the other files' networks, in
two programs under sanitizers, because the compiler takes as long for one area as for all of them.
Steps of bytes and of bfloat16 are never in one C text.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
import test_bytes
import test_dynamic
import test_float_results
import test_narrow
from areas import session
from networks import Found, difference, only_area
from standalone_programs import SANITIZERS, Standalone, widths
from test_weight_dequantization import E4M3FN, INT4, UINT4, Form, Weights

from fusionc.graph_kernel.area import Area

pytestmark = [pytest.mark.usefixtures("needs_a_compiler"), pytest.mark.long]
BYTES = (
    "float bias",
    "first",
    "many",
    "apart",
    "depthwise apart",
    "depthwise uneven",
    "pooled",
    "rows",
)
FLOAT_RESULTS = (
    "points, uneven",
    "residual",
    "shortcut",
    "hard swish",
    "moved sum",
    "few channels",
)
DYNAMIC = ("points, uneven", "several", "few channels", "channels last", "depthwise, plain")
NARROW = ("odd", "apart", "deep", "rows")
HALVES = (Form(INT4), Form(UINT4, "tensor", has_zero=True), Form(E4M3FN))


@cache
def of_bytes(name: str) -> Found:
    return test_bytes.only_area_of_integers(test_bytes.NETWORKS[name]().model())


@cache
def narrow(name: str) -> Found:
    return test_narrow.narrowed(test_narrow.NETWORKS[name]())


@cache
def of_halves(form: Form) -> tuple[Weights, Found]:
    """Odd numbers of weights."""
    n = Weights(form)
    x = n.op("Conv", n.input(1, 15, 5, 5), n.dequantized((15, 1, 3, 3)), group=15)
    n.outputs = [n.op("Relu", n.op("Conv", x, n.dequantized((7, 15, 1, 1))))]
    return n, only_area(n.model())


def under_sanitizers(areas: list[Area], folder: Path) -> Standalone:
    programs = Standalone(areas, folder, ["-O0", *SANITIZERS[1:]])
    assert len(programs.numbers) == len(areas)
    return programs


@pytest.fixture(scope="module")
def with_bytes(tmp_path_factory: pytest.TempPathFactory) -> Standalone:
    areas = [of_bytes(name).area for name in BYTES]
    areas += [test_float_results.case(name).found.area for name in FLOAT_RESULTS]
    areas += [test_dynamic.case(name).found.area for name in DYNAMIC]
    return under_sanitizers(areas, tmp_path_factory.mktemp("with_bytes"))


@pytest.fixture(scope="module")
def with_floats(tmp_path_factory: pytest.TempPathFactory) -> Standalone:
    areas = [narrow(name).area for name in NARROW]
    areas += [of_halves(form)[1].area for form in HALVES]
    return under_sanitizers(areas, tmp_path_factory.mktemp("with_floats"))


@pytest.mark.parametrize("name", BYTES)
def test_steps_of_bytes(name: str, with_bytes: Standalone) -> None:
    one = of_bytes(name)
    for sizes in test_bytes.SIZES[:2]:
        tensors = one.tensors(test_bytes.feeds_of(test_bytes.NETWORKS[name](), sizes))
        for width in widths():
            with_bytes.run(one.area, tensors, width, test_bytes.MASKS[1])


@pytest.mark.parametrize("name", FLOAT_RESULTS)
def test_steps_from_bytes_to_float32(name: str, with_bytes: Standalone) -> None:
    one = test_float_results.case(name)
    for sizes in test_float_results.SIZES[:2]:
        tensors = one.found.tensors(test_float_results.feeds_of(one.network, sizes))
        for width in widths():
            with_bytes.run(one.found.area, tensors, width, test_float_results.MASKS[1])


@pytest.mark.parametrize("name", DYNAMIC)
def test_steps_of_bytes_that_are_quantized_at_run_time(name: str, with_bytes: Standalone) -> None:
    one = test_dynamic.case(name)
    for sizes in test_dynamic.SIZES[:2]:
        tensors = one.found.tensors(test_dynamic.feeds_of(one.network, sizes))
        for width in widths():
            with_bytes.run(one.found.area, tensors, width, test_dynamic.MASKS[1])


@test_narrow.needs_avx512_bf16
@pytest.mark.parametrize("name", NARROW)
def test_steps_of_bfloat16(name: str, with_floats: Standalone) -> None:
    """Tiles read beyond the last pixel, but not beyond the memory of images."""
    one = narrow(name)
    tensors = one.tensors(test_narrow.NETWORKS[name]().feeds({"N": 1, "H": 3, "W": 5}))
    for without in (test_narrow.TILES, test_narrow.VECTORS):
        with_floats.run(one.area, tensors, test_narrow.WIDEST, without)


@pytest.mark.parametrize("form", HALVES, ids=str)
def test_odd_numbers_of_halves(form: Form, with_floats: Standalone) -> None:
    n, one = of_halves(form)
    feeds = n.feeds()
    (right,) = session(n.model()).run(None, feeds)
    problem = difference(right, with_floats.run(one.area, one.tensors(feeds))[0])
    assert not problem, problem
