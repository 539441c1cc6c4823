"""Find output elements that the model does not determine. They depend on the order of a reduction
or product, or on a Cast of numbers that its integer type cannot represent, for which ONNX does not
define a result.

The reach of an element is how far another order of reductions can move it.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto

from fusionc.model.functions import inlined
from fusionc.model.operators import canonical_domain, opsets_of
from fusionc.model.tensors import to_array
from fusionc.operators.facts import Trait, names_with
from fusionc.protos import graphs_of, is_external, reads_of
from fusionc.runtime.run_errors import RunError
from fusionc.runtime.runner import Feeds, closes_runners
from fusionc.verify.inner_values import inner_values, is_finite
from fusionc.verify.model_file import LARGEST_COPY, light_model
from fusionc.verify.reduction_bounds import REDUCTIONS, spread_of_product, spreads
from fusionc.verify.seeding import seeded_runner
from fusionc.verify.taken_branches import take_branches

_FLOATS = (np.float16, np.float32, np.float64)
_WHERE_OPSET = 9  # the opset that introduced Where
# Results that may have any value are replaced by these numbers, multiplied by about the magnitude
# of the result. First all results get the same number, and then each gets its own.
_ANYTHING = (np.nan, np.inf, -np.inf, 0.0, 1.0)
_DRAWS = 4
# additional draws with only finite replacements: in a single draw, results may be equal by chance
_NUMBERS = 3
_SUMS = names_with(Trait.WEIGHTED_SUMS)
# Weights of at least this share of the type's largest number are huge: a few thousand products with
# such weights overflow.
_HUGE = 2.0**-24
_MOST_FACTORS = 8  # a product of more factors is not examined as a whole
# integers for which onnxruntime has Where
_INTEGERS = (TensorProto.INT8, TensorProto.UINT8, TensorProto.INT32, TensorProto.INT64)
_OTHERS = 6  # replacements that are tried for an integer result that may have any value
_MOST_KEPT = 8  # small samples whose reaches are kept
_SMALL = 8 << 20  # bytes; the largest size of a small sample's inputs and reaches
_LARGER = 4  # factor for reaches, because other orders may change more than the drawn ones
Reach = NDArray[np.float64]


@dataclass(frozen=True)
class _Change:
    """Other values for some elements of the result `name`. `spread` is how far another order can
    move each element of `result`: 0 if not at all, infinity if the element may have any value.
    """

    name: str
    result: NDArray[Any]
    spread: NDArray[np.float64]

    @property
    def where(self) -> NDArray[np.bool_]:
        return np.asarray(self.spread > 0)

    def values(self, anything: Sequence[float], rng: np.random.Generator) -> NDArray[Any]:
        signs = rng.choice(np.array([-1.0, 1.0]), self.spread.shape)
        is_open = np.isinf(self.spread)
        if self.result.dtype.kind != "f":  # another element of the result, as it may be an index
            others = np.array([0, 1, *self.result[~is_open].flat[:_OTHERS]], self.result.dtype)
            return np.where(is_open, rng.choice(others, is_open.shape), self.result)
        with np.errstate(all="ignore"):
            moved = self.result.astype(np.float64) + signs * np.where(is_open, 0, self.spread)
            known = np.isfinite(self.result) & (self.result != 0)
            size = np.abs(np.where(known, self.result, 1).astype(np.float64)) * np.exp2(
                rng.uniform(-3, 3, known.shape)
            )
            chosen = size * rng.choice(np.array(anything), self.spread.shape)
            return np.asarray(np.where(is_open, chosen, moved).astype(self.result.dtype))


class OrderDependence:
    """Runs the reference after changing the results of its reductions as much as another order
    would change them.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._last: deque[tuple[Feeds, list[Reach | None]]] = deque(maxlen=_MOST_KEPT)

    def reaches(self, feeds: Feeds, outputs: Sequence[Any]) -> list[Reach | None]:
        """For each output, how much other orders change its elements: infinity if they give NaN, an
        infinity or another integer. None if nothing changes, or if the output is not a tensor.

        `outputs` are the results of the reference on `feeds`. Reductions inside Loop and Scan, and
        in an If inside these, are not examined: on inputs that are not finite, outputs that depend
        on them may have any value. Sums of products are not examined either: outputs that depend on
        sums with weights near the largest number may have any value.
        """
        for known, reaches in self._last:
            # the same samples are judged again when the candidate runs with optimizers on
            if known is feeds:
                return reaches
        reaches = self._reaches(feeds, outputs)
        kept = [value for value in (*feeds.values(), *reaches) if value is not None]
        if (
            all(isinstance(value, np.ndarray) for value in kept)
            and sum(value.nbytes for value in kept) <= _SMALL
        ):
            self._last.append((feeds, reaches))
        return reaches

    @closes_runners
    def _reaches(self, feeds: Feeds, outputs: Sequence[Any]) -> list[Reach | None]:
        nothing: list[Reach | None] = [None] * len(outputs)
        model, folder = light_model(self._path)
        if model.ByteSize() > LARGEST_COPY:
            return nothing
        model = inlined(model)
        with suppress(RunError):  # if this fails, the Ifs stay, and reductions in them are not seen
            take_branches(model, folder, feeds)
        unseen = _unseen_outputs(model, folder, feeds)
        if all(unseen):
            return [_anything(value) for value in outputs]
        try:
            changes = _changes(model, folder, feeds)
        except RunError:  # for example, too little memory
            return nothing
        reaches = self._reaches_of(model, folder, changes, feeds, outputs) if changes else nothing
        return [
            _anything(value) if skip else one
            for value, skip, one in zip(outputs, unseen, reaches, strict=True)
        ]

    def _reaches_of(
        self,
        model: onnx.ModelProto,
        folder: Path,
        changes: Sequence[_Change],
        feeds: Feeds,
        outputs: Sequence[Any],
    ) -> list[Reach | None]:
        reaches: list[Reach | None] = [None] * len(outputs)
        for run in self._runs(model, folder, changes, feeds):
            others = [None] * len(outputs) if run is None else run
            moved = [
                _anything(value) if run is None else _moved(value, other)
                for value, other in zip(outputs, others, strict=True)
            ]
            reaches = [farther(*pair) for pair in zip(reaches, moved, strict=True)]
        return reaches

    def _runs(
        self, model: onnx.ModelProto, folder: Path, changes: Sequence[_Change], feeds: Feeds
    ) -> Iterator[list[Any] | None]:
        """The outputs with other results of reductions; None if the model does not run with these
        results.
        """
        _let_inputs_decide(model, {change.name: change for change in changes})
        runner = seeded_runner(model, folder)
        rng = np.random.default_rng(0)
        has_open = any(np.isinf(change.spread).any() for change in changes)
        # if all elements are limited, the draws differ only in the signs of changes
        each = [(value,) for value in _ANYTHING] if has_open else []
        for anything in (*each, *[(1.0,)] * _NUMBERS, *[_ANYTHING] * _DRAWS):
            more: dict[str, Any] = {}
            for change in changes:
                values = change.values(anything, rng)
                more |= {
                    f"{change.name}.is_other": change.where,
                    f"{change.name}.other": np.where(change.where, values, change.result),
                }
            try:
                yield runner.run({**feeds, **more})
            except RunError:
                yield None


def _let_inputs_decide(model: onnx.ModelProto, changed: Mapping[str, _Change]) -> None:
    """Give the model inputs that replace elements of these results.

    In an opset without Where, an input replaces the whole result. Such a result does not change
    when the results change from which it is computed.
    """
    has_where = opsets_of(model).get("", 0) >= _WHERE_OPSET
    nodes = list(model.graph.node)
    del model.graph.node[:]
    for node in nodes:
        model.graph.node.append(node)
        made = model.graph.node[-1].output
        for k, name in enumerate(node.output):
            if name not in changed:
                continue
            made[k] = f"{name}.computed"
            kind = onnx.helper.np_dtype_to_tensor_dtype(changed[name].result.dtype)
            types = {f"{name}.is_other": onnx.TensorProto.BOOL, f"{name}.other": kind}
            model.graph.input.extend(
                onnx.helper.make_tensor_value_info(part, dtype, None)
                for part, dtype in types.items()
            )
            choice = (
                onnx.helper.make_node("Where", [*types, made[k]], [name])
                if has_where
                else onnx.helper.make_node("Identity", [f"{name}.other"], [name])
            )
            model.graph.node.append(choice)


def _unseen_outputs(model: onnx.ModelProto, folder: Path, feeds: Feeds) -> list[bool]:
    """Which outputs depend on operators that are not examined."""
    after = _results_of(model, _overflowing(model, os.fspath(folder)))
    if not all(map(is_finite, feeds.values())):
        after |= _results_of(model, _has_reductions)
    return [output.name in after for output in model.graph.output]


def _changes(model: onnx.ModelProto, folder: Path, feeds: Feeds) -> list[_Change]:
    """The results in the main graph that may change on these inputs: those of reductions, dynamic
    quantizations and products with another order, and those of Casts on another processor. Raises
    RunError.
    """
    reductions = list(filter(_is_reduction, model.graph.node))
    products = _products(model.graph)
    casts = list(filter(_is_cast_to_integers, model.graph.node))
    quantizations = list(filter(_is_dynamic_quantization, model.graph.node))
    readers = (*reductions, *casts, *quantizations)
    reads = (n for node in readers for n in (*node.input, *node.output) if n)
    wanted = list(dict.fromkeys(chain(reads, products, *products.values())))
    if not wanted:
        return []
    values = inner_values(model, folder, wanted, feeds)
    changes = [
        *map(partial(_reduction_changes, values), reductions),
        *map(partial(_product_changes, values), products, products.values()),
        *map(partial(_cast_changes, values), casts),
        *map(partial(_quantization_changes, values), quantizations),
    ]
    return list(chain.from_iterable(changes))


def _reduction_changes(values: Mapping[str, Any], node: onnx.NodeProto) -> Iterator[_Change]:
    named = node.output[: [*node.output, ""].index("")]  # outputs up to the first omitted one
    results = [values[name] for name in named]
    if any(value.dtype not in _FLOATS for value in (values[node.input[0]], *results)):
        return
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    inputs = [values[name] if name else None for name in node.input]
    of_node = spreads(node.op_type, attributes, inputs, results)
    for name, value, spread in zip(named, results, of_node, strict=True):
        if spread.any():
            yield _Change(name, value, spread)


def _product_changes(
    values: Mapping[str, Any], name: str, factors: Sequence[str]
) -> Iterator[_Change]:
    if values[name].dtype in _FLOATS:
        with np.errstate(all="ignore"):
            spread = spread_of_product([values[factor] for factor in factors])
        if spread.any():
            yield _Change(name, values[name], spread)


def _cast_changes(values: Mapping[str, Any], node: onnx.NodeProto) -> Iterator[_Change]:
    x = values[node.input[0]]
    result = values[node.output[0]]
    if x.dtype not in _FLOATS:
        return
    wide = x.astype(np.float64)
    limits = np.iinfo(result.dtype)
    beyond = (wide <= float(limits.min) - 1) | (wide >= float(limits.max) + 1)
    if beyond.any():
        yield _Change(node.output[0], result, np.where(beyond, np.inf, 0.0))


def _quantization_changes(values: Mapping[str, Any], node: onnx.NodeProto) -> Iterator[_Change]:
    """All results if there is a NaN. Depending on its place, onnxruntime ignores either the NaN or
    the elements before it in the search for the smallest and the largest element.
    """
    if np.isnan(values[node.input[0]]).any():
        for name in filter(None, node.output):
            yield _Change(name, values[name], np.full(np.shape(values[name]), np.inf))


def settled(reference: Any, candidate: Any, reach: Reach | None) -> tuple[Any, Any]:
    """Both values, with elements made equal if another order may explain their difference."""
    if reach is None:
        return reference, candidate
    is_alike = (reference.dtype, reference.ndim) == (
        getattr(candidate, "dtype", None),
        np.ndim(candidate),
    )
    # the number of elements may depend on values that change
    if is_alike and np.isinf(reach).all():
        return reference, reference
    ours = np.array(reference)
    theirs = np.array(candidate)
    if ours.shape == theirs.shape and ours.dtype == theirs.dtype:
        same = np.isinf(reach)
        if ours.dtype.kind == "f":
            with np.errstate(all="ignore"):
                same |= np.abs(theirs.astype(np.float64) - ours) <= _LARGER * reach
        ours[same] = theirs[same] = np.zeros((), ours.dtype)
    return ours, theirs


def is_open(reference: Any, reach: Reach | None) -> bool:
    """Whether another order may change all elements of a value."""
    if reach is None or not reach.size:
        return False
    size = np.abs(reference.astype(np.float64)) if reference.dtype.kind == "f" else np.inf
    return bool((np.isinf(reach) | (reach >= size)).all())


def _moved(value: Any, other: Any) -> Reach | None:
    if not isinstance(value, np.ndarray) or not isinstance(other, np.ndarray):
        return None
    if value.shape != other.shape:
        return _anything(value)
    if value.dtype.kind != "f":
        return np.where(value != other, np.inf, 0.0)
    with np.errstate(all="ignore"):
        off = np.abs(value.astype(np.float64) - other.astype(np.float64))
    return np.where(
        (value == other) | (np.isnan(value) & np.isnan(other)),
        0.0,
        np.where(np.isnan(off), np.inf, off),
    )


def farther(one: Reach | None, other: Reach | None) -> Reach | None:
    """The farther of two reaches for each element."""
    if other is None or not other.any():
        return one
    return other if one is None else np.maximum(one, other)


def _anything(value: Any) -> Reach | None:
    return np.full(value.shape, np.inf) if isinstance(value, np.ndarray) else None


def _is_reduction(node: onnx.NodeProto) -> bool:
    return not canonical_domain(node.domain) and node.op_type in REDUCTIONS


def _is_dynamic_quantization(node: onnx.NodeProto) -> bool:
    return node.op_type == "DynamicQuantizeLinear" and not canonical_domain(node.domain)


def _is_cast_to_integers(node: onnx.NodeProto) -> bool:
    is_cast = node.op_type == "Cast" and not canonical_domain(node.domain)
    return is_cast and any(
        attribute.name == "to" and attribute.i in _INTEGERS for attribute in node.attribute
    )


def _products(graph: onnx.GraphProto) -> dict[str, list[str]]:
    """The factors of each product of products."""
    factors_of = {
        n.output[0]: n.input
        for n in graph.node
        if n.op_type == "Mul" and not canonical_domain(n.domain)
    }
    products = {}
    for name, (one, other) in factors_of.items():
        factors = [one, other]
        while (
            len(factors) < _MOST_FACTORS
            and (inner := next((f for f in factors if f in factors_of), None)) is not None
        ):
            at = factors.index(inner)
            factors[at : at + 1] = factors_of[inner]
        if len(factors) > 2:
            products[name] = factors
    return products


def _overflowing(model: onnx.ModelProto, folder: str) -> Callable[[onnx.NodeProto], bool]:
    """A function that says whether a node sums products with weights so large that a few products
    overflow. A huge bias alone does not count.
    """
    huge = {tensor.name for tensor in model.graph.initializer if _is_huge(tensor, folder)}
    return lambda n: (
        n.op_type in _SUMS
        and not huge.isdisjoint(n.input if n.op_type == "Einsum" else n.input[:2])
    )


def _is_huge(tensor: onnx.TensorProto, folder: str) -> bool:
    if tensor.data_type not in (TensorProto.FLOAT, TensorProto.DOUBLE) or is_external(tensor):
        return False
    array = to_array(tensor, folder)
    with np.errstate(invalid="ignore"):
        return bool((np.abs(array) > np.finfo(array.dtype).max * _HUGE).any())


def _results_of(model: onnx.ModelProto, decides: Callable[[onnx.NodeProto], bool]) -> set[str]:
    """The values of the main graph that depend on nodes for which `decides` is true."""
    results: set[str] = set()
    for node in model.graph.node:
        if decides(node) or not results.isdisjoint(reads_of(node)):
            results.update(filter(None, node.output))
    return results


def _has_reductions(node: onnx.NodeProto) -> bool:
    inside = (
        inner
        for attribute in node.attribute
        for body in graphs_of(attribute)
        for inner in body.node
    )
    return any(
        _is_reduction(inner) or _is_dynamic_quantization(inner) or _has_reductions(inner)
        for inner in inside
    )
