"""The last run: it measures the tuned, default and original forms in separate rounds, and decides
which form is delivered.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import median, stdev
from typing import Literal

from fusionc.bench.intervals import RatioInterval, interval_of, log_ratio, student_quantile

Form = Literal["tuned", "default", "original"]
_COMPARISONS = 3
MOST_ROUNDS = 20
# The minimal numbers of rounds, on an idle and on a busy machine. They are run even if the budget
# is spent.
_MIN_ROUNDS = 6
_MIN_ROUNDS_IF_BUSY = 14
_MAX_WIDTH = 1.1  # enough rounds were made if upper bound / lower bound is at most this


@dataclass(frozen=True)
class Confirmation:
    """The result of the last run."""

    delivered: Form
    # The seconds of a run of each form. They are computed from the original's time and the ratios,
    # because load in single rounds has less influence on ratios.
    seconds: dict[str, float]
    default: RatioInterval  # defaults / original
    against_original: RatioInterval  # tuned / original
    against_default: RatioInterval | None  # tuned / defaults; None if they are the same
    noise: float  # the standard deviation over the rounds of log(defaults / original)

    @property
    def ratio(self) -> RatioInterval | None:
        """The ratio of the delivered form to the original; None for the original itself."""
        return {"tuned": self.against_original, "default": self.default, "original": None}[
            self.delivered
        ]


def least_rounds(noise: float, confidence: float) -> int:
    """The number of rounds that the last run needs for sufficiently narrow bounds.

    `noise` is the standard deviation of logarithms of ratios in earlier rounds. The rounds of the
    last run itself must not decide when it ends: a run that stops when its rounds happen to agree
    has bounds that are too narrow.
    """
    for count in range(_MIN_ROUNDS, _MIN_ROUNDS_IF_BUSY):
        half = (
            student_quantile((1 + _single_confidence(confidence)) / 2, count - 1)
            * noise
            / math.sqrt(count)
        )
        if 2 * half <= math.log(_MAX_WIDTH):
            return count
    return _MIN_ROUNDS_IF_BUSY


def confirmation_of(
    rounds: Sequence[dict[str, list[list[float]]]], confidence: float
) -> Confirmation:
    """The result of these rounds. The tuned form is delivered if it is faster than both other forms
    with the required confidence. Otherwise the default form is delivered if it is faster than the
    original, and else the original.
    """
    each = _single_confidence(confidence)

    def observations(one: Form, other: Form) -> list[float]:
        return [log_ratio(slices[one], slices[other]) for slices in rounds]

    def comparison(one: Form, other: Form) -> RatioInterval:
        return interval_of(observations(one, other), each)

    default = comparison("default", "original")
    is_tuned = "tuned" in rounds[0]
    against_original = comparison("tuned", "original") if is_tuned else default
    against_default = comparison("tuned", "default") if is_tuned else None
    delivered: Form = "default" if default.is_faster else "original"
    if against_default is not None and against_default.is_faster and against_original.is_faster:
        delivered = "tuned"
    base = median(chain(*(chain(*slices["original"]) for slices in rounds)))
    seconds = {"original": base, "default": base * default.ratio}
    if is_tuned:
        seconds["tuned"] = base * against_original.ratio
    noise = stdev(observations("default", "original")) if len(rounds) > 1 else 0.0
    return Confirmation(delivered, seconds, default, against_original, against_default, noise)


def _single_confidence(confidence: float) -> float:
    """The confidence that each comparison needs if all comparisons together need `confidence`."""
    return 1 - (1 - confidence) / _COMPARISONS
