"""The story: open both models, compare their interfaces, run them on the same inputs, compare every output."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from time import monotonic

from fusionc.disk.load import load
from fusionc.errors import FusioncError
from fusionc.runtime.optimizers import DEFAULT_LEVELS, LEVELS
from fusionc.runtime.run_errors import OutOfMemory, RunError
from fusionc.runtime.runner import closes_runners
from fusionc.verify.compare import Numerics
from fusionc.verify.deployment import Deployment
from fusionc.verify.given_samples import GivenSamples
from fusionc.verify.inputs.given_values import GivenValues
from fusionc.verify.inputs.search import DrawnSample, InputSearch
from fusionc.verify.interface import interface_differences
from fusionc.verify.judge import Judge
from fusionc.verify.model_file import ModelFile
from fusionc.verify.output_errors import ErrorTable
from fusionc.verify.result import Difference, OptimizerFault, Verification

_PATIENCE = 60  # seconds; then one run of inputs that verification makes itself is enough


@closes_runners
def verify(
    reference: Path,
    candidate: Path,
    *,
    input_shape: Mapping[str, tuple[int, ...]] | None = None,
    inputs: Path | None = None,
    seeds: Sequence[int] = (0, 1, 2),
    kernels: Path | None = None,
    nonfinite: bool = True,
    numerics: Numerics = "rounding",
    levels: Collection[str] = DEFAULT_LEVELS,
    progress: Callable[[str], None] = lambda _: None,
) -> Verification:
    """Does the model file `candidate` compute what `reference` computes?

    Both run in onnxruntime with its optimizers off: on every sample of `inputs` (a file or folder, as GivenValues takes
    it), then once per seed, on zeros, on mixed magnitudes, and on NaN and Inf. The first seed has one size for every
    dynamic dimension, the second another, the third a batch of one; `input_shape` fixes the shapes of the inputs it
    names. Where these take minutes, fewer will do. `kernels` is a library for operators of the candidate, `numerics`
    what its rewrites claim, as in tolerance_of. `nonfinite` False leaves NaN and Inf out. `progress` gets a line for
    each run.

    Where all of that is the same, the candidate runs at the other `levels` of onnxruntime's optimizers, too. What
    differs there is their fault; it makes the models different unless the reference suffers from it as well.

    Raises FusioncError where one of the files is no ONNX model, UsageError where `input_shape` or `inputs` do not fit
    the inputs of the reference.
    """
    for path in (reference, candidate):
        load(path)
    ours, theirs = ModelFile(reference), ModelFile(candidate, kernels)
    try:
        model = ours.proto()
        runner = ours.runner()
    except RunError as error:
        why = f"onnxruntime cannot load {reference}: {error}"
        return Verification("impossible", 0, why, is_refused=type(error) is RunError)
    given = GivenSamples(None if inputs is None else GivenValues(inputs), model, runner)
    search = InputSearch(runner, model, reference.parent, input_shape or {})
    if search.not_drawn and not given:
        return Verification("impossible", 0, search.not_drawn)
    try:
        other_model, other = theirs.proto(), theirs.runner()
    except OutOfMemory as error:
        raise _too_large(candidate, error) from error
    except RunError as error:
        if next(chain(given.samples(), search.samples(seeds, nonfinite)), None) is None:
            return _impossible(reference, search)
        found = _different(0, Difference("", "", f"onnxruntime cannot load {candidate}: {error}"))
        return replace(found, is_loadable=False)
    changed = tuple(interface_differences(model, other_model))
    if changed:
        return _different(0, *changed)
    del other_model
    if not runner.outputs:
        return Verification("impossible", 0, f"{reference} has no outputs to compare")
    del model  # holds all weights that are not in external files

    judge, table = Judge(reference, runner, numerics), ErrorTable("disabled")
    drawn: list[DrawnSample] = []
    begin, in_time = monotonic(), ""
    for wanted in chain(given.samples(), search.samples(seeds, nonfinite)):
        if isinstance(wanted, DrawnSample) and judge.runs and monotonic() - begin > _PATIENCE:
            in_time = f"no more were made, as these took more than {_PATIENCE} s"
            break
        # Where the reference is unstable no difference counts, and no equality: such a sample is left out, and other
        # values are drawn in place of a seed's.
        is_drawn = isinstance(wanted, DrawnSample) and not wanted.edge
        for sample in chain((wanted,), search.redraws(wanted)) if is_drawn else (wanted,):
            progress(f"run {judge.runs + 1}: {sample.label}")
            try:
                outputs = other.run(sample.feeds)
            except OutOfMemory as error:
                raise _too_large(candidate, error) from error
            except RunError as error:
                why = f"the reference runs, the candidate does not: {error}"
                return _different(judge.runs, Difference("", sample.label, why))
            outcome, differences = judge.outcome(sample, outputs)
            if not sample.edge or outcome == "different":
                table.add(runner.outputs, sample.label, sample.outputs, outputs)
            if outcome not in ("unstable", "undecided"):
                break
        if outcome in ("unstable", "undecided") and not isinstance(wanted, DrawnSample):
            given.leave_out()
        if outcome == "different":
            return replace(_different(judge.runs, *differences), outputs=table.rows())
        if isinstance(sample, DrawnSample) and is_drawn and outcome == "same":
            drawn.append(replace(sample, feeds={}, outputs=[]))
    if judge.is_undecided and judge.left_out:
        why = f"on every input that was tried the model decides nothing: {judge.movement}"
        return Verification("impossible", 0, why)
    if judge.runs == 0:
        return _impossible(reference, search)
    other.close()
    rows, faults, notes = [*table.rows()], list[OptimizerFault](), [judge.summary(search.left_out), *given.notes()]
    notes += filter(None, [in_time])
    for level in (level for level in LEVELS if level in levels and level != "disabled"):
        deployment = Deployment(level, ours, theirs, judge, progress)
        fault = deployment.fault(chain(given.samples(), search.again(drawn)))
        rows += deployment.table.rows()
        if fault is not None:
            faults.append(fault)
            if not fault.is_in_reference:
                what = f"different: {fault}"
                found = _different(judge.runs, fault.difference)
                runs = bool(fault.difference.subject)  # if it does, an output differs
                return replace(found, summary=what, optimizer_faults=(fault,), outputs=tuple(rows), is_loadable=runs)
        notes += filter(None, [deployment.skipped])
    notes += map(str, faults)
    return Verification("equal", judge.runs, "; ".join(notes), optimizer_faults=tuple(faults), outputs=tuple(rows))


def _impossible(reference: Path, search: InputSearch) -> Verification:
    why = f"onnxruntime cannot run {reference}: {search.first_error}"
    return Verification("impossible", 0, why, is_refused=search.is_refused)


def _different(runs: int, *differences: Difference) -> Verification:
    more = f" (and {len(differences) - 1} more)" if len(differences) > 1 else ""
    return Verification("different", runs, f"different: {differences[0]}{more}", differences)


def _too_large(candidate: Path, error: OutOfMemory) -> FusioncError:
    """That a model does not find the memory which the one that it is compared with has."""
    return FusioncError(
        f"there is not enough memory to run the model beside the one that it is compared with: {error}",
        where=str(candidate),
        hint="give smaller sizes, to convert with --verify_shape, to verify with --input_shape; free some memory, or "
        "leave the verification out: --no-verify",
    )
