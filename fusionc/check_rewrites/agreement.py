"""Whether the two models of a rewrite compute the same: both run on a few inputs, and differences
are judged.
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

_LARGEST = 1 << 30  # bytes of a model that is handed over in one piece
_NOT_RUN = "onnxruntime cannot run what it replaces"
_APPROXIMATE = 0.01
# onnxruntime computes them in float32, and rounds between nodes as it likes
_HALF = ("float16", "bfloat16")
_FIRST_MORE = 1000  # the seed of the first of them
_MOST_MUTANTS = 12  # at least one of them has to be noticed
# judged samples among those that are drawn alike; the others are taken to differ like them
_MOST_JUDGED = 32
_FAILS = "what it replaces runs, the replacement does not"
_NOTHING_DECIDES = "what it replaces is unstable on all inputs that were drawn"
_UNDECIDED = "undecided: no fault would be seen on the inputs that were drawn"


@dataclass(frozen=True)
class Agreement:
    """Whether two models agree; None if neither ran on any input. `reason` says how they differ, or
    why they did not run.
    """

    agrees: bool | None
    reason: str = ""


def agreement(
    models: RewriteModels, numerics: Numerics, is_for_finite: bool, kernels: Path | None = None
) -> Agreement:
    """Whether both models give the same, as far as `numerics` promises; `is_for_finite`: on finite
    numbers only.

    `kernels` is a library for operators of the second model.
    """
    if models.before.ByteSize() + models.after.ByteSize() > _LARGEST:
        return Agreement(None, "its constants are too large")
    pair = _Pair(models, numerics, kernels)
    try:
        return pair.agreement(is_for_finite)
    finally:
        pair.close()


_Ran = tuple[list[Any] | None, str]
_Any = TypeVar("_Any", bound=Sample)


@dataclass(frozen=True, kw_only=True)
class _Drawn(Sample):
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
        self._undecided = set[str]()  # labels of samples on which what is replaced decides nothing
        # A division of whole numbers by zero ends the process.
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
            more = self._more(before, samples)
        except RunError:
            return Agreement(None, _NOT_RUN)
        if not samples:
            return Agreement(None, self._error)
        try:
            after = self._runner(self._models.after, self._kernels)
            ran = after.run_each([sample.feeds for sample in (*samples, *more)])
        except RunError as error:
            return Agreement(False, f"{_FAILS}: {error}")
        reason = self._fault(before, samples, ran)
        reason = reason or self._fault_of_more(before, samples, more, ran[len(samples) :])
        if reason:
            return Agreement(False, reason)
        decisive = [s for s in (*samples, *more) if s.label not in self._undecided]
        if all(sample.edge for sample in decisive):
            return Agreement(None, _NOTHING_DECIDES)
        return Agreement(True) if self._sees_a_fault(decisive) else Agreement(None, _UNDECIDED)

    def _fault(self, before: Runner, samples: Sequence[_Drawn], ran: Sequence[_Ran]) -> str:
        """What the replacement computes differently on the first sample that shows it; empty if it
        does not.
        """
        for at, (sample, (outputs, why)) in enumerate(zip(samples, ran, strict=False)):
            if outputs is None and not sample.edge:  # an edge may be a negative index, say
                return f"{sample.label}: {_FAILS}: {why}"
            if outputs is not None and self._differ(sample.outputs, outputs):
                reason = self._judged(before, samples[: at + 1], outputs)
                if reason:
                    return reason
        return ""

    def _fault_of_more(
        self,
        before: Runner,
        samples: Sequence[_Drawn],
        more: Sequence[_Drawn],
        ran: Sequence[_Ran],
    ) -> str:
        """How the replacement differs on many samples that are drawn alike and compared together,
        with one scale; empty if it does not.
        """
        for sample, (outputs, why) in zip(more, ran, strict=True):
            if outputs is None:
                return f"{sample.label}: {_FAILS}: {why}"
        several = _ran_samples(more, ran)
        if not self._differ_anywhere(several):
            return ""
        ordinary = [sample for sample in (*samples, *more) if not sample.edge]
        scales = _largest(ordinary)
        different = [one for one in several if self._differ(one[0].outputs, one[1])]
        for sample, outputs in different[:_MOST_JUDGED]:
            reason = self._judged(before, [*scales, replace(sample, edge=True)], outputs)
            if reason:
                return reason
        return ""

    def _differ_anywhere(self, several: Sequence[tuple[Sample, list[Any]]]) -> bool:
        pairs = stacked((sample.outputs, outputs) for sample, outputs in several)
        return any(self._differ(ours, theirs) for ours, theirs in pairs)

    def _sees_a_fault(self, samples: Sequence[Sample]) -> bool:
        """Whether a wrong replacement would differ on these samples: one with a small change, or,
        if onnxruntime runs none of these, outputs of other elements.
        """
        have_run = False
        for mutant in islice(mutants(self._models.after), _MOST_MUTANTS):
            try:
                ran = self._runner(mutant, self._kernels).run_each([s.feeds for s in samples])
                self._runners.pop().close()
            except RunError:
                continue
            several = _ran_samples(samples, ran)
            have_run |= bool(several)
            if self._differ_anywhere(several):
                return True
        spoiled = [(sample, list(map(_spoiled, sample.outputs))) for sample in samples]
        return not have_run and self._differ_anywhere(spoiled)

    def _runner(self, model: onnx.ModelProto, kernels: Path | None = None) -> Runner:
        runner = Runner(model.SerializeToString(), kernels=kernels)
        self._runners.append(runner)
        return runner

    def _samples(self, before: Runner, is_for_finite: bool) -> list[_Drawn]:
        """Ordinary ones with several sizes, as far as the model runs with them, then the edges."""
        sizes = list(likely_sizes(self._models.inputs))
        edges = [] if self._is_approximate or not self._models.inputs else [MIXED, ZEROS]
        edges += [NOT_FINITE] if edges and self._is_exact and not is_for_finite else []
        samples = self._ran(
            before,
            [(ORDINARY, sizes[:1]), (ORDINARY, sizes[1:2]), *((s, sizes[:1]) for s in edges)],
        )
        if not samples or samples[0].edge:
            samples = self._ran(before, [(style, sizes) for style in (ORDINARY, *NARROWER)])[:2]
            samples += self._ran(before, [(style, sizes) for style in edges if samples])
        return samples

    def _more(self, before: Runner, samples: Sequence[_Drawn]) -> list[_Drawn]:
        """Samples like the ordinary ones, until enough elements of each output are compared; a few
        if all outputs stay the same, whatever the inputs hold.
        """
        ordinary = [sample for sample in samples if not sample.edge]
        if not ordinary or not self._models.inputs:
            return []
        most = max(ordinary, key=lambda sample: fewest_elements(sample.outputs))
        fewest = [fewest_elements(sample.outputs) for sample in ordinary]
        drawn = sum(map(elements, (*most.feeds.values(), *most.outputs)))
        number = more_draws(
            fewest, drawn, sum(map(byte_size, self._models.before.graph.initializer))
        )
        if not number:
            return []
        first = self._like(before, most, min(number, A_FEW), _FIRST_MORE)
        pairs = [pair for s in first for pair in zip(most.outputs, s.outputs, strict=True)]
        if all(_same(*pair) for pair in pairs):
            return first
        return [*first, *self._like(before, most, number - len(first), _FIRST_MORE + 1)]

    def _like(self, before: Runner, sample: _Drawn, number: int, seed: int) -> list[_Drawn]:
        """So many samples of the same style and sizes."""
        several = draw_several(
            self._models.inputs,
            sample.sizes,
            sample.style,
            seed,
            self._divides,
            number,
        )
        label = f"{sample.label}, seed {seed}"
        empty = replace(sample, outputs=[])
        numbered = enumerate(several)
        return _run(before, [replace(empty, label=f"{label}/{at}", feeds=f) for at, f in numbered])

    def _ran(
        self,
        before: Runner,
        wanted: Sequence[tuple[ValueStyle, Sequence[DimensionSizes]]],
    ) -> list[_Drawn]:
        """The samples in these styles and sizes on which the model runs."""
        tried = list[_Drawn]()
        for style, sizes in ((style, sizes) for style, choices in wanted for sizes in choices):
            feeds = draw_feeds(self._models.inputs, sizes, style, len(tried), self._divides)
            if feeds is not None:
                named = " ".join(f"{symbol}={size}" for symbol, size in sizes.items())
                label = f"{style.floats}, {named}" if named else style.floats
                edge = style not in (ORDINARY, *NARROWER)
                drawn = _Drawn(label=label, feeds=feeds, outputs=[], style=style, sizes=sizes)
                tried.append(replace(drawn, edge=edge))
        self._error = _NOT_RUN if tried else self._error
        return _run(before, tried)

    def _differ(self, ours: Sequence[Any], theirs: Sequence[Any]) -> bool:
        pairs = zip(ours, theirs, strict=True)
        if self._is_exact:
            return not all(_same(a, b) for a, b in pairs)
        if self._is_approximate:
            return not all(_near(a, b) for a, b in pairs)
        return any(compare(a, b) for a, b in pairs)

    def _judged(self, before: Runner, seen: Sequence[Sample], outputs: Sequence[Any]) -> str:
        """The verdict of verification on outputs that differ; empty if it accepts them."""
        with TemporaryDirectory(prefix="fusionc-") as folder:
            path = Path(folder, "before.onnx")
            onnx.save(self._models.before, path)
            judge = Judge(path, before)
            for sample in seen[:-1]:
                judge.outcome(sample, sample.outputs)  # for the scale of the outputs
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
    """Whether two values are the same bit by bit, except for the sign of zero and the bits of
    NaN.
    """
    if not (isinstance(a, np.ndarray) and isinstance(b, np.ndarray)):
        return not compare(a, b)
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype.name in _HALF:
        return not compare(a, b)
    is_number = a.dtype.kind in "fc"
    return bool(np.array_equal(a, b, equal_nan=is_number))


def _near(a: Any, b: Any) -> bool:
    """Whether finite elements are the same within 1 % of the largest."""
    if not isinstance(a, np.ndarray) or a.dtype.kind != "f" or getattr(b, "shape", None) != a.shape:
        return not compare(a, b)
    finite = np.isfinite(a)
    scale = np.abs(a[finite]).max(initial=0.0)
    return bool((np.abs(a[finite] - b[finite]) <= _APPROXIMATE * scale).all())


def _run(model: Runner, tried: Sequence[_Drawn]) -> list[_Drawn]:
    """The samples on which a model runs, with its outputs."""
    ran = model.run_each([sample.feeds for sample in tried]) if tried else []
    return [replace(sample, outputs=outputs) for sample, outputs in _ran_samples(tried, ran)]


def _largest(samples: Sequence[_Drawn]) -> list[_Drawn]:
    """For each output, the sample in which it is largest: these give the scales of the outputs."""
    by_label = dict[str, _Drawn]()
    for at in range(len(samples[0].outputs) if samples else 0):
        magnitudes = [largest_magnitude(sample.outputs[at]) for sample in samples]
        largest = samples[magnitudes.index(max(magnitudes))]
        by_label[largest.label] = largest
    return list(by_label.values())


def _ran_samples(samples: Sequence[_Any], ran: Sequence[_Ran]) -> list[tuple[_Any, list[Any]]]:
    """The samples on which a model runs, each with its outputs."""
    pairs = zip(samples, ran, strict=True)
    return [(sample, outputs) for sample, (outputs, _) in pairs if outputs is not None]


def _spoiled(value: Any) -> Any:
    """A value that is wrong; what holds no elements of its own stays."""
    return other_elements(value) if isinstance(value, np.ndarray) else value
