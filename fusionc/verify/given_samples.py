"""Run the reference on the inputs that the caller gives, and compare its outputs with recorded
ones.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx

from fusionc.errors import UsageError
from fusionc.runtime.run_errors import RunError
from fusionc.runtime.runner import Runner
from fusionc.verify.compare import compare
from fusionc.verify.inputs.given_values import GivenSample, GivenValues
from fusionc.verify.inputs.sample import Sample


class GivenSamples:
    """Runs the reference on each of the caller's samples in turn. `model` is the model of the
    reference. Without samples if `values` is None.
    """

    def __init__(
        self, values: GivenValues | None, model: onnx.ModelProto, reference: Runner
    ) -> None:
        self._samples = None if values is None else values.reader(model)
        self._reference = reference
        self._count = self._recorded = self._left_out = 0
        self._unlike: list[str] = []

    def __bool__(self) -> bool:
        return self._samples is not None

    def samples(self) -> Iterator[Sample]:
        """The samples in order. Raises UsageError if a file does not fit, or if the reference fails
        on it.
        """
        self._count = self._recorded = self._left_out = 0
        self._unlike = []
        for given in self._samples() if self._samples is not None else ():
            try:
                outputs = self._reference.run(given.feeds)
            except RunError as error:
                what = f"onnxruntime cannot run the model on these inputs: {error}"
                raise UsageError(
                    what, where=given.label, hint="give inputs that the model accepts"
                ) from error
            self._count += 1
            self._remember(given, dict(zip(self._reference.outputs, outputs, strict=True)))
            yield Sample(label=given.label, feeds=given.feeds, outputs=outputs)

    def leave_out(self) -> None:
        """Record that the last sample proves nothing, because the reference is unstable on it."""
        self._left_out += 1

    def notes(self) -> Iterator[str]:
        """The notes on the samples, after all of them have run."""
        if self._count:
            yield f"{self._count - self._left_out} of them on the given inputs"
        if self._left_out:
            yield (
                f"on {self._left_out} of the given inputs the reference is unstable, so the result "
                "is not judged there"
            )
        if self._recorded:
            yield f"the recorded outputs of {self._recorded} are those of the model"
        if self._unlike:
            number = len(self._unlike)
            yield (
                f"the model itself does not give the recorded outputs of {number}: "
                f"{self._unlike[0]}"
            )

    def _remember(self, given: GivenSample, outputs: dict[str, object]) -> None:
        found = {name: compare(value, outputs[name]) for name, value in given.recorded.items()}
        unlike = [
            f"{given.label}, {name} {mismatch.reason}"
            for name, mismatch in found.items()
            if mismatch
        ]
        self._unlike += unlike[:1]
        self._recorded += bool(found) and not unlike
