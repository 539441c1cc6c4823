"""Compare the two models of a rewrite, the original nodes and their replacement: run both on a few
inputs, and judge the differences of their outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import numpy as np
import onnx

from fusionc.check_rewrites.mutants import mutants, other_elements
from fusionc.check_rewrites.rewrite_models import RewriteModels
from fusionc.check_rewrites.sample_values import (
    MIXED,
    NARROWER,
    NOT_FINITE,
    ORDINARY,
    ZEROS,
    DimensionSizes,
    ValueStyle,
    draw_feeds,
    draw_several,
    likely_sizes,
)
from fusionc.model.tensors import byte_size
from fusionc.operators.facts import Trait, names_with
from fusionc.rewrite.definition import Numerics
from fusionc.runtime.run_errors import RunError
from fusionc.runtime.runner import Runner
from fusionc.verify.compare import compare, largest_magnitude
from fusionc.verify.inputs.sample import Sample
from fusionc.verify.judge import Judge
from fusionc.verify.side_by_side import A_FEW, elements, fewest_elements, more_draws, stacked

_MAX_BYTES = 1 << 30  # bytes of a model that is passed to onnxruntime in memory
_NOT_RUN = "onnxruntime cannot run the original nodes"
_APPROXIMATE = 0.01
# onnxruntime computes these types in float32, and may round between any two nodes
_HALF = ("float16", "bfloat16")
_FIRST_EXTRA_SEED = 1000  # the seed of the first additional samples
_MAX_MUTANTS = 12  # wrong replacements that are tried; a check must notice at least one of them
# At most this many of the differing samples of one kind are judged. The others are assumed to
# differ in the same way.
_MAX_JUDGED = 32
_FAILS = "the original nodes run, but their replacement fails"
_NOTHING_DECIDES = "the original nodes are unstable on all inputs that were drawn"
_UNDECIDED = "undecided: no fault would be seen on the inputs that were drawn"


@dataclass(frozen=True)
class Agreement:
    """Whether two models agree; `None` if this cannot be judged. `reason` says how they differ, or
    why they cannot be judged.
    """

    agrees: bool | None
    reason: str = ""


def agreement(
    models: RewriteModels, numerics: Numerics, is_for_finite: bool, kernels: Path | None = None
) -> Agreement:
    """Whether both models compute the same, as precisely as `numerics` promises. With
    `is_for_finite`, they are compared on finite numbers only.

    `kernels` is a library with operators of the second model.
    """
    if models.before.ByteSize() + models.after.ByteSize() > _MAX_BYTES:
        return Agreement(None, "its constants are too large")
    pair = _Pair(models, numerics, kernels)
    try:
        return pair.agreement(is_for_finite)
    finally:
        pair.close()


_RunResult = tuple[list[Any] | None, str]
_SampleType = TypeVar("_SampleType", bound=Sample)


@dataclass(frozen=True, kw_only=True)
class _DrawnSample(Sample):
    style: ValueStyle
    sizes: DimensionSizes


class _Pair:
    def __init__(self, models: RewriteModels, numerics: Numerics, kernels: Path | None) -> None:
        self._kernels = kernels
        self._models = models
        self._is_exact = numerics == "bitwise"
        self._is_approximate = numerics == "approximate"
        self._runners: list[Runner] = []
        self._error = "the types of its inputs are not known"
        self._undecided = set[str]()  # labels of samples on which the original nodes are unstable
        # An integer division by zero ends the process.
        self._divides = any(
            node.op_type in names_with(Trait.DIVIDES) for node in models.before.graph.node
        )

    def close(self) -> None:
        for runner in self._runners:
            runner.close()

    def agreement(self, is_for_finite: bool) -> Agreement:
        try:
            before = self._runner(self._models.before)
            samples = self._samples(before, is_for_finite)
            extra = self._extra_samples(before, samples)
        except RunError:
            return Agreement(None, _NOT_RUN)
        if not samples:
            return Agreement(None, self._error)
        try:
            after = self._runner(self._models.after, self._kernels)
            results = after.run_each([sample.feeds for sample in (*samples, *extra)])
        except RunError as error:
            return Agreement(False, f"{_FAILS}: {error}")
        reason = self._fault(before, samples, results)
        reason = reason or self._fault_of_extra_samples(
            before, samples, extra, results[len(samples) :]
        )
        if reason:
            return Agreement(False, reason)
        samples, extra = map(self._decisive, (samples, extra))
        if all(sample.edge for sample in (*samples, *extra)):
            return Agreement(None, _NOTHING_DECIDES)
        if self._sees_a_fault(samples, extra):
            return Agreement(True)
        return Agreement(None, _UNDECIDED)

    def _decisive(self, samples: Sequence[_DrawnSample]) -> list[_DrawnSample]:
        return [sample for sample in samples if sample.label not in self._undecided]

    def _fault(
        self, before: Runner, samples: Sequence[_DrawnSample], results: Sequence[_RunResult]
    ) -> str:
        """How the replacement differs on the first sample that shows a difference; empty if there
        is none.
        """
        for index, (sample, (outputs, why)) in enumerate(zip(samples, results, strict=False)):
            if outputs is None and not sample.edge:  # an edge sample may have a negative index
                return f"{sample.label}: {_FAILS}: {why}"
            if outputs is not None and self._differ(sample.outputs, outputs):
                reason = self._verdict(before, samples[: index + 1], outputs)
                if reason:
                    return reason
        return ""

    def _fault_of_extra_samples(
        self,
        before: Runner,
        samples: Sequence[_DrawnSample],
        extra: Sequence[_DrawnSample],
        results: Sequence[_RunResult],
    ) -> str:
        """How the replacement differs on many samples of one kind, which are compared together on
        one scale. Empty if the replacement does not differ.
        """
        for sample, (outputs, why) in zip(extra, results, strict=True):
            if outputs is None:
                return f"{sample.label}: {_FAILS}: {why}"
        runs = _ran_samples(extra, results)
        if not self._differ_anywhere(runs):
            return ""
        ordinary = [sample for sample in (*samples, *extra) if not sample.edge]
        scales = _largest(ordinary)
        different = [pair for pair in runs if self._differ(pair[0].outputs, pair[1])]
        for sample, outputs in different[:_MAX_JUDGED]:
            reason = self._verdict(before, [*scales, replace(sample, edge=True)], outputs)
            if reason:
                return reason
        return ""

    def _differ_anywhere(self, runs: Sequence[tuple[Sample, list[Any]]]) -> bool:
        pairs = stacked((sample.outputs, outputs) for sample, outputs in runs)
        return any(self._differ(expected, actual) for expected, actual in pairs)

    def _sees_a_fault(self, samples: Sequence[Sample], extra: Sequence[Sample]) -> bool:
        """Whether a wrong replacement would differ on these samples.

        Wrong replacements are mutants: the replacement with a small change. If onnxruntime runs
        none of them, the samples' own outputs with changed elements are used. The extra samples
        run only if a mutant does not differ on the other samples.
        """
        have_run = False
        for mutant in islice(mutants(self._models.after), _MAX_MUTANTS):
            runs: list[tuple[Sample, list[Any]]] = []
            try:
                runner = self._runner(mutant, self._kernels)
                for batch in filter(None, (samples, extra)):
                    runs += _ran_samples(batch, runner.run_each([s.feeds for s in batch]))
                    if self._differ_anywhere(runs):
                        return True
                self._runners.pop().close()
            except RunError:
                continue
            have_run |= bool(runs)
        spoiled = [(s, list(map(_spoiled, s.outputs))) for s in (*samples, *extra)]
        return not have_run and self._differ_anywhere(spoiled)

    def _runner(self, model: onnx.ModelProto, kernels: Path | None = None) -> Runner:
        runner = Runner(model.SerializeToString(), kernels=kernels)
        self._runners.append(runner)
        return runner

    def _samples(self, before: Runner, is_for_finite: bool) -> list[_DrawnSample]:
        """Ordinary samples of several sizes on which the model runs, then edge samples."""
        sizes = list(likely_sizes(self._models.inputs))
        edges = [] if self._is_approximate or not self._models.inputs else [MIXED, ZEROS]
        edges += [NOT_FINITE] if edges and self._is_exact and not is_for_finite else []
        samples = self._running_samples(
            before,
            [(ORDINARY, sizes[:1]), (ORDINARY, sizes[1:2]), *((s, sizes[:1]) for s in edges)],
        )
        if not samples or samples[0].edge:
            samples = self._running_samples(
                before, [(style, sizes) for style in (ORDINARY, *NARROWER)]
            )[:2]
            samples += self._running_samples(before, [(style, sizes) for style in edges if samples])
        return samples

    def _extra_samples(self, before: Runner, samples: Sequence[_DrawnSample]) -> list[_DrawnSample]:
        """More samples like the ordinary ones, so that enough elements of each output are compared;
        only a few if the outputs do not depend on the inputs.
        """
        ordinary = [sample for sample in samples if not sample.edge]
        if not ordinary or not self._models.inputs:
            return []
        most = max(ordinary, key=lambda sample: fewest_elements(sample.outputs))
        fewest = [fewest_elements(sample.outputs) for sample in ordinary]
        sample_elements = sum(map(elements, (*most.feeds.values(), *most.outputs)))
        number = more_draws(
            fewest, sample_elements, sum(map(byte_size, self._models.before.graph.initializer))
        )
        if not number:
            return []
        first = self._similar_samples(before, most, min(number, A_FEW), _FIRST_EXTRA_SEED)
        pairs = [pair for s in first for pair in zip(most.outputs, s.outputs, strict=True)]
        if all(_same(*pair) for pair in pairs):
            return first
        return [
            *first,
            *self._similar_samples(before, most, number - len(first), _FIRST_EXTRA_SEED + 1),
        ]

    def _similar_samples(
        self, before: Runner, sample: _DrawnSample, number: int, seed: int
    ) -> list[_DrawnSample]:
        """This number of samples with the style and sizes of `sample`."""
        runs = draw_several(
            self._models.inputs,
            sample.sizes,
            sample.style,
            seed,
            self._divides,
            number,
        )
        label = f"{sample.label}, seed {seed}"
        empty = replace(sample, outputs=[])
        numbered = enumerate(runs)
        return _run(
            before, [replace(empty, label=f"{label}/{index}", feeds=f) for index, f in numbered]
        )

    def _running_samples(
        self,
        before: Runner,
        wanted: Sequence[tuple[ValueStyle, Sequence[DimensionSizes]]],
    ) -> list[_DrawnSample]:
        """The samples with these styles and sizes on which the model runs."""
        tried = list[_DrawnSample]()
        for style, sizes in ((style, sizes) for style, choices in wanted for sizes in choices):
            feeds = draw_feeds(self._models.inputs, sizes, style, len(tried), self._divides)
            if feeds is not None:
                sizes_text = " ".join(f"{symbol}={size}" for symbol, size in sizes.items())
                label = f"{style.floats}, {sizes_text}" if sizes_text else style.floats
                edge = style not in (ORDINARY, *NARROWER)
                sample = _DrawnSample(
                    label=label, feeds=feeds, outputs=[], style=style, sizes=sizes
                )
                tried.append(replace(sample, edge=edge))
        self._error = _NOT_RUN if tried else self._error
        return _run(before, tried)

    def _differ(self, expected: Sequence[Any], actual: Sequence[Any]) -> bool:
        pairs = zip(expected, actual, strict=True)
        if self._is_exact:
            return not all(_same(a, b) for a, b in pairs)
        if self._is_approximate:
            return not all(_near(a, b) for a, b in pairs)
        return any(compare(a, b) for a, b in pairs)

    def _verdict(self, before: Runner, seen: Sequence[Sample], outputs: Sequence[Any]) -> str:
        """The verdict of the verification on outputs that differ; empty if it accepts them."""
        with TemporaryDirectory(prefix="fusionc-") as folder:
            path = Path(folder, "before.onnx")
            onnx.save(self._models.before, path)
            judge = Judge(path, before)
            for sample in seen[:-1]:
                judge.outcome(sample, sample.outputs)  # sets the scale of the outputs
            outcome, differences = judge.outcome(seen[-1], outputs)
        if outcome == "different":
            return str(differences[0])
        if outcome != "same":
            self._undecided.add(seen[-1].label)
        return (
            ""
            if not self._is_exact or outcome != "same"
            else f"{seen[-1].label}: not equal bit by bit"
        )


def _same(a: Any, b: Any) -> bool:
    """Whether two values are equal bit by bit, except for the sign of zero and the bits of NaN."""
    if not (isinstance(a, np.ndarray) and isinstance(b, np.ndarray)):
        return not compare(a, b)
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype.name in _HALF:
        return not compare(a, b)
    is_number = a.dtype.kind in "fc"
    return bool(np.array_equal(a, b, equal_nan=is_number))


def _near(a: Any, b: Any) -> bool:
    """Whether the finite elements are equal within 1 % of the largest element."""
    if not isinstance(a, np.ndarray) or a.dtype.kind != "f" or getattr(b, "shape", None) != a.shape:
        return not compare(a, b)
    finite = np.isfinite(a)
    scale = np.abs(a[finite]).max(initial=0.0)
    return bool((np.abs(a[finite] - b[finite]) <= _APPROXIMATE * scale).all())


def _run(model: Runner, tried: Sequence[_DrawnSample]) -> list[_DrawnSample]:
    """Those of the samples on which a model runs, with its outputs."""
    results = model.run_each([sample.feeds for sample in tried]) if tried else []
    return [replace(sample, outputs=outputs) for sample, outputs in _ran_samples(tried, results)]


def _largest(samples: Sequence[_DrawnSample]) -> list[_DrawnSample]:
    """For each output, the sample with its largest element. These samples determine the scales."""
    by_label = dict[str, _DrawnSample]()
    for index in range(len(samples[0].outputs) if samples else 0):
        magnitudes = [largest_magnitude(sample.outputs[index]) for sample in samples]
        largest = samples[magnitudes.index(max(magnitudes))]
        by_label[largest.label] = largest
    return list(by_label.values())


def _ran_samples(
    samples: Sequence[_SampleType], results: Sequence[_RunResult]
) -> list[tuple[_SampleType, list[Any]]]:
    """The samples on which a model ran, each with its outputs."""
    pairs = zip(samples, results, strict=True)
    return [(sample, outputs) for sample, (outputs, _) in pairs if outputs is not None]


def _spoiled(value: Any) -> Any:
    """The value with wrong elements; a value that is not an array is returned unchanged."""
    return other_elements(value) if isinstance(value, np.ndarray) else value
