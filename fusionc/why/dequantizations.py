"""Why each DequantizeLinear of a converted model is still there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass

from fusionc.integer_groups.float_fallback import (
    data_integers,
    is_in_integers,
    reason_for_float,
)
from fusionc.integer_groups.group_parts import FAR
from fusionc.model.graph import Node
from fusionc.operators.integer_operators import DEQUANTIZE, PASSED, QUANTIZE, WEIGHTED
from fusionc.passes.areas._area_pass import AreaPass
from fusionc.rewrite import Pass
from fusionc.why.first_reason import named, node_text
from fusionc.why.pass_places import places_of
from fusionc.why.watched_conversion import Converted

DEQUANTIZATION = "DequantizeLinear"  # users may ask about this operator as about a pass


@dataclass(frozen=True)
class Dequantization:
    """A DequantizeLinear of the converted model."""

    node: str
    reason: str  # why it stays
    # whether onnxruntime removes it at load, and computes its readers in integers
    is_in_group: bool
    refused: tuple[str, ...]  # passes that could remove it, each with its reason not to


def concerned_passes(passes: Sequence[Pass]) -> list[Pass]:
    """The passes whose documentation names a DequantizeLinear, except the passes that make areas
    (groups of operators with a generated kernel).
    """
    return [p for p in passes if DEQUANTIZATION in p.documentation and not isinstance(p, AreaPass)]


def dequantizations(
    done: Converted, passes: Sequence[Pass], near: Set[str] | None
) -> list[Dequantization]:
    """The DequantizeLinear nodes that are left. Those that onnxruntime does not remove come first.
    Only nodes in `near` count; `None` means all nodes.
    """
    refusals = _refusals(done, passes)
    found = [
        Dequantization(node.label(), *_reason(node), tuple(refusals.get(node.label(), ())))
        for graph in done.after.graphs
        for operator in DEQUANTIZE
        for node in graph.by_operator.get(operator, ())
        if near is None or node.label() in near
    ]
    return sorted(found, key=lambda one: one.is_in_group)


def _refusals(done: Converted, passes: Sequence[Pass]) -> dict[str, dict[str, None]]:
    """For each node, the reasons of passes that refuse it although their whole pattern matches."""
    refusals: dict[str, dict[str, None]] = {}
    for pass_ in passes:
        for place in places_of(done.after, pass_, only_matches=True, examine=done.examine):
            for node in place.nodes if place.reason else ():
                refusals.setdefault(node, {})[f"{pass_.name}: {place.reason}"] = None
    return refusals


def _reason(dequantize: Node) -> tuple[str, bool]:
    """Why a DequantizeLinear stays, and whether onnxruntime removes it when it loads the model."""
    readers = list(_readers(dequantize))
    value = dequantize.outputs[0]
    if value is not None and value.is_output:
        return f"{named(value.name)} is an output of the graph", False
    floats = [reason for reader in readers if (reason := _reason_of_reader(reader))]
    if floats:
        return floats[0], False
    groups = ", ".join(map(node_text, readers[:1])) or "nothing"
    return f"it is part of the group of {groups}, which onnxruntime computes in integers", True


def _reason_of_reader(reader: Node) -> str:
    """Why an operator needs the value in floating point; empty if it does not."""
    if is_in_integers(reader):
        return ""
    if reader.operator in QUANTIZE:
        return f"{node_text(reader)} quantizes it again, with other parameters or to another type"
    if reader.domain == "" and reader.op in WEIGHTED and not data_integers(reader):
        return f"{node_text(reader)}: only its weights are dequantized, its data are floats"
    return f"{node_text(reader)}: {reason_for_float(reader)}"


def _readers(dequantize: Node) -> Iterator[Node]:
    """The operators that read the values, directly or after operators that only rearrange them."""
    reached = [dequantize]
    for _ in range(FAR):
        users = dict.fromkeys(
            user
            for node in reached
            for value in node.outputs
            if value is not None
            for user in value.outputs
        )
        yield from (user for user in users if user.domain or user.op not in PASSED)
        reached = [user for user in users if user.domain == "" and user.op in PASSED]
