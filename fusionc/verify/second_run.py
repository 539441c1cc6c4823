"""Where the reference gives something else when it runs a second time: there it is no judge.

Of operands that do not fit, say, onnxruntime's Concat leaves a part of its output unwritten, with
what lay in memory.
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

# What memory that nobody has written holds in two more sessions: bytes of which numbers are made
# that are neither 0 nor near each other, whatever their type is.
_FILLS = (0x4B, 0xC6)


class SecondRun:
    """Runs the reference again: in its session, and in new ones, which find other contents in
    memory.
    """

    def __init__(self, path: Path, runner: Runner) -> None:
        self._path = path
        self._runner = runner
        self._last: deque[tuple[Feeds, list[Reach | None]]] = deque(maxlen=1)

    def reaches(
        self, feeds: Feeds, outputs: Sequence[Any], yardsticks: Sequence[Yardstick]
    ) -> list[Reach | None]:
        """For each output infinity in the elements that another run makes something else; None
        where none are.
        """
        for known, reaches in self._last:
            if known is feeds:  # another level of onnxruntime's optimizers
                return reaches
        found: list[Reach | None] = [None] * len(outputs)
        # What lay in memory the first time may be as large as to hide all else: the others differ
        # in what they found.
        for one, other in pairwise([outputs, *self._again(feeds)]):
            moved = map(_moved, one, other, yardsticks)
            found = [farther(*pair) for pair in zip(found, moved, strict=True)]
        self._last.append((feeds, found))
        return found

    @closes_runners
    def _again(self, feeds: Feeds) -> list[list[Any]]:
        found = list[list[Any]]()
        with suppress(RunError):
            found.append(self._runner.run(feeds))
            # one session of the model at a time is in memory; it opens again when it is needed
            self._runner.close()
            for byte in _FILLS:
                with filled_memory(byte):
                    runner = ModelFile(self._path).runner()
                    found.append(runner.run(feeds))
                    runner.close()
        return found


@dataclass
class Unsteady:
    """What of the outputs was not judged for that, over all samples."""

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
        """What to say of the outputs, in their order."""
        why = "there the reference gives something else each time"
        for name in filter(self._elements.get, names):
            if name not in self.judged:
                yield f"{name} is not judged: {why}"
            else:
                yield f"of {name} {self._elements[name]:,} of {self._sizes[name]:,} elements are not judged: {why}"


def held_fast(
    outputs: Sequence[Any], found: Sequence[Any], reaches: Sequence[Reach | None]
) -> list[Any]:
    """What a candidate gives, with the reference's elements where that is no judge."""
    return [
        other
        if reach is None or np.shape(other) != reach.shape
        else np.where(np.isinf(reach), one, other)
        for one, other, reach in zip(outputs, found, reaches, strict=True)
    ]


def _moved(value: Any, again: Any, yardstick: Yardstick) -> Reach | None:
    if not isinstance(value, np.ndarray) or not isinstance(again, np.ndarray):
        return None
    if value.shape != again.shape:
        return np.full(value.shape, np.inf)
    return np.where(unequal(value, again, yardstick), np.inf, 0.0)
