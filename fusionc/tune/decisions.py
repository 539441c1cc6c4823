"""Which changes pay: pure arithmetic on the logarithms of ratios that rounds have observed.

Many changes are measured, and some seem to pay by chance. So what seems to pay after a few rounds
is only chosen to be tested, and the test has new rounds, unknown to the choice. The probability
that any test is wrong is at most 1 - confidence: each look at each of `tests` changes has an equal
share of it.
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
_PART = 0.2  # a member is tested if it saves at least this part of the saving of its group
_WORTH_A_LOOK = 0.9  # of the time
# a group itself is tested unless its best members save this part of its saving
_EXPLAINED = 0.5


@dataclass
class Worth:
    """What is known of a change."""

    change: TunedChange
    # "pays" and "costs" are beyond doubt; "same" means that onnxruntime runs the same with it
    state: State = "not measured"
    # logarithms of its ratios in the rounds that choose, and in those of its test
    chosen: list[float] = field(default_factory=list)
    tested: list[float] = field(default_factory=list)
    is_chosen: bool = False  # whether it is to be tested
    why: str = ""  # it fails

    @property
    def logarithms(self) -> list[float]:
        """Those of the test, if there was one: the others make a chosen change look better than it
        is.
        """
        return self.tested or self.chosen

    def interval(self, confidence: float) -> RatioInterval | None:
        """The ratio of this change by itself, whatever else was measured; None if it was not
        measured.
        """
        return interval_of(self.logarithms, confidence) if self.logarithms else None


def verdict(worth: Worth, confidence: float, tests: int) -> State:
    """What the test says at a look; it is one of so many tests."""
    if len(worth.tested) < 2:
        return "undecided"
    bounds = interval_of(worth.tested, 1 - (1 - confidence) / (tests * len(LOOKS)))
    return "pays" if bounds.is_faster else "costs" if bounds.is_slower else "undecided"


def is_hopeless(worth: Worth) -> bool:
    """Whether more tests are useless: by now, it seems to cost."""
    return len(worth.tested) >= LOOKS[0] and statistics.median(worth.tested) >= 0


def changes_to_test(groups: Sequence[Group], worths: Mapping[str, Worth]) -> list[Worth]:
    """The changes that seem to pay most: a group or its members, whichever saves more, so that no
    two overlap.
    """
    promising = list[Worth]()
    for group in groups:
        whole = worths[group.whole.name]
        members = sorted((worths[change.name] for change in group.members), key=_gain, reverse=True)
        members = [worth for worth in members if _gain(worth) > max(0.0, _PART * _gain(whole))]
        if members and sum(map(_gain, members)) >= _EXPLAINED * _gain(whole):
            promising += members
        elif _gain(whole) > 0:
            promising.append(whole)
    promising.sort(key=_promise, reverse=True)
    return _drop_conflicts(promising)[:MOST_TESTS]


def order_of_members(groups: Sequence[Group], worths: Mapping[str, Worth]) -> list[TunedChange]:
    """Members of groups, starting with the group that seems to pay most. Groups that run the same
    are left out.
    """
    several = [
        group for group in groups if group.members and worths[group.whole.name].state != "same"
    ]
    several.sort(key=lambda group: _gain(worths[group.whole.name]), reverse=True)
    return [change for group in several for change in group.members]


def paying_changes(worths: Iterable[Worth]) -> list[TunedChange]:
    """The changes that pay and go together."""
    paying = sorted(
        (worth for worth in worths if worth.state == "pays"),
        key=lambda worth: fmean(worth.logarithms),
    )
    return [worth.change for worth in _drop_conflicts(paying)]


def most_promising_changes(worths: Iterable[Worth], confidence: float) -> list[TunedChange]:
    """At most one change for the last run to measure if nothing pays beyond doubt. It has seemed
    faster in every round, and by itself it surely is, or it would save a considerable part.
    """
    promising = []
    for worth in worths:
        if worth.state == "undecided" and max(worth.logarithms, default=0.0) < 0:
            interval = worth.interval(confidence)
            if interval is not None and (interval.is_faster or interval.ratio < _WORTH_A_LOOK):
                promising.append(worth)
    promising.sort(key=lambda worth: fmean(worth.logarithms))
    return [worth.change for worth in promising[:1]]


def is_untested(worth: Worth) -> bool:
    """Whether a change was to be tested, but time ran out."""
    return worth.is_chosen and not worth.tested and worth.state != "fails"


def sorted_by_worth(worths: Sequence[Worth]) -> list[Worth]:
    """What pays first, then what seems to pay most; what was not measured last."""
    key = [(worth.state != "pays", fmean(worth.logarithms or [math.inf])) for worth in worths]
    return [worths[at] for at in sorted(range(len(worths)), key=key.__getitem__)]


def noise_of(worths: Collection[Worth]) -> float:
    """How much the ratio of a change differs from round to round of its test: the standard
    deviation of its logarithm, pooled over all changes; 0 if none was tested in more than one
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
    """The gain in units of its own noise. A single lucky round cannot make it large."""
    noise = statistics.stdev(worth.chosen) if len(worth.chosen) > 1 else math.inf
    return _gain(worth) / (noise + 0.005)


def _drop_conflicts(worths: Sequence[Worth]) -> list[Worth]:
    """Only the first change about threads: numbers of threads exclude one another, and one thread
    does not spin.
    """
    first = next((worth for worth in worths if worth.change.is_of_threads), None)
    return [worth for worth in worths if not worth.change.is_of_threads or worth is first]
