from fusionc.model.graph import Node
from fusionc.passes._shared.transpose_and_reshape import transposed
from fusionc.passes.convolution._windows import window_of
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, maybe, op, refuse, var
from fusionc.rewrite.pattern import Formula, OpFormula

_SWAP = [1, 0, 2, 3]


def _swapped(formula: Formula) -> OpFormula:
    return op.Transpose(formula, perm=_SWAP)


_PIECES = _swapped(op.SpaceToDepth(op.Transpose(var("x"), _as="first"), _as="apart"))
_CONV = op.Conv(_PIECES, var("W"), maybe(var("B")), _as="conv")


def _perm(node: Node) -> list[int]:
    return list(node.attr("perm") or [3, 2, 1, 0])


class SpaceToBatchConv2dBatchToSpacePass(Pass):
    """A convolution of every b-th pixel, in which the b·b possible offsets form a batch, becomes a
    dilated Conv.

    before   T(DepthToSpace(S(Conv(S(SpaceToDepth(T(x), b)), W, B?)), b)), where S is a Transpose
             that exchanges batch and channels, and T a Transpose that puts the batch where
             SpaceToDepth expects the channels
    after    Conv(x, W, B?) with dilations and pads multiplied by b; between Transposes if x has its
             channels last
    refuses  a Conv that has strides or computes its own padding; block sizes b that differ; a
             DepthToSpace with the channel order CRD
    algebra  y[b·i + r] = Σ W[k]·x[b·(i + k·d) + r] = Σ W[k]·x[(b·i + r) + k·(b·d)]; the kernel of a
             dilated Conv may sum in another order
    source   TensorFlow writes dilations in this way (SpaceToBatchND, BatchToSpaceND), and tf2onnx
             exports it; CANN's SpaceToBatchConv2dBatchToSpacePass. The Pad before these operators
             and the Slice after them stay, unless other passes fold them into the Conv
    """

    numerics = "rounding"
    patterns = (
        Pattern(
            "SpaceToBatchConv",
            op.Transpose(op.DepthToSpace(_swapped(_CONV), _as="together"), _as="last"),
        ),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        block = int(m.apart.attr("blocksize"))
        if m.together.attr("blocksize") != block:
            refuse("the block sizes differ")
        if m.together.attr("mode", "DCR") != "DCR":
            refuse("the blocks are in another order")
        window = window_of(m.conv, 2)
        if window.auto_pad:
            refuse("the Conv computes its own padding")
        if set(window.strides) != {1}:
            refuse("the Conv has strides")
        first = _perm(m.first)
        last = _perm(m.last)
        image = transposed(new, m.x, [first[axis] for axis in _SWAP])
        dilations = [d * block for d in window.dilations]
        pads = [p * block for p in window.pads]
        conv = new.Conv(image, m.W, m.B, like=m.conv, dilations=dilations, pads=pads, auto_pad=None)
        return transposed(new, conv, [_SWAP[axis] for axis in last])
