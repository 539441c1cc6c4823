"""A verification from start to finish: open both models, compare their interfaces, run them on the
same inputs, and compare every output.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path

import onnx

from fusionc.disk.load import load
from fusionc.runtime.optimizers import DEFAULT_LEVELS, LEVELS
from fusionc.runtime.run_errors import OutOfMemory, RunError
from fusionc.runtime.runner import Runner, closes_runners
from fusionc.verify.compare import Bounds, Numerics
from fusionc.verify.deployment import Deployment
from fusionc.verify.equal_so_far import equal_so_far
from fusionc.verify.grid_steps import InnerGrids, grid_steps_of
from fusionc.verify.inputs.search import DrawnSample, InputSearch
from fusionc.verify.interface import interface_differences
from fusionc.verify.judge import Judge
from fusionc.verify.model_file import ModelFile
from fusionc.verify.reference import SEEDS, Reference
from fusionc.verify.reference_ahead import ReferenceAhead
from fusionc.verify.result import IN_PART, Difference, OptimizerFault, Verification
from fusionc.verify.sample_runs import SampleRuns, too_large

# a part of onnxruntime's message for an unknown operator
_NOT_REGISTERED = "is not a registered function/op"


@closes_runners
def verify(
    reference: Path,
    candidate: Path,
    *,
    input_shape: Mapping[str, tuple[int, ...]] | None = None,
    inputs: Path | None = None,
    seeds: Sequence[int] = SEEDS,
    kernels: Path | None = None,
    nonfinite: bool = True,
    numerics: Numerics = "rounding",
    levels: Collection[str] = DEFAULT_LEVELS,
    optimizers_off: Sequence[str] = (),
    progress: Callable[[str], None] = lambda _: None,
    ahead: ReferenceAhead | None = None,
    elements: int | None = None,
    level: str = "disabled",
    inner_grids: InnerGrids | None = None,
    bounds: Bounds | None = None,
) -> Verification:
    """Whether the model file `candidate` computes what `reference` computes.

    Both run in onnxruntime with its optimizers off: on every sample of `inputs` (a file or folder,
    as GivenValues takes it), then once per seed, on zeros, on mixed magnitudes, and on NaN and Inf.
    The first seed uses the preferred sizes of dynamic dimensions, the second one other sizes, and
    the third one a batch of one. `input_shape` fixes the shapes of the inputs that it names. The
    work stays within the budget of a verification, or within `elements` (0: no limit). To stay
    within it, smaller sizes are chosen and fewer inputs drawn, but the caller's inputs are never
    left out.

    `kernels` is a library with operators of the candidate. `numerics` is what the candidate's
    rewrites claim, as in tolerance_of. `nonfinite=False` leaves NaN and Inf out. `progress` gets a
    line for each run. `ahead` is set if the reference already runs in the background with the same
    shapes, inputs and seeds. `level` is the level of the optimizers in all these runs, usually
    "disabled". The level is higher if kernels compute nodes that onnxruntime computes in integers,
    because only the optimizers find these nodes. `inner_grids` show the integers inside the
    candidate's areas (parts of the graph that one generated kernel computes). If there are kernels,
    these integers are compared with those of the candidate without kernels, which must be known to
    be right. `bounds` replace the tolerances.

    If all outputs are equal, the candidate also runs at the other `levels` of onnxruntime's
    optimizers, without the optimizers in `optimizers_off`. A difference at such a level is the
    fault of the optimizers. It makes the models different, unless the reference has the same
    difference with all optimizers on.

    Raises FusioncError if one of the files is not an ONNX model, and UsageError if `input_shape` or
    `inputs` do not fit the inputs of the reference.
    """
    load(reference, maps=True)
    load(candidate, maps=True)
    theirs = ModelFile(candidate, kernels)
    try:
        ours = (ahead and ahead.take(reference)) or Reference(
            reference, input_shape, inputs, seeds, elements, level
        )
    except RunError as error:
        return _unloadable_reference(reference, error)
    search = ours.search
    if search.not_drawn and not ours.given:
        return Verification("impossible", 0, search.not_drawn)
    drawn = ours.drawn(nonfinite)
    try:
        other, changed = _opened(theirs, ours.model, level)
    except RunError as error:
        if next(chain(ours.given.samples(), drawn), None) is None:
            return _impossible(reference, search)
        why = f"onnxruntime cannot load {candidate}: {error}"
        return replace(_different(0, Difference("", "", why)), is_loadable=False)
    if changed:
        return _different(0, *changed)
    if not ours.runner.outputs:
        return Verification("impossible", 0, f"{reference} has no outputs to compare")

    grids = grid_steps_of(reference, theirs, inner_grids)
    judge = Judge(
        reference,
        ours.runner,
        numerics,
        grids,
        is_for_finite=not nonfinite,
        level=level,
        bounds=bounds,
    )
    is_strict = kernels is None and numerics != "approximate"
    runs = SampleRuns(
        candidate, other, ours.runner, ours.given, search, judge, progress, is_strict=is_strict
    )
    same = partial(equal_so_far, reference, candidate, input_shape, inputs, progress)
    return _verdict(runs, drawn, ours, same, levels) or _deployed(
        runs, ours.file, theirs, levels, optimizers_off
    )


def _verdict(
    runs: SampleRuns,
    drawn: Iterable[DrawnSample],
    ours: Reference,
    same: Callable[[], str],
    levels: Collection[str],
) -> Verification | None:
    """The verdict with the optimizers off, or None if the models are equal.

    Both models are closed unless a difference is found, or nothing is proved. `same` returns a
    sentence about the inner values that are equal.
    """
    if differences := runs.differences(drawn):
        return _different_outputs(runs, differences)
    judge = runs.judge
    is_decided = not (judge.tally.is_undecided and judge.tally.left_out)
    if is_decided and (unproved := _nothing_proved(judge, ours.path, ours.search)):
        return unproved
    runs.candidate.close()  # one session at a time
    runs.reference.close()
    return None if is_decided else _undecided(runs, same(), levels)


def _unloadable_reference(reference: Path, error: RunError) -> Verification:
    why = f"onnxruntime cannot load {reference}: {error}"
    if _NOT_REGISTERED in why:
        hint = "if the operator is your own, --custom_op_library takes the library that has it"
        why = f"{why}; {hint}"
    return Verification("impossible", 0, why, is_refused=type(error) is RunError)


def _different_outputs(runs: SampleRuns, differences: Sequence[Difference]) -> Verification:
    does_run = bool(differences[0].subject)  # without a subject, the candidate did not run
    rows = runs.table.rows() if does_run else ()
    return replace(_different(runs.judge.tally.runs, *differences), outputs=rows)


def _nothing_proved(judge: Judge, reference: Path, search: InputSearch) -> Verification | None:
    """The verdict if no comparison proves anything. None if one does."""
    if judge.tally.runs == 0:
        return _impossible(reference, search)
    if not judge.tally.unsteady.judged:
        why = f"nothing is judged: {'; '.join(judge.tally.unsteady.notes(judge.names))}"
    elif judge.tally.never_finite == set(judge.names):
        why = (
            f"on all inputs that were compared {reference} computes only NaN and "
            "infinities; give other inputs"
        )
    else:
        return None
    return Verification("impossible", 0, why)


def _opened(
    candidate: ModelFile, reference: onnx.ModelProto, level: str
) -> tuple[Runner, tuple[Difference, ...]]:
    """A runner of the candidate, and how its interface differs. Raises RunError."""
    try:
        model = candidate.proto()
        runner = candidate.runner(level)
    except OutOfMemory as error:
        raise too_large(candidate.path, error) from error
    return runner, tuple(interface_differences(reference, model))


def _deployed(
    runs: SampleRuns,
    ours: ModelFile,
    theirs: ModelFile,
    levels: Collection[str],
    off: Sequence[str],
) -> Verification:
    """The verdict at these levels of onnxruntime's optimizers, for models that are equal without
    optimizers.
    """
    rows = list(runs.table.rows())
    faults = list[OptimizerFault]()
    notes = [*runs.notes(), *runs.judge.notes()]
    unchecked = list[str]()
    for level in (level for level in LEVELS if level in levels and level != "disabled"):
        deployment = Deployment(level, ours, theirs, runs.judge, runs.progress, off)
        fault = deployment.fault(runs.within_budget(level))
        rows += deployment.table.rows()
        if fault is not None:
            faults.append(fault)
            if not fault.is_in_reference:
                what = f"different: {fault}"
                different = _different(runs.judge.tally.runs, fault.difference)
                does_run = bool(fault.difference.subject)
                return replace(
                    different,
                    summary=what,
                    optimizer_faults=(fault,),
                    outputs=tuple(rows),
                    is_loadable=does_run,
                )
        notes += [*deployment.exceptions(), *deployment.notes]
        unchecked += [level] if deployment.notes else []
    notes += map(str, faults)
    budget = runs.budget
    notes += filter(None, (budget.shortened,))
    return Verification(
        "equal",
        runs.judge.tally.runs,
        (IN_PART if budget.left_out else "") + "; ".join(notes),
        optimizer_faults=tuple(faults),
        outputs=tuple(rows),
        unchecked_levels=tuple(unchecked),
        budget=budget,
    )


def _undecided(runs: SampleRuns, same: str, levels: Collection[str]) -> Verification:
    """The verdict if no output can be compared. `same` says which inner values are equal."""
    why = f"no input that was tried gives outputs that can be compared: {runs.judge.tally.movement}"
    if not same:
        return Verification("impossible", 0, why)
    budget = runs.budget
    budget.left_out.append("the outputs, which cannot be compared")
    unchecked = tuple(level for level in levels if level != "disabled")
    return Verification(
        "equal", 0, f"{IN_PART}{same}; {why}", unchecked_levels=unchecked, budget=budget
    )


def _impossible(reference: Path, search: InputSearch) -> Verification:
    why = f"onnxruntime cannot run {reference}: {search.first_error}"
    return Verification("impossible", 0, why, is_refused=search.is_refused)


def _different(runs: int, *differences: Difference) -> Verification:
    more = f" (and {len(differences) - 1} more)" if len(differences) > 1 else ""
    return Verification("different", runs, f"different: {differences[0]}{more}", differences)
