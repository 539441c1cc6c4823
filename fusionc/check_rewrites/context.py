"""Nodes before a rewrite that its models include: they compute sizes, or the inputs of the
rewrite.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from onnx import TensorProto

from fusionc.check_rewrites.rewrite_models import RewriteModels, RewriteOnItsOwn
from fusionc.model.graph import Edge, Node

GENERATIONS = (0, 1, 2, 4, 8)
_MOST_NODES = 200
_WHOLE = (TensorProto.INT64, TensorProto.INT32, TensorProto.BOOL)
_MOST_CONSTANT = 200  # nodes between constants and what is computed from them
_ONLY_AFTER = 3  # generations above a value that the replacement alone reads


def isolated(rewrite: RewriteOnItsOwn) -> Iterator[RewriteModels]:
    """Models of a rewrite, with few and with more nodes before it; none if it cannot be
    modelled.
    """
    sizes = -1
    for generations in GENERATIONS if not rewrite.reason else ():
        context = context_of(rewrite, generations)
        if len(context) > sizes:
            yield rewrite.models(context)
        sizes = len(context)


def context_of(rewrite: RewriteOnItsOwn, generations: int) -> set[Node]:
    """The nodes before a rewrite that its models include: those that compute its sizes, those that
    relate the inputs of the replacement to its own, and those that compute its inputs in so many
    steps.
    """
    nodes: set[Node] = set()
    own = set(rewrite.inputs()) - set(rewrite.only_after())
    for _ in range(_ONLY_AFTER):
        _add(rewrite, nodes, lambda value: value not in own)
    for _ in range(generations):
        _add(rewrite, nodes, lambda value: True)
    while _add(rewrite, nodes, lambda value: _is_size(value) or _is_fixed(value)):
        pass
    return nodes


def _add(rewrite: RewriteOnItsOwn, nodes: set[Node], wanted: Callable[[Edge], bool]) -> bool:
    """Add the makers of the inputs that are wanted; whether there were any."""
    values = [value for value in rewrite.inputs(nodes) if wanted(value)]
    makers = {value.producer for value in values if value.producer is not None}
    new = {node for node in makers if rewrite.may_be_context(node)}
    if not new or len(nodes) + len(new) > _MOST_NODES:
        return False
    nodes |= new
    return True


def _is_fixed(value: Edge) -> bool:
    """Whether a value is computed from constants alone, and by few nodes."""
    pending = [value]
    seen = set[Node]()
    while pending:
        current = pending.pop()
        maker = current.producer
        if current.is_constant or maker in seen:
            continue
        if maker is None or len(seen) == _MOST_CONSTANT:
            return False
        seen.add(maker)
        pending += [read for read in (*maker.inputs, *maker.captures()) if read is not None]
    return True


def _is_size(value: Edge) -> bool:
    """Whether a value may be made of sizes: whole numbers, few of them."""
    return value.known_type.elem_type in _WHOLE and len(value.known_type.shape or ()) <= 1
