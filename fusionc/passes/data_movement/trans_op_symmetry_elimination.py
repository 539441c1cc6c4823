from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np

from fusionc.model.graph import Graph, Node, Shape
from fusionc.operators.facts import Trait, names_with
from fusionc.passes._shared.transpose_and_reshape import (
    axes_of,
    new_unsqueeze,
    order_of,
    reshape_reshape,
    transpose_transpose,
)
from fusionc.passes.data_movement._sunk_transposes import (
    between_transposes,
    is_same,
    of_transposes,
    sink,
)
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, op, refuse, rest, var
from fusionc.shapes.equality import same_shape

x = var("x")
_RESHAPED = op[tuple(sorted(names_with(Trait.RESHAPES)))](x, rest("options"), _as="first")


def _axes(m: Match) -> tuple[list[int], list[int]]:
    axes = axes_of(m.first), axes_of(m.second)
    if not axes[0] or not axes[1]:  # none are all or nothing, as the runtime has it
        refuse("the axes are not known before the model runs")
    return axes[0], axes[1]


def _undo(m: Match, new: Tape) -> Result:
    first, second = _axes(m)
    # Both count the axes of the larger tensor: what Unsqueeze makes, what Squeeze takes.
    if sorted(first) == sorted(second):
        return m.x
    rank = m.first.outputs[0].rank if m.first.op == "Unsqueeze" else m.x.rank
    if rank is None:
        refuse("the rank is unknown")
    if sorted(axis % rank for axis in first) != sorted(axis % rank for axis in second):
        refuse("the axes differ")
    return m.x


def _twice(m: Match, new: Tape) -> Result:
    """One Unsqueeze, or one Squeeze, for two: its axes are those of the largest tensor."""
    first, second = _axes(m)
    largest = m.x.rank if m.second.op == "Squeeze" else m.second.outputs[0].rank
    if largest is None:
        refuse("the rank is unknown")
    outer, inner, others = (
        (second, first, len(second)) if m.second.op == "Unsqueeze" else (first, second, len(first))
    )
    outer = [axis % largest for axis in outer]
    # where the axes of the tensor in between lie
    free = [axis for axis in range(largest) if axis not in outer]
    both = sorted([*outer, *(free[axis % (largest - others)] for axis in inner)])
    return new_unsqueeze(new, m.x, both, m.second.op)


def _one_reshape(m: Match, new: Tape) -> Result:
    """One Reshape, the axes of one element that come or go behind it being part of its shape."""
    target = m.shape.constant()
    axes = axes_of(m.second)
    shape = m.first.outputs[0].shape
    if target is None or target.ndim != 1 or not axes:
        refuse("the shape or the axes are not known before the model runs")
    if any(user.is_op("Expand") for user in m.second.outputs[0].outputs):
        refuse("an Expand repeats the new axis, by which attention is found")
    wanted = [int(size) for size in target]
    copied = [at for at, size in enumerate(wanted) if size == 0 and not m.first.attr("allowzero")]
    for at in copied if shape is not None else ():
        wanted[at] = shape[at] if isinstance(shape[at], int) else 0
    is_longer = m.second.op == "Unsqueeze"
    rank = len(wanted) + (len(axes) if is_longer else 0)
    places = sorted(axis % rank for axis in axes)
    if any(
        wanted[at] == 0 and at > places[0] - is_longer
        for at in copied
        if is_longer or at not in places
    ):
        refuse("the shape copies a dimension that would move")
    if is_longer:
        for at in places:
            wanted.insert(at, 1)
    else:
        if any(wanted[at] != 1 and (shape is None or shape[at] != 1) for at in places):
            refuse("an axis is not known to have one element")
        wanted = [size for at, size in enumerate(wanted) if at not in places]
    return new.Reshape(m.x, new.const(np.array(wanted, np.int64), like=m.shape), like=m.first)


def _flattened(m: Match, new: Tape) -> Result:
    """One Reshape to the matrix that Flatten makes."""
    target = [
        size if isinstance(size, int) else -1 for size in m.second.outputs[0].shape or (-1, -1)
    ]
    if 0 in target or target.count(-1) > 1:
        refuse("neither size of the matrix is known, or one is 0")
    return new.Reshape(m.x, new.const(np.array(target, np.int64)))


def transpose_of_groups(m: Match, new: Tape) -> Result:
    """Reshape(Transpose(Reshape(x))), where the first Reshape joins axes and the second one parts
    them again.
    """
    whole, joint, made = (value.shape for value in (m.x, m.turn.inputs[0], m.second.outputs[0]))
    if whole is None or joint is None or made is None:
        refuse("the ranks are unknown")
    for groups in _groups(whole, joint):
        order = [axis for group in order_of(m.turn) for axis in groups[group]]
        if same_shape(made, [whole[axis] for axis in order]):
            return new.Transpose(m.x, like=m.turn, perm=order)
    refuse("the axes are not known to be joined and parted again")


def _groups(whole: Shape, joint: Shape) -> list[list[list[int]]]:
    """The axes of the whole that each axis of the joint shape can have: one each, but for one that
    has several.
    """
    several = len(whole) - len(joint) + 1
    found = []
    for at in range(len(joint) if several > 1 else 0):
        if same_shape(joint[:at], whole[:at]) and same_shape(
            joint[at + 1 :], whole[at + several :]
        ):
            axes = list(range(len(whole)))
            found.append(
                [
                    *([a] for a in axes[:at]),
                    axes[at : at + several],
                    *([a] for a in axes[at + several :]),
                ]
            )
    return found


def _between_transposes(graph: Graph) -> Iterator[Match]:
    return between_transposes(graph, _is_exact)


def _of_transposes(graph: Graph) -> Iterator[Match]:
    return of_transposes(graph, _is_exact)


def _is_exact(nodes: Collection[Node]) -> bool:
    return all(map(is_same, nodes))


class TransOpSymmetryEliminationPass(Pass):
    """Two operators that move or reshape, one after the other, become one or none.

    before   Transpose(Transpose(x)); Reshape(Reshape(x)), and Flatten, Squeeze, Unsqueeze before a
             Reshape or Flatten, or Squeeze, Unsqueeze behind a Reshape; Squeeze(Unsqueeze(x)) and
             Unsqueeze(Squeeze(x)) of the same axes; Unsqueeze(Unsqueeze(x)), Squeeze(Squeeze(x));
             Reshape(Transpose(Reshape(x))), axes being joined, moved and parted again, as torch
             turns the keys of attention; Transpose(f(Transpose(a), …)), f(Transpose(a),
             Transpose(b), …) of one order, where f is made of elementwise arithmetic,
             QuantizeLinear and DequantizeLinear
    after    Transpose(x) or x; Reshape(x); x; Unsqueeze(x), Squeeze(x); Transpose(x); f(a, …),
             Transpose(f(a, b, …))
    refuses  a Reshape to a shape that may copy dimensions (0) that x has not at that place; a
             Flatten to a matrix of which neither size is known, or one is 0; other axes; axes that
             are not known to be joined and parted again, or to have one element; what an Expand
             repeats, by which attention is found
    never    where the number of Transposes stays; constants of a higher rank, or large ones used
             elsewhere; blocks that are quantized each; pairs of Casts, which are CastRemovePass's;
             functions such as Log, which are TransFunctionSymmetryEliminationPass's
    algebra  permutations compose; the order of elements does not depend on shapes in between; what
             is computed element by element does not depend on where the elements lie
    source   CANN's TransOpSymmetryEliminationPass and PermutePass
    """

    aliases = ("PermutePass",)
    patterns = (
        Pattern(
            "TransposeTranspose",
            op.Transpose(op.Transpose(x, _as="first"), _as="second"),
            transpose_transpose,
        ),
        Pattern(
            "ReshapeReshape", op.Reshape(_RESHAPED, var("shape"), _as="second"), reshape_reshape
        ),
        Pattern("ReshapeFlatten", op.Flatten(_RESHAPED, _as="second"), _flattened),
        Pattern(
            "SqueezeUnsqueeze",
            op.Squeeze(op.Unsqueeze(x, rest("a"), _as="first"), rest("b"), _as="second"),
            _undo,
        ),
        Pattern(
            "UnsqueezeSqueeze",
            op.Unsqueeze(op.Squeeze(x, rest("a"), _as="first"), rest("b"), _as="second"),
            _undo,
        ),
        *(
            Pattern(
                f"{name}{name}",
                op[name](op[name](x, rest("a"), _as="first"), rest("b"), _as="second"),
                _twice,
            )
            for name in ("Unsqueeze", "Squeeze")
        ),
        *(
            Pattern(
                f"Reshape{name}",
                op[name](op.Reshape(x, var("shape"), _as="first"), rest("b"), _as="second"),
                _one_reshape,
            )
            for name in ("Unsqueeze", "Squeeze")
        ),
        Pattern(
            "ReshapeTransposeReshape",
            op.Reshape(op.Transpose(op.Reshape(x, rest("a")), _as="turn"), rest("b"), _as="second"),
            transpose_of_groups,
        ),
        Pattern(
            "TransposeElementwiseTranspose",
            rewrite=sink,
            find=_between_transposes,
            operators=("Transpose",),
        ),
        Pattern(
            "ElementwiseOfTransposes", rewrite=sink, find=_of_transposes, operators=("Transpose",)
        ),
    )
