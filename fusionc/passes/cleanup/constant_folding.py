from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from fusionc.model.graph import Constant, Edge, Graph, Model, Node, Value
from fusionc.operators.deciding_operators import is_real
from fusionc.operators.facts import Trait, names_with
from fusionc.operators.narrow_types import NARROW
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, refuse
from fusionc.runtime.evaluate import can_evaluate, evaluate, needed_inputs
from fusionc.shapes.expressions import is_static

_MOST_BYTES = 512 << 20  # that something may take on the way to a result
_MOST_WORK = 4_000_000_000  # multiplications, a few seconds
_MOST_TOGETHER = 5 * _MOST_WORK
_MATRIX_PRODUCTS = names_with(Trait.MATRIX_PRODUCT) - {"Gemm"}  # whose operand may be transposed
_CONVOLUTIONS = names_with(Trait.CONVOLUTION)
_POOLS = names_with(Trait.WINDOW_POOL)
_DOTS = frozenset(map(str, range(1, 64)))  # labels of axes that an ellipsis stands for

BUDGET = 1 << 20  # bytes by which folding may make a model larger, in all
_BATCH = 256 << 20  # bytes that are read and made together, as far as they are known
# multiplications that folding has taken
_spent: WeakKeyDictionary[Model, int] = WeakKeyDictionary()
# what ended or blocked onnxruntime, and the reason
_costly: WeakKeyDictionary[Node, str] = WeakKeyDictionary()
_FEW_BYTES = 256  # of numbers that may be unpacked all the same, as the scalars of formulas
_GROWS = "the model would grow by more than 1 MiB"


def _foldable(graph: Graph, rejected: dict[Node, str]) -> dict[Node, int]:
    """The nodes whose inputs are all known before the model runs, producers first, and the
    multiplications of each. Those that would take too much are rejected.
    """
    found: dict[Node, int] = {}
    spent = _spent.get(graph.model, 0)
    for node in graph.ordered():
        if node in rejected or not node.outputs or not can_evaluate(node):
            continue
        if all(
            value is None or value.is_constant or value.producer in found
            for value in needed_inputs(node)
        ):
            reason, work = _why_not_computed(node, spent)
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
    """The foldable nodes that something else needs. Those that are known to be too large are
    rejected without being computed, and what they are made of is needed instead.
    """
    pending = [node for node in foldable if _is_needed(node, foldable)]
    frontier: dict[Node, None] = {}
    while pending:
        node = pending.pop()
        if node not in foldable:
            continue
        size = sum(map(_known_bytes, node.outputs))
        if size <= left or size - _freed_bytes([node]) <= left:
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
        size += sum(map(_known_bytes, (*node.inputs, *node.outputs)))
        if size > _BATCH:
            yield batch
            batch = []
            size = 0
    if batch:
        yield batch


def _affordable(
    results: dict[Node, dict[Value, np.ndarray[Any, Any]]], left: int
) -> tuple[dict[Node, None], int]:
    """Which of the results the budget allows, all if it can be, else the small ones first; and what
    they cost.
    """
    total = sum(_stored_bytes(arrays.values()) for arrays in results.values()) - _freed_bytes(
        results
    )
    if total <= left:
        return dict.fromkeys(results), max(total, 0)
    growths = {
        node: _stored_bytes(arrays.values()) - _freed_bytes([node])
        for node, arrays in results.items()
    }
    chosen: dict[Node, None] = {}
    spent = 0
    for node, growth in sorted(growths.items(), key=lambda item: item[1]):
        if growth <= 0 or spent + growth <= left:
            chosen[node] = None
            spent += max(growth, 0)
    return chosen, spent


def _find(graph: Graph) -> Iterator[Match]:
    """Fold what is left at the border of the constant part; what may not be folded moves the
    border.
    """
    rejected = {node: _costly[node] for node in graph.nodes if node in _costly} if _costly else {}
    while True:
        foldable = _foldable(graph, rejected)
        left = BUDGET - graph.model.folding_growth
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
                yield Match(
                    graph, (node,), list(arrays), {"arrays": list(arrays.values()), "reason": ""}
                )
        if not new:
            break
        rejected.update(new)
    for node, reason in rejected.items():
        yield Match(graph, (node,), node.outputs, {"reason": reason})


def _constant_nodes(graph: Graph) -> Iterator[Match]:
    # no initializers there, or only as graph inputs
    if graph.in_function or graph.model.ir_version < 4:
        return
    for node in graph.of_operator("Constant"):
        (value,) = node.outputs
        if value is not None and value.is_constant:
            yield Match(graph, (node,), (value,), {"arrays": [value.constant()], "reason": ""})


def _why_not_computed(node: Node, spent: int) -> tuple[str | None, int]:
    """Why a node is not computed although its inputs are known, and how many multiplications it
    would take.

    It would take too much memory or time, as far as the shapes tell before; `spent` are the
    multiplications of others.
    """
    if _unpacks(node):
        return "the numbers are stored in fewer bits, and unpacked when the model is loaded", 0
    made = sum(map(_known_bytes, node.outputs))
    read = sum(map(_known_bytes, node.inputs))
    work, between = _einsum(node) if node.op == "Einsum" else (_multiplications(node), 0)
    if max(made, between) > max(_MOST_BYTES, read):
        return f"it would take more than {_MOST_BYTES >> 20} MiB to compute", 0
    if work > _MOST_WORK or (work and spent + work > _MOST_TOGETHER):
        return (
            f"it would take more than {_MOST_WORK // 10**9} billion multiplications to compute",
            0,
        )
    return None, work


def _unpacks(node: Node) -> bool:
    """Whether a node casts weights of few bits: onnxruntime does it at load, so that folding gains
    nothing but size.
    """
    packed, made = (node.inputs[0], node.outputs[0]) if node.op == "Cast" else (None, None)
    if (
        packed is None
        or made is None
        or packed.elem_type not in NARROW
        or not is_real(made.elem_type)
    ):
        return False
    return _known_bytes(made) - _known_bytes(packed) > _FEW_BYTES


def _multiplications(node: Node) -> int:
    """About so many; 0 where it is unknown, or the elements that go in and come out tell enough."""
    shapes = [_known_shape(value) for value in (*node.inputs[:4], node.outputs[0])]
    made = math.prod(shapes[-1]) if shapes[-1] is not None else 0
    if node.op in _MATRIX_PRODUCTS and shapes[0]:
        return made * shapes[0][-1]
    if node.op == "Gemm" and shapes[0] and shapes[-1]:
        return made * (math.prod(shapes[0]) // max(1, shapes[-1][0]))
    if node.op in _CONVOLUTIONS:
        kernel = shapes[3 if node.op == "QLinearConv" else 1]
        image = shapes[0] if node.op == "ConvTranspose" else shapes[-1]
        return math.prod(image) * math.prod(kernel[1:]) if image and kernel else 0
    if node.op in _POOLS:
        return made * math.prod(map(int, node.attrs.get("kernel_shape", ())))
    return 0


def _einsum(node: Node) -> tuple[int, int]:
    """Multiplications, and the bytes of the largest product between, where two operands after the
    other are joined.
    """
    left, arrow, result = node.attr("equation").replace(" ", "").partition("->")
    terms = [
        _labels(term, _known_shape(value))
        for term, value in zip(left.split(","), node.inputs, strict=False)
    ]
    dtype = None if node.inputs[0] is None else node.inputs[0].dtype
    if dtype is None or not arrow or any(term is None for term in terms):
        return 0, 0
    sizes = {label: size for term in terms for label, size in (term or {}).items()}
    work = largest = 0
    product: set[str] = set(terms[0] or {})
    for number, term in enumerate(terms[1:], start=2):
        product |= (term or {}).keys()
        work += math.prod(sizes[label] for label in product)
        product &= (
            {label for later in terms[number:] for label in later or {}}
            | set(result)
            | _DOTS & product
        )
        largest = max(largest, math.prod(sizes[label] for label in product))
    return work, largest * dtype.itemsize


def _labels(term: str, shape: tuple[int, ...] | None) -> dict[str, int] | None:
    """The size of each label of an operand; the axes of an ellipsis are called by their place from
    the right.
    """
    if shape is None:
        return None
    before, dots, after = term.partition("...")
    more = len(shape) - len(before) - len(after)
    names = [*before, *(str(place) for place in range(more, 0, -1)), *after]
    return dict(zip(names, shape, strict=True)) if more >= 0 and (dots or not more) else None


def _known_shape(value: Edge | None) -> tuple[int, ...] | None:
    shape = None if value is None else value.shape
    known = [d for d in shape or () if isinstance(d, int)]
    return tuple(known) if shape is not None and len(known) == len(shape) else None


def _known_bytes(value: Edge | None) -> int:
    """Bytes of a value as far as its shape is known before anything is computed; else 0."""
    shape, dtype = (None, None) if value is None else (value.shape, value.dtype)
    if dtype is None or not is_static(shape):
        return 0
    return math.prod(shape) * dtype.itemsize


def _freed_bytes(nodes: Iterable[Node]) -> int:
    """Bytes of the constants that nobody needs once these nodes are constants themselves."""
    freed = 0
    pending = list(nodes)
    missing: dict[Edge, int] = {}  # users of a value that are not known to go
    while pending:
        for value in dict.fromkeys(pending.pop().inputs):
            if value is None or value.is_output:
                continue
            missing[value] = missing.get(value, value.use_count) - 1
            if missing[value] > 0:
                continue
            if isinstance(value, Constant):
                freed += value.nbytes
            elif (array := value.constant()) is not None:
                freed += _stored_bytes([array])
            elif value.producer is not None and all(
                o is None or o is value or missing.get(o, o.use_count) == 0
                for o in value.producer.outputs
            ):
                pending.append(value.producer)
    return freed


def _stored_bytes(arrays: Iterable[np.ndarray[Any, Any]]) -> int:
    """Bytes of the elements as a model stores them."""
    total = 0
    for array in arrays:
        is_text = array.dtype.kind == "O"
        total += (
            sum(len(s.encode() if isinstance(s, str) else s) for s in array.flat)
            if is_text
            else array.nbytes
        )
    return total


class ConstantFoldingPass(Pass):
    """What depends on constants alone is computed now; Constant nodes become initializers.

    before   a node whose inputs are all constants
    after    its result as a constant, computed by onnxruntime with its optimizers off
    refuses  what onnxruntime cannot compute, or not within 10 seconds of processor time and 2 GiB;
             what takes 512 MiB, or 4 billion multiplications, as far as shapes tell; results that
             would make the model larger by more than 1 MiB in all, compared with the constants that
             are not needed any more (a fold that shrinks the model is always done); Casts of
             weights of at most 8 bits, or of bfloat16, to larger types: onnxruntime folds them at
             load
    never    random, stateful and custom operators, operators with subgraphs, QuantizeLinear and
             DequantizeLinear (their pairs say how the model is quantized), elements that numpy has
             not
    algebra  a function of constants is a constant
    source   CANN's ConstantFoldingPass
    """

    patterns = (
        Pattern("ConstantFolding", find=_find),
        Pattern("ConstantNode", find=_constant_nodes, operators=("Constant",)),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        if m.reason:
            refuse(m.reason)
        return [new.const(array) for array in m.arrays]
