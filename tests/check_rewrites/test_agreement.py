"""How near the replacement has to be to what it replaces follows from what the pass claims."""

from __future__ import annotations

import pytest
from harness import parse

from fusionc.check_rewrites.agreement import agreement
from fusionc.check_rewrites.rewrite_models import RewriteModels
from fusionc.rewrite.definition import Numerics
from fusionc.shapes.inference import typed_model


@pytest.mark.parametrize(
    ("numerics", "factor", "agrees"),
    [
        ("bitwise", 1.0, True),
        ("bitwise", 1.0000001, False),
        ("rounding", 1.0000001, True),
        ("rounding", 1.005, False),
        ("approximate", 1.005, True),
        ("approximate", 1.05, False),
    ],
)
def test_a_result_that_is_off_by_a_factor(numerics: Numerics, factor: float, agrees: bool) -> None:
    before, after = (
        parse(
            f"agraph (float[N,4] x) => (float[N,4] y) <float c = {{{number!r}}}> {{ y = Mul "
            "(x, "
            f"c) }}"
        )
        for number in (1.0, factor)
    )
    inputs = tuple(typed_model(before, "").main.inputs)
    assert (
        agreement(RewriteModels(before, after, inputs), numerics, is_for_finite=False).agrees
        is agrees
    )
