from fusionc.exactness.signs import is_never_negative
from fusionc.model.graph import Node
from fusionc.operators.facts import Trait, names_with
from fusionc.passes._shared.constant_arithmetic import check_zeros
from fusionc.passes._shared.reduce_axes import (
    drop_reduce,
    join_reduces,
    reduce_once,
    reduce_twice,
    reduced_axes,
    reduces_nothing,
)
from fusionc.passes._shared.transpose_and_reshape import axes_of
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, not_constant, op, refuse, rest, var

x = var("x")
_REDUCES = tuple(sorted(names_with(Trait.REDUCES, Trait.FINDS_INDEX)))


def _axes_of_reduce(node: Node, rank: int | None) -> list[int]:
    if not node.op.startswith("Arg"):
        return reduced_axes(node, rank)
    if not rank:
        refuse("the rank is unknown")
    return [int(node.attr("axis")) % rank]


def _set_keepdims(m: Match, new: Tape) -> Result:
    """The Reduce with the opposite keepdims. Refuses if the axes of the Unsqueeze or Squeeze are
    not the reduced ones.
    """
    squeezed = axes_of(m.move)
    axes = _axes_of_reduce(m.reduce, m.x.rank)
    if squeezed is None:
        refuse(not_constant("the axes"))
    if not m.x.rank or sorted(axis % m.x.rank for axis in squeezed) != axes:
        refuse("the axes of the two operators differ")
    return new.node(
        m.reduce.op, m.reduce.inputs, like=m.reduce, keepdims=int(m.move.op == "Unsqueeze")
    )


def _drop_reduce(m: Match, new: Tape) -> Result:
    adds = m.reduce.op in ("ReduceSum", "ReduceMean")
    if adds and (m.x.dtype is None or m.x.dtype.kind not in "iu") and not is_never_negative(m.x):
        check_zeros(m)
    return drop_reduce(m, new)


class AReduceSumFusionPass(Pass):
    """A Reduce over axes of size 1 is removed; a Squeeze or Unsqueeze after a Reduce becomes the
    keepdims attribute of the Reduce.

    before   ReduceSum, Mean, Max, Min, Prod over axes of size 1; any Reduce, ArgMax or ArgMin with
             keepdims = 0 before an Unsqueeze of the reduced axes, or with keepdims = 1 before a
             Squeeze of the reduced axes; for integers, ReduceMax(ReduceMax(x)), and the same with
             ReduceMin, ReduceSum and ReduceProd
    after    x or Squeeze(x); the Reduce with the opposite keepdims; one Reduce over the axes of
             both
    refuses  axes that are unknown, or differ from the reduced ones; a sum or mean of a value that
             may be −0, if a later division depends on the sign of zero; two Reduces if only one has
             keepdims; two Reduces of floating-point numbers, because one Reduce would round sums in
             another order, and some runtimes lose a NaN
    algebra  the sum, mean, product or maximum of one number is that number, except for the sum or
             mean of −0, which is 0; the maximum of maxima is the maximum of all elements
    source   CANN's AReduceSumFusionPass; the passes for Reduce and Unsqueeze in onnx-optimizer and
             OnnxSlim
    """

    numerics = "rounding"
    aliases = ("AReduceMeanFusionPass",)
    patterns = (
        Pattern("ReduceNothing", reduce_once(), _drop_reduce, where=reduces_nothing, is_exact=True),
        Pattern(
            "ReduceUnsqueeze",
            op.Unsqueeze(
                op[_REDUCES](x, rest("a"), keepdims=0, _as="reduce"), rest("b"), _as="move"
            ),
            _set_keepdims,
            is_exact=True,
        ),
        Pattern(
            "ReduceSqueeze",
            op.Squeeze(op[_REDUCES](x, rest("a"), keepdims=1, _as="reduce"), rest("b"), _as="move"),
            _set_keepdims,
            is_exact=True,
        ),
        *(
            Pattern(f"{n}{n}", reduce_twice(n), join_reduces, is_exact=True)
            for n in ("ReduceMax", "ReduceMin", "ReduceSum", "ReduceProd")
        ),
    )
