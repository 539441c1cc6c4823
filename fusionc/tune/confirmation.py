"""The last run: tuned, default and original in rounds of their own, and which form may be
delivered.
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
MOST_ROUNDS = 20  # while the budget lasts
# once the budget is spent: on an idle machine, and on a busy one
_LEAST_ROUNDS = 6
_LEAST_ROUNDS_OF_NOISE = 14
_VAGUE = 1.1  # bounds are vague if the upper one is this many times the lower one


@dataclass(frozen=True)
class Confirmation:
    """What the last run says."""

    delivered: Form
    # Seconds of a run of each form: those of the original times the ratios, so that other load of
    # the machine in some rounds has no influence.
    seconds: dict[str, float]
    default: RatioInterval  # defaults / original
    against_original: RatioInterval  # tuned / original
    against_default: RatioInterval | None  # tuned / defaults; None if they are the same
    noise: float  # standard deviation of the logarithm of defaults / original, from round to round

    @property
    def ratio(self) -> RatioInterval | None:
        """The ratio of the delivered form to the original; None for the original itself."""
        return {"tuned": self.against_original, "default": self.default, "original": None}[
            self.delivered
        ]


def least_rounds(noise: float, confidence: float) -> int:
    """How many rounds the last run needs for bounds that are close enough.

    `noise` is the standard deviation of logarithms of ratios in earlier rounds. Rounds of the last
    run itself must not decide how many there are: stopping when they happen to agree would make
    bounds too close.
    """
    for count in range(_LEAST_ROUNDS, _LEAST_ROUNDS_OF_NOISE):
        half = (
            student_quantile((1 + _single_confidence(confidence)) / 2, count - 1)
            * noise
            / math.sqrt(count)
        )
        if 2 * half <= math.log(_VAGUE):
            return count
    return _LEAST_ROUNDS_OF_NOISE


def confirmation_of(
    rounds: Sequence[dict[str, list[list[float]]]], confidence: float
) -> Confirmation:
    """What is delivered after these rounds: tuned only if it is faster than both others, the
    defaults only if they are faster than the original, each beyond doubt; otherwise the original.
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
    """The confidence of each comparison that gives all of them together this one."""
    return 1 - (1 - confidence) / _COMPARISONS
