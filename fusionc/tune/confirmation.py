"""The last run of a tuning. It measures three forms of the model in new rounds: the tuned form, the
form with the defaults, and the original without passes. It decides which form is delivered.
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
# The least numbers of rounds, on an idle and on a busy machine. These rounds are run even if the
# time for measuring is used up.
_MIN_ROUNDS = 6
_MIN_ROUNDS_IF_BUSY = 14
_MAX_WIDTH = 1.1  # enough rounds were run if upper bound / lower bound of a ratio is at most this


@dataclass(frozen=True)
class Confirmation:
    """The result of the last run."""

    delivered: Form
    # The seconds of a run of each form. They are the original's time multiplied by ratios, because
    # single rounds under load have less influence on ratios than on times.
    seconds: dict[str, float]
    default: RatioInterval  # time with the defaults / time of the original
    against_original: RatioInterval  # tuned time / time of the original
    against_default: RatioInterval | None  # tuned / with the defaults; None if these are the same
    noise: float  # the standard deviation of log(defaults / original) over the rounds

    @property
    def ratio(self) -> RatioInterval | None:
        """The time of the delivered form divided by the original's. `None` for the original
        itself.
        """
        return {"tuned": self.against_original, "default": self.default, "original": None}[
            self.delivered
        ]


def least_rounds(noise: float, confidence: float) -> int:
    """The number of rounds that the last run needs so that its bounds are narrow enough.

    `noise` is the standard deviation of logarithms of ratios in earlier rounds. The rounds of the
    last run must not decide themselves when it ends: a run that ends as soon as its rounds happen
    to agree has bounds that are too narrow.
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
    with the required confidence. Otherwise, the form with the defaults is delivered if it is faster
    than the original with that confidence. Otherwise, the original is delivered.
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
    """The confidence that each comparison needs, so that all comparisons together have
    `confidence`.
    """
    return 1 - (1 - confidence) / _COMPARISONS
