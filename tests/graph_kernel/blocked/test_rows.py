"""Products of rows with matrices, and what stands around them: steps, clusters, kernels."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from interpreter import CProgram
from kernels_run import run_kernel
from networks import (
    MICROSOFT,
    Network,
    areas_of,
    check_all,
    check_alone,
    difference,
    kinds_of,
    only_area,
    operators_in,
    sliced,
    values_of,
    wanted,
)
from random_rows import RandomRows
from standalone_programs import Standalone, widths

from fusionc.graph_kernel.blocked.time_saved import saved_by_program
from fusionc.graph_kernel.library.build_library import build

Form = Callable[[Network, str], str]  # what follows 40 channels of rows that a product has made


def gemm(n: Network, x: str, *bias: str, out: int = 24, **attributes: object) -> str:
    shape = (out, 40) if attributes.get("transB") else (40, out)
    op, domain = ("FusedGemm", MICROSOFT) if "activation" in attributes else ("Gemm", "")
    return str(
        n.op(op, x, n.const(n.rng.standard_normal(shape)), *bias, domain=domain, **attributes)
    )


def norm(n: Network, x: str, *bias: str, **attributes: object) -> str:
    return str(n.op("LayerNormalization", x, n.random(40), *bias, **attributes))


def rms_norm(n: Network, x: str, *scale: str, epsilon: float = 1e-3, axis: int = -1) -> str:
    """Written out as onnxruntime recognizes it."""
    made = n.op("Div", x, n.op("Sqrt", n.op("Add", n.mean_of_squares(x, axis), n.const(epsilon))))
    return str(n.op("Mul", made, *scale) if scale else made)


def with_its_root(n: Network, x: str) -> str:
    """A norm whose divisor somebody else reads, too."""
    root = n.op("Sqrt", n.op("Add", n.mean_of_squares(x), n.const(0.1)))
    return str(n.op("Concat", n.op("Div", x, root), n.op("Neg", root), axis=-1))


FORMS: dict[str, tuple[int, Form, str]] = {  # axes, form, steps behind the first product
    "bias": (3, lambda n, x: n.op("Add", x, n.random(40)), ""),
    "bias_first": (2, lambda n, x: n.op("Add", n.random(40), x), ""),
    "bias_of_sum": (2, lambda n, x: n.op("Sum", x, n.random(40)), ""),
    "two_biases": (
        3,
        lambda n, x: n.op("Add", n.op("Add", x, n.random(40)), n.random(40)),
        "DEPTHWISE",
    ),
    "activation_and_bias": (
        3,
        lambda n, x: n.op("Add", n.op("Relu", x), n.random(40)),
        "DEPTHWISE",
    ),
    "gelu": (3, lambda n, x: n.op("Gelu", x, domain=MICROSOFT), ""),
    "bias_gelu": (3, lambda n, x: n.op("BiasGelu", x, n.random(40), domain=MICROSOFT), ""),
    "fast_gelu": (2, lambda n, x: n.op("FastGelu", x, domain=MICROSOFT), ""),
    "fast_gelu_with_bias": (
        3,
        lambda n, x: n.op("FastGelu", x, n.random(40), domain=MICROSOFT),
        "",
    ),
    "silu": (3, lambda n, x: n.op("Mul", x, n.op("Sigmoid", x)), ""),
    "factors": (3, lambda n, x: n.op("Mul", x, n.random(40)), "DEPTHWISE"),
    "factors_first": (4, lambda n, x: n.op("Mul", n.random(40), x), "DEPTHWISE"),
    "four_axes": (
        4,
        lambda n, x: n.op("Add", n.product(n.op("Relu", x), 40, 40), x),
        "ACT PRODUCT",
    ),
    "split_of_four_axes": (
        4,
        lambda n, x: n.op("Split", x, n.const([16, 24], np.int64), axis=3, outputs=2)[1],
        "",
    ),
    "number": (3, lambda n, x: n.op("Mul", x, n.const(0.3)), "DEPTHWISE"),
    "number_and_bias": (
        3,
        lambda n, x: n.op("Add", n.op("Mul", x, n.const(0.3)), n.random(40)),
        "DEPTHWISE DEPTHWISE",
    ),
    "residual": (3, lambda n, x: n.op("Add", n.product(x, 40, 40), x), "PRODUCT"),
    "gate": (2, lambda n, x: n.op("Mul", n.product(x, 40, 40), n.op("Tanh", x)), "PRODUCT ACT MUL"),
    "split": (
        3,
        lambda n, x: n.op("Split", x, n.const([16, 24], np.int64), axis=-1, outputs=2)[1],
        "",
    ),
    "slice": (3, lambda n, x: sliced(n, x, 16, 40, 2), ""),
    "slice_and_concat": (
        2,
        lambda n, x: n.op("Concat", sliced(n, x, 0, 32, -1), x, axis=1),
        "COPY",
    ),
    "product": (3, lambda n, x: n.product(x, 40, 7), "PRODUCT"),
    "gemm": (2, lambda n, x: gemm(n, x), "PRODUCT"),
    "gemm_bias": (2, lambda n, x: gemm(n, x, n.random(24)), "PRODUCT"),
    "gemm_row": (2, lambda n, x: gemm(n, x, n.random(1, 24)), "PRODUCT"),
    "gemm_relu": (2, lambda n, x: gemm(n, x, n.random(24), activation="Relu", transB=1), "CONV"),
    "gemm_leaky": (
        2,
        lambda n, x: gemm(n, x, activation="LeakyRelu", activation_alpha=0.2),
        "PRODUCT",
    ),
    "gemm_sigmoid_and_sum": (
        2,
        lambda n, x: n.op("Add", gemm(n, x, out=40, activation="Sigmoid"), x),
        "PRODUCT",
    ),
    "gemm_hard_sigmoid": (
        2,
        lambda n, x: gemm(
            n, x, activation="HardSigmoid", activation_alpha=0.3, activation_beta=0.4
        ),
        "PRODUCT",
    ),
    "norm": (3, lambda n, x: norm(n, x, n.random(40)), "LAYER_NORM"),
    "norm_without_bias": (2, lambda n, x: norm(n, x, axis=1, epsilon=0.1), "LAYER_NORM"),
    "norm_of_four_axes": (4, lambda n, x: norm(n, x, axis=3), "LAYER_NORM"),
    "norm_and_activation": (
        3,
        lambda n, x: n.op("Gelu", norm(n, x), domain=MICROSOFT),
        "LAYER_NORM",
    ),
    "norm_of_sum": (
        3,
        lambda n, x: n.product(norm(n, n.op("Add", n.product(n.op("Relu", x), 40, 40), x)), 40, 24),
        "ACT PRODUCT LAYER_NORM PRODUCT",
    ),
    "rms_norm": (3, lambda n, x: rms_norm(n, x, n.random(40)), "RMS_NORM"),
    "rms_norm_without_factors": (2, lambda n, x: rms_norm(n, x, axis=1), "RMS_NORM"),
    "rms_norm_of_four_axes": (4, lambda n, x: rms_norm(n, x, n.random(40), axis=3), "RMS_NORM"),
    "rms_norm_and_activation": (
        3,
        lambda n, x: n.op("Relu", rms_norm(n, x, n.random(40))),
        "RMS_NORM",
    ),
    "rms_norm_with_two_factors": (
        3,
        lambda n, x: n.op("Mul", rms_norm(n, x, n.random(40)), n.random(40)),
        "RMS_NORM DEPTHWISE",
    ),
    "rms_norm_that_is_needed_without_factors": (
        2,
        lambda n, x: n.op("Add", y := rms_norm(n, x), n.op("Mul", y, n.random(40))),
        "RMS_NORM DEPTHWISE",
    ),
    "rms_norm_of_a_sum_that_is_needed_again": (
        3,
        lambda n, x: n.op(
            "Add",
            y := n.op("Add", n.product(n.op("Relu", x), 40, 40), x),
            n.product(rms_norm(n, y, n.random(40)), 40, 40),
        ),
        "ACT PRODUCT RMS_NORM PRODUCT",
    ),
    "norm_of_what_is_needed_again": (
        2,
        lambda n, x: n.op("Add", x, n.product(norm(n, x), 40, 40)),
        "LAYER_NORM PRODUCT",
    ),
    "gemm_transposed": (2, lambda n, x: gemm(n, x, n.random(24), transB=1), "CONV"),
}


def behind_product(rank: int, form: Form) -> tuple[Network, str]:
    n = Network()
    x = n.product(
        n.input(*{2: ("M",), 3: ("N", "M"), 4: ("N", "H", "M")}[rank], 33), 33, 40, bias=False
    )
    return n, form(n, x)


@pytest.mark.parametrize("sizes", [{"N": 1, "M": 1}, {"N": 3, "M": 5}, {"N": 2, "M": 0}], ids=str)
@pytest.mark.parametrize("name", FORMS)
def test_forms(name: str, sizes: dict[str, int]) -> None:
    rank, form, steps = FORMS[name]
    n, y = behind_product(rank, form)
    program: CProgram = check_alone(n, y, sizes=sizes | {"H": 2})
    assert kinds_of(program) == f"PRODUCT {steps}".strip()


@pytest.mark.parametrize("attributes", [{}, {"epsilon": 0.1}, {"axis": 1}], ids=str)
def test_root_mean_square_norms_of_the_standard(attributes: dict[str, float]) -> None:
    n = Network(opset=23)
    x = n.product(n.input("M", 33), 33, 40, bias=False)
    program: CProgram = check_alone(
        n, n.op("RMSNormalization", x, n.random(40), **attributes), sizes={"M": 5}
    )
    assert kinds_of(program) == "PRODUCT RMS_NORM"


STRANGE: dict[str, tuple[int, Form]] = {
    "weights that are computed": (3, lambda n, x: n.op("MatMul", x, n.op("Neg", n.random(40, 24)))),
    "a product of rows": (
        2,
        lambda n, x: n.op("MatMul", n.random(5, 7), n.op("MatMul", n.random(7, 3), x)),
    ),
    "many matrices": (3, lambda n, x: n.op("MatMul", x, n.random(2, 40, 24))),
    "a vector": (3, lambda n, x: n.op("MatMul", x, n.random(40))),
    "alpha": (2, lambda n, x: gemm(n, x, alpha=2.0)),
    "beta": (2, lambda n, x: gemm(n, x, n.random(24), beta=2.0)),
    "an activation that no step has": (
        2,
        lambda n, x: gemm(n, x, activation="Elu", activation_alpha=1.0),
    ),
    "an activation without its parameter": (2, lambda n, x: gemm(n, x, activation="LeakyRelu")),
    "rows that are columns": (
        2,
        lambda n, x: gemm(n, n.op("Neg", n.op("Transpose", x, perm=[1, 0])), transA=1),
    ),
    "a column as a bias": (2, lambda n, x: gemm(n, x, n.random(1))),
    "a bias that is computed": (3, lambda n, x: n.op("Add", x, n.op("Neg", n.random(40)))),
    "a row for each matrix": (3, lambda n, x: n.op("Add", x, n.random(1, 1, 40))),
    "a difference of rows": (3, lambda n, x: n.op("Sub", x, n.op("Neg", x))),
    "a bias that is subtracted": (3, lambda n, x: n.op("Sub", x, n.random(40))),
    "one row of several": (3, lambda n, x: n.op("Mul", x, n.op("ReduceMean", x, axes=[1]))),
    "a Split within a block": (
        3,
        lambda n, x: n.op("Split", x, n.const([8, 32], np.int64), axis=2, outputs=2)[1],
    ),
    "a Split of rows": (
        2,
        lambda n, x: n.op("Split", x, n.const([1, 1], np.int64), axis=0, outputs=2)[1],
    ),
    "a norm of all rows": (3, lambda n, x: n.op("LayerNormalization", x, n.random(5, 40), axis=1)),
    "the mean of a norm": (
        3,
        lambda n, x: n.op("LayerNormalization", x, n.random(40), outputs=2)[1],
    ),
    "a norm whose factors are computed": (
        3,
        lambda n, x: n.op("LayerNormalization", x, n.op("Neg", n.random(40))),
    ),
    "a norm with one factor": (3, lambda n, x: n.op("LayerNormalization", x, n.random(1))),
    "a third power": (3, lambda n, x: n.op("Pow", x, n.const(3.0))),
    "squares": (3, lambda n, x: n.op("Pow", x, n.const(2.0))),
    "a root": (2, lambda n, x: n.op("Sqrt", x)),
    "a quotient": (3, lambda n, x: n.op("Div", x, n.op("Neg", x))),
    "a mean of channels": (3, lambda n, x: n.op("ReduceMean", x, axes=[-1])),
    "a mean of squares": (3, lambda n, x: n.mean_of_squares(x)),
    "a root mean square norm over rows": (3, lambda n, x: rms_norm(n, x, axis=1)),
    "a norm of other rows": (
        3,
        lambda n, x: n.op(
            "Div", n.op("Neg", x), n.op("Sqrt", n.op("Add", n.mean_of_squares(x), n.const(0.1)))
        ),
    ),
    "a root of a mean that is needed again": (2, lambda n, x: with_its_root(n, x)),
    "an epsilon that adds axes": (
        3,
        lambda n, x: n.op("Add", n.mean_of_squares(x), n.const([[[[0.1]]]])),
    ),
    "a number that adds axes": (3, lambda n, x: n.op("Mul", x, n.const([[[[0.1]]]]))),
    "an epsilon for each row": (
        2,
        lambda n, x: n.op(
            "Div", x, n.op("Sqrt", n.op("Add", n.mean_of_squares(x), n.op("Neg", n.random(1, 1))))
        ),
    ),
    "a Concat of rows": (3, lambda n, x: n.op("Concat", x, x, axis=1)),
    "a Concat within a block": (3, lambda n, x: n.op("Concat", x, x, axis=2)),
    "a Slice of rows": (3, lambda n, x: sliced(n, x, 0, 16, 1)),
    "a convolution": (
        3,
        lambda n, x: n.op("Conv", n.op("Transpose", x, perm=[0, 2, 1]), n.random(8, 40, 1)),
    ),
    "a pool": (3, lambda n, x: n.op("MaxPool", x, kernel_shape=[2])),
    "an image": (3, lambda n, x: n.op("Add", x, n.op("Unsqueeze", x, n.const([0], np.int64)))),
    "other rows": (3, lambda n, x: n.op("Add", x, sliced(n, x, 0, 1))),
}


@pytest.mark.parametrize("what", STRANGE)
def test_what_no_step_computes_stays_outside(what: str) -> None:
    rank, form = STRANGE[what]
    n, y = behind_product(rank, form)
    assert operators_in(n, y) == [["MatMul"]]


@pytest.mark.parametrize("op", ["Add", "Mul", "Sum"])
def test_a_computed_number_for_one_channel_stays_outside(op: str) -> None:
    n = Network()
    x = n.product(n.input("M", 33), 33, 1, bias=False)
    assert operators_in(n, n.op(op, x, n.input(1))) == [["MatMul"]]


def test_an_area_is_of_images_or_of_rows() -> None:
    n = Network()
    x = n.op("Relu", n.conv(n.input(1, 16, 6, 16), 16, 16))
    y = n.product(n.op("Add", x, n.op("Sigmoid", x)), 16, 16)
    areas = operators_in(n, y)
    assert areas == [["Conv", "Relu", "Sigmoid", "Add"]]


def test_activations_alone_are_no_cluster() -> None:
    n = Network()
    assert areas_of(n.model(n.op("Relu", n.op("Sigmoid", n.input(1, 2, 16))))) == []


@pytest.mark.parametrize(
    ("rows", "channels", "pays"),
    [
        (1, 1024, False),
        (2, 1024, True),
        (8, 1024, True),
        ("M", 1024, True),
        (64, 1024, True),
        (64, 768, False),
        (2000, 64, False),
        (1, 64, False),
    ],
)
def test_what_pays(rows: int | str, channels: int, pays: bool) -> None:
    n = Network()
    found = only_area(n.model(n.product(n.input(1, rows, channels), channels, channels)))
    assert (saved_by_program(found.area) > 0) == pays


@pytest.mark.parametrize(
    ("rows", "pays"),
    [(2, False), (128, False), (160, True), ("M", False)],
    ids=lambda value: str(value),
)
def test_few_rows_do_not_read_copies_of_weights_that_are_shared(
    rows: int | str, pays: bool
) -> None:
    n = Network()
    x = n.input(1, rows, 64)
    weights = n.random(64, 64)
    last = n.op("Relu", n.op("MatMul", n.op("Tanh", n.op("MatMul", x, weights)), weights))
    assert bool(areas_of(n.model(last))) == pays


def test_a_copy_may_cost_more_than_a_small_product_saves() -> None:
    n = Network()
    found = only_area(n.model(n.product(n.input(1, 64, 1024), 1024, 16)))
    assert saved_by_program(found.area) <= 0


@pytest.mark.parametrize("activation", ["Relu", "Gelu"])
def test_what_stands_behind_many_rows_may_pay(activation: str) -> None:
    n = Network()
    domain = "" if activation == "Relu" else MICROSOFT
    y = n.op(activation, n.product(n.input(1, 64, 192), 192, 192), domain=domain)
    assert (saved_by_program(only_area(n.model(y)).area) > 0) == (activation == "Gelu")


def test_what_stands_between_products_of_many_rows_pays() -> None:
    """What is saved is little beside the products, which lose nothing."""
    n = Network()
    x = n.input(1, 128, 512)
    y = n.op("Add", n.product(x, 512, 512, bias=False), x)
    z = n.product(rms_norm(n, y, n.random(512)), 512, 512, bias=False)
    found = only_area(n.model(n.product(n.op("Mul", z, n.op("Sigmoid", z)), 512, 512, bias=False)))
    assert saved_by_program(found.area) > 0
    n = Network()
    x = n.product(n.input(1, 128, 512), 512, 512, bias=False)
    assert saved_by_program(only_area(n.model(n.product(x, 512, 512, bias=False))).area) <= 0


def test_what_stands_in_front_of_products_stays_outside() -> None:
    n = Network()
    x = n.op("LayerNormalization", n.op("Relu", n.input(1, 8, 64)), n.random(64))
    y = n.product(n.op("Mul", x, n.random(64)), 64, 64)
    found = only_area(n.model(n.op("Relu", y)))
    assert [node.op_type for node in found.area.nodes] == ["MatMul", "Add", "Relu"]


def test_what_stands_in_front_keeps_no_product_from_what_uses_it() -> None:
    """The norm is read twice, so the product may not leave its level; and what is added behind, one
    higher, comes from operators that are inside and outside in turn.
    """
    n = Network()
    x = n.op("LayerNormalization", n.op("Relu", n.input(1, 8, 32)), n.random(32))
    mask = n.input(1, 8, 32)
    for _ in range(3):
        mask = n.op("Neg", n.op("Relu", mask))
    y = n.product(n.op("Add", n.product(x, 32, 32, bias=False), mask), 32, 32, bias=False)
    assert operators_in(n, n.op("Add", y, x)) == [["MatMul", "Add", "MatMul", "Add"]]


@pytest.mark.parametrize("seed", range(40))
def test_random_networks(seed: int) -> None:
    made = RandomRows(f"rows/{seed}")
    check_all(made.network, made.sizes)


def parts_of(n: Network, x: str, *sizes: int) -> list[str]:
    return list(n.op("Split", x, n.const(sizes, np.int64), axis=-1, outputs=len(sizes)))


def stored(*sizes: int, is_whole: bool = False, left_out: int | None = None) -> Network:
    """A product whose results are stored in parts of so many channels; with the whole, or without
    one part.
    """
    n = Network(seed=3)
    y = n.product(n.input("M", 48), 48, sum(sizes))
    parts = parts_of(n, y, *sizes)
    n.outputs = [part for k, part in enumerate(parts) if k != left_out] + [y] * is_whole
    return n


def added_to(size: int, *, also_read: bool = False) -> Network:
    """A product of some rows to which they are added, behind an activation; perhaps they are read
    once more.
    """
    n = Network(seed=4)
    x = n.input("M", size)
    y = n.op("Add", n.op("Gelu", n.product(x, size, size), domain=MICROSOFT), x)
    n.outputs = [y, n.op("Mul", n.op("Tanh", n.product(y, size, size)), x)] if also_read else [y]
    return n


def first_half_twice() -> Network:
    n = Network(seed=5)
    y = n.product(n.input("M", 48), 48, 64)
    n.outputs = [sliced(n, y, 0, 32, -1), sliced(n, y, 0, 32, 1)]
    return n


def one_product_after_another() -> Network:
    n = Network(seed=6)
    x = n.input("M", 64)
    for _ in range(4):
        x = n.op("Sigmoid", n.product(x, 64, 64))
    n.outputs = [x]
    return n


def normalized(size: int) -> Network:
    """Norms of results that are needed again, one in front of a product and one whose result leaves
    the kernel.
    """
    n = Network(seed=7)
    x = n.input("M", size)
    y = n.op("Add", n.product(x, size, size), x)
    normal = n.op("LayerNormalization", y, n.random(size), n.random(size), epsilon=0.1)
    z = n.op(
        "Sum", n.product(n.op("Gelu", n.product(normal, size, 80), domain=MICROSOFT), 80, size), y
    )
    last = n.op("LayerNormalization", z, n.random(size), axis=1)
    n.outputs = [last, *parts_of(n, n.product(last, size, 96), 32, 64)]
    return n


IN_TENSORS = {
    "parts": stored(32, 64, 32),
    "parts_that_end_within_a_pair": stored(16, 32, 48),
    "parts_that_end_within_a_block": stored(24, 32, 8),
    "whole_and_parts": stored(32, 64, is_whole=True),
    "without_the_first": stored(32, 64, left_out=0),
    "without_the_last": stored(64, 32, left_out=1),
    "first_half_twice": first_half_twice(),
    "added": added_to(64),
    "added_within_a_block": added_to(40),
    "added_and_read": added_to(64, also_read=True),
    "rows_pages_apart": added_to(1024),
    "normalized": normalized(64),
    "normalized_within_a_block": normalized(40),
    "one_after_another": one_product_after_another(),
}
MANY = 2000  # rows, that threads may be at them at the same time


@pytest.mark.usefixtures("needs_a_compiler")
@pytest.mark.parametrize("name", IN_TENSORS)
def test_rows_in_tensors(name: str, in_tensors: Standalone) -> None:
    network = IN_TENSORS[name]
    found = only_area(network.model())
    # each width on one number of rows, which is another one for the next network
    for turn, rows in enumerate((1, 15, MANY if name == "one_after_another" else 57)):
        values = values_of(network.model(), network.feeds({"M": rows}), list(found.images.values()))
        tensors = found.tensors(values)
        plain = wanted(found.area, tensors)
        start = turn + list(IN_TENSORS).index(name)
        for width in [w for w in widths() if w % 3 == start % 3]:
            results = in_tensors.run(found.area, tensors, width)
            assert [
                problem
                for a, b in zip(plain, results, strict=True)
                if (problem := difference(a, b))
            ] == []


@pytest.fixture(scope="module")
def in_tensors(tmp_path_factory: pytest.TempPathFactory) -> Standalone:
    areas = [only_area(network.model()).area for network in IN_TENSORS.values()]
    return Standalone(areas, tmp_path_factory.mktemp("programs"), ["-O0"])


@pytest.mark.usefixtures("needs_a_compiler")
def test_kernels(tmp_path: Path) -> None:
    """With vectors of each width, and in onnxruntime; on numbers that are not finite, too."""
    areas = []
    calls = []
    for seed in range(5):
        made = RandomRows(f"kernels/{seed}")
        found = areas_of(made.network.model())
        model = made.network.model()
        names = [name for one in found for name in one.images.values()]
        areas += [one.area for one in found]
        for edges in (False, True):
            values = values_of(model, made.network.feeds(made.sizes, edges), names)
            calls += [(one, one.tensors(values)) for one in found]
    built = build(areas)
    assert not built.failed
    programs = Standalone(areas, tmp_path, ["-O0"])
    for found, tensors in calls:
        plain = wanted(found.area, tensors)
        results = [programs.run(found.area, tensors, width) for width in widths()]
        results.append(run_kernel(found, tensors, built.library))
        for result in results:
            assert [
                problem for a, b in zip(plain, result, strict=True) if (problem := difference(a, b))
            ] == []
