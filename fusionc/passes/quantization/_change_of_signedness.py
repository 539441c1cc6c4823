"""The rewrite that gives a region of integers the other signedness."""

from __future__ import annotations

import platform
from collections.abc import Iterator

import numpy as np
from onnx import TensorProto

from fusionc.model.graph import Edge, Graph, Node
from fusionc.operators.integer_operators import QUANTIZE
from fusionc.operators.signedness import OPPOSITE, SIGNED
from fusionc.passes._shared.constants import array_of
from fusionc.passes._shared.target import require_onnxruntime
from fusionc.passes.quantization._signed_regions import (
    Region,
    data_places,
    is_input,
    opposite,
    regions_to_change,
    zero_places,
    zero_point,
)
from fusionc.rewrite import Match, Result, Tape, refuse

_MEASURED = ("x86_64", "AMD64")  # processors whose fast types are known


def matches(graph: Graph, is_exact: bool) -> Iterator[Match]:
    """One match for each region, of those that stay exact or of the others."""
    for region in regions_to_change(graph, is_exact):
        yield Match(graph, region.ordered, region.outputs, {"region": region})


def change(m: Match, new: Tape) -> Result:
    """The operators of a region with its values and zero points in the other type."""
    require_onnxruntime(m)
    if platform.machine() not in _MEASURED:
        refuse("the signedness that is fast on this processor is not known")
    region = m.region
    if region.obstacle:
        refuse(region.obstacle)
    made: dict[Edge, Edge] = {}
    for value in region.values:
        if value.is_constant:
            made[value] = new.const(opposite(array_of(value), region.elem_type))
        elif is_input(value):
            made[value] = _opposite_of_input(value, region.elem_type, new)
    for node in region.ordered:
        outputs = [value for value in node.outputs if value is not None]
        moved = [value for value in _moved(node, region, made, new) if value is not None]
        made.update(zip(outputs, moved, strict=True))
    return [made[value] for value in m.outputs]


def _opposite_of_input(value: Edge, elem_type: int, new: Tape) -> Edge:
    by = 128 if elem_type == SIGNED else -128
    wide = new.Cast(value, to=TensorProto.INT32)
    moved = new.Add(wide, new.const(np.asarray(by, np.int32)))
    return new.Cast(moved, to=OPPOSITE[elem_type])


def _moved(node: Node, region: Region, made: dict[Edge, Edge], new: Tape) -> tuple[Edge, ...]:
    """An operator that reads and makes the region in the other signedness."""
    places = data_places(node)
    inputs = [
        made.get(value, value) if value is not None and at in places else value
        for at, value in enumerate(node.inputs)
    ]
    for place in zero_places(node, region):
        zero = zero_point(node, place)
        assert zero is not None  # else the region has an obstacle
        inputs += [None] * (place + 1 - len(inputs))
        inputs[place] = new.const(opposite(zero, region.elem_type))
    written = {}
    if node.operator in QUANTIZE and node.attr("output_dtype"):
        written["output_dtype"] = OPPOSITE[region.elem_type]
    return new.node(
        node.op,
        inputs,
        domain=node.domain,
        like=node,
        outputs=[value is not None for value in node.outputs],
        **written,
    )
