"""The last word: tuned, default and original in rounds of their own, and which of them may be
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
MOST_ROUNDS = 20  # as long as there is time
# where there is none, on an idle machine and on a busy one
_LEAST_ROUNDS = 6
_LEAST_ROUNDS_OF_NOISE = 14
_VAGUE = 1.1  # of the upper bound to the lower one


@dataclass(frozen=True)
class Confirmation:
    """What the last run says: the ratios, seconds of a run of each form, and the form that is
    delivered. The seconds are those of the original, times the ratios: what else a machine does in
    some rounds is no part of these.

    `against_default` is None where nothing was found that differs from the defaults. `noise` is by
    how much the ratio of the defaults to the original differs from round to round, as a part of it:
    its standard deviation.
    """

    delivered: Form
    seconds: dict[str, float]
    default: RatioInterval
    against_original: RatioInterval
    against_default: RatioInterval | None
    noise: float

    @property
    def ratio(self) -> RatioInterval | None:
        """That of what is delivered to the original; None for the original itself."""
        return {"tuned": self.against_original, "default": self.default, "original": None}[
            self.delivered
        ]


def least_rounds(noise: float, confidence: float) -> int:
    """How many rounds the last run needs for bounds that are close enough, where the logarithms of
    ratios have had `noise` as their standard deviation before it. Its own rounds do not decide how
    many there are: to stop where these happen to agree would make bounds too close, and an effect
    of chance.
    """
    for count in range(_LEAST_ROUNDS, _LEAST_ROUNDS_OF_NOISE):
        half = (
            student_quantile((1 + _of_each(confidence)) / 2, count - 1) * noise / math.sqrt(count)
        )
        if 2 * half <= math.log(_VAGUE):
            return count
    return _LEAST_ROUNDS_OF_NOISE


def confirmed(rounds: Sequence[dict[str, list[list[float]]]], confidence: float) -> Confirmation:
    """What is delivered after these rounds: tuned only where it is faster than both others, the
    defaults only where they are faster than the original, each beyond doubt; else the original.
    """
    each = _of_each(confidence)

    def observed(one: Form, other: Form) -> list[float]:
        return [log_ratio(found[one], found[other]) for found in rounds]

    def compared(one: Form, other: Form) -> RatioInterval:
        return interval_of(observed(one, other), each)

    default = compared("default", "original")
    is_tuned = "tuned" in rounds[0]
    against_original = compared("tuned", "original") if is_tuned else default
    against_default = compared("tuned", "default") if is_tuned else None
    delivered: Form = "default" if default.is_faster else "original"
    if against_default is not None and against_default.is_faster and against_original.is_faster:
        delivered = "tuned"
    base = median(chain(*(chain(*found["original"]) for found in rounds)))
    seconds = {"original": base, "default": base * default.ratio}
    if is_tuned:
        seconds["tuned"] = base * against_original.ratio
    noise = stdev(observed("default", "original")) if len(rounds) > 1 else 0.0
    return Confirmation(delivered, seconds, default, against_original, against_default, noise)


def _of_each(confidence: float) -> float:
    """The confidence of each comparison, so that all of them together have this one."""
    return 1 - (1 - confidence) / _COMPARISONS
