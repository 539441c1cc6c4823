"""The search for changes that pay (make the model faster). First groups, and then single changes,
are measured in a few rounds. Changes that seem to pay are tested in new rounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, Protocol

from fusionc.tune.candidates import Group
from fusionc.tune.configuration import Configuration, TunedChange
from fusionc.tune.decisions import (
    LOOKS,
    Worth,
    changes_to_test,
    is_hopeless,
    order_of_members,
    verdict,
)

CHOOSING_ROUNDS = 3
# Settings are measured first, because they need no further conversion. Then come the other changes
# before the choice, and then the tests.
Stage = Literal["settings", "choose", "test"]


class Laboratory(Protocol):
    """Measures configurations. In tests of the search, this is replaced by a simulation."""

    @property
    def batch_size(self) -> int:
        """The number of changes that are measured together with the base."""

    def compare(self, base: Configuration, other: Configuration) -> str:
        """Compare what onnxruntime runs for two configurations. Returns "same", "different", or the
        reason why `other` fails.
        """

    def observe(
        self, stage: Stage, base: Configuration, others: Mapping[str, Configuration], number: int
    ) -> dict[str, float | str]:
        """Measure a round in fresh processes. Returns, for each of `others`, the logarithm of its
        time divided by the base's, or the reason why it cannot be run.
        """

    def has_time(self, stage: Stage) -> bool:
        """Whether the stage still has time within the budget."""


def search(
    base: Configuration, groups: Sequence[Group], laboratory: Laboratory, confidence: float
) -> dict[str, Worth]:
    """Find out what each change of the base is worth. Returns the worths by the names of the
    changes.
    """
    worths = {change.name: Worth(change) for group in groups for change in group.changes()}
    _choose([group.whole for group in groups], base, worths, laboratory)
    for group in groups:
        if worths[group.whole.name].state == "same":
            for change in group.members:
                worths[change.name].state = "same"
    _choose(order_of_members(groups, worths), base, worths, laboratory)
    chosen = changes_to_test(groups, worths)
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
    """Measure a few rounds of each change that makes a difference, while there is time."""
    stages: tuple[Stage, ...] = ("settings", "choose")
    for stage in stages:
        waiting = [
            change for change in changes if (change.kind == "settings") == (stage == "settings")
        ]
        while waiting and laboratory.has_time(stage):
            batch = _next_batch(stage, waiting, base, worths, laboratory)
            for number in range(CHOOSING_ROUNDS):
                if not batch or (number and not laboratory.has_time(stage)):
                    break
                _round(stage, batch, base, worths, laboratory, number)
                batch = [change for change in batch if worths[change.name].state != "fails"]


def _next_batch(
    stage: Stage,
    waiting: list[TunedChange],
    base: Configuration,
    worths: Mapping[str, Worth],
    laboratory: Laboratory,
) -> list[TunedChange]:
    """Take changes from the front of `waiting` until a batch is full, and return the batch. Changes
    that make no difference, or fail, are also taken; they get this state, but are not in the batch.
    """
    batch = list[TunedChange]()
    while waiting and len(batch) < laboratory.batch_size and laboratory.has_time(stage):
        change = waiting.pop(0)
        comparison = laboratory.compare(base, change.apply_to(base))
        worth = worths[change.name]
        if comparison == "different":
            batch.append(change)
        elif comparison == "same":
            worth.state = "same"
        else:
            worth.state = "fails"
            worth.why = comparison
    return batch


def _test(
    chosen: Sequence[Worth], base: Configuration, laboratory: Laboratory, confidence: float
) -> None:
    """Measure new rounds of the chosen changes, until each one is decided or hopeless, or time runs
    out.
    """
    worths = {worth.change.name: worth for worth in chosen}
    open_worths = list(chosen)
    number = 0
    while open_worths and number < LOOKS[-1] and laboratory.has_time("test"):
        for batch in _test_batches(open_worths, laboratory.batch_size):
            _round("test", batch, base, worths, laboratory, number)
        open_worths = [worth for worth in open_worths if worth.state != "fails"]
        number += 1
        if number in LOOKS:
            open_worths = _undecided_worths(open_worths, confidence, len(chosen))
    if number not in LOOKS:  # time ran out between two looks: this look replaces the remaining ones
        _undecided_worths(open_worths, confidence, len(chosen))


def _test_batches(worths: Sequence[Worth], size: int) -> Iterator[list[TunedChange]]:
    """Batches of changes of the graph, followed by batches of changes of settings."""
    for are_settings in (False, True):
        changes = [
            worth.change for worth in worths if (worth.change.kind == "settings") == are_settings
        ]
        yield from (changes[at : at + size] for at in range(0, len(changes), size))


def _undecided_worths(worths: Sequence[Worth], confidence: float, tests: int) -> list[Worth]:
    for worth in worths:
        worth.state = verdict(worth, confidence, tests)
    return [worth for worth in worths if worth.state == "undecided" and not is_hopeless(worth)]


def _round(
    stage: Stage,
    batch: Sequence[TunedChange],
    base: Configuration,
    worths: Mapping[str, Worth],
    laboratory: Laboratory,
    number: int,
) -> None:
    observed = laboratory.observe(
        stage, base, {change.name: change.apply_to(base) for change in batch}, number
    )
    for change in batch:
        worth = worths[change.name]
        logarithm = observed[change.name]
        if isinstance(logarithm, str):
            worth.state = "fails"
            worth.why = logarithm
        elif worth.state != "fails":
            (worth.tested if stage == "test" else worth.chosen).append(logarithm)
            worth.state = "undecided"
