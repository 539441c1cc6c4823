"""Quantized models: how they are written, what runs in integers, and what a conversion changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from onnx import TensorProto

from fusionc.inspect.finding import Finding, counted
from fusionc.inspect.integer_census import (
    WEIGHTS_CAST,
    WEIGHTS_ONLY,
    IntegerCensus,
    integer_census,
)
from fusionc.inspect.left_in_float import correct_by_onnxruntime
from fusionc.model.graph import Edge, Model, Node
from fusionc.operators.integer_operators import DEQUANTIZE, QUANTIZE
from fusionc.runtime.processor import has_vnni

if TYPE_CHECKING:
    from fusionc.inspect.dry_run import DryRun

_OF_WEIGHTS = (WEIGHTS_ONLY, WEIGHTS_CAST)  # notations in which only weights are integers
_MOST = 4  # the largest number of operators that a reason lists


def findings(model: Model, dry: DryRun, path: Path) -> Iterator[Finding]:
    """Findings on how the model in a file is quantized, and on quantized operators that are
    computed in floating point nevertheless.
    """
    nodes = [node for graph in model.graphs for node in graph.ordered()]
    census = integer_census(nodes)
    if not census.nodes:
        return
    correct_by_onnxruntime(census, path)
    labels = tuple(node.label() for node in census.nodes)
    yield Finding("quantized", _style(census), _gain(nodes, census, dry), labels)
    if census.in_float:
        yield Finding(
            "dequantized and computed in float32",
            f"{counted(len(census.in_float), 'quantized operator')}; {_reasons(census.in_float)}",
            "fusionc why DequantizeLinear explains why each DequantizeLinear stays",
            tuple(node.label() for node in census.in_float),
        )


def _style(census: IntegerCensus) -> str:
    """How a model is quantized, in a sentence for each notation."""
    of_data = [nodes for name, nodes in census.writings.items() if name not in _OF_WEIGHTS]
    total = sum(map(len, of_data))
    said = [f"{counted(len(nodes), 'operator')} {name}" for name, nodes in census.writings.items()]
    parts = {"data": census.data, "weights": {value.elem_type for value in census.weights}}
    types = [f"{name} in {text}" for name, part in parts.items() if (text := _types(part))]
    if types:
        said.append(", ".join([*types, *_scales(census.weights)]))
    if total:
        run = f"onnxruntime computes {len(census.in_integers):,} of {total:,} in integers"
        vnni = "has VNNI" if has_vnni() else "lacks VNNI, without which integers gain less speed"
        said.append(f"{run}; this processor {vnni}")
    return "; ".join(said)


def _types(types: Iterable[int]) -> str:
    return " and ".join(sorted(TensorProto.DataType.Name(one).lower() for one in types if one))


def _scales(weights: Iterable[Edge]) -> list[str]:
    """Whether weights have one scale or one for each channel, as far as DequantizeLinear shows."""
    readers = [node for value in weights for node in value.outputs if node.operator in DEQUANTIZE]
    kinds = dict.fromkeys(_scales_of(node) for node in readers)
    return [f"one scale for each {' or '.join(kinds)}"] if kinds else []


def _scales_of(dequantize: Node) -> str:
    if dequantize.attr("block_size"):
        return "block"
    scale = dequantize.inputs[1]
    shape = () if scale is None or scale.shape is None else scale.shape
    return "channel" if any(size != 1 for size in shape) else "tensor"


def _gain(nodes: Iterable[Node], census: IntegerCensus, dry: DryRun) -> str:
    """What a conversion does with the operators on integers and the quantizations."""
    concerned = [*census.nodes, *(n for n in nodes if n.operator in QUANTIZE | DEQUANTIZE)]
    takers = Counter(
        name for node in dict.fromkeys(concerned) for name in dry.taken.get(node.label(), ())
    )
    if not takers:
        return "nothing to do: no pass of a conversion replaces any of these operators"
    passes = ", ".join(f"{name} takes {times:,}" for name, times in takers.most_common())
    before = len(census.in_integers)
    text = f"convert: {passes}"
    return (
        text if dry.in_integers <= before else f"{text}; then {dry.in_integers:,} run in integers"
    )


def _reasons(in_float: Mapping[Node, str]) -> str:
    by_reason: dict[str, list[Node]] = {}
    for node, why in in_float.items():
        by_reason.setdefault(why, []).append(node)
    return "; ".join(f"{_operators(nodes)}: {why}" for why, nodes in by_reason.items())


def _operators(nodes: list[Node]) -> str:
    counts = Counter(node.op for node in nodes).most_common()
    rest = sum(times for _, times in counts[_MOST:])
    shown = [f"{times} {op}" for op, times in counts[:_MOST]]
    return ", ".join([*shown, *([f"{rest} others"] if rest else [])])
