"""Windows that an image has no room for: an error, as in onnxruntime, and nothing else is read or
written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
from areas import session
from kernels_run import call_of
from networks import Network, only_area, operators_in

from fusionc.graph_kernel.library.build_library import build


def inner(n: Network, x: str) -> str:
    """A convolution without a border."""
    return n.conv(x, 16, 32, 3, pads=[0] * 4)


TOO_SMALL: dict[str, tuple[Callable[[Network, str], str], Mapping[str, int]]] = {
    "pool": (
        lambda n, x: n.op("AveragePool", n.conv(x, 16, 32, 1), kernel_shape=[3, 3]),
        {"H": 1, "W": 16},
    ),
    "convolution": (lambda n, x: n.op("GlobalAveragePool", inner(n, x)), {"H": 2, "W": 2}),
    "convolution of one pixel in two": (
        lambda n, x: n.conv(inner(n, x), 32, 32, 1, strides=[2, 2]),
        {"H": 2, "W": 64},
    ),
}


@pytest.mark.usefixtures("needs_a_compiler")
@pytest.mark.parametrize(("form", "sizes"), TOO_SMALL.values(), ids=TOO_SMALL)
def test_an_image_smaller_than_a_window_is_an_error(
    form: Callable[[Network, str], str], sizes: Mapping[str, int]
) -> None:
    n = Network()
    one = only_area(n.model(n.conv(form(n, n.input(1, 16, "H", "W")), 32, 32, 1)))
    run = session(call_of(one), build([one.area]).library)
    run.run(None, one.feeds(n.feeds({"H": 9, "W": 9})))
    with pytest.raises(Exception, match=r"_blocked_.*: Non-zero status code"):
        run.run(None, one.feeds(n.feeds(sizes)))


@pytest.mark.parametrize(
    ("kernel", "stride", "is_taken"), [(1, 2, True), (1, 3, False), (2, 4, False), (3, 4, True)]
)
def test_windows_that_begin_inside_the_image(kernel: int, stride: int, is_taken: bool) -> None:
    n = Network()
    how = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "auto_pad": "SAME_UPPER"}
    pool = n.op("MaxPool", n.conv(n.input(1, 16, 24, 24), 16, 32), **how)
    areas = operators_in(n, n.conv(pool, 32, 32))
    assert any("MaxPool" in operators for operators in areas) == is_taken


@pytest.mark.parametrize(
    ("stride", "size", "is_taken"), [(1, "H", True), (2, "H", False), (2, 24, True)]
)
def test_windows_beyond_the_end_need_sizes_that_are_known(
    stride: int, size: int | str, is_taken: bool
) -> None:
    n = Network()
    how = {"kernel_shape": [3, 3], "strides": [stride] * 2, "pads": [1] * 4, "ceil_mode": 1}
    pool = n.op("MaxPool", n.conv(n.input(1, 16, size, size), 16, 32), **how)
    areas = operators_in(n, n.conv(pool, 32, 32))
    assert any("MaxPool" in operators for operators in areas) == is_taken
