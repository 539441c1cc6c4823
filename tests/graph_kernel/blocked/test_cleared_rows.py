"""Rows that become zero where a condition says so, behind attention and behind products."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from areas import session
from kernels_run import call_of, check_everywhere
from networks import MICROSOFT, Found, Network, only_area, operators_in, values_of
from standalone_programs import Standalone

SIZES = ({"B": 1, "M": 1}, {"B": 2, "M": 7}, {"B": 3, "M": 150}, {"B": 0, "M": 3}, {"B": 2, "M": 0})


def condition(n: Network, *sizes: int | str) -> str:
    return str(n.op("Greater", n.input(*sizes), n.const(0.0)))


def cleared(n: Network, x: str, *sizes: int | str, zero: float = 0.0) -> str:
    return str(n.op("Where", condition(n, *sizes), n.const(zero), x))


def attended(n: Network, x: str) -> str:
    return str(n.op("MultiHeadAttention", x, x, x, domain=MICROSOFT, num_heads=2))


def network(form: Callable[[Network, str], str]) -> Network:
    n = Network(seed=8)
    x = n.product(n.input("B", "M", 40), 40, 64)
    n.outputs = [n.product(form(n, x), 64, 24)]
    return n


FORMS: dict[str, Callable[[Network, str], str]] = {
    "rows": lambda n, x: cleared(n, x, "B", "M", 1),
    "of_all_batches": lambda n, x: cleared(n, x, 1, "M", 1),
    "of_whole_batches": lambda n, x: cleared(n, x, "B", 1, 1),
    "of_all": lambda n, x: cleared(n, x, 1, 1, 1),
    "attention": lambda n, x: cleared(n, attended(n, x), "B", "M", 1),
    "activation": lambda n, x: n.op("Sigmoid", cleared(n, x, "B", "M", 1)),
    "read_twice": lambda n, x: n.op("Add", cleared(n, x, "B", "M", 1), x),
}


@pytest.fixture(scope="module")
def found() -> dict[str, Found]:
    return {name: only_area(network(form).model()) for name, form in FORMS.items()}


@pytest.mark.usefixtures("needs_a_compiler")
@pytest.mark.parametrize("name", FORMS)
def test_forms(name: str, found: dict[str, Found], programs: Standalone, library: Path) -> None:
    """Rows that are not finite among them: what is cleared is zero whatever it was."""
    one = found[name]
    n = network(FORMS[name])
    given = [session(call_of(one), registered) for registered in (library, None)]
    for turn, sizes in enumerate(SIZES, list(FORMS).index(name)):
        for edges in (False,) if name == "attention" else (False, True):
            values = values_of(n.model(), n.feeds(sizes, edges=edges), one.images.values())
            assert "CLEAR" in check_everywhere(one, values, programs, given, turn + edges).kinds, (
                sizes
            )


@pytest.mark.usefixtures("needs_a_compiler")
@pytest.mark.parametrize("shape", [(3, 5, 1), (2, 4, 1), (2, 5, 2)])
def test_sizes_that_do_not_fit_are_an_error(
    shape: tuple[int, ...], found: dict[str, Found], library: Path
) -> None:
    one = found["rows"]
    n = network(FORMS["rows"])
    feeds = values_of(n.model(), n.feeds({"B": 2, "M": 5}), one.images.values())
    feeds = {
        name: np.zeros(shape, bool) if array.dtype == bool else array
        for name, array in feeds.items()
    }
    given = session(call_of(one), library)
    with pytest.raises(Exception, match=r"_blocked_.*: Non-zero status code"):
        given.run(None, one.feeds(feeds))


STAYS: dict[str, Callable[[Network, str], str]] = {
    "another_number": lambda n, x: cleared(n, x, "B", "M", 1, zero=1.0),
    "other_rows": lambda n, x: n.op("Where", condition(n, "B", "M", 1), x, n.op("Relu", x)),
    "kept_instead": lambda n, x: n.op("Where", condition(n, "B", "M", 1), x, n.const(0.0)),
    "each_channel": lambda n, x: cleared(n, x, "B", "M", 64),
    "channels": lambda n, x: cleared(n, x, 64),
    "rows_alone": lambda n, x: cleared(n, x, "M", 1),
    "perhaps_more_batches": lambda n, x: cleared(n, x, "C", "M", 1),
    "perhaps_more_rows": lambda n, x: cleared(n, x, "B", "L", 1),
}


@pytest.mark.parametrize("name", STAYS)
def test_what_stays_with_onnxruntime(name: str) -> None:
    found = operators_in(network(STAYS[name]))
    assert found and not any("Where" in operators for operators in found)
