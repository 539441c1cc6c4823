"""Judge whether two models compute the same on one input, or whether their difference proves
nothing. The reference is the original model, the candidate the optimized one.

The reach of an element of an output is how far rounding, or another order of a reduction, can move
the element. An element is far off if its error exceeds the widest tolerance. A step is a number
that a quantization or rounding can give. A region is a set of wrong elements that is too large to
be excused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from itertools import chain, compress, islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
import onnx

from fusionc.runtime.run_errors import RunError
from fusionc.runtime.runner import Runner
from fusionc.verify.compare import (
    Bounds,
    Mismatch,
    Numerics,
    Yardstick,
    compare,
    largest_magnitude,
)
from fusionc.verify.conditioning import Conditioning, steps
from fusionc.verify.excuses import (
    Excused,
    Excuses,
    excused_elements,
    moves_as_a_whole,
    reach_moves_whole,
    sorted_outputs,
)
from fusionc.verify.grid_steps import GridSteps, Stepped, quantizes
from fusionc.verify.inner_rounding import InnerRounding
from fusionc.verify.inner_values import has_infinities, is_finite
from fusionc.verify.inputs.sample import Sample
from fusionc.verify.inputs.search import DrawnSample
from fusionc.verify.joints import blocks_of
from fusionc.verify.model_file import light_model
from fusionc.verify.noise import (
    ABOUT,
    IN_PROPORTION,
    Noise,
    elements_off,
    is_within,
    usual_difference,
)
from fusionc.verify.optimizer_dependence import OptimizerDependence
from fusionc.verify.order_dependence import OrderDependence, Reach, farther, is_open, settled
from fusionc.verify.output_parts import joints_of
from fusionc.verify.precision import least_precise
from fusionc.verify.result import Difference
from fusionc.verify.second_run import SecondRun, held_fast
from fusionc.verify.tally import Tally

Outcome = Literal["same", "different", "unstable", "undecided"]
Judgement = tuple[Outcome, list[Difference]]
_LOOKS = 3  # draws that show whether an output moves as a whole


class Judge:
    """Judges one sample after the other, and counts the results in its `tally`.

    `is_for_finite` says that the candidate may give other results for NaN and infinities, as some
    passes declare. `level` is the level of onnxruntime's optimizers at which the reference runs. If
    the optimizers are on, rounding and the order of reductions excuse nothing, because both are
    only tested without optimizers. If the user sets `bounds`, only they decide on ordinary samples,
    and rounding excuses nothing. On samples with extreme values, an output is then accepted if it
    is within the bounds or within the tolerance of its type.
    """

    def __init__(
        self,
        reference: Path,
        runner: Runner,
        numerics: Numerics = "rounding",
        grids: GridSteps | None = None,
        *,
        is_for_finite: bool = False,
        level: str = "disabled",
        bounds: Bounds | None = None,
    ) -> None:
        self._bounds = bounds
        self._reference = reference
        self._is_optimized = level != "disabled"
        self._numerics = numerics
        self._is_for_finite = is_for_finite
        self._grids = grids
        self.names = runner.outputs
        self.tally = Tally(self.names)
        self._conditioning = Conditioning(reference, runner)
        self._inner_rounding = InnerRounding(reference)
        self._order = OrderDependence(reference)
        self._optimizers = OptimizerDependence(reference)
        self._scales: dict[str, float] = {}  # the largest values of ordinary samples
        self._again = SecondRun(reference, runner, level)
        self._no_reaches: list[Reach | None] = [None] * len(self.names)
        model = _model(reference)
        self._sorted = sorted_outputs(model)
        self._precisions = least_precise(model)
        self._joints = joints_of(model)
        self._quantizes = quantizes(model)

    def another(self, level: str) -> Judge:
        """A new judge for the candidate at a level of onnxruntime's optimizers. It allows rounding,
        because these optimizers round.
        """
        other = copy(self)
        other._grids = self._grids and self._grids.at(level)
        other._numerics = "approximate" if self._numerics == "approximate" else "rounding"
        other._scales = {}
        other.tally = Tally(self.names)
        return other

    def outcome(self, sample: Sample, candidate: Sequence[Any]) -> Judgement:
        """How the outputs of the candidate differ from those of the reference, and what that means.

        If the model quantizes, it is judged from one quantization to the next: the reference runs
        again with the candidate's integers, so no difference is amplified. This takes two runs.

        "unstable" means that the reference's own outputs change about as much as the candidate's
        differ if the reference's weights and inputs move by one unit in the last place. "undecided"
        means that all elements of an output depend on rounding, or on the order of reductions. The
        order is tested only if a first test of rounding does not explain the difference.
        """
        mismatches = self.mismatches(sample, sample.outputs, candidate)
        if not sample.edge:
            for name, value in zip(self.names, sample.outputs, strict=True):
                self._scales[name] = max(self._scales.get(name, 0.0), largest_magnitude(value))
        if not mismatches:
            return self._same(sample, {}, {})
        if self.bounds_of(sample) is not None:
            return self._judged_by_more_runs(sample, candidate)
        if self._quantizes and self._are_steps(sample, candidate):
            return self._same(sample, {}, {})
        if not (sample.edge or self._is_optimized) and self._is_rounding(
            sample, candidate, mismatches
        ):
            excused = self._excused(sample, candidate, self._no_reaches, self._no_reaches)
            return self._same(sample, mismatches, excused)
        return self._judged_by_more_runs(sample, candidate)

    def _judged_by_more_runs(self, sample: Sample, candidate: Sequence[Any]) -> Judgement:
        """The judgement after more runs of the reference, which show what its outputs depend on. If
        there are bounds, or if optimizers are on, only elements that change in a second run are
        excused.
        """
        yardsticks = [self._yardstick(sample, name) for name in self.names]
        unsteady = self._again.reaches(sample.feeds, sample.outputs, yardsticks)
        steady = held_fast(sample.outputs, candidate, unsteady)
        if self._is_optimized or self.bounds_of(sample) is not None:
            differences = _differences(sample, self.mismatches(sample, sample.outputs, steady))
            if differences:
                return "different", differences
            return self._same(sample, {}, {}, unsteady)
        outcome, differences = self._examined(sample, steady, unsteady)
        if outcome == "different" and self._is_overflow(sample, steady):
            self.tally.left_out += 1
            return "unstable", differences
        return outcome, differences

    def bounds_of(self, sample: Sample) -> Bounds | None:
        """The bounds that replace the tolerances on this sample."""
        return None if sample.edge else self._bounds

    def notes(self) -> list[str]:
        """What a summary says about the bounds."""
        return [] if self._bounds is None else [str(self._bounds)]

    def _is_overflow(self, sample: Sample, candidate: Sequence[Any]) -> bool:
        """Whether overflow explains all differences: the inputs are finite, but so large or small
        that the reference computes infinity or NaN in the elements that differ.

        (1 / x) * y may overflow in 1 / x although y / x is finite, and a rewrite that rounds may
        replace one form by the other. A candidate for finite numbers may also spread an infinity in
        an intermediate result, even for inputs that are zeros. An output that is computed in
        float16 may differ as a whole: onnxruntime does not round to float16 between some nodes, so
        a number that overflows in float16 stays finite.
        """
        edges = ("mixed", "zeros") if self._is_for_finite else ("mixed",)
        if self._numerics == "bitwise" or _drawn_floats(sample) not in edges:
            return False
        is_half = [self._precisions.get(name) == "float16" for name in self.names]
        values: list[Sequence[Any]] = [sample.outputs]
        has_overflow = (self._is_for_finite or any(is_half)) and has_infinities(
            self._reference, sample.feeds
        )
        if has_overflow and self._is_for_finite:
            values.append(candidate)
        is_open = list(map(_open_where_not_finite, *values))
        if has_overflow:
            is_open = list(map(_open_if_half, is_open, candidate, is_half))
        held = held_fast(sample.outputs, candidate, is_open)
        return not self.mismatches(sample, sample.outputs, held)

    def _examined(
        self, sample: Sample, candidate: Sequence[Any], unsteady: Sequence[Reach | None]
    ) -> Judgement:
        """The judgement after tests of the order of reductions and of rounding."""
        order = self._order.reaches(sample.feeds, sample.outputs)
        order = reaches = _farther(order, unsteady)
        mismatches = self._unsettled(sample, candidate, reaches)
        if mismatches and not all(map(is_finite, sample.feeds.values())):
            order = reaches = self._optimizers.reaches(sample.feeds, sample.outputs, reaches)
            mismatches = self._unsettled(sample, candidate, reaches)
        outcome: Outcome = "same"
        differences = _differences(sample, mismatches)
        if mismatches:
            outcome, mismatches, reaches = self._amplified(sample, candidate, reaches)
        excused = dict[str, Excused]()
        if outcome != "different":
            if not mismatches and _is_any_open(sample.outputs, reaches, unsteady):
                self.tally.left_out += 1
                return "undecided", []
            excused = self._excused(sample, candidate, order, reaches)
            regions = self._regions(sample, excused)
            outcome, differences = self._weighed(
                sample, candidate, reaches, mismatches, regions, (outcome, differences)
            )
        if outcome != "same" and self._are_other_steps(sample, candidate, unsteady):
            return self._same(sample, {}, {}, unsteady)
        if outcome == "same":
            return self._same(sample, mismatches, excused, unsteady)
        self.tally.left_out += outcome == "unstable"
        return outcome, differences

    def _weighed(
        self,
        sample: Sample,
        candidate: Sequence[Any],
        reaches: Sequence[Reach | None],
        mismatches: Mapping[str, Mismatch],
        regions: list[Difference],
        judgement: Judgement,
    ) -> Judgement:
        """The judgement on a sample after `judgement` has explained its mismatches by rounding or
        by the order of reductions. `regions` are the outputs in which more elements are far off
        than can be excused.
        """
        unstable: Judgement = "unstable", judgement[1] or regions
        if sample.edge:
            return unstable if regions or mismatches else judgement
        wrong = [
            region
            for region in regions
            if not self._is_open(sample, candidate, region.subject, reaches)
        ]
        if wrong:
            return "different", wrong
        is_within = all(mismatch.within_widest for mismatch in mismatches.values())
        return judgement if is_within and not regions else unstable

    def _regions(self, sample: Sample, excused: Mapping[str, Excused]) -> list[Difference]:
        """The outputs in which more elements are far off than can be excused. The elements are
        counted over all ordinary samples together, and in each sample with extreme values alone.
        """
        excuses = Excuses() if sample.edge else self.tally.excuses
        return [
            Difference(name, sample.label, one.reason)
            for name, one in excused.items()
            if not excuses.has_room(name, one)
        ]

    def are_steps(self, sample: Sample, candidate: Sequence[Any]) -> bool:
        """Whether all differences are a few numbers on the next step of a grid (see grid_steps)."""
        return self._stepped(sample, candidate) is not None

    def _stepped(self, sample: Sample, candidate: Sequence[Any]) -> Stepped | None:
        """The reference with the candidate's steps. None if the steps do not explain all
        differences.

        Between two quantizations the model computes in floating point, but onnxruntime's optimizers
        compute in integers. Some of the optimized operators, such as the one for softmax, put more
        elements on the next step than rounding does, but no element on a step farther away. The
        candidate may have as many elements on other steps as the optimized reference itself.
        """
        stepped = self._grids and self._grids.stepped(sample.feeds, candidate)
        if not stepped or self.mismatches(sample, stepped.outputs, candidate):
            return None
        if self.tally.has_room_for_steps(stepped):
            return stepped
        same_level = self._grids and self._grids.at_one_level()
        again = same_level and same_level.stepped(sample.feeds, candidate)
        if not again or not self.tally.has_room_for_steps(again):
            return None
        return replace(stepped, own_steps=again.steps)

    def _are_steps(self, sample: Sample, candidate: Sequence[Any]) -> bool:
        """Whether a few steps explain all differences. If so, the steps are counted."""
        stepped = self._stepped(sample, candidate)
        if stepped is not None:
            self.tally.add_steps(stepped)
        return stepped is not None

    def _are_other_steps(
        self, sample: Sample, candidate: Sequence[Any], unsteady: Sequence[Reach | None]
    ) -> bool:
        """Whether a few steps explain all differences, for a sample whose steps were not tested
        first: the model rounds but does not quantize, or some elements change in a second run.
        """
        was_judged = self._quantizes and all(reach is None for reach in unsteady)
        return not was_judged and self._are_steps(sample, candidate)

    def _same(
        self,
        sample: Sample,
        mismatches: Mapping[str, Mismatch],
        excused: Mapping[str, Excused],
        unsteady: Sequence[Reach | None] = (),
    ) -> Judgement:
        """Count a sample on which the models are the same, except for mismatches by rounding and
        for excused elements.
        """
        self.tally.add_same(sample, mismatches, excused, unsteady or self._no_reaches)
        return "same", []

    def _excused(
        self,
        sample: Sample,
        candidate: Sequence[Any],
        order: Sequence[Reach | None],
        reaches: Sequence[Reach | None],
    ) -> dict[str, Excused]:
        """The elements of each output that would be excused. `order` has the reaches from the order
        of reductions alone, `reaches` has all reaches.
        """
        values = zip(self.names, sample.outputs, candidate, order, reaches, strict=True)
        return {
            name: excused_elements(ours, theirs, one, other, self._yardstick(sample, name))
            for name, ours, theirs, one, other in values
        }

    def _is_open(
        self,
        sample: Sample,
        candidate: Sequence[Any],
        name: str,
        reaches: Sequence[Reach | None],
    ) -> bool:
        """Whether differences in an output prove nothing, so that they are not a wrong region. That
        is so if rounding of the reference's inputs changes most of the output, if the output is
        sorted and equal elements may change places, or if the reference with moved inputs gives the
        candidate's output. The last may happen because a single decision affects many elements, for
        example that of a softmax between two large numbers.
        """
        at = self.names.index(name)
        yardstick = self._yardstick(sample, name)
        if name in self._sorted or reach_moves_whole(sample.outputs[at], reaches[at], yardstick):
            return True
        ways = (self._conditioning.draws, self._inner_rounding.draws)
        draws = chain.from_iterable(islice(draw(sample.feeds), _LOOKS) for draw in ways)
        return any(
            moves_as_a_whole(sample.outputs[at], moved[at], yardstick)
            or compare(moved[at], candidate[at], yardstick) is None
            for moved in draws
        )

    def _unsettled(
        self, sample: Sample, candidate: Sequence[Any], reaches: Sequence[Reach | None]
    ) -> dict[str, Mismatch]:
        """The mismatches that the reaches do not explain."""
        pairs = list(map(settled, sample.outputs, candidate, reaches))
        return self.mismatches(sample, [ours for ours, _ in pairs], [theirs for _, theirs in pairs])

    def _is_explained(
        self,
        sample: Sample,
        candidate: Sequence[Any],
        reaches: Sequence[Reach | None],
        mismatches: Mapping[str, Mismatch],
        noises: Sequence[Noise],
        times: float,
    ) -> bool:
        """Whether all mismatches are errors of at most `times` the noise of their output."""
        values = zip(self.names, sample.outputs, candidate, reaches, noises, strict=True)
        for name, ours, theirs, reach, noise in values:
            if name not in mismatches:
                continue
            error = mismatches[name].error
            if error is None or error > times * noise.largest:
                return False
            off = elements_off(*settled(ours, theirs, reach), self._yardstick(sample, name))
            parts = blocks_of(self._joints.get(name, ()), np.shape(ours))
            if off is not None and not noise.explains(off, times, parts):
                return False
        return True

    def mismatches(
        self, sample: Sample, ours: Sequence[Any], theirs: Sequence[Any]
    ) -> dict[str, Mismatch]:
        """The outputs in which two runs of a sample differ, for whatever reason."""
        compared = {
            name: self._compared(one, other, self._yardstick(sample, name))
            for name, one, other in zip(self.names, ours, theirs, strict=True)
        }
        return {name: mismatch for name, mismatch in compared.items() if mismatch}

    def _compared(self, ours: Any, theirs: Any, yardstick: Yardstick) -> Mismatch | None:
        mismatch = compare(ours, theirs, yardstick)
        if mismatch and self._bounds is not None and yardstick.bounds is None:
            # on a sample with extreme values, the bounds are enough, too
            within = replace(yardstick, bounds=self._bounds)
            return mismatch if compare(ours, theirs, within) else None
        return mismatch

    def _yardstick(self, sample: Sample, name: str) -> Yardstick:
        """The precision with which an output is compared. On samples with extreme values and at
        ties, the output may be 0 except for rounding, so it gets the scale of the ordinary samples.
        """
        has_scale = sample.edge or _drawn_floats(sample) == "ties"
        least = self._scales.get(name, 0.0) if has_scale else 0.0
        joints = self._joints.get(name, ())
        precision = self._precisions.get(name, "")
        return Yardstick(self._numerics, least, precision, joints, self.bounds_of(sample))

    def _is_rounding(
        self, sample: Sample, candidate: Sequence[Any], mismatches: Mapping[str, Mismatch]
    ) -> bool:
        """Whether rounding, tested in one run, changes the reference about as much as the candidate
        differs. Both changes must be within the widest tolerance, and in the output as a whole, not
        in single elements. This test comes before that of the order of reductions, which takes a
        dozen runs.
        """
        errors = _errors(mismatches)
        if errors is None or not all(mismatch.within_widest for mismatch in mismatches.values()):
            return False
        moved = next(self._conditioning.draws(sample.feeds), None)
        if moved is None or any(
            compare(one, other, replace(self._yardstick(sample, name), numerics="approximate"))
            for name, one, other in zip(self.names, sample.outputs, moved, strict=True)
        ):
            return False
        usual = dict(zip(self.names, map(usual_difference, sample.outputs, moved), strict=True))
        if not is_within(errors, usual, ABOUT):
            return False
        noises = list(map(Noise, sample.outputs))
        for noise, value, other in zip(noises, sample.outputs, moved, strict=True):
            noise.add(value, other)
        if not self._is_explained(sample, candidate, self._no_reaches, mismatches, noises, ABOUT):
            return False
        self._note_movement(sample, noises)
        return True

    def _note_movement(self, sample: Sample, noises: Sequence[Noise]) -> None:
        for noise, value in zip(noises, sample.outputs, strict=True):
            move = noise.largest / (largest_magnitude(value) or 1.0)
            self.tally.moves = max(self.tally.moves, move)

    def _amplified(
        self, sample: Sample, candidate: Sequence[Any], reaches: Sequence[Reach | None]
    ) -> tuple[Outcome, dict[str, Mismatch], list[Reach | None]]:
        """Test whether rounding explains the mismatches: "same" if it changes the reference as much
        as the candidate differs, "unstable" if the reference amplifies rounding and changes not
        much less, "different" otherwise.

        In some elements the reference with moved inputs gives the candidate's value. Return also
        the mismatches that these elements do not explain, and the reaches with infinity for them.
        """
        noises = list(map(Noise, sample.outputs))
        mismatches = self._unsettled(sample, candidate, reaches)
        reaches = list(reaches)

        def is_amplified(reaches: Sequence[Reach | None]) -> bool:
            named = zip(self.names, noises, reaches, strict=True)
            return all(
                noise.is_amplified(reach) for name, noise, reach in named if name in mismatches
            )

        # these draws cost more, so they run only if the first draws show amplified rounding
        def other_draws() -> Iterator[list[Any]]:
            if is_amplified(reaches):
                yield from self._conditioning.other_draws(sample.feeds)

        draws = self._conditioning.draws(sample.feeds)
        for moved in chain(draws, self._inner_rounding.draws(sample.feeds), other_draws()):
            for noise, *values in zip(noises, sample.outputs, moved, reaches, strict=True):
                noise.add(*settled(*values))
            reaches = _farther(reaches, map(steps, sample.outputs, candidate, moved, reaches))
            mismatches = self._unsettled(sample, candidate, reaches)
            if self._is_explained(sample, candidate, reaches, mismatches, noises, ABOUT):
                self._note_movement(sample, noises)
                return "same", mismatches, reaches
        if all(mismatch.error is None for mismatch in mismatches.values()):  # integers, mostly
            far_draws = (
                self._inner_rounding.more_draws
                if is_amplified(reaches)
                else self._conditioning.far_draws
            )
            for moved in far_draws(sample.feeds):
                reaches = _farther(reaches, map(steps, sample.outputs, candidate, moved, reaches))
                mismatches = self._unsettled(sample, candidate, reaches)
                if not mismatches:
                    return "same", mismatches, reaches
        if is_amplified(self._no_reaches) and self._is_explained(
            sample, candidate, reaches, mismatches, noises, IN_PROPORTION
        ):
            self._note_movement(sample, noises)
            return "unstable", mismatches, reaches
        return "different", mismatches, reaches


def _drawn_floats(sample: Sample) -> str:
    """The style in which the floats of a sample were drawn. "" if they were not drawn."""
    return sample.style.floats if isinstance(sample, DrawnSample) else ""


def _farther(one: Sequence[Reach | None], other: Iterable[Reach | None]) -> list[Reach | None]:
    return [farther(*pair) for pair in zip(one, other, strict=True)]


def _open_where_not_finite(*values: Any) -> Reach | None:
    """Infinity for each element that is NaN or infinite in one of these values. None unless they
    are floats of the same shape.
    """
    if not all(isinstance(value, np.ndarray) and value.dtype.kind == "f" for value in values):
        return None
    if len({value.shape for value in values}) > 1:
        return None
    return np.where(np.logical_and.reduce(list(map(np.isfinite, values))), 0.0, np.inf)


def _open_if_half(reach: Reach | None, value: Any, is_half: bool) -> Reach | None:
    """Infinity for all elements if some of them overflow in float16; otherwise `reach`."""
    return np.full(np.shape(value), np.inf) if is_half and not is_finite(value) else reach


def _is_any_open(
    outputs: Sequence[Any], reaches: Sequence[Reach | None], unsteady: Sequence[Reach | None]
) -> bool:
    """Whether another order of reductions may change all elements of an output that is judged."""
    is_judged = [reach is None or not np.isinf(reach).all() for reach in unsteady]
    return any(map(is_open, compress(outputs, is_judged), compress(reaches, is_judged)))


def _differences(sample: Sample, mismatches: Mapping[str, Mismatch]) -> list[Difference]:
    return [
        Difference(name, sample.label, mismatch.reason) for name, mismatch in mismatches.items()
    ]


def _model(reference: Path) -> onnx.ModelProto:
    try:
        return light_model(reference)[0]
    except RunError:
        return onnx.ModelProto()


def _errors(mismatches: Mapping[str, Mismatch]) -> dict[str, float] | None:
    """The largest error of each output. None if an output differs in another way than by an error,
    for example in its shape.
    """
    errors = {
        name: mismatch.error for name, mismatch in mismatches.items() if mismatch.error is not None
    }
    return errors if len(errors) == len(mismatches) else None
