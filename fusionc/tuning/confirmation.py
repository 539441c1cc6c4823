"""The last word: tuned, default and original in rounds of their own, and which of them may be delivered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import median, stdev
from typing import Literal

from fusionc.measurement.intervals import RatioInterval, interval_of, log_ratio

Form = Literal["tuned", "default", "original"]
_COMPARISONS = 3
_LEAST_ROUNDS, _MOST_ROUNDS = 6, 20
_ROUNDS_OF_VAGUE = 14  # at least, where a busy machine leaves bounds far apart
_VAGUE = 1.1  # of the upper bound to the lower one


@dataclass(frozen=True)
class Confirmation:
    """What the last run says: the ratios, seconds of a run of each form, and the form that is delivered.

    `against_default` is None where nothing was found that differs from the defaults. `noise` is by how much the ratio
    of the defaults to the original differs from round to round, as a part of it: its standard deviation.
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
        return {"tuned": self.against_original, "default": self.default, "original": None}[self.delivered]


def is_enough(rounds: Sequence[dict[str, list[list[float]]]], confidence: float, *, has_time: bool) -> bool:
    """Whether the last run may end after these rounds. How far bounds lie apart decides, never where they are: to go on
    until a ratio pleases would make an effect of chance."""
    if len(rounds) < _LEAST_ROUNDS:
        return False
    last = confirmed(rounds, confidence)
    bounds = [one for one in (last.default, last.against_original, last.against_default) if one]
    is_vague = any(one.high > _VAGUE * one.low for one in bounds)
    return len(rounds) >= (_MOST_ROUNDS if has_time else _ROUNDS_OF_VAGUE if is_vague else _LEAST_ROUNDS)


def confirmed(rounds: Sequence[dict[str, list[list[float]]]], confidence: float) -> Confirmation:
    """What is delivered after these rounds: tuned only where it is faster than both others, the defaults only where
    they are faster than the original, each beyond doubt; else the original."""
    each = 1 - (1 - confidence) / _COMPARISONS

    def observed(one: Form, other: Form) -> list[float]:
        return [log_ratio(found[one], found[other]) for found in rounds]

    def compared(one: Form, other: Form) -> RatioInterval:
        return interval_of(observed(one, other), each)

    default, is_tuned = compared("default", "original"), "tuned" in rounds[0]
    against_original = compared("tuned", "original") if is_tuned else default
    against_default = compared("tuned", "default") if is_tuned else None
    delivered: Form = "default" if default.is_faster else "original"
    if against_default is not None and against_default.is_faster and against_original.is_faster:
        delivered = "tuned"
    seconds = {form: median(chain(*(chain(*found[form]) for found in rounds))) for form in rounds[0]}
    noise = stdev(observed("default", "original")) if len(rounds) > 1 else 0.0
    return Confirmation(delivered, seconds, default, against_original, against_default, noise)
