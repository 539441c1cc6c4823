"""Find elements that change in a second run of the reference (the original model). They say nothing
about a candidate (an optimized model).

For example, if operands do not fit, onnxruntime's Concat leaves a part of its output unwritten,
with old contents of memory.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from fusionc.runtime.filled_memory import filled_memory
from fusionc.runtime.run_errors import RunError
from fusionc.runtime.runner import Feeds, Runner, closes_runners
from fusionc.verify.compare import Yardstick, unequal
from fusionc.verify.model_file import ModelFile
from fusionc.verify.order_dependence import Reach, farther

# Bytes that fill unwritten memory in two more sessions. In every type they give numbers that are
# neither 0 nor near each other.
_FILLS = (0x4B, 0xC6)


class SecondRun:
    """Runs the reference again: in its session, and in new sessions that start with other contents
    of memory.
    """

    def __init__(self, path: Path, runner: Runner, level: str = "disabled") -> None:
        self._path = path
        self._runner = runner
        self._level = level  # of onnxruntime's optimizers
        self._last: deque[tuple[Feeds, list[Reach | None]]] = deque(maxlen=1)

    def reaches(
        self, feeds: Feeds, outputs: Sequence[Any], yardsticks: Sequence[Yardstick]
    ) -> list[Reach | None]:
        """For each output, infinity in the elements that change in another run. None if no element
        changes.
        """
        for known, reaches in self._last:
            if known is feeds:  # the sample runs at another level of onnxruntime's optimizers
                return reaches
        found: list[Reach | None] = [None] * len(outputs)
        # Neighbouring runs are compared, not only each run with the first one: in the first run the
        # old contents of memory may be so large that all changes vanish next to them.
        for one, other in pairwise([outputs, *self._again(feeds)]):
            moved = map(_moved, one, other, yardsticks)
            found = [farther(*pair) for pair in zip(found, moved, strict=True)]
        self._last.append((feeds, found))
        return found

    @closes_runners
    def _again(self, feeds: Feeds) -> list[list[Any]]:
        runs = list[list[Any]]()
        with suppress(RunError):
            runs.append(self._runner.run(feeds))
            # Only one session of the model is in memory at a time. The runner opens its session
            # again when it is needed.
            self._runner.close()
            for byte in _FILLS:
                with filled_memory(byte):
                    runner = ModelFile(self._path).runner(self._level)
                    runs.append(runner.run(feeds))
                    runner.close()
        return runs


@dataclass
class Unsteady:
    """The number of elements that were not judged because they change in a second run, over all
    samples.
    """

    judged: set[str] = field(default_factory=set)
    _elements: Counter[str] = field(default_factory=Counter)
    _sizes: Counter[str] = field(default_factory=Counter)

    def add(self, names: Sequence[str], reaches: Sequence[Reach | None]) -> None:
        """Note one sample."""
        for name, reach in zip(names, reaches, strict=True):
            open_ = 0 if reach is None else int(np.isinf(reach).sum())
            if reach is None or open_ < reach.size:
                self.judged.add(name)
            if reach is not None and open_:
                self._elements[name] += open_
                self._sizes[name] += reach.size

    def notes(self, names: Sequence[str]) -> Iterator[str]:
        """The notes on the outputs, in their order."""
        why = "the reference gives another value in each run"
        for name in filter(self._elements.get, names):
            if name not in self.judged:
                yield f"{name} is not judged: {why}"
            else:
                counts = f"{self._elements[name]:,} of {self._sizes[name]:,}"
                yield f"of {name} {counts} elements are not judged: {why}"


def held_fast(
    outputs: Sequence[Any], candidate: Sequence[Any], reaches: Sequence[Reach | None]
) -> list[Any]:
    """The candidate's outputs, with the reference's elements in place of those not judged."""
    return [
        other
        if reach is None or np.shape(other) != reach.shape
        else np.where(np.isinf(reach), one, other)
        for one, other, reach in zip(outputs, candidate, reaches, strict=True)
    ]


def _moved(value: Any, again: Any, yardstick: Yardstick) -> Reach | None:
    if not isinstance(value, np.ndarray) or not isinstance(again, np.ndarray):
        return None
    if value.shape != again.shape:
        return np.full(value.shape, np.inf)
    return np.where(unequal(value, again, yardstick), np.inf, 0.0)
