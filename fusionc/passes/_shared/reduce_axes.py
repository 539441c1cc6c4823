"""Reduce operators: their axes, two of them as one, and making them anew."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fusionc.model.graph import Edge, Node
from fusionc.operators.facts import Trait, names_with
from fusionc.passes._shared.transpose_and_reshape import axes_of, new_unsqueeze
from fusionc.rewrite import Match, Result, Tape, op, refuse, rest, var
from fusionc.rewrite.pattern import OpFormula

# is that number
_OF_ONE_NUMBER = tuple(sorted(names_with(Trait.KEEPS_ONE)))


def known_axes(node: Node, rank: int) -> list[int] | None:
    """The axes that a Reduce operator reduces, counted from the front, in order; None where they
    are not known.
    """
    axes = axes_of(node)
    if axes is None and any(node.inputs[1:]):
        return None
    if not axes:
        return [] if node.attr("noop_with_empty_axes") else list(range(rank))
    return sorted(axis % rank for axis in axes) if rank else []


def reduced_axes(node: Node, rank: int | None) -> list[int]:
    """What `known_axes` tells of a Reduce operator. Refuses where that is not known before the
    model runs.
    """
    if rank is None:
        refuse("the rank is unknown")
    axes = known_axes(node, rank)
    return refuse("the axes are not known before the model runs") if axes is None else axes


def trailing_axis(node: Node, x: Edge) -> int:
    """The first axis of a Reduce operator that keeps its dimensions and reduces all axes from there
    to the last.

    Refuses other Reduce operators.
    """
    axes = reduced_axes(node, x.rank)
    rank = x.rank or 0
    if not axes or axes != list(range(axes[0], rank)):
        refuse("not the last axes are reduced")
    if not node.attr("keepdims"):
        refuse("the reduced axes are dropped")
    return axes[0]


def one_axis(node: Node, x: Edge) -> int:
    """The only axis of a Reduce operator that keeps its dimensions, as written where the rank of x
    is unknown.

    Refuses other Reduce operators.
    """
    axes = (axes_of(node) or []) if x.rank is None else reduced_axes(node, x.rank)
    if len(axes) != 1:
        refuse("not exactly one axis is reduced")
    if not node.attr("keepdims"):
        refuse("the reduced axes are dropped")
    return axes[0]


def reduce_twice(name: str) -> OpFormula:
    """The formula of a Reduce of a Reduce of the same kind, as `join_reduces` wants it."""
    return op[name](op[name](var("x"), rest("first"), _as="inner"), rest("second"), _as="outer")


def join_reduces(m: Match, new: Tape) -> Result:
    """Reduce(Reduce(x)) as one Reduce. Refuses where the order of the operations matters."""
    if m.x.dtype is None:
        refuse("the element type is unknown")
    # integers wrap around, in whichever order; runtimes lose a NaN in some orders
    if m.x.dtype.kind not in "iu":
        refuse("floating-point numbers may come out in another way")
    rank = m.x.rank
    first = reduced_axes(m.inner, rank)
    is_kept = bool(m.inner.attr("keepdims"))
    left = [axis for axis in range(rank) if is_kept or axis not in first]
    second = [left[axis] for axis in reduced_axes(m.outer, len(left))]
    keeps = bool(m.outer.attr("keepdims"))
    if is_kept != keeps and not (is_kept and set(first) <= set(second)):
        refuse("only one of them keeps its dimensions")
    axes = sorted({*first, *second})
    if not axes:
        refuse("nothing is reduced")
    return new_reduce(new, m.outer.op, m.x, axes, keepdims=keeps, like=m.outer)


def reduce_once(names: Sequence[str] = _OF_ONE_NUMBER) -> OpFormula:
    """The formula of a Reduce, as `reduces_nothing` and `without_reduce` want it."""
    return op[tuple(names)](var("x"), rest("axes"), _as="reduce")


def reduces_nothing(m: Match) -> bool:
    """Whether all axes that a Reduce reduces are known to have one element."""
    shape = m.x.shape  # once: asked again, after a new inference, it may be unknown
    axes = None if shape is None else known_axes(m.reduce, len(shape))
    return axes is not None and all(shape[axis] == 1 for axis in axes)


def without_reduce(m: Match, new: Tape) -> Result:
    """What a Reduce that reduces nothing leaves to do: at most a Squeeze."""
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
    """A Reduce operator as the opset writes it."""
    if new.graph.opset < (13 if name == "ReduceSum" else 18):
        return new.node(name, [x], like=like, axes=list(axes), keepdims=int(keepdims))
    return new.node(
        name, [x, new.const(np.array(axes, np.int64))], like=like, keepdims=int(keepdims)
    )
