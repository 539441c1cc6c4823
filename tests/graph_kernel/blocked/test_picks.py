"""Channels of parts of blocks, and of groups that take turns: in Concats, Splits, Slices and
shuffles.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx
import pytest
from networks import Network, areas_of, check_alone, kinds_of, only_area, operators_in, sliced

from fusionc.graph_kernel.blocked.time_saved import saved_by_program

Form = Callable[[Network, str], str]  # what follows a convolution with 32 channels


def split(n: Network, x: str, *sizes: int) -> list[str]:
    return list(n.op("Split", x, n.const(sizes, np.int64), axis=1, outputs=len(sizes)))


FIVE = (2, 4, 8, 5, 6)
FOUR = (2, 32, 5, 6)


def reshape(n: Network, x: str, shape: Sequence[int]) -> str:
    return str(n.op("Reshape", x, n.const(shape, np.int64)))


def transposed(n: Network, x: str, perm: Sequence[int] = (0, 2, 1, 3, 4)) -> str:
    return str(n.op("Transpose", x, perm=perm))


def shuffle(
    n: Network,
    x: str,
    shape: Sequence[int] = FIVE,
    *,
    behind: Sequence[int] = FOUR,
    perm: Sequence[int] = (0, 2, 1, 3, 4),
    times: int = 1,
) -> str:
    y = reshape(n, x, shape)
    for _ in range(times):
        y = transposed(n, y, perm)
    return reshape(n, y, behind)


def joined(n: Network, *parts: str, axis: int = 1) -> str:
    return str(n.op("Concat", *parts, axis=axis))


def two_shuffles(n: Network, x: str) -> str:
    return shuffle(n, shuffle(n, x, (2, 2, 16, 5, 6)), (2, 2, 16, 5, 6))


FORMS: dict[str, tuple[Form, str]] = {
    "joined_odd": (
        lambda n, x: joined(n, n.conv(x, 32, 5, 1), n.conv(x, 32, 30, 1), x),
        "CONV CONV PICK PICK PICK",
    ),
    "joined_behind_whole_blocks": (
        lambda n, x: joined(n, x, n.conv(x, 32, 7, 1), x),
        "CONV PICK PICK",
    ),
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
    "joined_and_activated": (
        lambda n, x: n.op("Tanh", joined(n, n.conv(x, 32, 5, 1), x)),
        "CONV PICK PICK ACT",
    ),
    "split": (lambda n, x: n.conv(split(n, x, 5, 27)[1], 27, 8, 1), "PICK CONV"),
    "split_in_three": (
        lambda n, x: joined(n, *reversed(split(n, x, 16, 7, 9))),
        "PICK PICK PICK PICK COPY",
    ),
    "split_that_ends_within_a_block": (
        lambda n, x: n.conv(split(n, x, 16, 10, 6)[1], 10, 8, 1),
        "PICK CONV",
    ),
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
    "grouped_twice": (
        lambda n, x: n.op(
            "Mul", reshape(n, y := reshape(n, x, FIVE), FOUR), reshape(n, transposed(n, y), FOUR)
        ),
        "PICK MUL",
    ),
    "grouped_alone_twice": (
        lambda n, x: n.op(
            "Mul", n.op("Tanh", reshape(n, y := reshape(n, x, FIVE), FOUR)), reshape(n, y, FOUR)
        ),
        "ACT MUL",
    ),
    "shuffled_and_not": (
        lambda n, x: n.op("Mul", shuffle(n, x, times=2), shuffle(n, x, (2, 2, 16, 5, 6))),
        "PICK MUL",
    ),
    "turned_and_back_beside": (
        lambda n, x: n.op(
            "Mul",
            reshape(n, transposed(n, y := transposed(n, reshape(n, x, FIVE))), FOUR),
            reshape(n, y, FOUR),
        ),
        "PICK MUL",
    ),
    "shuffled_again": (two_shuffles, "PICK PICK"),
    "shape_that_is_inferred": (
        lambda n, x: shuffle(n, x, (0, 4, -1, 5, 6), behind=(-1, 32, 5, 6)),
        "PICK",
    ),
    "shuffled_and_split": (
        lambda n, x: joined(
            n, *reversed([n.conv(y, 16, 16) for y in split(n, shuffle(n, x), 16, 16)])
        ),
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


def test_rows_may_be_open_where_all_else_is_known() -> None:
    n = Network()
    x = n.conv(n.input(2, 16, "H", 6), 16, 32)
    program = check_alone(n, shuffle(n, x, (2, 4, 8, -1, 6), behind=(2, 32, -1, 6)), sizes={"H": 3})
    assert kinds_of(program) == "WINOGRAD PICK"


def test_images_of_open_sizes_are_joined() -> None:
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
        x = shuffle(
            n,
            joined(n, a, n.op("Relu", n.conv(b, 12, 12, 1))),
            (3, 2, 12, 5, 4),
            behind=(3, 24, 5, 4),
        )
    program = check_alone(n, x, n.conv(x, 24, 16))
    assert program.kinds.count("PICK") == 3 * 5


def shuffled_like(n: Network, x: str, shape: str) -> str:
    return reshape(n, transposed(n, n.op("Reshape", x, shape)), (2, 32, 6, 6))


STAYS: dict[str, Form] = {  # behind an image [2, 32, 6, 6]
    "columns_among_channels": lambda n, x: shuffle(n, x, (2, 4, 8, 4, 9), behind=(2, 32, 4, 9)),
    "rows_among_channels": lambda n, x: shuffle(n, x, (2, 4, 16, 3, 6), behind=(2, 64, 3, 6)),
    "batches_among_channels": lambda n, x: shuffle(n, x, (1, 4, 16, 6, 6), behind=(1, 64, 6, 6)),
    "batches_among_groups": lambda n, x: reshape(
        n, transposed(n, reshape(n, x, (1, 4, 16, 6, 6))), (2, 32, 6, 6)
    ),
    "other_pixels_behind": lambda n, x: shuffle(n, x, SQUARE, behind=(2, 32, 4, 9)),
    "other_channels_behind": lambda n, x: shuffle(n, x, SQUARE, behind=(2, 16, 12, 6)),
    "rows_and_columns_swapped": lambda n, x: shuffle(
        n, x, SQUARE, behind=(2, 32, 6, 6), perm=(0, 1, 2, 4, 3)
    ),
    "both_swapped": lambda n, x: shuffle(n, x, SQUARE, behind=(2, 32, 6, 6), perm=(0, 2, 1, 4, 3)),
    "nothing_swapped": lambda n, x: shuffle(
        n, x, SQUARE, behind=(2, 32, 6, 6), perm=(0, 1, 2, 3, 4)
    ),
    "batches_and_groups_swapped": lambda n, x: shuffle(
        n, x, (2, 2, 16, 6, 6), behind=(2, 32, 6, 6), perm=(1, 0, 2, 3, 4)
    ),
    "no_order": lambda n, x: reshape(
        n, n.op("Transpose", reshape(n, x, (6, 8, 2, 4, 6))), (2, 32, 6, 6)
    ),
    "axes_that_are_no_channels": lambda n, x: reshape(n, x, (2, 32, 2, 3, 6)),
    "a_shape_of_four_axes": lambda n, x: reshape(n, x, (2, 16, 12, 6)),
    "a_shape_of_two_axes": lambda n, x: reshape(
        n, shuffle(n, x, SQUARE, behind=(2, 1152)), (2, 32, 6, 6)
    ),
    "six_axes": lambda n, x: reshape(
        n, reshape(n, reshape(n, x, SQUARE), (2, 4, 2, 4, 6, 6)), (2, 32, 6, 6)
    ),
    "groups_again": lambda n, x: reshape(
        n, reshape(n, reshape(n, x, SQUARE), (2, 8, 4, 6, 6)), (2, 32, 6, 6)
    ),
    "a_shape_that_is_computed": lambda n, x: shuffled_like(
        n, x, n.op("Shape", n.input(2, 4, 8, 6, 6))
    ),
    "an_activation_between": lambda n, x: reshape(
        n, n.op("Relu", reshape(n, x, SQUARE)), (2, 32, 6, 6)
    ),
    "another_image_in_five_axes": lambda n, x: n.op(
        "Add", x, reshape(n, n.input(2, 4, 8, 6, 6), (2, 32, 6, 6))
    ),
    "another_image_that_is_turned": lambda n, x: n.op(
        "Add", x, reshape(n, transposed(n, n.input(2, 4, 8, 6, 6)), (2, 32, 6, 6))
    ),
}
SQUARE = (2, 4, 8, 6, 6)


@pytest.mark.parametrize("name", STAYS)
def test_what_stays_outside(name: str) -> None:
    n = Network()
    x = n.op("Relu", n.conv(n.input(2, 16, 6, 6), 16, 32))
    y = STAYS[name](n, x)
    n.outputs = [x, y]
    found = areas_of(n.model())
    assert found and not any(
        {"Reshape", "Transpose"} & {node.op_type for node in one.area.nodes} for one in found
    )


@pytest.mark.parametrize("sizes", [("N", "H", "W"), (2, "H", "W"), ("N", "H", 6)])
def test_sizes_that_may_move_among_channels_stay_outside(sizes: tuple[int | str, ...]) -> None:
    n = Network()
    batch, height, width = sizes
    x = n.op("Relu", n.conv(n.input(batch, 16, height, width), 16, 32))
    y = reshape(n, transposed(n, reshape(n, x, (2, 4, 8, -1, 6))), (2, 32, -1, 6))
    assert operators_in(n, x, y) == [["Conv", "Relu"]]


def test_batches_that_are_not_known_to_stay() -> None:
    n = Network()
    x = n.op("Relu", n.conv(n.input("N", 16, "H", 6), 16, 32))
    y = reshape(n, z := transposed(n, g := reshape(n, x, (2, 4, 8, -1, 6))), (2, 32, -1, 6))
    model = n.model(x, n.op("Neg", y))
    for name, shape in ((g, [2, 4, 8, "H", 6]), (z, [2, 8, 4, "H", 6]), (y, [2, 32, "H", 6])):
        model.graph.value_info.append(onnx.helper.make_tensor_value_info(name, 1, shape))
    assert [[node.op_type for node in one.area.nodes] for one in areas_of(model)] == [
        ["Conv", "Relu"]
    ]


def test_a_part_that_is_needed_outside_alone() -> None:
    n = Network()
    a, b, _ = split(n, n.conv(n.input(2, 16, 5, 6), 16, 32), 5, 7, 20)
    program = check_alone(n, a, n.conv(b, 7, 16))
    assert kinds_of(program) == "CONV PICK PICK CONV"


@pytest.mark.parametrize("op", ["Reshape", "Transpose"])
def test_what_has_two_axes_of_channels_is_no_result(op: str) -> None:
    n = Network()
    y = n.conv(shuffle(n, n.op("Relu", n.conv(n.input(2, 16, 5, 6), 16, 32))), 32, 8)
    needed = next(node.output[0] for node in n.nodes if node.op_type == op)
    inside = operators_in(n, y, needed)
    assert inside and not any("Transpose" in operators for operators in inside)


def test_copies_of_images_may_cost_more_than_is_saved() -> None:
    n = Network()
    x = n.input(1, 64, 56, 56)
    one = n.conv(n.op("Tanh", x), 64, 64, group=64)
    assert saved_by_program(only_area(n.model(n.op("Relu", n.op("Tanh", one)))).area) <= 0
    for _ in range(40):
        one = n.conv(one, 64, 64, 1)
    assert saved_by_program(only_area(n.model(one)).area) > 0
