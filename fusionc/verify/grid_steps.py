"""Compare two models that quantize or round, although some numbers are rounded to different sides:
the reference (the original model) and the candidate (the optimized one).

A grid is the result of a Quantize, DynamicQuantizeLinear, Round, Floor, Ceil or Cast, and a step is
one of the numbers that a grid can have. If a number lies on the limit between two steps, the last
bit of the number decides which step it takes, and all values computed from it differ by more than
any tolerance. Therefore the reference runs again with the steps of the candidate. Before each grid
both models must agree, except that a few numbers may take the next step. After the grid they must
agree up to the usual tolerance.

If the candidate quantizes the same value, its grid may have another name and a shifted zero point,
for example if int8 became uint8.

A kernel hides its grids. Therefore twins of the kernels run too, which compute the same and also
give their grids. The twins' grids only suggest the steps: these are legal if the reference, with
them, gives the candidate's own outputs, and if each number lies on the limit between its two steps
up to rounding.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper

from fusionc.model.functions import inlined
from fusionc.model.operators import canonical_domain
from fusionc.model.tensors import byte_size, to_array
from fusionc.operators.domains import MICROSOFT
from fusionc.operators.facts import Trait, names_with, operators_with
from fusionc.protos import is_external, is_small, nodes_of, tensors_of
from fusionc.runtime.run_errors import RunError
from fusionc.runtime.runner import Feeds, closes_runners
from fusionc.verify.compare import Yardstick, compare, same_bits
from fusionc.verify.excuses import Excused
from fusionc.verify.model_file import LARGEST_COPY, ModelFile, light_model
from fusionc.verify.seeding import seeded_runner
from fusionc.verify.step_distances import StepDistances
from fusionc.verify.taken_branches import Conditions, take_branches, take_known_branches

_QUANTIZES = operators_with(Trait.QUANTIZES, Trait.GRID_INSIDE)
_EXACT = Yardstick("bitwise")
_DOMAINS = ("", MICROSOFT)
_GRIDS = names_with(Trait.GRID)
_GRID_INSIDE = operators_with(Trait.GRID_INSIDE)
_INTEGERS = (
    TensorProto.INT8,
    TensorProto.UINT8,
    TensorProto.INT16,
    TensorProto.UINT16,
    TensorProto.INT32,
)
_FED = ("int8", "uint8", "int16", "uint16", "int32", "float16", "float32", "float64")
_MOST = 4096  # grids; a model with more is compared without the candidate's steps


@dataclass(frozen=True)
class Stepped:
    """The outputs of the reference with the candidate's steps."""

    outputs: list[Any]  # outputs that are grids themselves have the candidate's values
    steps: Mapping[str, Excused]  # elements on another step, by grid
    # the elements of `steps` except those that the optimized reference has on another step, too
    own_steps: Mapping[str, Excused] | None = None  # None means all of `steps`

    @property
    def limited(self) -> Mapping[str, Excused]:
        """The steps whose number is limited: `own_steps`, or `steps` if that is None."""
        return self.steps if self.own_steps is None else self.own_steps


@dataclass(frozen=True)
class _Place:
    """The place of a value of the reference in the candidate."""

    name: str
    dtype: Any = None  # the type in the reference, if it differs
    shift: int = 0  # the difference between the reference's integers and the candidate's

    def as_reference(self, value: Any) -> Any:
        """The candidate's value in the form of the reference's value."""
        if self.dtype is None:
            return value
        if (
            value.dtype.itemsize == np.dtype(self.dtype).itemsize == 1
        ):  # adding bytes gives the same bits whether they have a sign or not
            return (value.view(np.uint8) + np.uint8(self.shift % 256)).view(self.dtype)
        return (value.astype(np.int64) + self.shift).astype(self.dtype)


@dataclass(frozen=True)
class _Run:
    """One run of the reference in which values of the candidate replace its own values."""

    outputs: list[Any]
    grids: Sequence[Sequence[str]]  # the results of each grid
    read: Sequence[str]  # the inputs of the other grids
    held: Mapping[str, NDArray[Any]]  # values of the candidate that replace the reference's own
    computed: Mapping[str, NDArray[Any]]  # the values that the reference computes for these
    # whether each element that the models put on different steps is near the limit between them
    is_rounding: bool

    @property
    def is_alike_before_grids(self) -> bool:
        """Whether the models agree up to rounding before the grids that both models show, and
        exactly before the other grids.
        """
        pairs = ((self.computed[name], self.held[name]) for name in self.read)
        return self.is_rounding and all(compare(*pair, _EXACT) is None for pair in pairs)

    def steps(self, grid: Sequence[str]) -> Excused | None:
        return _steps_of([self.computed[name] for name in grid], [self.held[name] for name in grid])


class InnerGrids(Protocol):
    """Shows the grids inside the areas of a candidate. An area is a part of the graph that one
    generated kernel computes.
    """

    @property
    def library(self) -> Path | None:
        """The library of kernels for a model whose grids are shown. Raises RunError."""

    def show_in(self, model: onnx.ModelProto) -> None:
        """Turn the grids into values of the main graph, in place.

        In all models that are changed in this way, the same grid has the same name.
        """


@dataclass(frozen=True)
class GridSteps:
    """A reference and a candidate, each at a level of onnxruntime's optimizers.

    `inner_grids` show the grids inside areas. If the candidate has kernels, the reference is then
    the candidate without kernels.
    """

    reference: Path
    candidate: ModelFile
    level: str = "disabled"  # of the candidate
    own_level: str = "disabled"  # of the reference
    inner_grids: InnerGrids | None = None
    # the candidate's values on the last feeds, by its level
    _known: dict[str, tuple[Feeds, dict[str, Any]]] = field(default_factory=dict, compare=False)

    @property
    def shows_kernels(self) -> bool:
        """Whether the grids inside kernels are shown."""
        return self.inner_grids is not None and self.candidate.kernels is not None

    def at(self, level: str) -> GridSteps:
        """The same pair with the candidate at another level."""
        return replace(self, level=level)

    def at_one_level(self) -> GridSteps | None:
        """The same pair with the reference at the level of the candidate, so that onnxruntime
        computes both in integers. None if it already is at this level.
        """
        is_there = self.own_level == self.level
        return None if is_there else replace(self, own_level=self.level)

    @closes_runners
    def stepped(self, feeds: Feeds, outputs: Sequence[Any]) -> Stepped | None:
        """The outputs of the reference with the steps of the candidate; `outputs` are those of the
        candidate. None if the models have no grid in common, or if a number on a grid differs by
        more than one step.
        """
        try:
            run = self._run(feeds, outputs)
        except (RunError, OSError, ValueError):
            return None
        if run is None or not run.is_alike_before_grids:
            return None
        steps = {grid[0]: run.steps(grid) for grid in run.grids}
        taken = {name: excused for name, excused in steps.items() if excused is not None}
        is_moved = any(not same_bits(run.computed[name], value) for name, value in run.held.items())
        return Stepped(run.outputs, taken) if is_moved and len(taken) == len(steps) else None

    def _run(self, feeds: Feeds, candidate_outputs: Sequence[Any]) -> _Run | None:
        """A run of the reference with the candidate's values. None if the models have no grid in
        common. Raises RunError, and OSError or ValueError if data cannot be read.
        """
        model, folder = self._reference_model()
        conditions = take_branches(model, folder, feeds)
        nodes = list(nodes_with_grids(model.graph.node))
        if not 0 < len(nodes) <= _MOST or sum(map(byte_size, tensors_of(model))) > LARGEST_COPY:
            return None
        last, theirs = self._known.get(self.level, (None, {}))
        if last is not feeds:
            theirs = self._values(model, nodes, conditions, feeds, candidate_outputs)
            self._known[self.level] = (feeds, theirs)
        grids, read = _shared(nodes, {name for name, value in theirs.items() if _can_be_fed(value)})
        held = {name: theirs[name] for name in (*chain.from_iterable(grids), *read)}
        outputs = [value.name for value in model.graph.output]
        kept = _cut(model, held)
        is_measured = self.shows_kernels and self.own_level == "disabled"
        distances = StepDistances(model, nodes if is_measured else (), held)
        runner = seeded_runner(model, folder, level=self.own_level)
        results = runner.run({**feeds, **held})
        end = len(outputs) + len(kept)
        computed = dict(zip(kept, results[len(outputs) : end], strict=True))
        shown = [held.get(name, value) for name, value in zip(outputs, results, strict=False)]
        return _Run(shown, grids, read, held, computed, distances.are_small(results[end:]))

    def _reference_model(self) -> tuple[onnx.ModelProto, Path]:
        """The reference without areas, and the folder of its data. Raises RunError."""
        model, folder = light_model(self.reference)
        if self.inner_grids is not None:
            self.inner_grids.show_in(model)
            model = inlined(model)
        return model, folder

    def _values(
        self,
        reference: onnx.ModelProto,
        nodes: Sequence[onnx.NodeProto],
        conditions: Conditions,
        feeds: Feeds,
        theirs: Sequence[Any],
    ) -> dict[str, Any]:
        """The candidate's values for the inputs and results of these nodes of the reference, as far
        as the candidate has them. Raises RunError.

        If onnxruntime optimizes the candidate, only results of grids are read: an additional output
        between an operator and its Quantize would keep the operator from running in integers.
        """
        model, folder = light_model(self.candidate.path)
        kernels = self.candidate.kernels
        if self.inner_grids is not None:
            self.inner_grids.show_in(model)
            kernels = self.inner_grids.library
        take_known_branches(model, conditions)
        places = _places(reference, nodes, model, is_optimized=self.level != "disabled")
        outputs = [value.name for value in model.graph.output]
        more = dict.fromkeys(place.name for place in places.values() if place.name not in outputs)
        model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in more)
        listed = [value.name for value in model.graph.output]
        runner = seeded_runner(model, folder, kernels, level=self.level)
        values = dict(zip(listed, runner.run(feeds), strict=True))
        is_same = all(
            compare(value, values[name]) is None
            for name, value in zip(outputs, theirs, strict=True)
        )
        return {
            name: place.as_reference(values[place.name])
            for name, place in (places.items() if is_same else ())
        }


def grid_steps_of(
    reference: Path, candidate: ModelFile, inner_grids: InnerGrids | None
) -> GridSteps:
    """The steps of the candidate in the reference. If the grids in kernels are shown, they are
    those in the candidate without kernels.
    """
    steps = GridSteps(reference, candidate, inner_grids=inner_grids)
    return replace(steps, reference=candidate.path) if steps.shows_kernels else steps


def quantizes(model: onnx.ModelProto) -> bool:
    """Whether a model quantizes computed values."""
    return any(
        (canonical_domain(node.domain), node.op_type) in _QUANTIZES for node in nodes_of(model)
    )


def nodes_with_grids(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """The nodes whose results are on a grid."""
    for node in nodes:
        operator = canonical_domain(node.domain), node.op_type
        is_cast = node.op_type == "Cast" and any(
            a.name == "to" and a.i in _INTEGERS for a in node.attribute
        )
        if operator in _GRID_INSIDE or (
            operator[0] in _DOMAINS and (node.op_type in _GRIDS or is_cast)
        ):
            yield node


def _places(
    reference: onnx.ModelProto,
    nodes: Sequence[onnx.NodeProto],
    candidate: onnx.ModelProto,
    *,
    is_optimized: bool,
) -> dict[str, _Place]:
    """Where the candidate has the results of these nodes, and the first inputs of the nodes if
    other nodes compute them.
    """
    shared = _results(reference) & _results(candidate)
    numbers, others = map(_numbers, (reference, candidate))
    quantized = {n.input[0]: n for n in candidate.graph.node if n.op_type == "QuantizeLinear"}
    places = dict[str, _Place]()
    for node in nodes:
        inputs = [] if is_optimized else [node.input[0]]
        names = filter(None, (*node.output, *inputs))
        places |= {name: _Place(name) for name in names if name in shared}
        twin = quantized.get(node.input[0]) if node.op_type == "QuantizeLinear" else None
        moved = twin and _moved_place(node, twin, numbers, others)
        if moved and node.output[0] not in places:
            places[node.output[0]] = moved
    return places


def _results(model: onnx.ModelProto) -> set[str]:
    return {name for node in model.graph.node for name in node.output}


def _moved_place(
    node: onnx.NodeProto,
    twin: onnx.NodeProto,
    numbers: Mapping[str, NDArray[Any]],
    others: Mapping[str, NDArray[Any]],
) -> _Place | None:
    """The place of the result of `twin`, a Quantize of the same value with the same scale and
    another zero point. None if it is not known to be such a Quantize. `numbers` and `others` are
    the constants of both models.
    """
    ours = [numbers[name] for name in node.input[1:] if name in numbers]
    theirs = [others[name] for name in twin.input[1:] if name in others]
    if len(ours) != 2 or len(theirs) != 2:
        return None
    scale, zero = ours
    same, moved = theirs
    if zero.size != 1 or moved.size != 1 or not np.array_equal(scale, same):
        return None
    return _Place(twin.output[0], zero.dtype, int(zero.item()) - int(moved.item()))


def _numbers(model: onnx.ModelProto) -> dict[str, NDArray[Any]]:
    """The small constants of a model."""
    stored = {tensor.name: tensor for tensor in model.graph.initializer}
    constants = [node for node in model.graph.node if node.op_type == "Constant"]
    stored |= {n.output[0]: a.t for n in constants for a in n.attribute if a.name == "value"}
    return {
        name: to_array(tensor, "")
        for name, tensor in stored.items()
        if is_small(tensor) and not is_external(tensor)
    }


def _shared(nodes: Sequence[onnx.NodeProto], known: Set[str]) -> tuple[list[list[str]], list[str]]:
    """The results of the grids that the candidate has, too, and the inputs of the other grids. The
    other grids are inside an operator in one of the models.
    """
    grids = list[list[str]]()
    read = dict[str, None]()
    for node in nodes:
        outputs = list(filter(None, node.output))
        operator = canonical_domain(node.domain), node.op_type
        if operator not in _GRID_INSIDE and set(outputs) <= known:
            grids.append(outputs)
        elif node.input[0] in known:
            read[node.input[0]] = None
    own = set(chain.from_iterable(grids))
    return grids, [name for name in read if name not in own]


def _can_be_fed(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.name in _FED


def _cut(model: onnx.ModelProto, held: Mapping[str, NDArray[Any]]) -> list[str]:
    """Turn these values into inputs of the model, and their computed values into outputs. Return
    the order of these outputs.
    """
    kept = list[str]()
    for node in model.graph.node:
        for at, name in enumerate(node.output):
            if name in held:
                node.output[at] = f"{name}.computed"
                kind = helper.np_dtype_to_tensor_dtype(held[name].dtype)
                model.graph.input.append(helper.make_tensor_value_info(name, kind, None))
                kept.append(name)
    for value in model.graph.output:
        if value.name in held:
            value.name = f"{value.name}.computed"
    have = {value.name for value in model.graph.output}
    for name in kept:
        seen = f"{name}.seen" if f"{name}.computed" in have else f"{name}.computed"
        if seen.endswith(".seen"):
            model.graph.node.append(helper.make_node("Identity", [f"{name}.computed"], [seen]))
        model.graph.output.append(onnx.ValueInfoProto(name=seen))
    return kept


def _steps_of(ours: Sequence[NDArray[Any]], theirs: Sequence[NDArray[Any]]) -> Excused | None:
    """The number of elements of a grid that are on the next step. None if an element is farther
    away, or if the scale differs.

    For DynamicQuantizeLinear the values are its quantized elements, its scale and its zero point.
    Steps are counted from the zero point.
    """
    if any(a.shape != b.shape or a.dtype != b.dtype for a, b in zip(ours, theirs, strict=True)):
        return None
    if all(map(same_bits, ours, theirs)):
        return Excused(0, ours[0].size, 0, 1.0)
    is_alone = len(ours) == 1
    # only the elements that differ are converted, to save memory
    where = ours[0] != theirs[0] if is_alone else np.ones(ours[0].shape, np.bool_)
    a, b = (_from_zero([values[0][where], *values[1:]]) for values in (ours, theirs))
    if not is_alone and compare(ours[1], theirs[1], _EXACT) is not None:
        return None
    is_same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore"):
        if (np.abs(a - b) > 1)[~is_same].any() or not np.isfinite(a - b)[~is_same].all():
            return None
    count = int((~is_same).sum())
    return Excused(count, ours[0].size, count, 1.0)


def _from_zero(values: Sequence[NDArray[Any]]) -> NDArray[np.float64]:
    zero = values[2].astype(np.float64) if len(values) > 2 else 0.0
    return np.asarray(values[0].astype(np.float64) - zero)
