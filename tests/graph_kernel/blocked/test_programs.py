"""Each operator becomes the steps that it should, and these compute what onnxruntime computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from networks import (
    MICROSOFT,
    REPEATED,
    TRANSPOSED,
    Network,
    check_alone,
    kinds_of,
    only_area,
    operators_in,
    program_of_area,
)

from fusionc.graph_kernel.area import KernelKind

Form = Callable[[Network, str], str]  # what follows a convolution with 32 channels


def microsoft(op: str, **attributes: object) -> Form:
    return lambda n, x: n.op(op, x, domain=MICROSOFT, **attributes)


def plain(op: str, **attributes: object) -> Form:
    return lambda n, x: n.op(op, x, **attributes)


def clip(n: Network, x: str) -> str:
    return n.op("Clip", x, n.const(-0.5), n.const(0.7))


ACTIVATIONS: dict[str, tuple[Form, int]] = {
    "relu": (plain("Relu"), 1),
    "clip": (clip, 2),
    "clip_low": (lambda n, x: n.op("Clip", x, n.const(0.1)), 2),
    "clip_high": (lambda n, x: n.op("Clip", x, "", n.const(0.1)), 2),
    "leaky": (plain("LeakyRelu", alpha=0.2), 3),
    "leaky_default": (plain("LeakyRelu"), 3),
    "sigmoid": (plain("Sigmoid"), 4),
    "hard_sigmoid": (plain("HardSigmoid"), 5),
    "hard_sigmoid_1/6": (plain("HardSigmoid", alpha=1 / 6), 5),
    "hard_swish": (plain("HardSwish"), 6),
    "silu": (lambda n, x: n.op("Mul", x, n.op("Sigmoid", x)), 7),
    "silu_other": (lambda n, x: n.op("Mul", n.op("Sigmoid", x), x), 7),
    "quick_gelu": (microsoft("QuickGelu"), 7),
    "quick_gelu_1": (microsoft("QuickGelu", alpha=1.0), 7),
    "gelu": (microsoft("Gelu"), 8),
    "tanh": (plain("Tanh"), 9),
    "hard_swish_written": (lambda n, x: n.op("Mul", x, n.op("HardSigmoid", x, alpha=1 / 6)), 11),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_are_part_of_the_step_before(name: str) -> None:
    n = Network()
    form, number = ACTIVATIONS[name]
    program = check_alone(n, form(n, n.conv(n.input(2, 16, 5, 6), 16, 32)))
    assert kinds_of(program) == "CONV"
    assert program.steps[1].activation == number


@pytest.mark.parametrize(("form", "number"), [("none", 8), ("tanh", 10)])
def test_the_gelu_of_opset_20(form: str, number: int) -> None:
    n = Network(opset=20)
    x = n.conv(n.input(1, 16, 5, 5), 16, 16)
    area = only_area(n.model(n.op("Gelu", x, approximate=form))).area
    assert program_of_area(area).steps[1].activation == number


FUSED = {
    "Relu": ((), 1),
    "LeakyRelu": ((0.3,), 3),
    "Sigmoid": ((), 4),
    "Tanh": ((), 9),
    "HardSigmoid": ((0.3, 0.4), 5),
    "Clip": ((-0.2, 0.6), 2),
}


@pytest.mark.parametrize("with_sum", [False, True])
@pytest.mark.parametrize("name", FUSED)
def test_fused_conv(name: str, with_sum: bool) -> None:
    n = Network()
    parameters, number = FUSED[name]
    x = n.conv(n.input(1, 16, 5, 7), 16, 16)
    given = {"activation_params": list(parameters)} if parameters else {}
    y = n.conv(x, 16, 16, op="FusedConv", z=x if with_sum else "", activation=name, **given)
    program = check_alone(n, n.op("Sigmoid", y))
    assert kinds_of(program) == "CONV CONV ACT"
    second = program.steps[2]
    assert (second.activation, second.after, second.other >= 0) == (number, 0, with_sum)


WINDOWS = {
    "plain": {},
    "stride": {"strides": [2, 2]},
    "strides": {"strides": [2, 1]},
    "dilation": {"dilations": [2, 3], "pads": [2, 3, 2, 3]},
    "no_pads": {"pads": [0, 0, 0, 0]},
    "uneven": {"pads": [0, 1, 2, 3]},
    "same_upper": {"auto_pad": "SAME_UPPER"},
    "same_lower": {"auto_pad": "SAME_LOWER", "strides": [2, 2]},
    "same_stride": {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
    "valid": {"auto_pad": "VALID"},
}


@pytest.mark.parametrize("kernel", [1, 2, 3, 5])
@pytest.mark.parametrize("name", WINDOWS)
def test_windows(name: str, kernel: int) -> None:
    n = Network()
    x = n.conv(n.input(1, 16, 13, 14), 16, 16, 1)
    program = check_alone(n, n.conv(x, 16, 24, kernel, **WINDOWS[name]), kind=KernelKind.BLOCKED)
    is_picked = kernel == 1 and "strides" in WINDOWS[name] and "pads" not in WINDOWS[name]
    assert kinds_of(program) == ("CONV MAX_POOL CONV" if is_picked else "CONV CONV")


KINDS = {
    "first": ((3, 24, 1), "FIRST"),
    "first_of_one": ((1, 8, 1), "FIRST"),
    "few_inside": ((5, 24, 1), "CONV"),
    "depthwise": ((24, 24, 24), "DEPTHWISE"),
    "depthwise_of_3": ((3, 3, 3), "DEPTHWISE"),
    "groups": ((32, 64, 2), "CONV"),
    "groups_of_8": ((40, 40, 5), "GROUPED"),
    "groups_of_2": ((18, 18, 9), "GROUPED"),
    "groups_that_grow": ((24, 72, 6), "GROUPED"),
    "three_of_each": ((16, 48, 16), "GROUPED"),
    "odd": ((17, 40, 1), "CONV"),
    "wide": ((16, 16, 1), "CONV"),
}


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("name", KINDS)
def test_kinds_of_convolutions(name: str, bias: bool) -> None:
    n = Network()
    (channels, out, group), kind = KINDS[name]
    y = n.conv(n.input(2, channels, 9, 7), channels, out, group=group, bias=bias)
    program = check_alone(n, n.op("Sigmoid", y))
    assert kinds_of(program) == kind


def test_winograd_takes_3x3_of_many_channels_where_it_is_on() -> None:
    for kind, name in ((KernelKind.WINOGRAD, "WINOGRAD"), (KernelKind.BLOCKED, "CONV")):
        n = Network()
        assert (
            kinds_of(
                check_alone(n, n.op("Relu", n.conv(n.input(1, 32, 29, 30), 32, 33)), kind=kind)
            )
            == name
        )


@pytest.mark.parametrize(("size", "points"), [(7, 4), (14, 6), (30, 6)])
def test_small_images_have_small_tiles(size: int, points: int) -> None:
    n = Network()
    program = check_alone(n, n.op("Relu", n.conv(n.input(1, 96, size, size), 96, 96)))
    assert [step.own["tile_points"] for step in program.steps if step.kind == "WINOGRAD"] == [
        points
    ]


@pytest.mark.parametrize(
    ("size", "pads"),
    [(28, [1, 1, 1, 1]), (27, [1, 1, 1, 1]), (28, [0, 0, 1, 1]), (28, [0, 1, 2, 0])],
)
def test_winograd_with_a_stride_of_two(size: int, pads: list[int]) -> None:
    n = Network()
    y = n.conv(n.input(2, 144, size, size), 144, 130, strides=[2, 2], pads=pads)
    program = check_alone(n, n.op("Relu", y))
    assert [step.own["tile_points"] for step in program.steps if step.kind == "WINOGRAD"] == [5]


@pytest.mark.parametrize(
    ("channels", "out", "size", "attributes"),
    [
        (15, 32, 30, {}),
        (32, 15, 30, {}),
        (32, 32, 8, {}),
        (32, 32, 30, {"strides": [2, 2]}),
        (144, 130, 28, {"strides": [2, 1]}),
        (144, 130, 28, {"strides": [3, 3]}),
        (32, 32, 30, {"dilations": [2, 2], "pads": [2] * 4}),
        (32, 32, 30, {"group": 2}),
    ],
)
def test_winograd_takes_no_others(
    channels: int, out: int, size: int, attributes: dict[str, object]
) -> None:
    n = Network()
    y = n.conv(n.input(1, channels, size, size), channels, out, **attributes)
    assert kinds_of(check_alone(n, n.op("Relu", y))) == "CONV"


@pytest.mark.parametrize("name", TRANSPOSED)
def test_transposed_convolutions(name: str) -> None:
    n = Network()
    x = n.conv(n.input(2, 16, 4, 5), 16, 32, 1)
    program = check_alone(
        n, n.op("Relu", n.transposed(name, x, 32, 64 if name == "groups" else 48))
    )
    assert kinds_of(program) == "CONV TRANSPOSED"
    assert program.steps[2].activation == 1


@pytest.mark.parametrize("epsilon", [0.0, 0.3])
def test_an_activation_behind_a_norm(epsilon: float) -> None:
    n = Network()
    x = n.op("Transpose", n.conv(n.input(1, 8, 4, 5), 8, 16), perm=[0, 2, 3, 1])
    y = n.op(
        "LeakyRelu",
        n.op("LayerNormalization", x, n.random(16), n.random(16), epsilon=epsilon),
        alpha=0.2,
    )
    program = check_alone(n, n.conv(n.op("Transpose", y, perm=[0, 3, 1, 2]), 16, 16))
    (norm,) = (step for step in program.steps if step.kind == "LAYER_NORM")
    assert norm.activation == 3 and (norm.alpha, norm.own["epsilon"]) == pytest.approx(
        (0.2, epsilon)
    )


POOLS: dict[str, tuple[Form, str]] = {
    "max": (plain("MaxPool", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]), "MAX_POOL"),
    "max_same": (
        plain("MaxPool", kernel_shape=[2, 2], strides=[1, 1], auto_pad="SAME_UPPER"),
        "MAX_POOL",
    ),
    "max_wide": (plain("MaxPool", kernel_shape=[5, 5], pads=[2, 2, 2, 2]), "MAX_POOL"),
    "max_beyond": (plain("MaxPool", kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1), "MAX_POOL"),
    "max_beyond_zeros": (
        plain("MaxPool", kernel_shape=[3, 3], strides=[4, 3], pads=[1, 0, 0, 0], ceil_mode=1),
        "MAX_POOL",
    ),
    "average": (
        plain("AveragePool", kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1]),
        "AVERAGE_POOL",
    ),
    "average_zeros": (
        plain("AveragePool", kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1),
        "AVERAGE_POOL",
    ),
    "global": (plain("GlobalAveragePool"), "GLOBAL_AVERAGE"),
    "mean": (plain("ReduceMean", axes=[2, 3]), "GLOBAL_AVERAGE"),
    "mean_from_the_end": (plain("ReduceMean", axes=[-1, -2], keepdims=1), "GLOBAL_AVERAGE"),
}


@pytest.mark.parametrize("name", POOLS)
def test_pools(name: str) -> None:
    n = Network()
    form, kind = POOLS[name]
    program = check_alone(n, n.op("Relu", form(n, n.conv(n.input(2, 16, 9, 8), 16, 24, 1))))
    assert kinds_of(program) == f"CONV {kind}"
    assert program.steps[2].activation == 1


def test_the_mean_of_opset_18_has_its_axes_as_an_input() -> None:
    n = Network(opset=18)
    x = n.conv(n.input(2, 16, 9, 8), 16, 24, 1)
    program = check_alone(n, n.op("ReduceMean", x, n.const([2, 3], np.int64)))
    assert kinds_of(program) == "CONV GLOBAL_AVERAGE"


NEAREST = [
    ("asymmetric", "floor", 3),
    ("asymmetric", "round_prefer_floor", 2),
    ("half_pixel", "round_prefer_floor", 3),
    ("half_pixel", "round_prefer_ceil", 2),
    ("pytorch_half_pixel", "round_prefer_floor", 4),
    ("tf_half_pixel_for_nn", "floor", 3),
]


@pytest.mark.parametrize("by_sizes", [False, True])
@pytest.mark.parametrize(("mode", "rounding", "factor"), NEAREST)
def test_resize(mode: str, rounding: str, factor: int, by_sizes: bool) -> None:
    n = Network()
    x = n.conv(n.input(2, 16, 5, 4), 16, 24, 1)
    how = {"mode": "nearest", "coordinate_transformation_mode": mode, "nearest_mode": rounding}
    if by_sizes:
        y = n.op("Resize", x, "", "", n.const([2, 24, 5 * factor, 4 * factor], np.int64), **how)
    else:
        y = n.op("Resize", x, n.const([]), n.const([1, 1, factor, factor]), **how)
    assert kinds_of(check_alone(n, y)) == "CONV RESIZE"


def test_upsample() -> None:
    n = Network(opset=9)
    x = n.conv(n.input(1, 16, 5, 4), 16, 24, 1)
    program = check_alone(n, n.op("Upsample", x, n.const([1, 1, 2, 3]), mode="nearest"))
    assert kinds_of(program) == "CONV RESIZE"


def test_sums_are_part_of_the_later_convolution() -> None:
    n = Network()
    x = n.conv(n.input(1, 16, 6, 6), 16, 32, 1)
    a = n.conv(x, 32, 32, 1)
    b = n.conv(x, 32, 32, 1)
    program = check_alone(n, n.op("Relu", n.op("Add", b, a)))
    assert kinds_of(program) == "CONV CONV CONV"
    assert [(s.other >= 0, s.activation) for s in program.steps[1:-1]] == [
        (False, 0),
        (False, 0),
        (True, 1),
    ]


def test_a_convolution_waits_for_what_is_added_to_it() -> None:
    n = Network()
    x = n.conv(n.input(1, 16, 6, 6), 16, 32, 1)
    a = n.conv(x, 32, 32, 1)
    b = n.op("MaxPool", x, kernel_shape=[3, 3], pads=[1] * 4)
    program = check_alone(n, n.op("Add", a, b))
    assert kinds_of(program) == "CONV MAX_POOL CONV"


def test_a_sum_behind_an_activation() -> None:
    n = Network()
    x = n.conv(n.input(1, 16, 6, 6), 16, 32, 1)
    y = n.op("Relu", n.op("Add", x, n.op("Sigmoid", n.conv(x, 32, 32))))
    program = check_alone(n, y)
    assert kinds_of(program) == "CONV CONV ACT"
    assert (program.steps[2].after, program.steps[2].activation) == (1, 4)


def test_a_sum_of_what_others_read_too_stands_alone() -> None:
    n = Network()
    x = n.conv(n.input(1, 16, 6, 6), 16, 32, 1)
    a = n.conv(x, 32, 32, 1)
    b = n.conv(x, 32, 32, 1)
    total = n.op("Add", a, b)
    assert kinds_of(check_alone(n, total, n.op("Mul", a, b))) == "CONV CONV CONV ADD MUL"
    n = Network()
    x = n.conv(n.input(1, 16, 6, 6), 16, 32, 1)
    assert kinds_of(check_alone(n, n.op("Add", x, x))) == "CONV ADD"


def squeeze_excite(n: Network, x: str, *, enlarged: bool = False, is_first: bool = False) -> str:
    s = n.op("Relu", n.conv(n.op("GlobalAveragePool", x), 32, 8, 1))
    s = n.op("HardSigmoid", n.conv(s, 8, 32, 1))
    if enlarged:
        s = n.op("Resize", s, "", n.const([1, 1, 6, 7]), **REPEATED)
    return str(n.op("Mul", *((s, x) if is_first else (x, s))))


@pytest.mark.parametrize("enlarged", [False, True])
@pytest.mark.parametrize("is_first", [False, True])
def test_squeeze_and_excite(enlarged: bool, is_first: bool) -> None:
    n = Network()
    x = n.conv(n.input(2, 16, 6, 7), 16, 32)
    program = check_alone(
        n, n.op("Relu", squeeze_excite(n, x, enlarged=enlarged, is_first=is_first))
    )
    assert kinds_of(program) == "CONV GLOBAL_AVERAGE CONV CONV SCALE"


# of 32 channels with 6×7 pixels
GATES: dict[str, tuple[Callable[[Network, str, str], str], str]] = {
    "by_itself": (lambda n, x, s: n.conv(n.op("Mul", x, s), 32, 8, 1), "CONV"),
    "with_a_sum": (
        lambda n, x, s: n.op("Add", n.conv(n.op("Mul", s, x), 32, 8, 1), n.input(2, 8, 6, 7)),
        "CONV",
    ),
    "spare_channels": (lambda n, x, s: n.op("Relu", n.conv(n.op("Mul", x, s), 32, 9, 1)), "CONV"),
    "more_weights_than_pixels": (
        lambda n, x, s: n.conv(n.op("Mul", x, s), 32, 16, 1),
        "SCALE CONV",
    ),
    "larger_than_1": (
        lambda n, x, s: n.conv(n.op("Mul", x, n.op("Mul", s, n.const(2))), 32, 8, 1),
        "DEPTHWISE SCALE CONV",
    ),
    "behind_a_sum": (
        lambda n, x, s: n.conv(n.op("Mul", x, n.op("Add", s, n.input(2, 32, 1, 1))), 32, 8, 1),
        "SCALE CONV",
    ),
    "activated": (lambda n, x, s: n.conv(n.op("Relu", n.op("Mul", x, s)), 32, 8, 1), "SCALE CONV"),
    "of_several": (
        lambda n, x, s: n.op("Concat", y := n.op("Mul", x, s), n.conv(y, 32, 8, 1), axis=1),
        "SCALE CONV",
    ),
    "a_result": (
        lambda n, x, s: (n.outputs.append(y := n.op("Mul", x, s)), n.conv(y, 32, 8, 1))[1],
        "SCALE CONV",
    ),
    "of_windows": (lambda n, x, s: n.conv(n.op("Mul", x, s), 32, 8), "SCALE CONV"),
    "and_its_addend": (
        lambda n, x, s: n.op(
            "FusedConv",
            y := n.op("Mul", n.conv(x, 32, 8, 1), n.op("HardSigmoid", n.conv(s, 32, 8, 1))),
            *(n.random(8, 8, 1, 1), n.random(8), y),
            domain=MICROSOFT,
            activation="Relu",
        ),
        "CONV CONV SCALE CONV",
    ),
    "with_a_stride": (
        lambda n, x, s: n.conv(n.op("Mul", x, s), 32, 8, 1, strides=[2, 2]),
        "SCALE MAX_POOL CONV",
    ),
}


@pytest.mark.parametrize("name", GATES)
def test_a_convolution_of_pixels_multiplies_its_weights_by_a_gate(name: str) -> None:
    n = Network()
    x = n.conv(n.input(2, 16, 6, 7), 16, 32)
    s = n.op("HardSigmoid", n.conv(n.op("GlobalAveragePool", x), 32, 32, 1))
    form, kinds = GATES[name]
    program = check_alone(n, form(n, x, s), *n.outputs)
    assert kinds_of(program) == f"CONV GLOBAL_AVERAGE CONV {kinds}"


def test_gates_of_images_whose_sizes_are_known_when_they_are_there() -> None:
    n = Network()
    x = n.conv(n.conv(n.input("N", 3, "H", "W"), 3, 16, strides=[2, 2]), 16, 32, strides=[2, 2])
    s = n.op("Sigmoid", n.conv(n.op("GlobalAveragePool", x), 32, 32, 1))
    program = check_alone(n, n.conv(n.op("Mul", x, s), 32, 24, 1), sizes={"N": 2, "H": 9, "W": 12})
    assert kinds_of(program) == "FIRST CONV GLOBAL_AVERAGE CONV CONV"


def batch_normalized(
    n: Network, x: str, *, channels: int = 24, outputs: int = 1, **attributes: Any
) -> str:
    statistics = [
        n.const(np.linspace(first, first + 1, channels, dtype=np.float32))
        for first in (0.5, -1, -0.3, 0.2)
    ]
    made = n.op("BatchNormalization", x, *statistics, outputs=outputs, **attributes)
    return made if outputs == 1 else made[0]


@pytest.mark.parametrize("attributes", [{}, {"epsilon": 0.3}, {"momentum": 0.5}], ids=str)
def test_a_batch_norm_multiplies_each_channel_and_adds(attributes: dict[str, float]) -> None:
    n = Network()
    x = n.op("Gelu", n.conv(n.input(2, 16, 5, 6), 16, 24), domain=MICROSOFT)
    program = check_alone(n, n.conv(n.op("Relu", batch_normalized(n, x, **attributes)), 24, 16))
    assert kinds_of(program) == "CONV DEPTHWISE CONV"


def test_two_batch_norms_and_what_is_added_are_steps_of_their_own() -> None:
    n = Network()
    x = batch_normalized(
        n, batch_normalized(n, n.op("Tanh", n.conv(n.input(2, 16, 5, 6), 16, 24))), epsilon=0.1
    )
    program = check_alone(n, n.op("Mul", n.op("Add", x, n.const(0.5)), n.const(3)))
    assert kinds_of(program) == "CONV DEPTHWISE DEPTHWISE DEPTHWISE DEPTHWISE"


@pytest.mark.parametrize("what", ["training", "infinite"])
def test_a_batch_norm_that_stays_outside(what: str) -> None:
    n = Network()
    x = n.op("Tanh", n.conv(n.input(2, 16, 5, 6), 16, 24))
    if what == "training":
        y = batch_normalized(n, x, outputs=3, training_mode=1)
    else:
        y = n.op(
            "BatchNormalization", x, *(n.const(np.full(24, v, np.float32)) for v in (1, 0, 0, -1))
        )
    found = operators_in(n, n.conv(y, 24, 16))
    assert found and not any("BatchNormalization" in operators for operators in found)


def depthwise(n: Network, x: str, channels: int = 32, **attributes: Any) -> str:
    return n.conv(x, channels, channels, group=channels, **attributes)


# what follows an image of 32 channels
CHAINS: dict[str, tuple[Callable[[Network, str], str], list[int]]] = {
    "by_channel": (lambda n, x: n.op("Relu", depthwise(n, n.conv(x, 32, 48, 1), 48)), [1, 0]),
    "of_windows": (
        lambda n, x: depthwise(n, n.op("Relu", n.conv(x, 32, 32, strides=[2, 2])), strides=[2, 2]),
        [1, 0],
    ),
    "twice": (lambda n, x: depthwise(n, depthwise(n, n.conv(x, 32, 32, 1)), kernel=5), [2, 0, 0]),
    "largest": (lambda n, x: n.op("MaxPool", n.conv(x, 32, 32), kernel_shape=[3, 3]), [1, 0]),
    "average": (lambda n, x: n.op("AveragePool", n.conv(x, 32, 32), kernel_shape=[3, 3]), [1, 0]),
    "squeezed": (
        lambda n, x: n.op(
            "Mul", y := depthwise(n, n.conv(x, 32, 32, 1)), n.op("GlobalAveragePool", y)
        ),
        [2, 0, 0, 0],
    ),
    "both_of_the_first": (
        lambda n, x: n.op(
            "Concat", depthwise(n, y := n.conv(x, 32, 32, 1)), depthwise(n, y), axis=1
        ),
        [2, 0, 0],
    ),
    "with_a_sum_in_front": (
        lambda n, x: depthwise(n, n.op("Add", n.conv(x, 32, 32, 1), n.input(2, 32, 6, 7))),
        [1, 0],
    ),
    "with_a_sum_behind": (
        lambda n, x: n.op("Add", depthwise(n, n.conv(x, 32, 32, 1)), n.input(2, 32, 6, 7)),
        [0, 0],
    ),
    "of_groups": (lambda n, x: depthwise(n, n.conv(x, 32, 32, 1, group=2)), [0, 0]),
    "of_another_image": (
        lambda n, x: n.op("Concat", n.conv(x, 32, 32, 1), depthwise(n, x), axis=1),
        [0, 0],
    ),
    "of_some_channels": (
        lambda n, x: depthwise(
            n,
            n.op("Split", n.conv(x, 32, 64, 1), n.const([32, 32], np.int64), axis=1, outputs=2)[1],
        ),
        [0, 0],
    ),
    "of_all_channels": (lambda n, x: n.conv(n.conv(x, 32, 32, 1), 32, 32, 1), [0, 0]),
    "a_result": (
        lambda n, x: (n.outputs.append(y := n.conv(x, 32, 32, 1)), depthwise(n, y))[1],
        [0, 0],
    ),
}


@pytest.mark.parametrize("name", CHAINS)
def test_chains(name: str) -> None:
    n = Network()
    form, chained = CHAINS[name]
    program = check_alone(n, form(n, n.input(2, 32, 6, 7)), *n.outputs, kind=KernelKind.BLOCKED)
    assert [step.chained for step in program.steps if step.kind not in ("LOAD", "STORE")] == chained


def test_more_results_than_images() -> None:
    n = Network()
    a = n.conv(n.input(1, 16, 5, 6), 16, 16)
    b = n.op("Relu", a)
    assert not any(
        step.chained for step in check_alone(n, a, b, n.op("Tanh", b), n.op("Sigmoid", a)).steps
    )


def test_nothing_is_chained_to_winograd() -> None:
    n = Network()
    program = check_alone(
        n, depthwise(n, n.conv(n.input(1, 64, 56, 56), 64, 64), 64), kind=KernelKind.WINOGRAD
    )
    assert kinds_of(program) == "WINOGRAD DEPTHWISE" and not any(
        step.chained for step in program.steps
    )


def test_an_enlarged_pixel_that_others_need_is_there() -> None:
    n = Network()
    x = n.conv(n.input(2, 16, 6, 7), 16, 32)
    pixel = n.op("GlobalAveragePool", x)
    large = n.op("Resize", pixel, "", n.const([1, 1, 6, 7]), **REPEATED)
    program = check_alone(n, n.op("Mul", x, large), n.op("Add", x, large))
    assert kinds_of(program) == "CONV GLOBAL_AVERAGE RESIZE SCALE ADD"


def test_an_enlarged_pixel_times_itself() -> None:
    n = Network()
    pixel = n.op("GlobalAveragePool", n.conv(n.input(2, 16, 6, 7), 16, 32))
    large = n.op("Resize", pixel, "", n.const([1, 1, 2, 3]), **REPEATED)
    assert kinds_of(check_alone(n, n.op("Mul", large, large))) == "CONV GLOBAL_AVERAGE RESIZE MUL"


LINES: dict[str, Form] = {
    "add": lambda n, x: n.op("Add", x, n.const(1.5)),
    "add_first": lambda n, x: n.op("Add", n.const([0.5]), x),
    "mul": lambda n, x: n.op("Mul", x, n.const([[[[0.3]]]])),
    "sub": lambda n, x: n.op("Sub", x, n.const(0.25)),
    "sub_from": lambda n, x: n.op("Sub", n.const(0.25), x),
    "mul_add": lambda n, x: n.op("Add", n.op("Mul", x, n.const(0.3)), n.const(0.2)),
    "add_add": lambda n, x: n.op("Add", n.op("Add", x, n.const(0.3)), n.const(0.2)),
}


@pytest.mark.parametrize("name", LINES)
def test_numbers_are_added_and_multiplied_for_each_channel(name: str) -> None:
    n = Network()
    x = n.op("Sigmoid", n.conv(n.input(1, 16, 5, 5), 16, 24))
    program = check_alone(n, n.op("Tanh", LINES[name](n, x)))
    assert kinds_of(program) == "CONV DEPTHWISE"
    assert program.steps[2].activation == 9


def test_a_sum_and_then_a_factor_are_two_steps() -> None:
    n = Network()
    x = n.conv(n.input(1, 16, 5, 5), 16, 24)
    y = n.op("Mul", n.op("Add", x, n.const(0.3)), n.const(0.2))
    assert kinds_of(check_alone(n, y)) == "CONV DEPTHWISE DEPTHWISE"


def test_parts_of_a_concat_are_made_where_they_belong() -> None:
    n = Network()
    x = n.conv(n.input(2, 16, 6, 6), 16, 32)
    a = n.conv(x, 32, 16)
    b = n.op("Relu", n.conv(x, 32, 48))
    program = check_alone(n, n.conv(n.op("Concat", a, b, axis=1), 64, 16))
    assert kinds_of(program) == "CONV CONV CONV CONV"


def test_the_last_part_of_a_concat_may_be_a_part_of_a_block() -> None:
    n = Network()
    x = n.conv(n.input(2, 16, 6, 6), 16, 32)
    program = check_alone(n, n.conv(n.op("Concat", x, n.conv(x, 32, 7), axis=-3), 39, 16))
    assert kinds_of(program) == "CONV CONV CONV"


def test_what_is_in_two_concats_is_copied_once() -> None:
    n = Network()
    x = n.conv(n.input(2, 16, 6, 6), 16, 32)
    y = n.conv(x, 32, 16)
    first = n.op("Concat", x, y, axis=1)
    second = n.op("Concat", y, x, y, axis=1)
    program = check_alone(n, n.conv(first, 48, 16), n.conv(second, 64, 16))
    assert kinds_of(program).split().count("COPY") == 3


def test_concats_of_concats_lie_in_one_memory() -> None:
    n = Network()
    x = n.conv(n.input(2, 16, 6, 6), 16, 32)
    for k in range(3):
        x = n.op("Concat", x, n.conv(n.op("Relu", x), 32 + 16 * k, 16), axis=1)
    program = check_alone(n, n.conv(x, 80, 16))
    assert "COPY" not in program.kinds


def split_of(n: Network, x: str, form: str) -> list[str]:
    if form == "sizes":
        return list(n.op("Split", x, n.const([16, 32], np.int64), axis=1, outputs=2))
    if form == "slices":
        parts = [(0, 16), (16, 48)]
        return [
            n.op("Slice", x, *(n.const([v], np.int64) for v in (*ends, 1, 1))) for ends in parts
        ]
    ends = [n.const([v], np.int64) for v in (-32, 2**62, -3)]
    return [
        n.op("Slice", x, *(n.const([v], np.int64) for v in (0, 16, 1))),
        n.op("Slice", x, *ends),
    ]


@pytest.mark.parametrize("form", ["sizes", "slices", "negative"])
def test_parts_of_an_image_are_read_where_they_lie(form: str) -> None:
    n = Network()
    a, b = split_of(n, n.conv(n.input(2, 16, 6, 6), 16, 48), form)
    program = check_alone(n, n.conv(a, 16, 16), n.conv(b, 32, 16))
    assert kinds_of(program) == "CONV CONV CONV"


def test_parts_of_a_split_in_a_concat_are_copied() -> None:
    n = Network()
    a, b = n.op("Split", n.conv(n.input(2, 16, 6, 6), 16, 32), axis=1, outputs=2)
    c = n.op("Add", b, n.conv(b, 16, 16))
    program = check_alone(n, n.conv(n.op("Concat", a, b, c, axis=1), 48, 16))
    assert kinds_of(program).split().count("COPY") == 2


def test_results_in_the_middle_are_stored_before_they_are_overwritten() -> None:
    n = Network()
    x = n.conv(n.input(1, 16, 6, 6), 16, 32)
    y = n.op("Relu", x)
    z = n.op("Add", y, n.conv(x, 32, 32, 1))
    program = check_alone(n, x, y, z)
    assert sum(step.kind == "STORE" for step in program.steps) == 3


def test_an_image_is_loaded_once_for_each_layout() -> None:
    n = Network()
    x = n.input(1, 3, 8, 8)
    a = n.conv(x, 3, 16, 3)
    b = n.conv(x, 3, 16, 1)
    c = n.conv(n.op("MaxPool", x, kernel_shape=[3, 3], pads=[1] * 4), 3, 16, 1)
    program = check_alone(n, n.op("Add", n.op("Add", a, b), c))
    assert program.kinds.count("LOAD") == 2
    assert program.kinds.count("FIRST") == 2


def test_inputs_may_be_parts_of_a_concat_and_operands() -> None:
    n = Network()
    x = n.input(1, 16, 8, 8)
    y = n.input(1, 16, 8, 8)
    joined = n.op("Concat", x, y, axis=1)
    z = n.conv(joined, 32, 16)
    check_alone(n, n.op("Mul", n.op("Add", z, x), y))


@pytest.mark.parametrize("size", [(1, 7, 9), (2, 16, 11), (3, 1, 1)])
def test_sizes_that_are_known_when_it_runs(size: tuple[int, int, int]) -> None:
    n = Network()
    x = n.conv(n.input("N", 3, "H", "W"), 3, 16, strides=[2, 2])
    y = n.op("Relu", n.op("Add", x, n.conv(n.op("Relu", n.conv(x, 16, 24)), 24, 16, 1)))
    z = n.conv(y, 16, 16, strides=[2, 2])
    z = n.op("Mul", z, n.op("Sigmoid", n.conv(n.op("GlobalAveragePool", z), 16, 16, 1)))
    small = n.conv(y, 16, 16, 5, strides=[2, 2])
    program = check_alone(n, n.op("Add", z, small), sizes=dict(zip("NHW", size, strict=True)))
    assert kinds_of(program).split().count("ADD") == 0


def test_images_share_memory_one_after_the_other() -> None:
    n = Network()
    x = n.conv(n.input(1, 16, 9, 9), 16, 16)
    for _ in range(6):
        x = n.op("Relu", n.conv(x, 16, 16))
    assert check_alone(n, x).slots == 2


def test_a_residual_sum_is_written_where_its_operand_was() -> None:
    n = Network()
    x = n.conv(n.input(1, 16, 9, 9), 16, 16)
    for _ in range(3):
        x = n.op("Add", x, n.conv(n.conv(x, 16, 16), 16, 16))
    assert check_alone(n, x).slots == 2


def turned(n: Network, x: str, *, is_back: bool = False) -> str:
    return str(n.op("Transpose", x, perm=[0, 3, 1, 2] if is_back else [0, 2, 3, 1]))


def normalized(n: Network, x: str, channels: int, **attributes: Any) -> str:
    return str(n.op("LayerNormalization", x, n.random(channels), n.random(channels), **attributes))


@pytest.mark.parametrize("channels", [24, 32, 6])
@pytest.mark.parametrize("batch", [1, 2])
def test_a_block_of_convnext(channels: int, batch: int) -> None:
    n = Network()
    x = n.conv(n.input(batch, 8, 9, 7), 8, channels, 1)
    y = normalized(
        n,
        turned(n, n.conv(x, channels, channels, 7, group=channels)),
        channels,
        axis=-1,
        epsilon=1e-3,
    )
    y = n.product(n.op("Gelu", n.product(y, channels, 40), domain=MICROSOFT), 40, channels)
    program = check_alone(n, n.op("Add", turned(n, y, is_back=True), x))
    assert kinds_of(program) == "CONV DEPTHWISE LAYER_NORM PRODUCT PRODUCT"


def test_images_that_come_and_go_with_their_channels_last() -> None:
    n = Network()
    x = normalized(n, n.input(2, 5, 6, 20), 20, axis=3)
    y = n.conv(turned(n, x, is_back=True), 20, 16, 1)
    assert kinds_of(check_alone(n, turned(n, n.op("Relu", y)), x)) == "LAYER_NORM CONV"


LAST = {
    "over rows": lambda n, x: normalized(n, turned(n, x), 16, axis=2),
    "of other axes": lambda n, x: n.op("Transpose", x, perm=[0, 3, 2, 1]),
    "its mean": lambda n, x: n.op("LayerNormalization", turned(n, x), n.random(16), outputs=2)[1],
    "a pool of them": lambda n, x: n.op("GlobalAveragePool", turned(n, x)),
    "twice": lambda n, x: turned(n, turned(n, x)),
    "with what has its channels elsewhere": lambda n, x: normalized(
        n, n.op("Add", turned(n, x), x), 16
    ),
    "joined with such": lambda n, x: normalized(n, n.op("Concat", x, turned(n, x), axis=1), 16),
}


@pytest.mark.parametrize("what", LAST)
def test_what_is_not_of_the_last_axis_stays_outside(what: str) -> None:
    n = Network()
    x = n.conv(n.input(1, 16, 16, 16), 16, 16, 1)  # axes can be told apart by their places alone
    found = only_area(n.model(n.conv(n.op("Relu", x), 16, 16, 1), LAST[what](n, x)))
    kinds = {node.op_type for node in found.area.nodes}
    assert (
        "LayerNormalization" not in kinds and "GlobalAveragePool" not in kinds and "Conv" in kinds
    )


def test_an_operand_that_is_read_has_its_channels_where_the_other_one_has_them() -> None:
    n = Network()
    x = n.conv(n.input(1, 16, 16, 16), 16, 16, 1)
    other = n.input(1, 16, 16, 16)
    y = normalized(n, n.op("Add", other, turned(n, x)), 16)
    assert kinds_of(check_alone(n, turned(n, y, is_back=True))) == "CONV LAYER_NORM"


def test_digits_that_are_cut_off_stay_cut_off() -> None:
    n = Network()
    x = n.op("Sigmoid", n.conv(n.input(1, 16, 5, 5), 16, 24))
    y = n.op("Tanh", n.op("Sub", n.op("Add", x, n.const(12582912.0)), n.const(12582912.0)))
    assert kinds_of(program_of_area(only_area(n.model(y)).area)) == "CONV DEPTHWISE DEPTHWISE"


@pytest.mark.parametrize(
    ("attributes", "is_step"),
    [
        ({"alpha": 0.5}, True),
        ({"alpha": float("inf")}, False),
        ({"alpha": 0.2, "beta": float("nan")}, False),
    ],
)
def test_activations_of_what_is_no_number_are_no_steps(
    attributes: dict[str, float], is_step: bool
) -> None:
    n = Network()
    y = n.op("HardSigmoid", n.conv(n.input(1, 16, 5, 5), 16, 17), **attributes)
    assert any("HardSigmoid" in area for area in operators_in(n, n.conv(y, 17, 16, 1))) == is_step
