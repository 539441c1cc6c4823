"""The search: groups first, then single changes, a few rounds each; those that seem to pay are
tested on new rounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

from fusionc.tune.candidates import Group
from fusionc.tune.configuration import Configuration, TunedChange
from fusionc.tune.decisions import (
    LOOKS,
    Worth,
    is_hopeless,
    order_of_members,
    verdict,
    worth_testing,
)

CHOOSING_ROUNDS = 3
# settings are chosen first, as they need no conversion
Stage = Literal["settings", "choose", "test"]


class Laboratory(Protocol):
    """Who measures."""

    @property
    def at_a_time(self) -> int:
        """How many changes are measured beside the base."""

    def compared(self, base: Configuration, other: Configuration) -> str:
        """ "same" where onnxruntime runs the same of both, "different", or why the other one cannot
        be had.
        """

    def observe(
        self, stage: Stage, base: Configuration, others: Mapping[str, Configuration], number: int
    ) -> dict[str, float | str]:
        """A round in fresh processes: for each of the others the logarithm of its ratio to the
        base, or why it cannot be run.
        """

    def has_time(self, stage: Stage) -> bool:
        """Whether the budget of a stage is not spent."""


def search(
    base: Configuration, groups: Sequence[Group], laboratory: Laboratory, confidence: float
) -> dict[str, Worth]:
    """What each change of the base is worth, by name; those that pay are part of the result."""
    worths = {change.name: Worth(change) for group in groups for change in group.changes()}
    _choose([group.whole for group in groups], base, worths, laboratory)
    for group in groups:
        if worths[group.whole.name].state == "same":
            for change in group.members:
                worths[change.name].state = "same"
    _choose(order_of_members(groups, worths), base, worths, laboratory)
    chosen = worth_testing(groups, worths)
    for worth in chosen:
        worth.is_chosen = True
    _test(chosen, base, laboratory, confidence)
    return worths


def _choose(
    changes: Sequence[TunedChange],
    base: Configuration,
    worths: Mapping[str, Worth],
    laboratory: Laboratory,
) -> None:
    """A few rounds of each change that makes a difference, as long as there is time."""
    stages: tuple[Stage, ...] = ("settings", "choose")
    for stage in stages:
        left = [
            change for change in changes if (change.kind == "settings") == (stage == "settings")
        ]
        while left and laboratory.has_time(stage):
            batch = list[TunedChange]()
            while left and len(batch) < laboratory.at_a_time and laboratory.has_time(stage):
                change = left.pop(0)
                found = laboratory.compared(base, change.applied(base))
                worth = worths[change.name]
                if found == "different":
                    batch.append(change)
                elif found == "same":
                    worth.state = "same"
                else:
                    worth.state = "fails"
                    worth.why = found
            for number in range(CHOOSING_ROUNDS if batch else 0):
                if batch and (not number or laboratory.has_time(stage)):
                    _round(stage, batch, base, worths, laboratory, number)
                    batch = [change for change in batch if worths[change.name].state != "fails"]


def _test(
    chosen: Sequence[Worth], base: Configuration, laboratory: Laboratory, confidence: float
) -> None:
    """New rounds of those that were chosen, until each is decided, hopeless, or the time is
    over.
    """
    worths = {worth.change.name: worth for worth in chosen}
    left = list(chosen)
    number = 0
    while left and number < LOOKS[-1] and laboratory.has_time("test"):
        for settings in (False, True):
            same_kind = [
                worth.change for worth in left if (worth.change.kind == "settings") == settings
            ]
            for at in range(0, len(same_kind), laboratory.at_a_time):
                batch = same_kind[at : at + laboratory.at_a_time]
                _round("test", batch, base, worths, laboratory, number)
        left = [worth for worth in left if worth.state != "fails"]
        number += 1
        if number in LOOKS:
            left = _still_open(left, confidence, len(chosen))
    if number not in LOOKS:  # one look instead of those that are left
        _still_open(left, confidence, len(chosen))


def _still_open(left: Sequence[Worth], confidence: float, tests: int) -> list[Worth]:
    for worth in left:
        worth.state = verdict(worth, confidence, tests)
    return [worth for worth in left if worth.state == "undecided" and not is_hopeless(worth)]


def _round(
    stage: Stage,
    batch: Sequence[TunedChange],
    base: Configuration,
    worths: Mapping[str, Worth],
    laboratory: Laboratory,
    number: int,
) -> None:
    found = laboratory.observe(
        stage, base, {change.name: change.applied(base) for change in batch}, number
    )
    for change in batch:
        worth = worths[change.name]
        logarithm = found[change.name]
        if isinstance(logarithm, str):
            worth.state = "fails"
            worth.why = logarithm
        elif worth.state != "fails":
            (worth.tested if stage == "test" else worth.chosen).append(logarithm)
            worth.state = "undecided"
