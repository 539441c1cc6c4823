"""A rewrite is checked with two small models. This file selects the nodes before the rewrite that
both models contain: nodes that compute sizes or inputs of the rewrite.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from onnx import TensorProto

from fusionc.check_rewrites.rewrite_models import RewriteModels, RewriteOnItsOwn
from fusionc.model.graph import Edge, Node

GENERATIONS = (0, 1, 2, 4, 8)
_MAX_NODES = 200
_INTEGER_TYPES = (TensorProto.INT64, TensorProto.INT32, TensorProto.BOOL)
_MAX_CONSTANT_NODES = 200  # largest number of nodes between constants and a value
# If only the replacement reads a value, the models contain up to this many nodes that lead to it.
_ONLY_AFTER = 3


def isolated(rewrite: RewriteOnItsOwn) -> Iterator[RewriteModels]:
    """Models of a rewrite: first with few of the nodes before it, then with more. Yields nothing if
    the rewrite cannot be modelled.
    """
    sizes = -1
    for generations in GENERATIONS if not rewrite.reason else ():
        context = context_of(rewrite, generations)
        if len(context) > sizes:
            yield rewrite.models(context)
        sizes = len(context)


def context_of(rewrite: RewriteOnItsOwn, generations: int) -> set[Node]:
    """The nodes before a rewrite that its models include.

    These are nodes that compute sizes, nodes that relate the inputs of the replacement to those of
    the original nodes, and `generations` of nodes that compute the inputs.
    """
    nodes: set[Node] = set()
    original_inputs = set(rewrite.inputs()) - set(rewrite.only_after())
    for _ in range(_ONLY_AFTER):
        _add(rewrite, nodes, lambda value: value not in original_inputs)
    for _ in range(generations):
        _add(rewrite, nodes, lambda value: True)
    while _add(rewrite, nodes, lambda value: _is_size(value) or _is_constant(value)):
        pass
    return nodes


def _add(rewrite: RewriteOnItsOwn, nodes: set[Node], accepts: Callable[[Edge], bool]) -> bool:
    """Add the producers of the inputs that `accepts` accepts. Returns whether any were added."""
    values = [value for value in rewrite.inputs(nodes) if accepts(value)]
    producers = {value.producer for value in values if value.producer is not None}
    new = {node for node in producers if rewrite.may_be_context(node)}
    if not new or len(nodes) + len(new) > _MAX_NODES:
        return False
    nodes |= new
    return True


def _is_constant(value: Edge) -> bool:
    """Whether a value is computed from constants only, by few nodes."""
    pending = [value]
    seen = set[Node]()
    while pending:
        current = pending.pop()
        producer = current.producer
        if current.is_constant or producer in seen:
            continue
        if producer is None or len(seen) == _MAX_CONSTANT_NODES:
            return False
        seen.add(producer)
        pending += [read for read in (*producer.inputs, *producer.captures()) if read is not None]
    return True


def _is_size(value: Edge) -> bool:
    """Whether a value may consist of sizes: a few integers."""
    return value.known_type.elem_type in _INTEGER_TYPES and len(value.known_type.shape or ()) <= 1
