"""Decide which changes pay, that is, make the model faster. This file only computes with logarithms
of measured ratios (time with the change / time without the change).

Of many changes that are measured, some seem to pay by chance. Therefore, a change that seems to pay
after a few rounds is only chosen for a test, and the test uses new rounds. A look is a decision
after some rounds of a test. The probability that any look at any change gives a wrong result is at
most 1 - confidence; each look gets an equal share of it.
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
LOOKS = (3, 5, 8, 12, 16)  # the numbers of rounds after which a test may be decided
MOST_TESTS = 6
_MIN_SHARE = 0.2  # the share of its group's saving that a member must save to be tested
_PROMISING_RATIO = 0.9  # an undecided change with a smaller ratio may be measured in the last run
# If the members that are good enough save at least this share of their group's saving, they are
# tested instead of the whole group.
_EXPLAINED_SHARE = 0.5


@dataclass
class Worth:
    """The measurements of a change, and what they show."""

    change: TunedChange
    # "pays" and "costs" are certain with the required confidence. "same" means that onnxruntime
    # runs the same operators with the change as without it.
    state: State = "not measured"
    chosen: list[float] = field(default_factory=list)  # logarithms of ratios, before the choice
    tested: list[float] = field(default_factory=list)  # logarithms of ratios, in the test
    is_chosen: bool = False  # whether the change was chosen for a test
    why: str = ""  # the reason, if the change fails

    @property
    def logarithms(self) -> list[float]:
        """The logarithms in the test. If there was no test, those before the choice, which make a
        chosen change look better than it is.
        """
        return self.tested or self.chosen

    def interval(self, confidence: float) -> RatioInterval | None:
        """The ratio of this change with its bounds, which do not take other changes into account.
        `None` if the change was not measured.
        """
        return interval_of(self.logarithms, confidence) if self.logarithms else None


def verdict(worth: Worth, confidence: float, tests: int) -> State:
    """The state of a change at one look at its test. `tests` is the number of changes that are
    tested.
    """
    if len(worth.tested) < 2:
        return "undecided"
    bounds = interval_of(worth.tested, 1 - (1 - confidence) / (tests * len(LOOKS)))
    return "pays" if bounds.is_faster else "costs" if bounds.is_slower else "undecided"


def is_hopeless(worth: Worth) -> bool:
    """Whether further rounds of a test are useless: so far, the change does not seem to pay."""
    return len(worth.tested) >= LOOKS[0] and statistics.median(worth.tested) >= 0


def changes_to_test(groups: Sequence[Group], worths: Mapping[str, Worth]) -> list[Worth]:
    """The changes that seem to pay most. From each group, either the whole or some members are
    chosen, so that no two changes overlap.
    """
    promising = list[Worth]()
    for group in groups:
        whole = worths[group.whole.name]
        members = sorted((worths[change.name] for change in group.members), key=_gain, reverse=True)
        members = [worth for worth in members if _gain(worth) > max(0.0, _MIN_SHARE * _gain(whole))]
        if members and sum(map(_gain, members)) >= _EXPLAINED_SHARE * _gain(whole):
            promising += members
        elif _gain(whole) > 0:
            promising.append(whole)
    promising.sort(key=_promise, reverse=True)
    return _drop_conflicts(promising)[:MOST_TESTS]


def order_of_members(groups: Sequence[Group], worths: Mapping[str, Worth]) -> list[TunedChange]:
    """The members of all groups, beginning with the group that seems to pay most. Groups in the
    state "same" are left out, because their members make no difference either.
    """
    several = [
        group for group in groups if group.members and worths[group.whole.name].state != "same"
    ]
    several.sort(key=lambda group: _gain(worths[group.whole.name]), reverse=True)
    return [change for group in several for change in group.members]


def paying_changes(worths: Iterable[Worth]) -> list[TunedChange]:
    """The changes that pay and do not conflict with each other."""
    paying = sorted(
        (worth for worth in worths if worth.state == "pays"),
        key=lambda worth: fmean(worth.logarithms),
    )
    return [worth.change for worth in _drop_conflicts(paying)]


def most_promising_changes(worths: Iterable[Worth], confidence: float) -> list[TunedChange]:
    """At most one change that the last run should measure if no change pays with the required
    confidence. It must have been faster in every round. In addition, its own interval must be below
    1, or its ratio below `_PROMISING_RATIO`.
    """
    promising = []
    for worth in worths:
        if worth.state == "undecided" and max(worth.logarithms, default=0.0) < 0:
            interval = worth.interval(confidence)
            if interval is not None and (interval.is_faster or interval.ratio < _PROMISING_RATIO):
                promising.append(worth)
    promising.sort(key=lambda worth: fmean(worth.logarithms))
    return [worth.change for worth in promising[:1]]


def is_untested(worth: Worth) -> bool:
    """Whether a change was chosen for a test, but time ran out before the test."""
    return worth.is_chosen and not worth.tested and worth.state != "fails"


def sorted_by_worth(worths: Sequence[Worth]) -> list[Worth]:
    """Sort changes: first those that pay, then others by their ratios, and last those that were not
    measured.
    """
    key = [(worth.state != "pays", fmean(worth.logarithms or [math.inf])) for worth in worths]
    return [worths[at] for at in sorted(range(len(worths)), key=key.__getitem__)]


def noise_of(worths: Collection[Worth]) -> float:
    """The noise of tests: the standard deviation of the logarithm of a ratio between rounds of the
    same change, pooled over all changes. 0 if no change was tested in more than one round.
    """
    deviations = [one - fmean(worth.tested) for worth in worths for one in worth.tested]
    freedom = len(deviations) - sum(bool(worth.tested) for worth in worths)
    return math.sqrt(sum(one * one for one in deviations) / freedom) if freedom else 0.0


def _gain(worth: Worth) -> float:
    return (
        -statistics.median(worth.chosen) if worth.chosen and worth.state != "fails" else -math.inf
    )


def _promise(worth: Worth) -> float:
    """The gain of a change, divided by its noise. Unlike the gain itself, this number does not
    become large because of a single lucky round.
    """
    noise = statistics.stdev(worth.chosen) if len(worth.chosen) > 1 else math.inf
    return _gain(worth) / (noise + 0.005)


def _drop_conflicts(worths: Sequence[Worth]) -> list[Worth]:
    """All changes, but only the first one that concerns threads. The others conflict with it:
    numbers of threads exclude each other, and a single thread does not spin.
    """
    first = next((worth for worth in worths if worth.change.is_of_threads), None)
    return [worth for worth in worths if not worth.change.is_of_threads or worth is first]
