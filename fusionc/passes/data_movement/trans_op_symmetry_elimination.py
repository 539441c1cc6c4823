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
    joined_transposes,
    sink,
)
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, not_constant, op, refuse, rest, var
from fusionc.shapes.equality import same_shape

x = var("x")
_RESHAPED = op[tuple(sorted(names_with(Trait.RESHAPES)))](x, rest("options"), _as="first")
_COPY = None  # a size that Reshape copies from its input; it is written as 0
_MOVED_COPY = "the shape copies a dimension that would move"


def _axes(m: Match) -> tuple[list[int], list[int]]:
    axes = axes_of(m.first), axes_of(m.second)
    if not axes[0] or not axes[1]:  # runtimes differ on an empty list: all axes or none
        refuse(not_constant("the axes"))
    return axes[0], axes[1]


def _undo(m: Match, new: Tape) -> Result:
    first, second = _axes(m)
    # Both operators count the axes of the larger tensor, which is the output of the Unsqueeze and
    # the input of the Squeeze.
    if sorted(first) == sorted(second):
        return m.x
    rank = (m.first.outputs[0] if m.first.op == "Unsqueeze" else m.x).require_rank()
    if sorted(axis % rank for axis in first) != sorted(axis % rank for axis in second):
        refuse("the axes of the two operators differ")
    return m.x


def _twice(m: Match, new: Tape) -> Result:
    """One Unsqueeze or Squeeze instead of two. The axes of the new operator count those of the
    largest tensor.
    """
    first, second = _axes(m)
    largest = (m.x if m.second.op == "Squeeze" else m.second.outputs[0]).require_rank()
    is_unsqueeze = m.second.op == "Unsqueeze"
    outer = [axis % largest for axis in (second if is_unsqueeze else first)]
    inner = first if is_unsqueeze else second
    middle = [axis for axis in range(largest) if axis not in outer]  # axes of the middle tensor
    axes = sorted([*outer, *(middle[axis % (largest - len(outer))] for axis in inner)])
    return new_unsqueeze(new, m.x, axes, m.second.op)


def _unsqueezed_reshape(m: Match, new: Tape) -> Result:
    """One Reshape, with the axes of the Unsqueeze added to its shape."""
    sizes, axes = _written_sizes(m)
    positions = sorted(axis % (len(sizes) + len(axes)) for axis in axes)
    if any(size == _COPY and index >= positions[0] for index, size in enumerate(sizes)):
        refuse(_MOVED_COPY)
    for position in positions:
        sizes.insert(position, 1)
    return _reshape(m, new, sizes)


def _squeezed_reshape(m: Match, new: Tape) -> Result:
    """One Reshape, with the axes of the Squeeze removed from its shape."""
    sizes, axes = _written_sizes(m)
    positions = sorted(axis % len(sizes) for axis in axes)
    kept = [index for index in range(len(sizes)) if index not in positions]
    if any(sizes[index] == _COPY and index > positions[0] for index in kept):
        refuse(_MOVED_COPY)
    shape = m.first.outputs[0].shape
    if any(sizes[index] != 1 and (shape is None or shape[index] != 1) for index in positions):
        refuse("an axis is not known to have one element")
    return _reshape(m, new, [sizes[index] for index in kept])


def _written_sizes(m: Match) -> tuple[list[int | None], list[int]]:
    """The sizes in the shape of the Reshape, and the axes of the second node.

    A size that the Reshape copies from x is replaced by its number if it is known, else by _COPY.
    """
    target = m.shape.require_constant("the shape")
    if target.ndim != 1:
        refuse("the shape is not a vector")
    axes = axes_of(m.second)
    if not axes:
        refuse(not_constant("the axes"))
    if any(user.is_op("Expand") for user in m.second.outputs[0].outputs):
        refuse("an Expand repeats the new axis, which identifies attention")
    sizes: list[int | None] = [int(size) for size in target]
    if not m.first.attr("allowzero"):
        shape = m.first.outputs[0].shape or (None,) * len(sizes)
        sizes = [
            _copied(own) if size == 0 else size for size, own in zip(sizes, shape, strict=False)
        ]
    return sizes, axes


def _copied(size: int | str | None) -> int | None:
    return size if isinstance(size, int) and size else _COPY


def _reshape(m: Match, new: Tape, sizes: list[int | None]) -> Result:
    target = np.array([0 if size is _COPY else size for size in sizes], np.int64)
    return new.Reshape(m.x, new.const(target, like=m.shape), like=m.first)


def _flattened(m: Match, new: Tape) -> Result:
    """One Reshape to the matrix that Flatten returns."""
    target = [
        size if isinstance(size, int) else -1 for size in m.second.outputs[0].shape or (-1, -1)
    ]
    if 0 in target or target.count(-1) > 1:
        refuse("both sizes of the matrix are unknown, or one is 0")
    return new.Reshape(m.x, new.const(np.array(target, np.int64)))


def transpose_of_groups(m: Match, new: Tape) -> Result:
    """Reshape(Transpose(Reshape(x))) as one Transpose, if the first Reshape joins axes and the
    second one splits them again.
    """
    whole, joined, result = (value.shape for value in (m.x, m.turn.inputs[0], m.second.outputs[0]))
    if whole is None or joined is None or result is None:
        refuse("the ranks are unknown")
    for groups in _groups(whole, joined):
        order = [axis for group in order_of(m.turn) for axis in groups[group]]
        if same_shape(result, [whole[axis] for axis in order]):
            return new.Transpose(m.x, like=m.turn, perm=order)
    refuse("the axes are not known to be joined and split again")


def _groups(whole: Shape, joined: Shape) -> list[list[list[int]]]:
    """All ways in which a Reshape may join axes of `whole` to `joined`: one axis of `joined` gets
    several neighbouring axes of `whole`, and each other axis gets one.
    """
    group_size = len(whole) - len(joined) + 1
    axes = [[axis] for axis in range(len(whole))]
    assignments = []
    for index in range(len(joined) if group_size > 1 else 0):
        end = index + group_size
        if same_shape(joined[:index], whole[:index]) and same_shape(
            joined[index + 1 :], whole[end:]
        ):
            assignments.append([*axes[:index], list(range(index, end)), *axes[end:]])
    return assignments


def _joined_transposes(graph: Graph) -> Iterator[Match]:
    return joined_transposes(graph, _is_exact)


def _is_exact(nodes: Collection[Node]) -> bool:
    return all(map(is_same, nodes))


class TransOpSymmetryEliminationPass(Pass):
    """Two operators in a row that move or reshape become one operator or disappear.

    before   Transpose(Transpose(x)); Reshape(Reshape(x)), Flatten, Squeeze or Unsqueeze before a
             Reshape or Flatten, Squeeze or Unsqueeze after a Reshape; Squeeze(Unsqueeze(x)) and
             Unsqueeze(Squeeze(x)) of the same axes; Unsqueeze(Unsqueeze(x)), Squeeze(Squeeze(x));
             Reshape(Transpose(Reshape(x))) that joins, moves and splits axes, as torch transposes
             the keys of attention; Transpose(f(Transpose(a), …)), f(Transpose(a), Transpose(b), …)
             with equal permutations, where f consists of elementwise arithmetic, QuantizeLinear and
             DequantizeLinear
    after    Transpose(x) or x; Reshape(x); x; Unsqueeze(x), Squeeze(x); Transpose(x); f(a, …),
             Transpose(f(a, b, …))
    refuses  a Reshape whose shape may copy dimensions (0) that x does not have on the same axis; a
             Flatten to a matrix if both sizes are unknown or one is 0; different axes; axes that
             are not known to be joined and split again, or to have size 1; a new axis that an
             Expand repeats, because the attention passes recognize attention by it
    never    a rewrite that would not reduce the number of Transposes; constants of a higher rank,
             or large constants that are used elsewhere; blockwise quantization; pairs of Casts,
             which CastRemovePass handles; functions such as Log, which
             TransFunctionSymmetryEliminationPass handles
    algebra  permutations compose; the order of elements does not depend on shapes in between;
             elementwise results do not depend on the positions of the elements
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
                rewrite,
            )
            for name, rewrite in (
                ("Unsqueeze", _unsqueezed_reshape),
                ("Squeeze", _squeezed_reshape),
            )
        ),
        Pattern(
            "ReshapeTransposeReshape",
            op.Reshape(op.Transpose(op.Reshape(x, rest("a")), _as="turn"), rest("b"), _as="second"),
            transpose_of_groups,
        ),
        Pattern(
            "TransposeElementwiseTranspose",
            rewrite=sink,
            find=between_transposes(_is_exact),
            operators=("Transpose",),
        ),
        Pattern(
            "ElementwiseOfTransposes",
            rewrite=sink,
            find=_joined_transposes,
            operators=("Transpose",),
        ),
    )
