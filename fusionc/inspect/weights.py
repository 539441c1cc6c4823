"""Weights: subnormal numbers, dead filters, and duplicates."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from fusionc.inspect.dry_run import DryRun
from fusionc.inspect.finding import Finding, counted
from fusionc.model.graph import Edge, Model, Node
from fusionc.model.tensors import Array, element_digest, float_info
from fusionc.passes.cleanup.subnormal_to_zero import count_subnormal
from fusionc.report.table import size_text

_LEAST = 4 << 10  # bytes; smaller weights are not searched for copies
_Content = tuple[str, tuple[int, ...], bytes]  # type, shape, and a digest of the elements
_Copies = dict[_Content, list[tuple[Edge, int]]]  # constants and their bytes, by content
_FLOATS = ("float32", "float64")
# the axis of the weights that counts the outputs; for Gemm it depends on transB
_OUTPUTS = {"Conv": 0, "ConvTranspose": 1, "MatMul": -1}


def findings(model: Model, dry: DryRun) -> Iterator[Finding]:
    """Findings on the constants of all graphs. Only one constant is read at a time."""
    subnormal: dict[str, int] = {}
    copies: _Copies = {}
    turned: _Copies = {}
    for constant in _constants(model):
        array = constant.constant()
        if array is None or not array.size:
            continue
        if array.dtype.name in _FLOATS and (times := count_subnormal(array)):
            subnormal[constant.name] = times
        if array.nbytes >= _LEAST and array.dtype.kind not in "OSU":
            copies.setdefault(_content(array), []).append((constant, array.nbytes))
            if array.ndim == 2:
                turned.setdefault(_content(array.T), []).append((constant, array.nbytes))
    if subnormal:
        elements = counted(sum(subnormal.values()), "element")
        count = f"{elements} of {counted(len(subnormal), 'constant')}"
        effect = _pass_effect(dry, "SubnormalToZeroPass", "makes them 0 if no output shows it")
        yield Finding(
            "subnormal numbers",
            (
                f"{count} below the smallest normal number; many processors take up to a hundred "
                "times as long for these"
            ),
            f"{effect}; for subnormal numbers that arise while the model runs, "
            "set session.set_denormal_as_zero to 1",
            tuple(subnormal),
        )
    yield from _dead_outputs(model)
    yield from _equal_weights(copies, dry)
    yield from _transposed_weights(copies, turned)


def _pass_effect(dry: DryRun, name: str, what: str) -> str:
    """What a pass would do about a finding."""
    if dry.effected[name]:
        return f"convert: {name} {what}"
    reason = dry.reason(name)
    because = f", because {reason}" if reason else ""
    return f"a conversion leaves them as they are: {name} takes no effect{because}"


def _constants(model: Model) -> Iterator[Edge]:
    for graph in model.graphs:
        yield from (value for value in graph.values.values() if value.is_constant)


def _content(array: Array) -> _Content:
    return str(array.dtype), array.shape, element_digest(array)


def _dead_outputs(model: Model) -> Iterator[Finding]:
    dead: dict[str, str] = {}
    lost = 0
    for node in chain.from_iterable(graph.ordered() for graph in model.graphs):
        count, outputs = _count_dead(node)
        if count:
            dead[node.label()] = f"{count} of {outputs}"
            lost += count
    if dead:
        first = next(iter(dead))
        yield Finding(
            "dead filters",
            f"{counted(lost, 'output')} of {counted(len(dead), 'operator')} with weights that "
            f"are all zero, for example {dead[first]} in {first}; "
            "such an output consists only of its bias",
            (
                "prune them before the export, with the weights that read them; fusionc does not "
                "change shapes of weights"
            ),
            tuple(dead),
        )


def _count_dead(node: Node) -> tuple[int, int]:
    """How many outputs of an operator have weights that are all zero, and how many it has."""
    axis = _axis_of_outputs(node)
    weight = node.inputs[1] if axis is not None and len(node.inputs) > 1 else None
    array = None if weight is None else weight.constant()
    if axis is None or array is None or array.dtype.name not in _FLOATS:
        return 0, 0
    if array.ndim < 2 or not array.size:
        return 0, 0
    others = tuple(other for other in range(array.ndim) if other != axis % array.ndim)
    smallest = float_info(array.dtype).smallest_normal
    is_dead = (array.max(others) < smallest) & (array.min(others) > -smallest)
    return int(is_dead.sum()), array.shape[axis]


def _axis_of_outputs(node: Node) -> int | None:
    if node.is_op("Gemm"):
        return 0 if node.attr("transB") else 1
    return _OUTPUTS.get(node.op) if node.domain == "" else None


def _equal_weights(copies: _Copies, dry: DryRun) -> Iterator[Finding]:
    equal = [group for group in copies.values() if len(group) > 1]
    if equal:
        wasted = sum(size for group in equal for _, size in group[1:])
        yield Finding(
            "weights stored twice",
            f"{counted(len(equal), 'weight')} stored repeatedly; copies take {size_text(wasted)}",
            _pass_effect(dry, "RemoveSameConstPass", "keeps one of each"),
            tuple(constant.name for group in equal for constant, _ in group),
        )


def _transposed_weights(copies: _Copies, turned: _Copies) -> Iterator[Finding]:
    # Pairs with their size in bytes. If several weights are equal, only one of them is compared.
    pairs: dict[frozenset[Edge], int] = {}
    for content in turned.keys() & copies.keys():
        (one, size) = turned[content][0]
        (other, _) = copies[content][0]
        if one is not other:  # a weight may equal its own transpose
            pairs[frozenset((one, other))] = size
    if pairs:
        size_of_all = size_text(sum(pairs.values()))
        yield Finding(
            "weights stored transposed",
            f"{counted(len(pairs), 'weight')} stored again with the axes exchanged, like an "
            f"embedding that is tied to the last layer; copies take {size_of_all}",
            "export the tied weights once, with a Gemm that has transB = 1",
            tuple(sorted({edge.name for pair in pairs for edge in pair})),
        )
