"""Find the first inner value in which two models differ: `fusionc verify --locate`."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx

from fusionc.disk.load import load
from fusionc.errors import FusioncError
from fusionc.protos.node_origin import origin_of
from fusionc.runtime.run_errors import OutOfMemory, RunError
from fusionc.runtime.runner import Feeds, closes_runners
from fusionc.verify.compare import Mismatch, compare, largest_difference
from fusionc.verify.conditioning import moved_feeds
from fusionc.verify.inputs.given_values import GivenValues
from fusionc.verify.inputs.search import InputSearch
from fusionc.verify.model_file import ModelFile
from fusionc.verify.model_part import SeenModel
from fusionc.verify.noise import ABOUT, is_within

# values that are compared in one run
_FIRST = 4
_MOST = 512
_DRAWS = 4
_Samples = Callable[[], Iterator[tuple[str, Feeds]]]
_BYTES = 64 << 20  # of the values of one sample


@dataclass(frozen=True)
class Located:
    """The result of comparing values that two models have under the same names, in the order of the
    reference.
    """

    shared: int  # values that both models have
    compared: int  # the number of equal values before the first that differs
    name: str = ""  # the first value that differs; "" if all are equal
    sample: str = ""  # the sample on which it differs
    reason: str = ""  # the difference
    reference: str = ""  # the node that computes the value in the reference
    candidate: str = ""  # the node that computes the value in the candidate
    skipped: tuple[str, ...] = ()  # values that are too large for memory
    # values that differ no more than moving the inputs by rounding changes them in the reference
    excused: int = 0
    is_inner: bool = False  # whether the models' outputs are equal although this value differs

    @property
    def status(self) -> str:
        """The result in the words of a verification."""
        if self.name:
            return "different"
        return "equal" if self.shared else "impossible"

    @property
    def _place(self) -> str:
        if self.compared or self.skipped:
            return f"after {self.compared} of {self.shared}"
        return f"the very first of {self.shared} values"

    def as_json(self) -> dict[str, Any]:
        """The result as plain data."""
        return {"status": self.status, "summary": str(self), **asdict(self)}

    def __str__(self) -> str:
        more = (
            f" ({self.excused} of them except for rounding that the model amplifies)"
            if self.excused
            else ""
        )
        more += f" ({len(self.skipped)} left out for lack of memory)" if self.skipped else ""
        if not self.shared:
            return "the models have no values of the same name, except for inputs and outputs"
        if not self.name:
            return (
                f"all {self.compared} values that both models have are equal on finite inputs{more}"
            )
        return (
            f"the first value that differs is {self.name}, {self._place} that both models have"
            f"{more}: {self.sample}: {self.reason}\n"
            f"  reference: {self.reference}\n  candidate: {self.candidate}"
            + (
                "\n  the outputs are the same: this name may mean another value in the candidate"
                if self.is_inner
                else ""
            )
        )


@closes_runners
def locate(
    reference: Path,
    candidate: Path,
    *,
    input_shape: Mapping[str, tuple[int, ...]] | None = None,
    inputs: Path | None = None,
    seeds: Sequence[int] = (0, 1, 2),
    progress: Callable[[str], None] = lambda _: None,
) -> Located:
    """The first value in which two models differ, on the samples of `inputs`, on a sample for each
    seed, and on mixed magnitudes, as in `verify`.

    Each run compares a limited number of values. To save memory, only one model at a time is
    loaded, its weights are mapped from their files, and the values of the first model are kept in
    files. Raises FusioncError if a file is not a model or does not run, and UsageError as `verify`
    does.
    """
    for path in (reference, candidate):
        load(path)
    with TemporaryDirectory(prefix="fusionc-") as folder:
        scratch = Path(folder)
        try:
            ordinary, edges = _samples(reference, input_shape, inputs, seeds)
            for name in ("reference", "candidate", "values"):
                (scratch / name).mkdir()
            ours = SeenModel(reference, scratch / "reference")
            theirs = SeenModel(candidate, scratch / "candidate")
            located = _Search(ours, theirs, ordinary, scratch / "values", progress).run()
            if located.name or next(edges(), None) is None:
                return located
            # extreme values amplify more than rounding
            beyond = _Search(ours, theirs, edges, scratch / "values", progress).run()
            return beyond if beyond.name else located
        except RunError as error:
            hint = "compare the models without --locate, to see which of them does not run"
            raise FusioncError(
                f"onnxruntime cannot run the models in parts: {error}", hint=hint
            ) from error


def _samples(
    reference: Path,
    shapes: Mapping[str, tuple[int, ...]] | None,
    inputs: Path | None,
    seeds: Sequence[int],
) -> tuple[_Samples, _Samples]:
    """Two functions that return the ordinary samples, and the samples of mixed magnitudes. They can
    be called repeatedly, and do not keep the values.
    """
    file = ModelFile(reference)
    model = file.proto()
    given = None if inputs is None else GivenValues(inputs).reader(model)
    runner = file.runner(is_lean=True)
    search = InputSearch(runner, model, file.folder, shapes or {})
    wanted = (
        sample
        for sample in search.samples(seeds, nonfinite=False)
        if sample.style.floats != "zeros"
    )
    # zeros are left out: on them, values differ only by rounding
    drawn = [replace(sample, feeds={}, outputs=[]) for sample in wanted]
    runner.close()

    def ordinary() -> Iterator[tuple[str, Feeds]]:
        yield from (
            (sample.label, sample.feeds) for sample in (given() if given is not None else ())
        )
        yield from ((sample.label, search.feeds(sample)) for sample in drawn if not sample.edge)

    def edges() -> Iterator[tuple[str, Feeds]]:
        yield from ((sample.label, search.feeds(sample)) for sample in drawn if sample.edge)

    return ordinary, edges


@dataclass
class _Search:
    ours: SeenModel
    theirs: SeenModel
    samples: _Samples
    folder: Path
    progress: Callable[[str], None]
    excused: int = 0

    def run(self) -> Located:
        names = [name for name in self.ours.makers if name in self.theirs.makers]
        left = iter(names)
        at_once = _FIRST
        compared = 0
        skipped = list[str]()
        while part := list(islice(left, at_once)):
            while part:
                self.progress(
                    f"comparing {compared + 1} to {compared + len(part)} of {len(names)} values"
                )
                try:
                    found, size = self._compared(part)
                except OutOfMemory:
                    if len(part) == 1:
                        skipped += part
                        break
                    at_once = len(part) // 2
                    left = iter([*part[at_once:], *left])
                    part = part[:at_once]
                    continue
                if found is not None:
                    number, sample, mismatch = found
                    name = part[number]
                    reason = f"{mismatch.reason}{self._other_constants(name)}"
                    excused = self.excused
                    return Located(
                        len(names),
                        compared + number,
                        name,
                        sample,
                        reason,
                        _described(self.ours.makers[name]),
                        _described(self.theirs.makers[name]),
                        tuple(skipped),
                        excused,
                        self._has_same_outputs(),
                    )
                compared += len(part)
                at_once = max(1, min(2 * len(part), _MOST, len(part) * _BYTES // max(size, 1)))
                part = []
        return Located(len(names), compared, skipped=tuple(skipped), excused=self.excused)

    def _other_constants(self, name: str) -> str:
        """A note on constants that a value is computed from and that differ in the other model."""
        ours = self.ours.constants_of(name)
        theirs = self.theirs.constants_of(name)
        others = [name for name in ours if name in theirs and compare(ours[name], theirs[name])]
        return f"; it is computed from another constant: {', '.join(others)}" if others else ""

    def _has_same_outputs(self) -> bool:
        outputs = self.ours.outputs
        try:
            is_same = (
                set(outputs) <= self.theirs.makers.keys() and self._compared(outputs)[0] is None
            )
        except OutOfMemory:
            return False
        return bool(outputs) and is_same

    def _compared(self, names: Sequence[str]) -> tuple[tuple[int, str, Mismatch] | None, int]:
        """The index (among `names`) of the first value that differs, the label of a sample that
        shows the difference, and the mismatch; None if no value differs. In addition, the bytes
        that the values of one sample take.
        """
        size = 0
        runner = self.ours.runner(names)
        for number, (_, feeds) in enumerate(self.samples()):
            values = runner.run(feeds)
            size = max(size, sum(value.nbytes for value in values if isinstance(value, np.ndarray)))
            with (self.folder / str(number)).open("wb") as file:
                pickle.dump(values, file, protocol=5)
            del values
        runner.close()
        mismatches: dict[int, tuple[str, Mismatch]] = {}
        runner = self.theirs.runner(names)
        for number, (label, feeds) in enumerate(self.samples()):
            for k, (one, other) in enumerate(
                zip(self._kept(number), runner.run(feeds), strict=True)
            ):
                if k not in mismatches and (mismatch := compare(one, other)) is not None:
                    mismatches[k] = label, mismatch
        runner.close()
        noise = self._noise({names[k]: k for k in mismatches})
        for k, (label, mismatch) in sorted(mismatches.items()):
            if mismatch.error is None or not is_within({names[k]: mismatch.error}, noise, ABOUT):
                return (k, label, mismatch), size
            self.excused += 1
        return None, size

    def _noise(self, numbers: Mapping[str, int]) -> dict[str, float]:
        """How much these values change in the reference when its inputs are moved by one unit in
        the last place. `numbers` maps the name of each value to its index among the kept values.
        """
        noise = dict.fromkeys(numbers, 0.0)
        if not numbers:
            return noise
        runner = self.ours.runner(list(numbers))
        for number, (_, feeds) in enumerate(self.samples()):
            values = self._kept(number)
            for draw in range(_DRAWS):
                for (name, k), moved in zip(
                    numbers.items(), runner.run(moved_feeds(feeds, draw)), strict=True
                ):
                    noise[name] = max(noise[name], largest_difference(values[k], moved))
        runner.close()
        return noise

    def _kept(self, number: int) -> list[Any]:
        with (self.folder / str(number)).open("rb") as file:
            values: list[Any] = pickle.load(file)
        return values


def _described(node: onnx.NodeProto) -> str:
    """A description of a node: its operator and name, and its origin if a pass has made it."""
    label = " ".join(filter(None, (node.op_type, node.name)))
    origin = origin_of(node)
    return (
        label
        if origin is None
        else f"{label}, made by {', '.join(origin.passes)} from {', '.join(origin.sources)}"
    )
