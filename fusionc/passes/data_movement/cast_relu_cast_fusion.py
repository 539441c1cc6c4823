from onnx import TensorProto

from fusionc.operators.facts import Trait, names_with
from fusionc.passes._shared.cast_types import holds
from fusionc.passes._shared.target import FLOATS, require_kernel
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, op, refuse, rest, var

_RESHAPES = sorted(names_with(Trait.RESHAPES))
_EXACT = ("Relu", "Abs", "Neg", "Transpose", *_RESHAPES, "Expand", "Identity")


class CastReluCastFusionPass(Pass):
    """An operator between a Cast to a wider type and a Cast back computes in the narrow type.

    before   Cast(f(Cast(x, wide), …), narrow), where f is one of Relu, Abs, Neg, Transpose,
             Reshape, Squeeze, Unsqueeze, Flatten, Expand, Identity
    after    f(x, …)
    refuses  a first Cast that is not to a wider type; a last Cast to a type other than that of x;
             Relu, Abs and Neg of integers, which wrap around; element types for which the target
             lacks a kernel
    never    Casts into or out of the branches of an If (CANN's SwapMergeCastFusionPass): ONNX runs
             only one branch, so this saves nothing
    algebra  f moves numbers, changes their sign or replaces them by 0, so the narrow type holds the
             results
    source   CANN's CastReluCastFusionPass
    """

    aliases = ("SwapMergeCastFusionPass",)
    patterns = (
        Pattern(
            "CastReluCast",
            op.Cast(
                op[_EXACT](op.Cast(var("x"), _as="widen"), rest("others"), _as="node"), _as="narrow"
            ),
        ),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        narrow = m.x.elem_type
        if not narrow or m.narrow.attr("to") != narrow or not holds(m.widen.attr("to"), narrow):
            refuse("the Casts do not go to a wider type and back")
        if m.node.op in ("Relu", "Abs", "Neg") and narrow not in FLOATS:
            refuse("the elements are not floating-point numbers")
        # Without a float16 kernel, onnxruntime inserts these Casts itself.
        if narrow != TensorProto.FLOAT16:
            require_kernel(m, m.node.op)
        return new.node(m.node.op, [m.x, *m.others], like=m.node)
