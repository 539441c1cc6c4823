"""Operators that compute nothing: where they read, and which sizes they take."""

from __future__ import annotations

import numpy as np
import pytest
from areas import area_of, build_for_here, differences, kernel_model, plain_model, session

from fusionc.graph_kernel.area import Area
from fusionc.graph_kernel.c.source import reason_against
from fusionc.graph_kernel.library.build_library import Built
from fusionc.graph_kernel.lower.data_movement import _bounds

pytestmark = pytest.mark.usefixtures("needs_a_compiler")

# What a Gather picks, and how many elements there have to be for it.
PICKS = {
    "int64 i = {0}": 1,
    "int64 i = {3}": 4,
    "int64 i = {-1}": 1,
    "int64 i = {-4}": 4,
    "int64[1] i = {2}": 3,
    "int64[2] i = {1, 3}": 4,
    "int64[2] i = {3, 1}": 4,
    "int64[3] i = {0, 2, 4}": 5,
    "int64[2] i = {-1, -2}": 2,
    "int64[2] i = {-3, -1}": 3,
    "int64[2] i = {2, 2}": 3,
    "int64[0] i = {}": 0,
}


def _gather(picks: str, size: object, name: str) -> Area:
    rank = 1 if picks.startswith("int64 ") else 2
    if "{}" not in picks:
        dims = ",".join(["K", "3"][-rank:])
        return area_of(
            f"g (float[{size},3] x) => (float[{dims}] z) <{picks}> {{ a = Neg(x) z = Gather(a, i) }}",
            name=name,
        )
    empty = {"i": np.zeros(0, np.int64)}
    return area_of(
        f"g (float[{size},3] x) => (float[0,3] z) {{ a = Neg(x) z = Gather(a, i) }}",
        empty,
        name=name,
    )


@pytest.fixture(scope="module")
def library() -> tuple[dict[str, Area], Built]:
    areas = {picks: _gather(picks, "N", f"gather_{k}") for k, picks in enumerate(PICKS)}
    return areas, build_for_here(list(areas.values()))


@pytest.mark.parametrize("picks", PICKS)
def test_gather_reads_up_to_the_end_and_not_beyond(
    picks: str, library: tuple[dict[str, Area], Built]
) -> None:
    (areas, built) = library
    need = PICKS[picks]
    area = areas[picks]
    assert not built.failed
    plain = session(plain_model(area))
    kernel = session(kernel_model(area), built.library)
    for size in (need, need + 1, need + 5):
        x = np.arange(3 * size, dtype=np.float32).reshape(size, 3)
        assert not differences(plain.run(None, {"x": x}), kernel.run(None, {"x": x}))
    if need > 0:
        with pytest.raises(Exception, match="out of data bounds"):
            kernel.run(None, {"x": np.zeros((need - 1, 3), np.float32)})


@pytest.mark.parametrize("picks", [picks for picks in PICKS if PICKS[picks] > 1])
def test_gather_of_a_size_that_is_known(picks: str) -> None:
    need = PICKS[picks]
    assert reason_against(_gather(picks, need, "fits")) is None
    assert reason_against(_gather(picks, need - 1, "short")) == "Gather beyond the end"


@pytest.mark.parametrize(
    ("picks", "reason"),
    [
        ("int64[2] i = {-1, 0}", "Gather has positive and negative indices"),
        ("int64[2] i = {0, -1}", "Gather has positive and negative indices"),
        ("int64[3] i = {0, 1, 3}", "Gather of elements that are not at equal distances"),
    ],
)
def test_what_gather_refuses(picks: str, reason: str) -> None:
    assert reason_against(_gather(picks, "N", "refused")) == reason


def test_bounds_of_a_slice_are_those_of_numpy() -> None:
    for size in range(5):
        line = np.arange(size)
        for start in range(-7, 8):
            for end in range(-7, 8):
                for step in (1, 2, 3, 7):
                    first, length = _bounds(size, start, end, step)
                    assert (line[start:end:step] == first + step * np.arange(length)).all()
                    assert len(line[start:end:step]) == length


def test_a_part_of_an_axis_is_not_divided_as_the_whole_is() -> None:
    """Its loop would be as long as the whole, and write behind its output."""
    text = """g (float[2,3] x) => (float[4] z) <int64[1] t = {6}, int64[1] b = {0}, int64[1] e = {4}> {
        a = Mul (x, x)  r = Reshape (a, t)  s = Slice (r, b, e)  z = Neg (s) }"""
    assert "are not multiples of one another" in (reason_against(area_of(text)) or "")
    assert (
        reason_against(
            area_of(text.replace("float[4] z", "float[6] z").replace("e = {4}", "e = {6}"))
        )
        is None
    )


def test_a_concat_of_what_onnxruntime_may_overlook_is_no_area() -> None:
    """Tensors without elements, whatever their other sizes are."""
    joined = "g (float[N,3] x, float[{},4] w) => (float[K,7] z) {{ c = Concat<axis=1>(x, w) z = Exp(c) }}"
    assert "Concat" in (reason_against(area_of(joined.format("M"))) or "")
    assert reason_against(area_of(joined.format("N"))) is None
