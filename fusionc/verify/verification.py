"""The story: open both models, compare their interfaces, run them on the same inputs, compare every output."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

import onnx

from fusionc.disk.load import load
from fusionc.errors import said
from fusionc.runtime.run_errors import OutOfMemory, RunError
from fusionc.runtime.runner import Runner, closes_runners
from fusionc.verify.given_samples import GivenSamples
from fusionc.verify.inputs.given_values import GivenValues
from fusionc.verify.inputs.search import DrawnSample, InputSearch
from fusionc.verify.interface import interface_differences
from fusionc.verify.judge import Judge, too_large
from fusionc.verify.result import Difference, Verification
from fusionc.verify.seeding import random_nodes, seeded_runner


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
    progress: Callable[[str], None] | None = None,
) -> Verification:
    """Does the model file `candidate` compute what `reference` computes?

    Both run in onnxruntime with its optimizers off: on every sample of `inputs` (a file or folder, as GivenValues takes
    it), then once per seed, on zeros, on mixed magnitudes, and on NaN and Inf. The first seed has one size for every
    dynamic dimension, the second another, the third a batch of one; `input_shape` fixes the shapes of the inputs it
    names. `kernels` is a library for operators of the candidate. `nonfinite` False leaves NaN and Inf out. `progress`
    gets a line for each run.

    Raises FusioncError where one of the files is no ONNX model, UsageError where `input_shape` or `inputs` do not fit
    the inputs of the reference.
    """
    for path in (reference, candidate):
        load(path)
    try:
        model, runner = _open(reference)
    except RunError as error:
        why = f"onnxruntime cannot load {reference}: {error}"
        return Verification("impossible", 0, why, is_refused=type(error) is RunError)
    given = GivenSamples(None if inputs is None else GivenValues(inputs), model, runner)
    search = InputSearch(runner, model, reference.parent, input_shape or {})
    if search.too_large and not given:
        return Verification("impossible", 0, f"{search.too_large} is too large to be run")
    try:
        other_model, other = _open(candidate, kernels)
    except OutOfMemory as error:
        raise too_large(candidate, error) from error
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

    judge = Judge(reference, runner, candidate, other)
    for wanted in chain(given.samples(), search.samples(seeds, nonfinite)):
        # Where the reference is unstable no difference counts, and no equality: an edge is left out then, and what is
        # given; other values are drawn in place of a seed's.
        is_drawn = isinstance(wanted, DrawnSample) and not wanted.edge
        for sample in chain((wanted,), search.redraws(wanted)) if is_drawn else (wanted,):
            if progress:
                progress(f"run {judge.runs + 1}: {sample.label}")
            outcome, differences = judge.outcome(sample)
            if outcome not in ("unstable", "undecided"):
                break
        if outcome == "different" or (outcome == "unstable" and is_drawn):
            return _different(judge.runs, *differences)
    if judge.is_undecided and judge.left_out:
        why = "all that the model computes on every input that was tried depends on the order of its reductions"
        return Verification("impossible", 0, why)
    if judge.runs == 0:
        return _impossible(reference, search)
    return Verification("equal", judge.runs, "; ".join([judge.summary(search.left_out), *given.notes()]))


def _impossible(reference: Path, search: InputSearch) -> Verification:
    why = f"onnxruntime cannot run {reference}: {search.first_error}"
    return Verification("impossible", 0, why, is_refused=search.is_refused)


def _open(path: Path, kernels: Path | None = None) -> tuple[onnx.ModelProto, Runner]:
    try:
        model = onnx.load(path, load_external_data=False)
    except Exception as error:  # protobuf, the file system and onnx raise errors of their own
        raise RunError(said(error)) from error
    if not random_nodes(model):
        return model, Runner(path, kernels=kernels)
    seeded = onnx.ModelProto()
    seeded.CopyFrom(model)
    return model, seeded_runner(seeded, path.parent, kernels)


def _different(runs: int, *differences: Difference) -> Verification:
    more = f" (and {len(differences) - 1} more)" if len(differences) > 1 else ""
    return Verification("different", runs, f"different: {differences[0]}{more}", differences)
