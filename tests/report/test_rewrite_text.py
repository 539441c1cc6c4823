from __future__ import annotations

import pytest

from fusionc.report.rewrite_text import described, where_of
from fusionc.rewrite.log import Commit


@pytest.mark.parametrize(
    ("count", "told"),
    [(0, "the whole graph"), (2, "n0, n1"), (24, ", n22, n23"), (25, ", n22, n23 and 1 more")],
)
def test_an_area_of_many_nodes_has_a_short_name(count: int, told: str) -> None:
    commit = Commit(3, 0, "Pass", "Pattern", tuple(f"n{k}" for k in range(count)))
    text = described(commit)
    assert text.startswith("rewrite 3, Pass, pattern Pattern, at ") and text.endswith(told)


def test_an_error_names_the_first_nodes_alone() -> None:
    commit = Commit(3, 0, "Pass", "Pattern", tuple(f"n{k}" for k in range(15)))
    where = where_of(commit, "my.py:4", 12)
    assert where.startswith("Pass, my.py:4, pattern Pattern, at n0, n1, ")
    assert where.endswith(", n10, n11 and 3 more (rewrite 3 of 12)")
