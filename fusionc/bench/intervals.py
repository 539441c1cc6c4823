"""Ratios of times from several processes, with confidence intervals. This file only computes; it
does not measure.

All runs of one process can be slower or faster by a tenth, depending on where its memory is placed.
Therefore each process, or each pair of processes that ran in turn, counts as one observation,
whatever the number of its runs.
"""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass

_MAX_EXPONENT = math.log(sys.float_info.max)  # math.exp overflows above


@dataclass(frozen=True)
class RatioInterval:
    """A ratio, and the interval that contains the true ratio with the requested confidence.

    The bounds are 0 and infinity if there are fewer than two observations.
    """

    ratio: float
    low: float
    high: float
    observations: int

    def as_json(self) -> dict[str, float | int | None]:
        """The interval as plain data. An unknown bound is null."""
        is_known = self.observations > 1
        low = self.low if is_known else None
        high = self.high if is_known and math.isfinite(self.high) else None
        return {"ratio": self.ratio, "low": low, "high": high, "observations": self.observations}

    def __str__(self) -> str:
        bounds = f"{self.low:.3f} to {self.high:.3f}" if self.observations > 1 else "bounds unknown"
        rounds = f"{self.observations} round{'s' * (self.observations > 1)}"
        return f"{self.ratio:.3f} ({bounds} in {rounds})"

    @property
    def is_faster(self) -> bool:
        """Whether the whole interval is below 1."""
        return self.high < 1

    @property
    def is_slower(self) -> bool:
        """Whether the whole interval is above 1."""
        return self.low > 1


def interval_of(logarithms: Sequence[float], confidence: float) -> RatioInterval:
    """The interval of a ratio from the logarithms of observed ratios, by Student's distribution.
    The ratio is the geometric mean.
    """
    count = len(logarithms)
    mean = statistics.fmean(logarithms)
    if count < 2:
        return RatioInterval(math.exp(mean), 0.0, math.inf, count)
    half = (
        student_quantile((1 + confidence) / 2, count - 1)
        * statistics.stdev(logarithms)
        / math.sqrt(count)
    )
    high = math.exp(mean + half) if mean + half < _MAX_EXPONENT else math.inf
    return RatioInterval(math.exp(mean), math.exp(mean - half), high, count)


def student_quantile(probability: float, freedom: int) -> float:
    """The quantile of Student's distribution with `freedom` degrees of freedom. `probability` is
    from 0.5 to 1.
    """
    low = 0.0
    high = 1.0
    while _student_cdf(high, freedom) < probability and high < 1e12:
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if _student_cdf(middle, freedom) < probability else (low, middle)
    return high


def _student_cdf(t: float, freedom: int) -> float:
    """Student's cumulative distribution for t ≥ 0, by Abramowitz and Stegun, 26.7.3 and 26.7.4."""
    angle = math.atan(t / math.sqrt(freedom))
    sine = math.sin(angle)
    square = math.cos(angle) ** 2
    term = total = math.cos(angle) if freedom % 2 else 1.0
    for k in range(3 if freedom % 2 else 2, freedom - 1, 2):
        term *= square * (k - 1) / k
        total += term
    if freedom == 1:
        return 0.5 + angle / math.pi
    return 0.5 + (angle + sine * total) / math.pi if freedom % 2 else 0.5 + sine * total / 2


def percentile(values: Sequence[float], part: float) -> float:
    """The percentile of the values, by nearest rank: `part` is 0.9 for the 90th percentile."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(part * len(ordered)) - 1)]


def log_ratio(slices: Sequence[Sequence[float]], others: Sequence[Sequence[float]]) -> float:
    """The logarithm of the ratio of run times of two models, from slices of runs made in turn.

    The ratio is the median of the ratios of adjacent slices: other processes usually slow both
    slices of such a pair down alike, and a pair in which only one slice was slow hardly changes the
    median. Models that were measured separately may have different numbers of slices; then the
    medians of all slices are compared.
    """
    own, other = ([statistics.median(one) for one in runs] for runs in (slices, others))
    if len(own) != len(other):
        return math.log(statistics.median(own) / statistics.median(other))
    return statistics.median(math.log(a / b) for a, b in zip(own, other, strict=True))
