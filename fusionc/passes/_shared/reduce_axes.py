"""Reduce operators: their axes, how to join two of them, and how to create one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fusionc.model.graph import Edge, Node
from fusionc.operators.facts import Trait, names_with
from fusionc.passes._shared.transpose_and_reshape import axes_of, new_unsqueeze
from fusionc.rewrite import Match, Result, Tape, not_constant, op, refuse, require_known, rest, var
from fusionc.rewrite.pattern import OpFormula

# Reduce operators that return the element unchanged when they reduce a single element.
_KEEPING_ONE_ELEMENT = tuple(sorted(names_with(Trait.KEEPS_ONE)))

_GLOBAL_POOLS = ("GlobalAveragePool", "GlobalMaxPool")  # reduce all axes after the second one


def known_axes(node: Node, rank: int) -> list[int] | None:
    """The reduced axes, sorted and counted from the front; None if they are unknown."""
    if node.op in _GLOBAL_POOLS:
        return list(range(2, rank))
    axes = axes_of(node)
    if axes is None and any(node.inputs[1:]):
        return None
    if not axes:
        return [] if node.attr("noop_with_empty_axes") else list(range(rank))
    return sorted(axis % rank for axis in axes) if rank else []


def reduced_axes(node: Node, rank: int | None) -> list[int]:
    """The reduced axes as in `known_axes`. Refuses unknown axes."""
    axes = known_axes(node, require_known(rank, "the rank"))
    return refuse(not_constant("the axes")) if axes is None else axes


def trailing_axis(node: Node, x: Edge) -> int:
    """The axis k of a Reduce operator that reduces all axes of x from axis k to the last one and
    has keepdims. Refuses other Reduce operators.
    """
    rank = x.require_rank()
    axes = reduced_axes(node, rank)
    if not axes or axes != list(range(axes[0], rank)):
        refuse("the reduced axes are not the last ones")
    if node.op not in _GLOBAL_POOLS and not node.attr("keepdims"):
        refuse("the reduced axes are dropped")
    return axes[0]


def one_axis(node: Node, x: Edge) -> int:
    """The axis of a Reduce operator that reduces a single axis of x and has keepdims. Refuses other
    Reduce operators.

    The axis is counted from the front, except if the rank of x is unknown: it may then be negative.
    """
    axes = (axes_of(node) or []) if x.rank is None else reduced_axes(node, x.rank)
    if len(axes) != 1:
        refuse("not exactly one axis is reduced")
    if node.op not in _GLOBAL_POOLS and not node.attr("keepdims"):
        refuse("the reduced axes are dropped")
    return axes[0]


def reduce_twice(name: str) -> OpFormula:
    """The formula Reduce(Reduce(x)), where both operators have this name. Captures what
    `join_reduces` reads.
    """
    return op[name](op[name](var("x"), rest("first"), _as="inner"), rest("second"), _as="outer")


def join_reduces(m: Match, new: Tape) -> Result:
    """A single Reduce in place of Reduce(Reduce(x)). Refuses if one Reduce cannot compute the same
    integers or the same shape. Refuses all floating-point numbers.
    """
    # The order of the elements does not change the result for integers, because they wrap around.
    # It does for floating-point numbers: in some orders, some runtimes even lose a NaN.
    if m.x.require_type().kind not in "iu":
        refuse("the order of the reductions matters for floating-point numbers")
    rank = m.x.require_rank()
    first = reduced_axes(m.inner, rank)
    is_kept = bool(m.inner.attr("keepdims"))
    remaining = [axis for axis in range(rank) if is_kept or axis not in first]
    second = [remaining[axis] for axis in reduced_axes(m.outer, len(remaining))]
    keeps = bool(m.outer.attr("keepdims"))
    if is_kept != keeps and not (is_kept and set(first) <= set(second)):
        refuse("only one of the two Reduces has keepdims")
    axes = sorted({*first, *second})
    if not axes:
        refuse("the Reduces reduce no axis")
    return new_reduce(new, m.outer.op, m.x, axes, keepdims=keeps, like=m.outer)


def reduce_once(names: Sequence[str] = _KEEPING_ONE_ELEMENT) -> OpFormula:
    """The formula of a Reduce operator with one of these names. Captures what `reduces_nothing` and
    `drop_reduce` read.
    """
    return op[tuple(names)](var("x"), rest("axes"), _as="reduce")


def reduces_nothing(m: Match) -> bool:
    """Whether all axes that m.reduce reduces are known to have size 1."""
    # Read the shape only once: if shape inference runs again, the shape may become unknown.
    shape = m.x.shape
    axes = None if shape is None else known_axes(m.reduce, len(shape))
    return axes is not None and all(shape[axis] == 1 for axis in axes)


def drop_reduce(m: Match, new: Tape) -> Result:
    """m.x in place of a Reduce whose axes all have size 1. If the Reduce lacks keepdims, x is
    squeezed.
    """
    axes = reduced_axes(m.reduce, m.x.rank)
    if m.reduce.attr("keepdims") or not axes:
        return m.x
    return new_unsqueeze(new, m.x, axes, "Squeeze")


def new_reduce(
    new: Tape,
    name: str,
    x: Edge,
    axes: Sequence[int],
    *,
    keepdims: bool = True,
    like: Node | None = None,
) -> Edge:
    """A new Reduce operator. The axes are an attribute or an input, depending on the graph's
    opset.
    """
    if new.graph.opset < (13 if name == "ReduceSum" else 18):
        return new.node(name, [x], like=like, axes=list(axes), keepdims=int(keepdims))
    return new.node(
        name, [x, new.const(np.array(axes, np.int64))], like=like, keepdims=int(keepdims)
    )
