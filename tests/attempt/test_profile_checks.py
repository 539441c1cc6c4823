"""The verification at each size of an option for several sizes."""

from __future__ import annotations

from typing import Any

from fusionc.attempt.profile_checks import at_each_profile
from fusionc.requested.size_profiles import BATCH
from fusionc.verify.budget import Budget
from fusionc.verify.result import Verification


def test_a_difference_at_one_size_names_it() -> None:
    """The result has to be right at each size, and not only at the first."""
    equal = Verification("equal", 5, "equal in 5 runs", budget=Budget(1, 1))
    wrong = Verification("different", 1, "different: y: far off")

    def check(input_shape: Any, **_: Any) -> Verification:
        return wrong if input_shape["x"][0] == 4 else equal

    verdict = at_each_profile(equal, [check], [{"x": (2, 3)}, {"x": (4, 3)}], BATCH, 3)
    assert (verdict.status, verdict.summary) == ("different", "at x:4,3 different: y: far off")


def test_a_size_that_cannot_be_verified_is_told() -> None:
    equal = Verification("equal", 5, "equal in 5 runs", budget=Budget(1, 1))
    late = Verification("impossible", 0, "it takes too long")
    verdict = at_each_profile(equal, [lambda **_: late], [{"x": (2, 3)}], BATCH, 2)
    assert verdict.is_in_part and verdict.summary == (
        "verified in part: equal in 5 runs; equal at 1 of the 2 sizes of --dynamic_batch_size; "
        "x:2,3 is not verified: it takes too long"
    )
