"""Which changes pay: pure arithmetic on the logarithms of ratios that rounds have observed.

Many changes are looked at, and some seem to pay by chance. So what seems to pay after a few rounds
is only chosen to be tested, and the test has rounds of its own, of which the choice knew nothing.
All tests together are wrong with no more than 1 - confidence: each of `tests` changes, at each of
the looks, has its part of that.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Literal

from fusionc.bench.intervals import RatioInterval, interval_of
from fusionc.tune.candidates import Group
from fusionc.tune.configuration import TunedChange

State = Literal["pays", "costs", "undecided", "same", "fails", "not measured"]
LOOKS = (3, 5, 8, 12, 16)  # rounds of a test after which it may be decided
MOST_TESTS = 6
_PART = 0.2  # of what a group saves, less than which is no reason to test a member
_WORTH_A_LOOK = 0.9  # of the time
# of what a group saves, which its best members have to save for it not to be tested itself
_EXPLAINED = 0.5


@dataclass
class Worth:
    """What is known of a change: logarithms of its ratios from the rounds that chose it, and from
    those of its test.

    `is_chosen` says that it was to be tested, `state` whether it pays or costs, beyond doubt;
    "same" where onnxruntime runs the same with it.
    """

    change: TunedChange
    state: State = "not measured"
    chosen: list[float] = field(default_factory=list)
    tested: list[float] = field(default_factory=list)
    is_chosen: bool = False
    why: str = ""

    @property
    def logarithms(self) -> list[float]:
        """Those of the test where there was one: the others have made it look better than it is."""
        return self.tested or self.chosen

    def interval(self, confidence: float) -> RatioInterval | None:
        """For this change by itself, whatever else was looked at; None where nothing was
        measured.
        """
        return interval_of(self.logarithms, confidence) if self.logarithms else None


def verdict(worth: Worth, confidence: float, tests: int) -> State:
    """What the test says at a look, as one of so many tests."""
    if len(worth.tested) < 2:
        return "undecided"
    bounds = interval_of(worth.tested, 1 - (1 - confidence) / (tests * len(LOOKS)))
    return "pays" if bounds.is_faster else "costs" if bounds.is_slower else "undecided"


def is_hopeless(worth: Worth) -> bool:
    """Whether it is not worth while to go on testing: it seems to cost, by now."""
    return len(worth.tested) >= LOOKS[0] and statistics.median(worth.tested) >= 0


def worth_testing(groups: Sequence[Group], worths: Mapping[str, Worth]) -> list[Worth]:
    """The changes that seem to pay most: a group or its members, whichever saves more, and no two
    that overlap.
    """
    found = list[Worth]()
    for group in groups:
        whole = worths[group.whole.name]
        members = sorted((worths[change.name] for change in group.members), key=_gain, reverse=True)
        members = [worth for worth in members if _gain(worth) > max(0.0, _PART * _gain(whole))]
        if members and sum(map(_gain, members)) >= _EXPLAINED * _gain(whole):
            found += members
        elif _gain(whole) > 0:
            found.append(whole)
    found.sort(key=_promise, reverse=True)
    return _one_of_threads(found)[:MOST_TESTS]


def order_of_members(groups: Sequence[Group], worths: Mapping[str, Worth]) -> list[TunedChange]:
    """Members of groups, those first whose group seems to pay most; none of a group that runs the
    same.
    """
    several = [
        group for group in groups if group.members and worths[group.whole.name].state != "same"
    ]
    several.sort(key=lambda group: _gain(worths[group.whole.name]), reverse=True)
    return [change for group in several for change in group.members]


def that_pay(worths: Iterable[Worth]) -> list[TunedChange]:
    """The changes that pay and go together: of those of threads the best, as one thread has nobody
    to wait for.
    """
    paying = sorted(
        (worth for worth in worths if worth.state == "pays"),
        key=lambda worth: fmean(worth.logarithms),
    )
    best = next((worth for worth in paying if worth.change.is_of_threads), None)
    return [worth.change for worth in paying if worth is best or not worth.change.is_of_threads]


def most_promising(worths: Iterable[Worth], confidence: float) -> list[TunedChange]:
    """What the last run should look at where nothing pays beyond doubt: the change that has always
    seemed to be faster, and by itself surely is, or would save a part that is worth a look.
    """
    found = []
    for worth in worths:
        if worth.state == "undecided" and max(worth.logarithms, default=0.0) < 0:
            interval = worth.interval(confidence)
            if interval is not None and (interval.is_faster or interval.ratio < _WORTH_A_LOOK):
                found.append(worth)
    return [worth.change for worth in sorted(found, key=lambda worth: fmean(worth.logarithms))[:1]]


def is_untested(worth: Worth) -> bool:
    """Whether a change was to be tested, and there was no time for it."""
    return worth.is_chosen and not worth.tested and worth.state != "fails"


def in_order(worths: Sequence[Worth]) -> list[Worth]:
    """What pays first, then what seems to pay most; what was not measured last."""
    key = [(worth.state != "pays", fmean(worth.logarithms or [math.inf])) for worth in worths]
    return [worths[at] for at in sorted(range(len(worths)), key=key.__getitem__)]


def noise_of(worths: Collection[Worth]) -> float:
    """By how much the ratio of a change differs from round to round of its test: the standard
    deviation of its logarithm, of all changes together; 0 where none was tested in more than one
    round.
    """
    deviations = [one - fmean(worth.tested) for worth in worths for one in worth.tested]
    freedom = len(deviations) - sum(bool(worth.tested) for worth in worths)
    return math.sqrt(sum(one * one for one in deviations) / freedom) if freedom else 0.0


def _gain(worth: Worth) -> float:
    return (
        -statistics.median(worth.chosen) if worth.chosen and worth.state != "fails" else -math.inf
    )


def _promise(worth: Worth) -> float:
    """The gain in units of its own noise, which a single lucky round cannot make large."""
    noise = statistics.stdev(worth.chosen) if len(worth.chosen) > 1 else math.inf
    return _gain(worth) / (noise + 0.005)


def _one_of_threads(found: Sequence[Worth]) -> list[Worth]:
    """Numbers of threads exclude one another, and one thread does not spin: only one such change
    can be taken.
    """
    best = next((worth for worth in found if worth.change.is_of_threads), None)
    return [worth for worth in found if not worth.change.is_of_threads or worth is best]
