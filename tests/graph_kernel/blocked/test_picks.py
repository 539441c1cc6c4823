"""Channels of parts of blocks, and of groups that take turns: in Concats, Splits, Slices and shuffles."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from networks import Network, check_alone, kinds_of, only_area, operators_in

from fusionc.graph_kernel.blocked.time_saved import saved_by_program

Form = Callable[[Network, str], str]  # what follows a convolution with 32 channels


def split(n: Network, x: str, *sizes: int) -> list[str]:
    return list(n.op("Split", x, n.const(sizes, np.int64), axis=1, outputs=len(sizes)))


def sliced(n: Network, x: str, start: int, end: int) -> str:
    return str(n.op("Slice", x, *(n.const([v], np.int64) for v in (start, end, 1))))


def reshape(n: Network, x: str, shape: Sequence[int]) -> str:
    return str(n.op("Reshape", x, n.const(shape, np.int64)))


def shuffle(
    n: Network, x: str, shape: Sequence[int] = (2, 4, 8, 5, 6), *, behind: Sequence[int] = (2, 32, 5, 6),
    perm: Sequence[int] = (0, 2, 1, 3, 4), times: int = 1,
) -> str:  # fmt: skip
    y = reshape(n, x, shape)
    for _ in range(times):
        y = n.op("Transpose", y, perm=perm)
    return reshape(n, y, behind)


def joined(n: Network, *parts: str, axis: int = 1) -> str:
    return str(n.op("Concat", *parts, axis=axis))


def two_shuffles(n: Network, x: str) -> str:
    return shuffle(n, shuffle(n, x, (2, 2, 16, 5, 6)), (2, 2, 16, 5, 6))


FORMS: dict[str, tuple[Form, str]] = {
    "joined_odd": (lambda n, x: joined(n, n.conv(x, 32, 5, 1), n.conv(x, 32, 30, 1), x), "CONV CONV PICK PICK PICK"),
    "joined_behind_whole_blocks": (lambda n, x: joined(n, x, n.conv(x, 32, 7, 1), x), "CONV PICK PICK"),
    "joined_within_a_block": (
        lambda n, x: joined(n, *(n.conv(x, 32, k, 1) for k in (1, 2, 4, 3))),
        "CONV CONV CONV CONV PICK PICK PICK PICK",
    ),
    "joined_twice": (lambda n, x: joined(n, y := n.conv(x, 32, 9, 1), y, y), "CONV PICK PICK PICK"),
    "joined_by_the_last_axis_but_two": (
        lambda n, x: joined(n, n.conv(x, 32, 5, 1), x, axis=-3),
        "CONV PICK PICK",
    ),
    "joined_of_what_is_joined": (
        lambda n, x: joined(n, y := n.conv(x, 32, 5, 1), joined(n, y, n.op("Tanh", x))),
        "CONV ACT PICK PICK PICK PICK",
    ),
    "joined_and_activated": (lambda n, x: n.op("Tanh", joined(n, n.conv(x, 32, 5, 1), x)), "CONV PICK PICK ACT"),
    "split": (lambda n, x: n.conv(split(n, x, 5, 27)[1], 27, 8, 1), "PICK CONV"),
    "split_in_three": (lambda n, x: joined(n, *reversed(split(n, x, 16, 7, 9))), "PICK PICK PICK PICK COPY"),
    "split_that_ends_within_a_block": (lambda n, x: n.conv(split(n, x, 16, 10, 6)[1], 10, 8, 1), "PICK CONV"),
    "split_of_whole_blocks": (lambda n, x: n.conv(split(n, x, 16, 16)[1], 16, 8, 1), "CONV"),
    "slice": (lambda n, x: n.conv(sliced(n, x, 3, 29), 26, 8, 1), "PICK CONV"),
    "slice_from_the_end": (lambda n, x: n.op("Sigmoid", sliced(n, x, -5, 2**40)), "PICK ACT"),
    "slice_of_the_first": (lambda n, x: n.conv(sliced(n, x, 0, 5), 5, 8), "PICK CONV"),
    "shuffled": (lambda n, x: n.conv(shuffle(n, x), 32, 8), "PICK CONV"),
    "shuffled_and_activated": (lambda n, x: n.op("Tanh", shuffle(n, x)), "PICK"),
    "shuffled_by_two": (lambda n, x: shuffle(n, x, (2, 16, 2, 5, 6)), "PICK"),
    "shuffled_singly": (lambda n, x: n.op("Tanh", shuffle(n, x, (2, 1, 32, 5, 6))), "PICK"),
    "shuffled_and_back": (lambda n, x: n.op("Tanh", shuffle(n, x, times=2)), "ACT"),
    "shuffled_thrice": (lambda n, x: shuffle(n, x, (2, 2, 16, 5, 6), times=3), "PICK"),
    "grouped_alone": (lambda n, x: n.op("Tanh", shuffle(n, x, times=0)), "ACT"),
    "shuffled_again": (two_shuffles, "PICK PICK"),
    "shape_that_is_inferred": (lambda n, x: shuffle(n, x, (0, 4, -1, 5, 6), behind=(-1, 32, 5, 6)), "PICK"),
    "shuffled_and_split": (
        lambda n, x: joined(n, *reversed([n.conv(y, 16, 16) for y in split(n, shuffle(n, x), 16, 16)])),
        "PICK CONV CONV",
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_forms(name: str) -> None:
    n = Network()
    form, kinds = FORMS[name]
    x = n.conv(n.input(2, 16, 5, 6), 16, 32)
    program = check_alone(n, form(n, n.op("Gelu", x, domain="com.microsoft")))
    assert kinds_of(program) == f"CONV {kinds}"


def test_images_whose_sizes_are_known_when_they_are_there() -> None:
    n = Network()
    x = n.conv(n.input("N", 16, 5, 6), 16, 32)
    y = joined(n, n.conv(shuffle(n, x, (-1, 4, 8, 5, 6), behind=(-1, 32, 5, 6)), 32, 5), x)
    program = check_alone(n, n.conv(y, 37, 8), sizes={"N": 3})
    assert kinds_of(program) == "CONV PICK CONV PICK PICK CONV"


def test_sizes_that_differ_when_they_are_there_stay_a_join() -> None:
    n = Network()
    a, b = (n.conv(n.input("N", 16, *sizes), 16, 9) for sizes in (("H", "W"), ("H", "W")))
    program = check_alone(n, n.conv(joined(n, a, b), 18, 8), sizes={"N": 2, "H": 3, "W": 1})
    assert kinds_of(program) == "CONV CONV PICK PICK CONV"


def test_all_of_a_network_with_borders() -> None:
    n = Network()
    x = n.conv(n.input(3, 3, 9, 7), 3, 24, strides=[2, 2])
    for _ in range(3):
        a, b = split(n, x, 12, 12)
        b = n.conv(n.op("Relu", n.conv(b, 12, 12, 1)), 12, 12, group=12)
        x = shuffle(n, joined(n, a, n.op("Relu", n.conv(b, 12, 12, 1))), (3, 2, 12, 5, 4), behind=(3, 24, 5, 4))
    program = check_alone(n, x, n.conv(x, 24, 16))
    assert program.kinds.count("PICK") == 3 * 5


STAYS: dict[str, Form] = {
    "pixels_among_channels": lambda n, x: shuffle(n, x, (2, 4, 8, 6, 5)),
    "rows_among_channels": lambda n, x: shuffle(n, x, (2, 5, 32, 1, 6)),
    "other_axes": lambda n, x: shuffle(n, x, perm=(0, 1, 2, 4, 3)),
    "batches_among_groups": lambda n, x: shuffle(n, x, (4, 2, 8, 5, 6), behind=(2, 32, 5, 6)),
    "a_shape_of_four_axes": lambda n, x: reshape(n, x, (2, 16, 10, 6)),
    "another_shape_behind": lambda n, x: shuffle(n, x, behind=(2, 16, 10, 6)),
    "a_shape_that_is_computed": lambda n, x: n.op("Reshape", x, n.op("Shape", n.op("Neg", x))),
    "an_activation_between": lambda n, x: reshape(n, n.op("Relu", reshape(n, x, (2, 4, 8, 5, 6))), (2, 32, 5, 6)),
}


@pytest.mark.parametrize("name", STAYS)
def test_what_stays_outside(name: str) -> None:
    n = Network()
    x = n.op("Relu", n.conv(n.input(2, 16, 5, 6), 16, 32))
    y = STAYS[name](n, x)
    assert not any({"Reshape", "Transpose"} & set(inside) for inside in operators_in(n, x, y))


@pytest.mark.parametrize("which", [-3, -2])
def test_what_has_two_axes_of_channels_is_no_result(which: int) -> None:
    n = Network()
    y = n.conv(shuffle(n, n.conv(n.input(2, 16, 5, 6), 16, 32)), 32, 8)
    inside = operators_in(n, y, n.nodes[which - 1].output[0])
    assert not any("Transpose" in operators for operators in inside)


def test_copies_of_images_may_cost_more_than_is_saved() -> None:
    n = Network()
    x = n.input(1, 64, 56, 56)
    one = n.conv(n.op("Tanh", x), 64, 64, group=64)
    assert saved_by_program(only_area(n.model(n.op("Relu", n.op("Tanh", one)))).area) <= 0
    for _ in range(40):
        one = n.conv(one, 64, 64, 1)
    assert saved_by_program(only_area(n.model(one)).area) > 0
