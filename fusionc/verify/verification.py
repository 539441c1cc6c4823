"""The story: open both models, compare their interfaces, run them on the same inputs, compare every output."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from math import prod
from pathlib import Path
from typing import Any, Literal

import numpy as np
import onnx

from fusionc.disk.load import load
from fusionc.errors import FusioncError, UsageError, said
from fusionc.runtime.run_errors import OutOfMemory, RunError
from fusionc.runtime.runner import Runner, closes_runners
from fusionc.verify.compare import Mismatch, compare, largest_difference, largest_magnitude
from fusionc.verify.conditioning import Conditioning, excused, steps
from fusionc.verify.inputs.search import InputSearch, Sample
from fusionc.verify.inputs.value_ranges import value_ranges
from fusionc.verify.interface import Port, interface_differences, overridable, required_inputs
from fusionc.verify.optimizer_dependence import OptimizerDependence
from fusionc.verify.order_dependence import OrderDependence, Reach, farther, is_finite, is_open, settled
from fusionc.verify.result import Difference, Verification
from fusionc.verify.seeding import random_nodes, seeded_runner

_MOST_ELEMENTS = 1 << 31  # of an input
_SIZES = "--verify_shape (of fusionc verify: --input_shape)"


@closes_runners
def verify(
    reference: Path,
    candidate: Path,
    *,
    input_shape: Mapping[str, tuple[int, ...]] | None = None,
    seeds: Sequence[int] = (0, 1, 2),
    kernels: Path | None = None,
    nonfinite: bool = True,
    progress: Callable[[str], None] | None = None,
) -> Verification:
    """Does the model file `candidate` compute what `reference` computes?

    Both run in onnxruntime with its optimizers off: once per seed, then on zeros, on mixed magnitudes, and on NaN and
    Inf. The first seed has one size for every dynamic dimension, the second another, the third a batch of one;
    `input_shape` fixes the shapes of the inputs it names. `kernels` is a library for operators of the candidate.
    `nonfinite` False leaves NaN and Inf out. `progress` gets a line for each run.

    Raises FusioncError where one of the files is no ONNX model, UsageError where `input_shape` does not fit the inputs
    of the reference.
    """
    for path in (reference, candidate):
        load(path)
    try:
        model, runner = _open(reference)
    except RunError as error:
        why = f"onnxruntime cannot load {reference}: {error}"
        return Verification("impossible", 0, why, is_refused=type(error) is RunError)
    ports, fixed = _with_shapes(required_inputs(model), input_shape or {})
    for port in ports:
        if port.dims is not None and (count := _least_elements(port.dims)) > _MOST_ELEMENTS:
            return Verification("impossible", 0, f"the input {port.name} of {count:,} elements is too large to be run")
    search = InputSearch(runner, ports, value_ranges(model, ports), fixed, _weight_dims(model))
    defaults = _defaults(model, reference.parent)
    try:
        other_model, other = _open(candidate, kernels)
    except OutOfMemory as error:
        raise _too_large(candidate, error) from error
    except RunError as error:
        if next(search.samples(seeds, defaults, nonfinite), None) is None:
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

    verdict = _Verdict(reference, runner, candidate, other)
    for wanted in search.samples(seeds, defaults, nonfinite):
        # Where the reference is unstable no difference counts, and no equality: an edge is left out then, other
        # values are drawn in place of a seed's.
        for sample in (wanted,) if wanted.edge else chain((wanted,), search.redraws(wanted)):
            if progress:
                progress(f"run {verdict.runs + 1}: {sample.label}")
            outcome, differences = verdict.judge(sample)
            if outcome not in ("unstable", "undecided"):
                break
        if outcome == "different" or (outcome == "unstable" and not wanted.edge):
            return _different(verdict.runs, *differences)
    if verdict.is_undecided and verdict.left_out:
        why = "all that the model computes on every input that was tried depends on the order of its reductions"
        return Verification("impossible", 0, why)
    if verdict.runs == 0:
        return _impossible(reference, search)
    return Verification("equal", verdict.runs, verdict.summary(search.left_out))


def _impossible(reference: Path, search: InputSearch) -> Verification:
    why = f"onnxruntime cannot run {reference}: {search.first_error}"
    return Verification("impossible", 0, why, is_refused=search.is_refused)


class _Verdict:
    """Judges one sample after the other. `runs` counts those that were compared and found the same, `left_out` those
    on which the reference decides nothing."""

    def __init__(self, reference: Path, runner: Runner, path: Path, candidate: Runner) -> None:
        self._path, self._candidate = path, candidate
        self._conditioning = Conditioning(reference, runner)
        self._order, self._optimizers = OrderDependence(reference), OptimizerDependence(reference)
        self._scales: dict[str, float] = {}
        self.runs = self._widened = self.left_out = self._in_part = 0
        self.is_undecided = True  # until an ordinary sample has shown the same

    def judge(self, sample: Sample) -> tuple[Literal["same", "different", "unstable", "undecided"], list[Difference]]:
        """What the candidate computes differently on this sample, and what that means.

        "unstable": the reference itself, with weights and inputs moved by one unit in the last place, differs from
        itself about as much. "undecided": the order of reductions, or rounding, decides all of an output.
        """
        try:
            found = self._candidate.run(sample.feeds)
        except OutOfMemory as error:
            raise _too_large(self._path, error) from error
        except RunError as error:
            return "different", [Difference("", sample.label, f"the reference runs, the candidate does not: {error}")]
        mismatches = self._mismatches(sample, sample.outputs, found)
        if not sample.edge:
            for name, value in zip(self._candidate.outputs, sample.outputs, strict=True):
                self._scales[name] = max(self._scales.get(name, 0.0), largest_magnitude(value))
        was_different, reaches = bool(mismatches), list[Reach | None]()
        if mismatches:
            reaches = self._order.reaches(sample.feeds, sample.outputs)
            mismatches = self._unsettled(sample, found, reaches)
            if mismatches and not all(map(is_finite, sample.feeds.values())):
                reaches = self._optimizers.reaches(sample.feeds, sample.outputs, reaches)
                mismatches = self._unsettled(sample, found, reaches)
        differences = [Difference(name, sample.label, mismatch.reason) for name, mismatch in mismatches.items()]
        if mismatches:
            is_noise, mismatches, reaches = self._amplified(sample, found, reaches)
            if not is_noise:
                return "different", differences
        if was_different and not mismatches and any(map(is_open, sample.outputs, reaches)):
            self.left_out += 1
            return "undecided", []
        if mismatches and (sample.edge or not all(mismatch.within_widest for mismatch in mismatches.values())):
            self.left_out += 1
            return "unstable", differences
        self._widened += bool(mismatches)
        self._in_part += was_different and not mismatches
        self.is_undecided &= sample.edge
        self.runs += 1
        return "same", []

    def _unsettled(self, sample: Sample, found: Sequence[Any], reaches: Sequence[Reach | None]) -> dict[str, Mismatch]:
        pairs = [settled(*values) for values in zip(sample.outputs, found, reaches, strict=True)]
        return self._mismatches(sample, [ours for ours, _ in pairs], [theirs for _, theirs in pairs])

    def _mismatches(self, sample: Sample, ours: Sequence[Any], theirs: Sequence[Any]) -> dict[str, Mismatch]:
        names = self._candidate.outputs
        compared = {
            name: compare(one, other, least_scale=self._least_scale(sample, name))
            for name, one, other in zip(names, ours, theirs, strict=True)
        }
        return {name: mismatch for name, mismatch in compared.items() if mismatch}

    def _least_scale(self, sample: Sample, name: str) -> float:
        """On zeros an output may vanish but for rounding; its scale is then that of the ordinary runs."""
        return self._scales.get(name, 0.0) if sample.edge else 0.0

    def summary(self, left_out: Sequence[str]) -> str:
        """A sentence on runs that were all the same; `left_out` says why the reference did not run on other inputs."""
        parts = [f"equal in {self.runs} runs"]
        if self._widened:
            parts.append(f"in {self._widened} of them within the rounding that the reference itself amplifies")
        if self._in_part:
            parts.append(
                f"in {self._in_part} of them but for elements that the order of a reduction or rounding decides"
            )
        if self.left_out:
            parts.append(f"{self.left_out} left out where the reference is unstable")
        parts += [
            f"{number} left out, on which the reference fails: {why}" for why, number in Counter(left_out).items()
        ]
        return "; ".join(parts)

    def _amplified(
        self, sample: Sample, found: Sequence[Any], reaches: Sequence[Reach | None]
    ) -> tuple[bool, dict[str, Mismatch], list[Reach | None]]:
        """Whether the reference, moved by rounding, differs from itself as much as the candidate does; what is left
        of the mismatches without the elements in which it itself gives the other value; the reaches with these."""
        noise = dict.fromkeys(self._candidate.outputs, 0.0)
        left, reaches = self._unsettled(sample, found, reaches), list(reaches)
        for moved in self._conditioning.draws(sample.feeds):
            for name, value, other, reach in zip(noise, sample.outputs, moved, reaches, strict=True):
                noise[name] = max(noise[name], largest_difference(*settled(value, other, reach)))
            seen = map(steps, sample.outputs, found, moved)
            reaches = [farther(*pair) for pair in zip(reaches, seen, strict=True)]
            left = self._unsettled(sample, found, reaches)
            errors = {name: mismatch.error for name, mismatch in left.items() if mismatch.error is not None}
            if len(errors) == len(left) and excused(errors, noise):
                return True, left, reaches
        return False, left, reaches


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


def _with_shapes(ports: Sequence[Port], shapes: Mapping[str, tuple[int, ...]]) -> tuple[list[Port], dict[str, int]]:
    """The inputs with the caller's shapes, and the sizes of symbols that follow from them."""
    fixed: dict[str, int] = {}
    names = [port.name for port in ports]
    for name, shape in shapes.items():
        if name not in names:
            raise UsageError(
                f"the model has no input {name}",
                where=_SIZES,
                hint=f"its inputs are: {', '.join(names)}",
                code="E10001",
            )
        dims = ports[names.index(name)].dims
        if dims is None:
            continue
        fits = len(dims) == len(shape)
        for dim, size in zip(dims, shape, strict=False):
            fits = fits and size > 0 and (size == dim if isinstance(dim, int) else fixed.setdefault(dim, size) == size)
        if not fits:
            declared = ",".join(map(str, dims))
            raise UsageError(
                f"the shape {','.join(map(str, shape))} does not fit the input {name}",
                where=_SIZES,
                hint=f"the model declares {name}:{declared}; equal names mean equal sizes",
                code="E10001",
            )
    return [replace(port, dims=shapes[port.name]) if port.name in shapes else port for port in ports], fixed


def _least_elements(dims: Sequence[int | str]) -> int:
    return prod(dim for dim in dims if isinstance(dim, int))


def _defaults(model: onnx.ModelProto, folder: Path) -> dict[str, Any]:
    """The values of the float initializers that a caller may override."""
    names = set(overridable(model))
    return {
        tensor.name: np.asarray(onnx.numpy_helper.to_array(tensor, str(folder)))
        for tensor in model.graph.initializer
        if tensor.name in names and tensor.data_type in (onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE)
    }


def _weight_dims(model: onnx.ModelProto) -> list[int]:
    """The dimensions of the weights, the most frequent first. A weight of no use may have negative ones."""
    dims = Counter(dim for tensor in model.graph.initializer for dim in tensor.dims if dim >= 0)
    return [size for size, _ in dims.most_common()]


def _too_large(candidate: Path, error: OutOfMemory) -> FusioncError:
    return FusioncError(
        f"there is not enough memory to run the model beside the one that it is compared with: {error}",
        where=str(candidate),
        hint="give smaller sizes, to convert with --verify_shape, to verify with --input_shape; free some memory, or "
        "leave the verification out: --no-verify",
    )


def _different(runs: int, *differences: Difference) -> Verification:
    more = f" (and {len(differences) - 1} more)" if len(differences) > 1 else ""
    return Verification("different", runs, f"different: {differences[0]}{more}", differences)
