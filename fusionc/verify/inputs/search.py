"""Find inputs on which the reference (the original model) runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, filterfalse, islice
from math import ceil, prod
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from fusionc.model.tensors import byte_size, numpy_type, to_array
from fusionc.runtime.run_errors import Crashed, Killed, OutOfMemory, Overdue, RunError
from fusionc.runtime.runner import Runner, run_memory
from fusionc.verify.budget import Budget, Work, budget_for
from fusionc.verify.compare import tells_something
from fusionc.verify.inputs.drawn_values import fits_numpy
from fusionc.verify.inputs.formulas import Sizes
from fusionc.verify.inputs.given_shapes import fixed_ports
from fusionc.verify.inputs.random_inputs import (
    Style,
    are_guessed,
    has_choice,
    has_floats,
    has_grids,
    make_feeds,
    make_several,
)
from fusionc.verify.inputs.sample import Sample
from fusionc.verify.inputs.size_choices import SizeChoices
from fusionc.verify.inputs.sized_model import SizedModel
from fusionc.verify.inputs.value_ranges import value_ranges
from fusionc.verify.interface import Port, overridable, required_inputs
from fusionc.verify.side_by_side import A_FEW, elements, fewest_elements, more_draws, same_outputs

_MOST_PROPOSALS = 200
# a run may take this many times the bytes that are computed from its sizes, because sizes that
# depend on values are only estimated
_RUN_FOR_ITS_SIZES = 2
_MOST_LOWERED = 16  # cheaper sizes to try if the proposed ones cost too much
_MOST_ELEMENTS = 1 << 28  # of an input; drawing more takes minutes
# elements of all inputs on which the reference failed; drawing them takes a second or two
_MOST_REFUSED = 1 << 27
_REDRAWS = 8
_FIRST_MORE = 1000  # the seed of the first of many samples
# for this many additional samples, one more is drawn at ties (numbers whose last bits decide)
_TIES = 2
_MORE_WORK = 1 << 26  # elements to compute for additional samples: some hundredths of a second
_PATIENCE = 6  # after failures with this total cost, no more inputs are tried
_COSTS: dict[type[RunError], int] = {OutOfMemory: 1, Killed: 3, Crashed: 3, Overdue: _PATIENCE}
_FLOATS = (onnx.TensorProto.FLOAT16, onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE)
_NARROWER: tuple[Style, ...] = (
    Style(),
    Style(integers="binary"),
    Style(integers="ones"),
    Style(integers="zeros"),
    Style(floats="ones"),
    Style(integers="batch"),
)


@dataclass(frozen=True, kw_only=True)
class DrawnSample(Sample):
    """A sample of drawn values, with its style and sizes, so that similar ones can be drawn."""

    sizes: Sizes
    style: Style
    seed: int
    work: Work  # the cost of a run
    is_overriding: bool = False  # whether it has other values for initializers that may be replaced


@dataclass(frozen=True)
class _Counted:
    """A drawn sample without its values."""

    sample: DrawnSample
    fewest: int  # elements of its smallest output
    elements: int  # of all its values


class InputSearch:
    """Draws inputs on which the reference runs. `folder` has the external data of the model.
    `shapes` are the caller's shapes.

    Sizes are chosen so that all samples fit into the `budget`. If that is impossible, there are
    fewer samples. If values of an input cannot be drawn, `not_drawn` names the input and says why.
    """

    def __init__(
        self,
        reference: Runner,
        model: onnx.ModelProto,
        folder: Path,
        shapes: Mapping[str, tuple[int, ...]],
        budget: Budget | None = None,
    ) -> None:
        self._reference = reference
        self.budget = budget or budget_for(model)
        self._ports, fixed = fixed_ports(required_inputs(model), shapes)
        self.not_drawn = next(filter(None, map(_why_not_drawn, self._ports)), "")
        self._ranges = value_ranges(model, self._ports)
        # sizes of unusable initializers may be below 0
        dims = (dim for tensor in model.graph.initializer for dim in tensor.dims)
        frequent = Counter(dim for dim in dims if dim >= 0).most_common()
        self._sized = SizedModel(model, self._ports)
        self._choices = SizeChoices(
            self._ports, fixed, (size for size, _ in frequent), self._sized.refuses
        )
        self._growth = 1, 1  # the cost of the first sample, and the cost expected from its sizes
        self._defaults = _defaults(model, folder)
        self.first_error = ""
        self.is_refused = False  # whether the first error is the fault of the model
        self.left_out: list[str] = []  # why inputs that crash or block onnxruntime were left out
        self._cost = self._refused = 0
        self._is_limited = True  # whether the memory of a run is limited
        self._weights = model.graph.initializer
        self.more: list[DrawnSample] = []
        self.ties: list[DrawnSample] = []

    @property
    def has_ties(self) -> bool:
        """Whether the last bit of an input may decide a Quantize, a Round or a comparison."""
        return has_grids(self._ranges)

    @property
    def is_over(self) -> bool:
        """Whether the search is over, because the reference took too long or crashed on some
        inputs.
        """
        return self._cost >= _PATIENCE

    def samples(
        self, seeds: Sequence[int], nonfinite: bool, *, has_more: bool = False
    ) -> Iterator[DrawnSample]:
        """One sample for each seed, with different sizes, and then samples with extreme values,
        including NaN and Inf if `nonfinite`. One of the samples replaces initializers that a caller
        may override. Nothing is drawn if the reference never runs.

        If `has_more`, samples have few elements and runs are cheap, additional samples are drawn:
        `more` are similar to the ordinary samples, and `ties` to the samples at ties.
        """
        first = None if self.not_drawn else self._first_of_any_cost(seeds[0])
        if first is None:
            return
        sizes = first.sizes
        style = first.style
        ordinary = [_without_outputs(first)]
        self._growth = first.work.elements, self._sized.work(sizes).elements
        self.budget.spend(first.work)
        yield first
        del first  # outputs can be large
        if not self._ports and not self._defaults:
            return
        for number, seed in enumerate(seeds[1:], start=1):
            other = self._other_sizes(number % 3, sizes)
            for sample in self._one([*other, sizes], [style, *_NARROWER], seed):
                ordinary.append(_without_outputs(sample))
                yield sample
        if has_more:
            self._draw_more(ordinary)
        yield from self._all_edges(sizes, style, seeds[0], nonfinite)

    def _first_of_any_cost(self, seed: int) -> DrawnSample | None:
        """The first sample. It is run even if its cost does not fit into the budget."""
        first = self._first(seed)
        if first is None and self.budget.left_out:
            self.budget.left_out.clear()
            self._is_limited = False
            self._cost = 0
            first = self._first(seed)
        return first

    def _all_edges(
        self, sizes: Sizes, style: Style, base: int, nonfinite: bool
    ) -> Iterator[DrawnSample]:
        if self._defaults:
            yield from self._edge("initializers overridden", sizes, style, base, is_overriding=True)
        if not self._ports:
            return
        for empty in filterfalse(self._sized.refuses, self._choices.without_past(sizes)):
            yield from self._edge("no past tokens", empty, style, base)
        for seed in (base, base + 1) if has_choice(self._ports, sizes) else (base,):
            for label, edge in self._edges(style, nonfinite):
                yield from self._edge(label, sizes, edge, seed)

    def _draw_more(self, ordinary: Sequence[_Counted]) -> None:
        """Draw samples until enough elements of each output are compared. If no output changes from
        sample to sample, only a few are drawn.
        """
        if self.is_over or self._reference.is_fresh:
            return
        most = max(ordinary, key=lambda counted: counted.fewest)
        like = most.sample
        work = most.sample.work
        number = more_draws(
            [one.fewest for one in ordinary], most.elements, sum(map(byte_size, self._weights))
        )
        if not number:
            return
        # costs of runs whose sizes depend on values are unknown
        most_runs = A_FEW if work.guessed else number
        number = min(number, most_runs, _MORE_WORK // work.elements)
        if not self.budget.has_room(work.scaled(number, 1)):
            return
        first = self._like(like, min(number, A_FEW), _FIRST_MORE)
        is_alike = all(same_outputs(sample.outputs, first[0].outputs) for sample in first)
        self.more = (
            first if is_alike else [*first, *self._like(like, number - len(first), _FIRST_MORE + 1)]
        )
        if self.has_ties:
            at_ties = replace(
                like, label=f"at ties, {like.label}", style=replace(like.style, floats="ties")
            )
            self.ties = self._like(at_ties, ceil(number / _TIES), _FIRST_MORE)
        self.budget.spend(work.scaled(len(self.more) + len(self.ties), 1))

    def _like(self, sample: DrawnSample, several: int, seed: int) -> list[DrawnSample]:
        """`several` samples of the same style and sizes, except those on which the reference fails.
        Empty if an error ends all of the runs.
        """
        like = self._feeds(sample.sizes, sample.style, sample.seed, is_overriding=False)
        feeds = make_several(
            self._ports, self._ranges, sample.sizes, sample.style, like, seed, several
        )
        try:
            with run_memory(self._most(sample.sizes)):
                ran = self._reference.run_each(feeds) if feeds else []
        except RunError as error:
            self._failed(error, {}, None)
            return []
        return [
            replace(
                sample, label=f"{sample.label}, seed {seed}/{at}", feeds=values, outputs=outputs
            )
            for at, (values, (outputs, _)) in enumerate(zip(feeds, ran, strict=True))
            if outputs is not None
        ]

    def _edges(self, style: Style, nonfinite: bool) -> Iterator[tuple[str, Style]]:
        """The styles of extreme values, each with its label."""
        floats = has_floats(self._ports)
        yield (
            "zeros",
            replace(style, floats="zeros", integers=style.integers if floats else "zeros"),
        )
        yield (
            "mixed magnitudes" if floats else "ends of ranges",
            replace(style, floats="mixed", integers="ends"),
        )
        if self.has_ties:
            yield "at ties", replace(style, floats="ties")
        if are_guessed(self._ports, self._ranges):
            yield "of both signs", replace(style, guesses=False)
        if floats and nonfinite:
            yield "NaN and Inf", replace(style, floats="nonfinite")
            yield "NaN", replace(style, floats="nan")

    def again(self, samples: Iterable[DrawnSample]) -> Iterator[DrawnSample]:
        """The same samples, run again. The given samples may lack their values."""
        for sample in samples:
            if same := self._attempt(
                sample.sizes, sample.style, sample.seed, is_overriding=sample.is_overriding
            ):
                yield replace(same, label=sample.label)

    def feeds(self, sample: DrawnSample) -> dict[str, Any]:
        """The inputs of a sample, drawn again. The sample may lack its values."""
        return self._feeds(sample.sizes, sample.style, sample.seed, sample.is_overriding)

    def redraws(self, sample: Sample) -> Iterator[DrawnSample]:
        """Similar samples with other values. Empty if the sample was not drawn."""
        if not isinstance(sample, DrawnSample):
            return
        for number in range(1, _REDRAWS + 1):
            if other := self._attempt(sample.sizes, sample.style, sample.seed + 1000 * number):
                yield other

    def _first(self, seed: int) -> DrawnSample | None:
        costly = list[Sizes]()
        doubtful = list[Sizes]()
        for sizes in islice(_distinct(self._choices.first()), _MOST_PROPOSALS):
            if self._refused >= _MOST_REFUSED:
                return None
            if self._sized.refuses(sizes):
                doubtful.append(sizes)
            elif not self.budget.is_modest(self._work(sizes)):
                costly.append(sizes)
            elif sample := self._first_at(sizes, seed):
                return sample
        lower = chain.from_iterable(map(self._choices.lowered, costly[:_MOST_LOWERED]))
        # onnx may refuse sizes that onnxruntime accepts
        for sizes in (*sorted(_distinct((*lower, *costly)), key=self._work), *doubtful):
            if self._refused >= _MOST_REFUSED:
                return None
            if sample := self._first_at(sizes, seed):
                return sample
        return None

    def _first_at(self, sizes: Sizes, seed: int) -> DrawnSample | None:
        for style in _NARROWER:
            sample = self._attempt(sizes, style, seed)
            if sample is None:
                continue
            if not all(map(tells_something, sample.outputs)):
                positive = self._attempt(sizes, replace(style, floats="positive"), seed)
                if positive and all(map(tells_something, positive.outputs)):
                    return positive
            return sample
        return None

    def _work(self, sizes: Sizes) -> Work:
        return self._sized.work(sizes).scaled(*self._growth)

    def _has_room(self, what: str, sizes: Sizes) -> bool:
        """Whether the budget has room for one more sample. If it does not, the sample is recorded
        as left out.
        """
        has_room = self.budget.has_room(self._work(sizes))
        self.budget.left_out += [] if has_room else [what]
        return has_room

    def _other_sizes(self, kind: int, sizes: Sizes) -> list[Sizes]:
        if kind == 0:
            return []
        others = _distinct(
            self._choices.second(sizes) if kind == 1 else self._choices.single(sizes)
        )
        if self._sized.refuses(sizes):
            return list(others)
        return [other for other in others if not self._sized.refuses(other)]

    def _one(
        self, sizes: Sequence[Sizes], styles: Sequence[Style], seed: int
    ) -> Iterator[DrawnSample]:
        *others, usual = sizes
        if not self._has_room(f"seed {seed}", usual):
            return
        for proposal in (
            *(other for other in others if self.budget.has_room(self._work(other))),
            usual,
        ):
            for style in styles:
                if sample := self._attempt(proposal, style, seed):
                    self.budget.spend(sample.work)
                    yield sample
                    return

    def _edge(
        self, label: str, sizes: Sizes, style: Style, seed: int, *, is_overriding: bool = False
    ) -> Iterator[DrawnSample]:
        if not self._has_room(label, sizes):
            return
        if sample := self._attempt(sizes, style, seed, is_overriding=is_overriding):
            self.budget.spend(sample.work)
            yield replace(sample, edge=True, label=f"{label}, {sample.label}")

    def _feeds(self, sizes: Sizes, style: Style, seed: int, is_overriding: bool) -> dict[str, Any]:
        constants = {
            name: _overridden(value, seed)
            for name, value in self._defaults.items()
            if is_overriding
        }
        return {**make_feeds(self._ports, self._ranges, sizes, style, seed), **constants}

    def _attempt(
        self, sizes: Sizes, style: Style, seed: int, *, is_overriding: bool = False
    ) -> DrawnSample | None:
        if self.is_over:
            return None
        feeds = self._feeds(sizes, style, seed, is_overriding)
        most = self._most(sizes)
        try:
            with run_memory(most):
                outputs = self._reference.run(feeds)
        except RunError as error:
            self._failed(error, feeds, most)
            return None
        work = self._done(sizes, outputs)
        label = ", ".join(
            (f"seed {seed}", " ".join(f"{symbol}={size}" for symbol, size in sizes.items()))
        )
        return DrawnSample(
            label=label.rstrip(", "),
            feeds=feeds,
            outputs=outputs,
            sizes=sizes,
            style=style,
            seed=seed,
            work=work,
            is_overriding=is_overriding,
        )

    def _most(self, sizes: Sizes) -> int | None:
        """The limit for the bytes of a run."""
        return (
            _RUN_FOR_ITS_SIZES * max(self.budget.bytes, self._work(sizes).bytes)
            if self._is_limited
            else None
        )

    def _failed(self, error: RunError, feeds: Mapping[str, Any], most: int | None) -> None:
        cost = _COSTS.get(type(error), 0)
        if not self.first_error or (cost and not self._cost):
            self.first_error = str(error)
            self.is_refused = not cost
        if cost:
            self._cost += cost
            if most is None or not isinstance(error, OutOfMemory):
                self.left_out.append(str(error))
            else:
                self.budget.left_out.append(
                    f"inputs on which a run takes more than {most >> 20:,} MiB"
                )
        self._refused += sum(
            value.size for value in feeds.values() if isinstance(value, np.ndarray)
        )

    def _done(self, sizes: Sizes, outputs: Sequence[Any]) -> Work:
        """The cost of a run with these outputs. If they are larger than expected from their shapes,
        all values are assumed to be larger by the same factor.
        """
        elements = sum(value.size for value in outputs if isinstance(value, np.ndarray))
        return self._sized.work(sizes).with_outputs(elements)


def _without_outputs(sample: DrawnSample) -> _Counted:
    values = (*sample.feeds.values(), *sample.outputs)
    return _Counted(
        replace(sample, feeds={}, outputs=[]),
        fewest_elements(sample.outputs),
        sum(map(elements, values)),
    )


def _why_not_drawn(port: Port) -> str:
    dims = [dim for dim in port.dims or () if isinstance(dim, int)]
    # onnxruntime may know its type, for example if an output has the same name
    if numpy_type(port.element_type) is None:
        return f"the input {port.name} has no type"
    if prod(dims) > _MOST_ELEMENTS:
        return f"the input {port.name} of {prod(dims):,} elements is too large to be run"
    if not fits_numpy(dims):
        sizes = ", ".join(map(str, dims))
        return f"the input {port.name} with the dimensions {sizes} is too large to be run"
    return ""


def _defaults(model: onnx.ModelProto, folder: Path) -> dict[str, Any]:
    """The values of float initializers that a caller may override. Other initializers are left out,
    because most of them are axes and sizes.
    """
    names = set(overridable(model))
    return {
        tensor.name: to_array(tensor, str(folder))
        for tensor in model.graph.initializer
        if tensor.name in names and tensor.data_type in _FLOATS
    }


def _distinct(proposals: Iterable[Sizes]) -> Iterator[Sizes]:
    seen: set[tuple[tuple[str, int], ...]] = set()
    for sizes in proposals:
        key = tuple(sizes.items())
        if key not in seen:
            seen.add(key)
            yield sizes


def _overridden(value: Any, seed: int) -> Any:
    """A float initializer with other values of the same signs."""
    array = np.asarray(value)
    rng = np.random.default_rng(seed)
    return np.asarray(array * rng.uniform(0.5, 1.5, array.shape) + (array == 0) * 0.1, array.dtype)
