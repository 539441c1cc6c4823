from collections.abc import Iterator, Mapping
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from fusionc.model.graph import Graph, Model, Node, Value
from fusionc.passes.folding import freed_bytes, known_bytes, reason_against, stored_bytes
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, refuse
from fusionc.runtime.evaluate import can_evaluate, evaluate, needed_inputs

BUDGET = 1 << 20  # bytes by which folding may make a model larger, in all
_BATCH = 256 << 20  # bytes that are read and made together, as far as they are known
_spent: WeakKeyDictionary[Model, int] = WeakKeyDictionary()  # multiplications that folding has taken
_costly: WeakKeyDictionary[Node, str] = WeakKeyDictionary()  # what ended or blocked onnxruntime, and the reason
_GROWS = "the model would grow by more than 1 MiB"


def _foldable(graph: Graph, rejected: dict[Node, str]) -> dict[Node, int]:
    """The nodes whose inputs are all known before the model runs, producers first, and the multiplications of each.
    Those that would take too much are rejected."""
    found: dict[Node, int] = {}
    spent = _spent.get(graph.model, 0)
    for node in graph.ordered():
        if node in rejected or not node.outputs or not can_evaluate(node):
            continue
        if all(value is None or value.is_constant or value.producer in found for value in needed_inputs(node)):
            reason, work = reason_against(node, spent)
            if reason is None:
                found[node] = work
                spent += work
            else:
                rejected[node] = reason
    return found


def _is_needed(node: Node, foldable: Mapping[Node, int]) -> bool:
    """Whether something else than foldable nodes needs a foldable node."""
    used = [o for o in node.outputs if o is not None]
    return any(o.is_output or any(u not in foldable for u in o.outputs) for o in used)


def _frontier(foldable: dict[Node, int], rejected: dict[Node, str], left: int) -> list[Node]:
    """The foldable nodes that something else needs. Those that are known to be too large are rejected without being
    computed, and what they are made of is needed instead."""
    pending = [node for node in foldable if _is_needed(node, foldable)]
    frontier: dict[Node, None] = {}
    while pending:
        node = pending.pop()
        if node not in foldable:
            continue
        size = sum(map(known_bytes, node.outputs))
        if size <= left or size - freed_bytes([node]) <= left:
            frontier[node] = None
            continue
        rejected[node] = _GROWS
        del foldable[node]
        pending.extend(v.producer for v in node.inputs if v is not None and v.producer is not None)
    return [node for node in foldable if node in frontier]


def _batches(nodes: list[Node]) -> Iterator[list[Node]]:
    batch: list[Node] = []
    size = 0
    for node in nodes:
        batch.append(node)
        size += sum(map(known_bytes, (*node.inputs, *node.outputs)))
        if size > _BATCH:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _affordable(results: dict[Node, dict[Value, np.ndarray[Any, Any]]], left: int) -> tuple[dict[Node, None], int]:
    """Which of the results the budget allows, all if it can be, else the small ones first; and what they cost."""
    total = sum(stored_bytes(arrays.values()) for arrays in results.values()) - freed_bytes(results)
    if total <= left:
        return dict.fromkeys(results), max(total, 0)
    growths = {node: stored_bytes(arrays.values()) - freed_bytes([node]) for node, arrays in results.items()}
    chosen: dict[Node, None] = {}
    spent = 0
    for node, growth in sorted(growths.items(), key=lambda item: item[1]):
        if growth <= 0 or spent + growth <= left:
            chosen[node] = None
            spent += max(growth, 0)
    return chosen, spent


def _find(graph: Graph) -> Iterator[Match]:
    """Fold what is left at the border of the constant part; what may not be folded moves the border."""
    rejected = {node: _costly[node] for node in graph.nodes if node in _costly} if _costly else {}
    while True:
        foldable, left = _foldable(graph, rejected), BUDGET - graph.model.folding_growth
        frontier = _frontier(foldable, rejected, left)
        new: dict[Node, str] = {}
        _spent[graph.model] = _spent.get(graph.model, 0) + sum(foldable.values())
        for batch in _batches(frontier):
            found = evaluate(batch, list(foldable))
            chosen, spent = _affordable(found.arrays, BUDGET - graph.model.folding_growth)
            graph.model.folding_growth += spent
            new.update({node: _GROWS for node in found.arrays if node not in chosen})
            new.update(found.reasons)
            _costly.update({node: found.reasons[node] for node in found.costly})
            for node in chosen:
                arrays = found.arrays[node]
                yield Match(graph, (node,), list(arrays), {"arrays": list(arrays.values()), "reason": ""})
        if not new:
            break
        rejected.update(new)
    for node, reason in rejected.items():
        yield Match(graph, (node,), [o for o in node.outputs if o is not None], {"reason": reason})


def _constant_nodes(graph: Graph) -> Iterator[Match]:
    if graph.in_function or graph.model.ir_version < 4:  # no initializers there, or only as graph inputs
        return
    for node in graph.of_operator("Constant"):
        (value,) = node.outputs
        if value is not None and value.is_constant:
            yield Match(graph, (node,), (value,), {"arrays": [value.constant()], "reason": ""})


class ConstantFoldingPass(Pass):
    """What depends on constants alone is computed now; Constant nodes become initializers.

    before   a node whose inputs are all constants
    after    its result as a constant, computed by onnxruntime with its optimizers off
    refuses  what onnxruntime cannot compute, or not within 10 seconds and 2 GiB; what takes 512 MiB, or 4 billion
             multiplications, as far as shapes tell; results that would make the model larger by more than 1 MiB in
             all, compared with the constants that are not needed any more (a fold that shrinks the model is always
             done)
    never    random, stateful and custom operators, operators with subgraphs, QuantizeLinear and DequantizeLinear
             (their pairs say how the model is quantized), elements that numpy has not
    algebra  a function of constants is a constant
    source   CANN's ConstantFoldingPass
    """

    patterns = (Pattern("ConstantFolding", find=_find), Pattern("ConstantNode", find=_constant_nodes))

    def rewrite(self, m: Match, new: Tape) -> Result:
        if m.reason:
            refuse(m.reason)
        return [new.const(array) for array in m.arrays]
