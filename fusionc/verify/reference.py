"""The reference: the model with which another one is compared. It runs on samples while they are
drawn.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from time import monotonic

import numpy as np

from fusionc.verify.budget import budget_for
from fusionc.verify.given_samples import GivenSamples
from fusionc.verify.inputs.given_values import GivenValues
from fusionc.verify.inputs.sample import Sample
from fusionc.verify.inputs.search import DrawnSample, InputSearch
from fusionc.verify.model_file import ModelFile

SEEDS = (0, 1, 2)
MOST_KEPT = 64 << 20  # bytes of inputs and outputs
_SECONDS = 10.0


class Reference:
    """Opens the model. If its samples are small and quickly computed, all of them run at once, and
    the session is closed until it is needed again. Then only one session is in memory.

    `input_shape` fixes the shapes of the inputs that it names, `inputs` is a file or folder with
    the caller's values, and `elements` is the budget, as in budget_for. `level` is the level of
    onnxruntime's optimizers. Raises RunError if onnxruntime does not load the model, and UsageError
    if `input_shape` or `inputs` do not fit it.
    """

    def __init__(
        self,
        path: Path,
        input_shape: Mapping[str, tuple[int, ...]] | None = None,
        inputs: Path | None = None,
        seeds: Sequence[int] = SEEDS,
        elements: int | None = None,
        level: str = "disabled",
    ) -> None:
        self.path = path
        self._seeds = seeds
        self.file = ModelFile(path)
        self.model = self.file.proto()
        self.runner = self.file.runner(level)
        self.given = GivenSamples(
            None if inputs is None else GivenValues(inputs), self.model, self.runner
        )
        budget = budget_for(self.model, elements)
        self.search = InputSearch(
            self.runner, self.model, self.file.folder, input_shape or {}, budget
        )
        self._kept: list[DrawnSample] = []
        self._rest: Iterator[DrawnSample] | None = None  # samples that are not kept
        self.is_done = False  # whether it has run on all drawn samples, and all are kept

    def run(self, nonfinite: bool = True) -> None:
        """Run the model on drawn samples. Samples with NaN and infinities are drawn only if
        `nonfinite`.
        """
        room = MOST_KEPT
        begin = monotonic()
        self._rest = self.search.samples(self._seeds, nonfinite, has_more=True)
        for sample in self._rest:
            self._kept.append(sample)
            room -= bytes_of(sample)
            if room < 0 or monotonic() - begin > _SECONDS:
                return
        self.is_done = True
        self.runner.close()

    def drawn(self, nonfinite: bool) -> Iterator[DrawnSample]:
        """The drawn samples with the model's outputs. If `is_done`, this can be called again."""
        if self._rest is None:
            self.run(nonfinite)
        samples = chain(self._kept, self._rest or ())
        return (sample for sample in samples if nonfinite or sample.style.is_finite)


def bytes_of(sample: Sample) -> int:
    """The bytes of the tensors in a sample. A sample that has other values than tensors counts as
    too large to keep.
    """
    values = (*sample.feeds.values(), *sample.outputs)
    return sum(value.nbytes if isinstance(value, np.ndarray) else MOST_KEPT + 1 for value in values)
