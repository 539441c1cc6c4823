"""Attention between products: programs without onnxruntime, of each width, against onnxruntime's
operator.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import cycle

import numpy as np
import pytest
from areas import session
from kernels_run import call_of
from networks import (
    MICROSOFT,
    Array,
    Found,
    Network,
    check,
    check_all,
    difference,
    kinds_of,
    only_area,
    operators_in,
    wanted,
)
from standalone_programs import Standalone, widths

from fusionc.graph_kernel.blocked.time_saved import saved_by_program
from fusionc.graph_kernel.library.build_library import build

SIZES = (
    {"B": 1, "Q": 1, "K": 1},
    {"B": 2, "Q": 7, "K": 7},
    {"B": 1, "Q": 15, "K": 33},
    {"B": 3, "Q": 90, "K": 66},  # several blocks of each width and a remainder
    {"B": 2, "Q": 3, "K": 0},
    {"B": 2, "Q": 0, "K": 3},
    {"B": 0, "Q": 3, "K": 5},
)
Inputs = Callable[[Network, str, str, str], list[str]]


def attend(
    n: Network, q: str, k: str, v: str, *more: str, heads: int = 2, **attributes: object
) -> str:
    return str(
        n.op("MultiHeadAttention", q, k, v, *more, domain=MICROSOFT, num_heads=heads, **attributes)
    )


@dataclass(frozen=True)
class Form:
    """Attention of 2 heads of 32 channels: what it is given besides, and how many channels all
    heads make.
    """

    bias: tuple[int | str, ...] = ()
    channels: int = 64
    attributes: dict[str, object] = field(default_factory=dict)
    behind: str = ""  # an operator behind it
    is_self: bool = False  # queries and keys are of the same rows

    def network(self) -> Network:
        n = Network(opset=18, seed=5)  # Split by a number of parts
        rows = n.input("B", "Q", 40)
        others = rows if self.is_self else n.input("B", "K", 24)
        more = ["", "", n.input(*self.bias)] if self.bias else []
        if self.is_self:
            q, k, v = n.op("Split", n.product(rows, 40, 192), axis=-1, outputs=3, num_outputs=3)
        else:
            q = n.product(rows, 40, 64)
            k = n.product(others, 24, 64)
            v = n.product(others, 24, self.channels)
        made = attend(n, q, k, v, *more, **self.attributes)
        made = n.op(self.behind, made) if self.behind else made
        n.outputs = [n.product(made, self.channels, 48)]
        return n

    def sizes(self, sizes: dict[str, int]) -> dict[str, int]:
        return sizes | {"K": sizes["Q"]} if self.is_self else sizes


FORMS = {
    "plain": Form(),
    "of_one_product": Form(is_self=True),
    "scaled": Form(attributes={"scale": 1.0}),
    "of_many_heads": Form(attributes={"heads": 4}),
    "other_channels_of_values": Form(channels=96),
    "activation": Form(behind="Relu"),
    "long_activation": Form(behind="Tanh"),
    "bias": Form(("B", 2, "Q", "K")),
    "bias_of_all_heads": Form(("B", 1, "Q", "K")),
    "bias_of_all_batches": Form((1, 2, "Q", "K")),
    "bias_of_all": Form((1, 1, "Q", "K")),
}


@pytest.fixture(scope="module")
def found() -> dict[str, Found]:
    return {name: only_area(form.network().model()) for name, form in FORMS.items()}


@pytest.fixture(scope="module")
def programs(found: dict[str, Found], tmp_path_factory: pytest.TempPathFactory) -> Standalone:
    areas = [*(one.area for one in found.values()), only_area(of_many_keys().model()).area]
    return Standalone(areas, tmp_path_factory.mktemp("programs"), ["-O0"])


def feeds_of(form: Form, sizes: dict[str, int], *, hides: bool = False) -> dict[str, Array]:
    feeds = form.network().feeds(form.sizes(sizes))
    if hides and form.bias:
        name = list(feeds)[-1]
        hidden = np.random.default_rng(6).random(feeds[name].shape) < 0.4
        hidden[..., :1] = False
        feeds[name] = np.where(hidden, -np.inf, feeds[name]).astype(np.float32)
    return feeds


@pytest.mark.parametrize("name", FORMS)
def test_steps(name: str, found: dict[str, Found]) -> None:
    one = found[name]
    program = check(one.area, one.tensors(feeds_of(FORMS[name], {"B": 2, "Q": 5, "K": 9})))
    assert kinds_of(program).count("ATTENTION") == 1 and kinds_of(program).endswith(
        "ATTENTION PRODUCT"
    )


@pytest.mark.usefixtures("needs_a_compiler")
@pytest.mark.parametrize("name", FORMS)
def test_forms(name: str, found: dict[str, Found], programs: Standalone) -> None:
    one = found[name]
    turns = cycle(widths())  # each width on some sizes, which are others for the next form
    for _ in range(list(FORMS).index(name) % len(widths())):
        next(turns)
    for sizes in SIZES:
        for hides in (False, True) if FORMS[name].bias else (False,):
            tensors = one.tensors(feeds_of(FORMS[name], sizes, hides=hides))
            (plain,) = wanted(one.area, tensors)
            width = next(turns)
            (made,) = programs.run(one.area, tensors, width)
            assert not difference(plain, made), (sizes, hides, width)


@pytest.mark.usefixtures("needs_a_compiler")
def test_large_scores(found: dict[str, Found], programs: Standalone) -> None:
    """Of which exponentials would be infinite, or zero."""
    one = found["bias"]
    for factor in (1e3, 1e18):
        feeds = {
            name: array * np.float32(factor)
            for name, array in feeds_of(FORMS["bias"], SIZES[2]).items()
        }
        tensors = one.tensors(feeds)
        (plain,) = wanted(one.area, tensors)
        for width in widths():
            assert not difference(plain, programs.run(one.area, tensors, width)[0])


def of_many_keys() -> Network:
    n = Network(seed=7)
    q, k, v = (n.product(n.input("B", rows, 64), 64, 64, bias=False) for rows in ("Q", "K", "K"))
    n.outputs = [attend(n, q, k, v)]
    return n


@pytest.mark.usefixtures("needs_a_compiler")
def test_many_keys_and_large_values(programs: Standalone) -> None:
    """Shares are multiplied with values, not what is divided afterwards; and errors do not grow
    with the keys.
    """
    n = of_many_keys()
    one = only_area(n.model())
    for keys, size in ((5000, 0.1), (40, 1e37)):
        sizes = {"B": 1, "Q": 3, "K": keys}
        values = {name: array * np.float32(0) for name, array in n.feeds(sizes).items()}
        name = list(values)[-1]
        values[name] += np.float32(size)
        # of rows that are all the same
        mean = size * list(n.weights.values())[-1].astype(np.float64).sum(axis=0)
        for width in widths():
            (made,) = programs.run(one.area, one.tensors(values), width)
            assert np.abs(made - mean).max() <= 1e-5 * np.abs(mean).max()


@pytest.mark.usefixtures("needs_a_compiler")
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_rows_that_are_not_finite_are_alone(
    value: float, found: dict[str, Found], programs: Standalone
) -> None:
    """A score that is NaN or +∞ makes its query NaN, and so do keys that are all hidden; others
    stay as they are.
    """
    one = found["bias"]
    feeds = feeds_of(FORMS["bias"], SIZES[2])
    feeds[list(feeds)[-1]][0, 1, 4, :] = value
    (plain,) = wanted(one.area, one.tensors(feeds))
    assert np.isnan(plain[0, 4]).all() and np.isfinite(np.delete(plain[0], 4, axis=0)).all()
    for width in widths():
        assert not difference(plain, programs.run(one.area, one.tensors(feeds), width)[0])


@pytest.mark.usefixtures("needs_a_compiler")
def test_kernels(found: dict[str, Found]) -> None:
    """In onnxruntime, with the library and without: in one session, whose sizes change from run to
    run, be it those of what is added to scores alone.
    """
    one = found["bias"]
    built = build([one.area])
    assert not built.failed and saved_by_program(one.area) > 0
    sessions = [session(call_of(one), library) for library in (built.library, None)]
    for sizes in (*SIZES, *reversed(SIZES)):
        feeds = feeds_of(FORMS["bias"], sizes)
        name = list(feeds)[-1]
        for shared in (np.s_[:], np.s_[:1], np.s_[:, :1], np.s_[:1, :1], np.s_[:]):
            given = feeds | {name: np.ascontiguousarray(feeds[name][shared])}
            (plain,) = wanted(one.area, one.tensors(given))
            for runs in sessions:
                (made,) = runs.run(None, one.feeds(given))
                assert not difference(plain, made), sizes


def run_with(one: Found, feeds: dict[str, Array]) -> None:
    session(call_of(one), build([one.area]).library).run(None, one.feeds(feeds))


@pytest.mark.usefixtures("needs_a_compiler")
@pytest.mark.parametrize(
    ("operand", "wrong"), [(0, {"B": 2}), (1, {"B": 2}), (0, {"Q": 4}), (1, {"K": 8})]
)
def test_rows_that_do_not_fit_are_an_error(
    operand: int, wrong: dict[str, int], found: dict[str, Found]
) -> None:
    form = FORMS["bias_of_all_heads"]
    sizes = {"B": 1, "Q": 5, "K": 9}
    feeds = feeds_of(form, sizes)
    other = feeds_of(form, sizes | wrong)
    name = list(feeds)[operand]
    with pytest.raises(Exception, match=r"_blocked_.*: Non-zero status code"):
        run_with(found["bias_of_all_heads"], feeds | {name: other[name]})


@pytest.mark.usefixtures("needs_a_compiler")
@pytest.mark.parametrize("shape", [(3, 1, 5, 9), (1, 3, 5, 9), (1, 1, 1, 9)])
def test_a_bias_that_does_not_fit_is_an_error(
    shape: tuple[int, ...], found: dict[str, Found]
) -> None:
    feeds = feeds_of(FORMS["bias_of_all_heads"], {"B": 1, "Q": 5, "K": 9})
    with pytest.raises(Exception, match=r"_blocked_.*: Non-zero status code"):
        run_with(found["bias_of_all_heads"], feeds | {list(feeds)[-1]: np.zeros(shape, np.float32)})


def reads_past(n: Network, q: str, k: str, v: str) -> str:
    return attend(n, q, k, v, "", "", "", n.input("B", 2, "P", 32), n.input("B", 2, "P", 32))


def hides_keys(n: Network, q: str, k: str, v: str) -> str:
    return attend(n, q, k, v, "", n.const(np.ones(1), np.int32))


@pytest.mark.usefixtures("needs_a_compiler")
def test_values_that_are_fewer_than_keys_are_an_error() -> None:
    """Though the model says that they are as many."""
    n = Network()
    q, k, v = (n.product(n.input("B", rows, 40), 40, 64) for rows in ("Q", "K", "K"))
    one = only_area(n.model(n.product(attend(n, q, k, v), 64, 48)))
    feeds = n.feeds({"B": 1, "Q": 5, "K": 9})
    name = list(feeds)[-1]
    run_with(one, feeds)
    with pytest.raises(Exception, match=r"_blocked_.*: Non-zero status code"):
        run_with(one, feeds | {name: feeds[name][:, :8]})


def is_taken(n: Network) -> bool:
    """Whether an area of a network has attention in it."""
    return any("MultiHeadAttention" in operators for operators in operators_in(n))


def hands_out_keys(n: Network, q: str, k: str, v: str) -> str:
    made, *more = n.op("MultiHeadAttention", q, k, v, domain=MICROSOFT, num_heads=2, outputs=3)
    n.outputs += more
    return str(made)


STAYS: dict[str, Callable[[Network, str, str, str], str]] = {
    "past": reads_past,
    "mask_by_keys": hides_keys,
    "own_bias": lambda n, q, k, v: attend(n, q, k, v, n.random(192)),
    "only_keys_before": lambda n, q, k, v: attend(n, q, k, v, unidirectional=1),
    "hands_out_keys": hands_out_keys,
    "one_number_for_all_scores": lambda n, q, k, v: attend(
        n, q, k, v, "", "", n.const(np.ones((1, 1, 1, 1)))
    ),
    "parts_of_blocks": lambda n, q, k, v: attend(n, q, k, v, heads=8),
    "heads_apart": lambda n, q, k, v: attend(
        n, q, n.input("B", 2, "Q", 32), n.input("B", 2, "Q", 32)
    ),
    "queries_keys_and_values_in_one": lambda n, q, k, v: attend(
        n,
        n.op("Reshape", n.op("Concat", q, k, v, axis=-1), n.const([0, 0, 2, 3, 32], np.int64)),
        "",
        "",
    ),
}


@pytest.mark.parametrize("name", STAYS)
def test_what_stays_with_onnxruntime(name: str) -> None:
    n = Network()
    q, k, v = (n.product(n.input("B", "Q", 40), 40, 64) for _ in range(3))
    n.outputs.append(n.product(STAYS[name](n, q, k, v), 64, 48))
    assert not is_taken(n)


@pytest.mark.parametrize(
    "rows",
    [
        ("B", "B", "B", "Q", "K", "V"),
        ("B", "C", "C", "Q", "K", "K"),
        ("B", "B", "C", "Q", "K", "K"),
    ],
)
def test_sizes_that_are_not_known_to_be_the_same_are_not_taken(rows: tuple[str, ...]) -> None:
    """The batches of all operands, and as many keys as values."""
    n = Network()
    q, k, v = (
        n.product(n.input(batch, length, 40), 40, 64)
        for batch, length in zip(rows[:3], rows[3:], strict=True)
    )
    n.outputs = [n.product(attend(n, q, k, v), 64, 48)]
    assert not is_taken(n)


def test_a_bias_that_is_made_nearby_is_not_taken() -> None:
    n = Network()
    q, k, v = (n.product(n.input("B", 9, 40), 40, 64) for _ in range(3))
    bias = n.product(n.input("B", 2, 9, 24), 24, 9)
    n.outputs = [n.product(attend(n, q, k, v, "", "", bias), 64, 48)]
    check_all(n, {"B": 2})
    assert not is_taken(n)
