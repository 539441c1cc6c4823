"""The budget of a verification: elements to compute and bytes to hold, the same on every machine.

A verification with the default budget takes twenty to thirty seconds. For a model of many nodes it
takes as long as three conversions. It needs memory for four times the weights, and a gigabyte more.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import onnx

from fusionc.model.tensors import byte_size
from fusionc.protos import tensors_of

BILLION = 1_000_000_000
# the elements that all runs of all models may compute together, counted as by node_work
ELEMENTS = 30 * BILLION
# elements for each node of a model of many nodes, so that the budget grows with the time of a
# conversion
_A_NODE = 2_000_000
# bytes for the values of one run; the weights and their copies need memory in addition
BYTES = 512 << 20
# the runs on each sample: the reference (the original model), the candidate (the optimized one),
# and the candidate with onnxruntime's optimizers on
_MODELS = 3
_NAMED = 3  # the largest number of omitted things that a message names
_HELD_OUTPUT = 48  # bytes of memory for each element of an output while outputs are compared
# a modest sample fits into the budget this many times, so that other samples and runs have room
_RUNS = 30


class Work(NamedTuple):
    """The cost of a run."""

    elements: int  # elements to compute, counted as by node_work
    bytes: int  # bytes to hold at once
    outputs: int = 0  # elements of the outputs
    guessed: int = 0  # elements of values whose sizes depend on other values

    def scaled(self, more: int, less: int) -> Work:
        """The cost of a run that is `more` / `less` times as large."""
        return Work(*(number * more // max(less, 1) for number in self))

    def with_outputs(self, made: int) -> Work:
        """The cost of a run whose outputs have `made` elements. If these are more than expected,
        the guessed part also grows.
        """
        more = made - self.outputs
        if more <= 0:
            return self
        grown = self.guessed * more // max(self.outputs, 1)
        return Work(
            self.elements + grown, self.bytes + more * _HELD_OUTPUT, made, self.guessed + grown
        )


@dataclass
class Budget:
    """The limits of a verification, and the cost of its samples so far."""

    elements: int
    bytes: int
    spent: int = 0
    most_bytes: int = 0  # the largest need of a sample
    compared: int = 0  # elements of the smallest output, summed over ordinary samples
    left_out: list[str] = field(default_factory=list)  # what did not fit into the budget

    def is_modest(self, work: Work) -> bool:
        """Whether samples of this cost leave room for all other samples of a verification."""
        return _RUNS * work.elements <= self.elements and 2 * work.bytes <= self.bytes

    def has_room(self, work: Work) -> bool:
        """Whether there is room for one more sample."""
        return self.spent + _MODELS * work.elements <= self.elements and work.bytes <= self.bytes

    def spend(self, work: Work, more_runs: int = 0) -> None:
        """Add the cost of a sample: its usual runs, and `more_runs` additional ones."""
        self.most_bytes = max(self.most_bytes, work.bytes)
        self.spend_runs(work, _MODELS + more_runs)

    def spend_runs(self, work: Work, runs: int) -> None:
        """Add the cost of `runs` runs of a sample."""
        self.spent += max(runs, 0) * work.elements

    @property
    def is_spent(self) -> bool:
        """Whether all elements of the budget are spent."""
        return self.spent >= self.elements

    def anew(self) -> Budget:
        """A budget with the same limits and nothing spent."""
        return Budget(self.elements, self.bytes)

    @property
    def shortened(self) -> str:
        """The samples that were left out, and the cost of the others. "" if none were left out."""
        if not self.left_out:
            return ""
        others = f" and {len(self.left_out) - _NAMED} others" if len(self.left_out) > _NAMED else ""
        named = ", ".join(self.left_out[:_NAMED])
        return f"left out to save budget: {named}{others} ({self}; --verify_budget)"

    def __str__(self) -> str:
        used = f"{self.spent / BILLION:.3g} of {self.elements / BILLION:.3g} billion elements"
        return (
            f"{used}, {self.most_bytes / (1 << 20):.0f} of {self.bytes / (1 << 20):.0f} MiB at once"
        )


def elements_of(billions: float | None) -> int | None:
    """The elements that --verify_budget allows: at least one, or 0 for no limit. None if the option
    is not set.
    """
    return None if billions is None else 0 if billions == 0 else max(1, round(billions * BILLION))


def budget_for(model: onnx.ModelProto, elements: int | None = None) -> Budget:
    """The budget to verify a model.

    `elements` replaces the default number of elements. 0 lifts both limits, of elements and bytes.
    """
    if elements == 0:
        return Budget(1 << 62, 1 << 62)
    weights = sum(map(byte_size, tensors_of(model)))
    return Budget(elements or max(ELEMENTS, _A_NODE * len(model.graph.node)), BYTES + weights)
