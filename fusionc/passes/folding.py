"""What folding costs: bytes of results and of constants that are not needed any more, and work."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from fusionc.model.graph import Constant, Edge, Node

_MOST_BYTES = 512 << 20  # that something may take on the way to a result
_MOST_WORK = 4_000_000_000  # multiplications, a few seconds
_MOST_TOGETHER = 5 * _MOST_WORK
_MATRIX_PRODUCTS = ("MatMul", "MatMulInteger", "QLinearMatMul")
_CONVOLUTIONS = ("Conv", "ConvInteger", "QLinearConv")
_POOLS = ("AveragePool", "LpPool", "MaxPool")
_DOTS = frozenset(map(str, range(1, 64)))  # labels of axes that an ellipsis stands for


def reason_against(node: Node, spent: int) -> tuple[str | None, int]:
    """Why a node is not computed although its inputs are known, and how many multiplications it would take.

    It would take too much memory or time, as far as the shapes tell before; `spent` are the multiplications of others.
    """
    made, read = sum(map(known_bytes, node.outputs)), sum(map(known_bytes, node.inputs))
    work, between = _einsum(node) if node.op == "Einsum" else (_multiplications(node), 0)
    if max(made, between) > max(_MOST_BYTES, read):
        return f"it would take more than {_MOST_BYTES >> 20} MiB to compute", 0
    if work > _MOST_WORK or (work and spent + work > _MOST_TOGETHER):
        return f"it would take more than {_MOST_WORK // 10**9} billion multiplications to compute", 0
    return None, work


def _multiplications(node: Node) -> int:
    """About so many; 0 where it is unknown, or the elements that go in and come out tell enough."""
    shapes = [_known_shape(value) for value in (*node.inputs[:4], node.outputs[0])]
    made = math.prod(shapes[-1]) if shapes[-1] is not None else 0
    if node.op in _MATRIX_PRODUCTS and shapes[0]:
        return made * shapes[0][-1]
    if node.op == "Gemm" and shapes[0] and shapes[-1]:
        return made * (math.prod(shapes[0]) // max(1, shapes[-1][0]))
    if node.op in (*_CONVOLUTIONS, "ConvTranspose"):
        kernel = shapes[3 if node.op == "QLinearConv" else 1]
        image = shapes[0] if node.op == "ConvTranspose" else shapes[-1]
        return math.prod(image) * math.prod(kernel[1:]) if image and kernel else 0
    if node.op in _POOLS:
        return made * math.prod(map(int, node.attrs.get("kernel_shape", ())))
    return 0


def _einsum(node: Node) -> tuple[int, int]:
    """Multiplications, and the bytes of the largest product between, where two operands after the other are joined."""
    left, arrow, result = node.attr("equation").replace(" ", "").partition("->")
    terms = [_labels(term, _known_shape(value)) for term, value in zip(left.split(","), node.inputs, strict=False)]
    dtype = None if node.inputs[0] is None else node.inputs[0].dtype
    if dtype is None or not arrow or any(term is None for term in terms):
        return 0, 0
    sizes = {label: size for term in terms for label, size in (term or {}).items()}
    work = largest = 0
    product: set[str] = set(terms[0] or {})
    for number, term in enumerate(terms[1:], start=2):
        product |= (term or {}).keys()
        work += math.prod(sizes[label] for label in product)
        product &= {label for later in terms[number:] for label in later or {}} | set(result) | _DOTS & product
        largest = max(largest, math.prod(sizes[label] for label in product))
    return work, largest * dtype.itemsize


def _labels(term: str, shape: tuple[int, ...] | None) -> dict[str, int] | None:
    """The size of each label of an operand; the axes of an ellipsis are called by their place from the right."""
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


def known_bytes(value: Edge | None) -> int:
    """Bytes of a value as far as its shape is known before anything is computed; else 0."""
    shape, dtype = (None, None) if value is None else (value.shape, value.dtype)
    if shape is None or dtype is None or not all(isinstance(d, int) for d in shape):
        return 0
    return math.prod(d for d in shape if isinstance(d, int)) * dtype.itemsize


def freed_bytes(nodes: Iterable[Node]) -> int:
    """Bytes of the constants that nobody needs once these nodes are constants themselves."""
    freed, pending = 0, list(nodes)
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
                freed += stored_bytes([array])
            elif value.producer is not None and all(
                o is None or o is value or missing.get(o, o.use_count) == 0 for o in value.producer.outputs
            ):
                pending.append(value.producer)
    return freed


def stored_bytes(arrays: Iterable[np.ndarray[Any, Any]]) -> int:
    """Bytes of the elements as a model stores them."""
    total = 0
    for array in arrays:
        is_text = array.dtype.kind == "O"
        total += sum(len(s.encode() if isinstance(s, str) else s) for s in array.flat) if is_text else array.nbytes
    return total
