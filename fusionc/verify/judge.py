"""Whether what two models compute on one input is the same, or a difference decides nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
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
    Mismatch,
    Numerics,
    Yardstick,
    compare,
    largest_magnitude,
    tells_something,
)
from fusionc.verify.conditioning import Conditioning, steps
from fusionc.verify.excuses import (
    STEPS_ONE_IN,
    Excused,
    Excuses,
    excused_elements,
    moves_as_a_whole,
    reach_moves_whole,
    size_of,
    sorted_outputs,
)
from fusionc.verify.grid_steps import GridSteps
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
from fusionc.verify.order_dependence import (
    OrderDependence,
    Reach,
    farther,
    is_open,
    settled,
)
from fusionc.verify.output_parts import joints_of
from fusionc.verify.precision import least_precise
from fusionc.verify.result import Difference
from fusionc.verify.second_run import SecondRun, Unsteady, held_fast

Outcome = Literal["same", "different", "unstable", "undecided"]
_LOOKS = 3  # draws that show whether an output moves as a whole


class Judge:
    """Judges one sample after the other. `runs` counts those that were compared and found the same,
    `left_out` those on which the reference decides nothing.

    `is_for_finite` if the candidate may give other results for NaN and infinities, as some passes
    declare.
    """

    def __init__(
        self,
        reference: Path,
        runner: Runner,
        numerics: Numerics = "rounding",
        grids: GridSteps | None = None,
        *,
        is_for_finite: bool = False,
    ) -> None:
        self._reference = reference
        self._numerics = numerics
        self._is_for_finite = is_for_finite
        self._grids = grids
        self.names = runner.outputs
        self._conditioning = Conditioning(reference, runner)
        self._inner_rounding = InnerRounding(reference)
        self._order = OrderDependence(reference)
        self._optimizers = OptimizerDependence(reference)
        self._scales: dict[str, float] = {}
        self._again = SecondRun(reference, runner)
        self.unsteady = Unsteady()
        self._nowhere: list[Reach | None] = [None] * len(self.names)
        model = _model(reference)
        self._sorted = sorted_outputs(model)
        self._precisions = least_precise(model)
        self._joints = joints_of(model)
        self.excuses = Excuses()
        self._widened = Excuses()
        self._steps = Excuses(STEPS_ONE_IN, one_each=True)
        self.runs = self.left_out = self._inside = 0
        self.moves = 0.0  # how far the reference moved of itself, as a share of the largest value
        self.is_undecided = True  # until an ordinary sample has shown the same
        # the outputs of which nothing but NaN and infinities has been compared
        self.never_finite = set(self.names)

    def another(self, level: str) -> Judge:
        """One that has counted nothing, for what onnxruntime's optimizers make of the candidate:
        they round.
        """
        other = copy(self)
        other._grids = self._grids and self._grids.at(level)
        other._numerics = "approximate" if self._numerics == "approximate" else "rounding"
        other._scales = {}
        other.unsteady = Unsteady()
        other.excuses = Excuses()
        other._widened = Excuses()
        other._steps = Excuses(STEPS_ONE_IN, one_each=True)
        other.runs = other.left_out = other._inside = 0
        other.moves = 0.0
        other.is_undecided = True
        other.never_finite = set(self.names)
        return other

    def include(self, other: Judge) -> None:
        """Count what another one has excused."""
        self.excuses.include(other.excuses)
        self._widened.include(other._widened)
        self._steps.include(other._steps)
        self._inside += other._inside

    def outcome(self, sample: Sample, found: Sequence[Any]) -> tuple[Outcome, list[Difference]]:
        """In what the candidate, which has `found` this on the sample, differs from the reference,
        and what that means.

        "unstable": the reference itself, with weights and inputs moved by one unit in the last
        place, differs from itself about as much. "undecided": the order of reductions, or rounding,
        decides all of an output; where one look at its rounding explains the difference, nobody
        asks for the order.
        """
        mismatches = self.mismatches(sample, sample.outputs, found)
        if not sample.edge:
            for name, value in zip(self.names, sample.outputs, strict=True):
                self._scales[name] = max(self._scales.get(name, 0.0), largest_magnitude(value))
        if not mismatches:
            return self._same(sample, {}, {})
        if not sample.edge and self._is_rounding(sample, found, mismatches):
            return self._same(
                sample, mismatches, self._excused(sample, found, self._nowhere, self._nowhere)
            )
        yardsticks = [self._yardstick(sample, name) for name in self.names]
        unsteady = self._again.reaches(sample.feeds, sample.outputs, yardsticks)
        steady = held_fast(sample.outputs, found, unsteady)
        meaning, differences = self._examined(sample, steady, unsteady)
        if meaning == "different" and self._is_overflow(sample, steady):
            self.left_out += 1
            return "unstable", differences
        return meaning, differences

    def _is_overflow(self, sample: Sample, found: Sequence[Any]) -> bool:
        """Whether large or small finite numbers explain all differences: those that the reference
        makes infinite or NaN in these elements.

        If (1 / x) * y overflows on the way, y / x need not, and a rewrite that rounds may change
        it. A candidate for finite numbers may also spread an infinity that is computed on the way.
        """
        if self._numerics == "bitwise" or _drawn_floats(sample) != "mixed":
            return False
        spreads = self._is_for_finite and has_infinities(self._reference, sample.feeds)
        values = (sample.outputs, found) if spreads else (sample.outputs,)
        is_open = list(map(_open_where_not_finite, *values))
        held = held_fast(sample.outputs, found, is_open)
        return not self.mismatches(sample, sample.outputs, held)

    def _examined(
        self, sample: Sample, found: Sequence[Any], unsteady: Sequence[Reach | None]
    ) -> tuple[Outcome, list[Difference]]:
        """The same of what a candidate gives where the reference is a judge."""
        order = self._order.reaches(sample.feeds, sample.outputs)
        order = reaches = [farther(*pair) for pair in zip(order, unsteady, strict=True)]
        left = self._unsettled(sample, found, reaches)
        if left and not all(map(is_finite, sample.feeds.values())):
            order = reaches = self._optimizers.reaches(sample.feeds, sample.outputs, reaches)
            left = self._unsettled(sample, found, reaches)
        meaning: Outcome = "same"
        differences = _differences(sample, left)
        if left:
            meaning, left, reaches = self._amplified(sample, found, reaches)
        excused = dict[str, Excused]()
        if meaning != "different":
            if not left and _is_any_open(sample.outputs, reaches, unsteady):
                self.left_out += 1
                return "undecided", []
            excused = self._excused(sample, found, order, reaches)
            meaning, differences = self._weighed(
                sample, reaches, excused, left, meaning, differences
            )
        if meaning != "same" and self._are_steps(sample, found):
            return self._same(sample, {}, {}, unsteady)
        self.left_out += meaning == "unstable"
        return (
            self._same(sample, left, excused, unsteady)
            if meaning == "same"
            else (meaning, differences)
        )

    def _weighed(
        self,
        sample: Sample,
        reaches: Sequence[Reach | None],
        excused: Mapping[str, Excused],
        left: Mapping[str, Mismatch],
        meaning: Outcome,
        differences: list[Difference],
    ) -> tuple[Outcome, list[Difference]]:
        """What a sample means in which rounding, or the order of reductions, explains all that
        differs.
        """
        told = self._beyond(sample, excused)
        if sample.edge:
            return ("unstable", differences or told) if told or left else (meaning, differences)
        if regions := [one for one in told if not self._is_open(sample, one.subject, reaches)]:
            return "different", regions
        is_within = all(mismatch.within_widest for mismatch in left.values())
        return (
            (meaning, differences) if is_within and not told else ("unstable", differences or told)
        )

    def _beyond(self, sample: Sample, excused: Mapping[str, Excused]) -> list[Difference]:
        """The outputs of which more is far off than is excused; what an edge has counts for
        itself.
        """
        excuses = Excuses() if sample.edge else self.excuses
        beyond = [(name, one) for name, one in excused.items() if not excuses.has_room(name, one)]
        return [Difference(name, sample.label, one.reason) for name, one in beyond]

    def _are_steps(self, sample: Sample, found: Sequence[Any]) -> bool:
        """Whether nothing differs but a few steps of grids, to the next number, and what comes of
        these.
        """
        stepped = self._grids and self._grids.stepped(sample.feeds, found)
        if not stepped or not all(self._steps.has_room(*one) for one in stepped.steps.items()):
            return False
        if self.mismatches(sample, stepped.outputs, found):
            return False
        self._steps.add(stepped.steps)
        self._inside += not any(one.elements for one in stepped.steps.values())
        for name, one in stepped.steps.items():
            self._steps.take(name, one)
        return True

    def _same(
        self,
        sample: Sample,
        left: Mapping[str, Mismatch],
        excused: Mapping[str, Excused],
        unsteady: Sequence[Reach | None] = (),
    ) -> tuple[Outcome, list[Difference]]:
        """Count a sample on which the models are the same, up to these mismatches, which are
        rounding, or to what is excused.
        """
        for name, value in () if sample.edge else zip(self.names, sample.outputs, strict=True):
            self.excuses.take(name, excused.get(name) or Excused(0, size_of(value), 0, 0.0))
        self.unsteady.add(self.names, unsteady or self._nowhere)
        self._widened.add(excused if left else {})
        self.excuses.add({} if left else excused)
        self.is_undecided &= sample.edge
        unknown = [
            pair
            for pair in zip(self.names, sample.outputs, strict=True)
            if pair[0] in self.never_finite
        ]
        self.never_finite -= {name for name, value in unknown if tells_something(value)}
        self.runs += 1
        return "same", []

    def _excused(
        self,
        sample: Sample,
        found: Sequence[Any],
        order: Sequence[Reach | None],
        reaches: Sequence[Reach | None],
    ) -> dict[str, Excused]:
        """What would be excused of each output; `order` are the reaches without those of steps."""
        each = zip(self.names, sample.outputs, found, zip(order, reaches, strict=True), strict=True)
        return {
            name: excused_elements(ours, theirs, *both, self._yardstick(sample, name))
            for name, ours, theirs, both in each
        }

    def _is_open(self, sample: Sample, name: str, reaches: Sequence[Reach | None]) -> bool:
        """Whether most of an output moves where rounding moves what the reference reads, or ties
        put it in another order: then it is no region that differs, and the sample decides
        nothing.
        """
        at = self.names.index(name)
        yardstick = self._yardstick(sample, name)
        if name in self._sorted or reach_moves_whole(sample.outputs[at], reaches[at], yardstick):
            return True
        ways = (self._conditioning.draws, self._inner_rounding.draws)
        draws = chain.from_iterable(islice(draw(sample.feeds), _LOOKS) for draw in ways)
        return any(moves_as_a_whole(sample.outputs[at], moved[at], yardstick) for moved in draws)

    def _unsettled(
        self, sample: Sample, found: Sequence[Any], reaches: Sequence[Reach | None]
    ) -> dict[str, Mismatch]:
        pairs = [settled(*values) for values in zip(sample.outputs, found, reaches, strict=True)]
        return self.mismatches(sample, [ours for ours, _ in pairs], [theirs for _, theirs in pairs])

    def _is_explained(
        self,
        sample: Sample,
        found: Sequence[Any],
        reaches: Sequence[Reach | None],
        left: Mapping[str, Mismatch],
        noises: Sequence[Noise],
        times: float,
    ) -> bool:
        """Whether errors are all that is left, and the noise of each output is about as large, or
        so many times.
        """
        for name, ours, theirs, reach, noise in zip(
            self.names, sample.outputs, found, reaches, noises, strict=True
        ):
            if name in left:
                error = left[name].error
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
        """The outputs in which two ways to compute a sample differ, whatever the reason is."""
        names = self.names
        compared = {
            name: compare(one, other, self._yardstick(sample, name))
            for name, one, other in zip(names, ours, theirs, strict=True)
        }
        return {name: mismatch for name, mismatch in compared.items() if mismatch}

    def _yardstick(self, sample: Sample, name: str) -> Yardstick:
        """On zeros, and at ties of 0, an output may vanish but for rounding; its scale is that of
        the ordinary runs.
        """
        least = (
            self._scales.get(name, 0.0) if sample.edge or _drawn_floats(sample) == "ties" else 0.0
        )
        return Yardstick(
            self._numerics, least, self._precisions.get(name, ""), self._joints.get(name, ())
        )

    def summary(self, left_out: Sequence[str]) -> str:
        """A sentence on runs that were all the same; `left_out` says why the reference did not run
        on other inputs.
        """
        parts = [f"equal in {self.runs} {'run' if self.runs == 1 else 'runs'}"]
        parts += self.exceptions()
        parts += self.unsteady.notes(self.names)
        if self.left_out:
            parts.append(f"{self.left_out} left out where the reference is unstable")
        if self.moves and (self._widened.samples or self.left_out):
            parts.append(self.movement)
        if self.never_finite:
            which = ", ".join(name for name in self.names if name in self.never_finite)
            parts.append(
                f"of {which} nothing but NaN and infinities was compared: other inputs tell more"
            )
        parts += [
            f"{number} left out, on which the reference fails: {why}"
            for why, number in Counter(left_out).items()
        ]
        return "; ".join(parts)

    def exceptions(self) -> Iterator[str]:
        """What to say of samples on which the models are the same but for this."""
        if self._widened.samples:
            within = "within the rounding that the reference itself amplifies"
            yield f"in {self._widened.samples} of them {within} ({self._widened})"
        if self.excuses.samples:
            decided = "the order of a reduction or rounding decides them"
            yield f"in {self.excuses.samples} of them but for {self.excuses}: {decided}"
        if self._steps.samples:
            counts = f"{self._steps.elements:,} of {self._steps.compared:,} quantized or rounded elements"
            yield f"in {self._steps.samples} of them but for {counts}, which are on the next step"
        if self._inside:
            yield f"in {self._inside} of them but for steps that are taken inside of quantized operators"

    @property
    def movement(self) -> str:
        """How far the reference moves where rounding moves what it reads."""
        if not self.moves:
            return "all depends on the order of reductions"
        return (
            f"the reference's outputs move by {100 * self.moves:.2g} % of the largest value when "
            "its inputs "
            "and weights move by one unit in the last place"
        )

    def _is_rounding(
        self, sample: Sample, found: Sequence[Any], mismatches: Mapping[str, Mismatch]
    ) -> bool:
        """Whether the reference, moved once by rounding, moves about as far as the candidate is
        off, all of it and not single elements alone, and both within the widest tolerance. It takes
        one run, the order of reductions a dozen.
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
        noises = list(map(Noise, sample.outputs))
        for noise, value, other in zip(noises, sample.outputs, moved, strict=True):
            noise.add(value, other)
        if not is_within(errors, usual, ABOUT) or not self._is_explained(
            sample, found, self._nowhere, mismatches, noises, ABOUT
        ):
            return False
        self._note_movement(sample, noises)
        return True

    def _note_movement(self, sample: Sample, noises: Sequence[Noise]) -> None:
        for noise, value in zip(noises, sample.outputs, strict=True):
            self.moves = max(self.moves, noise.largest / (largest_magnitude(value) or 1.0))

    def _amplified(
        self, sample: Sample, found: Sequence[Any], reaches: Sequence[Reach | None]
    ) -> tuple[Outcome, dict[str, Mismatch], list[Reach | None]]:
        """Whether the reference, moved by rounding, differs from itself as much as the candidate
        does ("same"), or, as it amplifies rounding, not much less ("unstable"); what is left of the
        mismatches without the elements in which it itself gives the other value; the reaches with
        these.
        """
        noises = list(map(Noise, sample.outputs))
        left = self._unsettled(sample, found, reaches)
        reaches = list(reaches)

        def is_amplified() -> bool:
            named = zip(self.names, noises, strict=True)
            return bool(_errors(left)) and all(
                noise.is_amplified for name, noise in named if name in left
            )

        # which cost more: asked for after the others have shown their noise
        def other_draws() -> Iterator[list[Any]]:
            if is_amplified():
                yield from self._conditioning.other_draws(sample.feeds)

        draws = self._conditioning.draws(sample.feeds)
        for moved in chain(draws, self._inner_rounding.draws(sample.feeds), other_draws()):
            for noise, value, other, reach in zip(
                noises, sample.outputs, moved, reaches, strict=True
            ):
                noise.add(*settled(value, other, reach))
            seen = map(steps, sample.outputs, found, moved, reaches)
            reaches = [farther(*pair) for pair in zip(reaches, seen, strict=True)]
            left = self._unsettled(sample, found, reaches)
            if self._is_explained(sample, found, reaches, left, noises, ABOUT):
                self._note_movement(sample, noises)
                return "same", left, reaches
        if all(mismatch.error is None for mismatch in left.values()):  # integers, mostly
            for moved in self._conditioning.far_draws(sample.feeds):
                seen = map(steps, sample.outputs, found, moved, reaches)
                reaches = [farther(*pair) for pair in zip(reaches, seen, strict=True)]
                left = self._unsettled(sample, found, reaches)
                if not left:
                    return "same", left, reaches
        if is_amplified() and self._is_explained(
            sample, found, reaches, left, noises, IN_PROPORTION
        ):
            self._note_movement(sample, noises)
            return "unstable", left, reaches
        return "different", left, reaches


def _drawn_floats(sample: Sample) -> str:
    """The style in which the floats of a sample are drawn; "" where they are given."""
    return sample.style.floats if isinstance(sample, DrawnSample) else ""


def _open_where_not_finite(*values: Any) -> Reach | None:
    """Infinity where one of these is NaN or infinite; None unless they are floats of one shape."""
    if not all(isinstance(value, np.ndarray) and value.dtype.kind == "f" for value in values):
        return None
    if len({value.shape for value in values}) > 1:
        return None
    return np.where(np.logical_and.reduce(list(map(np.isfinite, values))), 0.0, np.inf)


def _is_any_open(
    outputs: Sequence[Any], reaches: Sequence[Reach | None], unsteady: Sequence[Reach | None]
) -> bool:
    """Whether of an output that is judged another order may leave nothing."""
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
    """By how much outputs are off; None where that is not all the trouble with one of them."""
    errors = {
        name: mismatch.error for name, mismatch in mismatches.items() if mismatch.error is not None
    }
    return errors if len(errors) == len(mismatches) else None
