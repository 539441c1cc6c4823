from fusionc.model.operators import MICROSOFT
from fusionc.passes._shared.constant_arithmetic import single_number
from fusionc.rewrite import Match, Pattern, Result, Tape, UBFusionPass, const, op, var

x = var("x")


def _swish(m: Match, new: Tape) -> Result:
    return new.node("QuickGelu", [m.x], domain=MICROSOFT, alpha=float(m.swish.attr("alpha")))


class QuickGeluFusionPass(UBFusionPass):
    """x · Sigmoid(alpha · x) becomes onnxruntime's QuickGelu.

    before   x · Sigmoid(x); x · Sigmoid(alpha · x) with a constant alpha; Swish(x)
    after    com.microsoft.QuickGelu(x) with that alpha
    refuses  an alpha that is not a single number, or may enlarge x; element types for which
             onnxruntime lacks a kernel (it computes float16 in float32)
    algebra  the definition of QuickGelu. onnxruntime computes QuickGelu also in its blocked layout
             of images, and replaces Swish by Sigmoid and Mul
    source   CANN's QuickGelu; onnxruntime's QuickGeluFusion; measured: 0.38 to 0.44 of the time
    """

    numerics = "rounding"
    patterns = (
        Pattern("SigmoidProduct", x * op.Sigmoid(x)),
        Pattern("SigmoidProductAlpha", x * op.Sigmoid(x * const("alpha"))),
        Pattern("Swish", op.Swish(x, _as="swish"), _swish),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        return new.node("QuickGelu", [m.x], domain=MICROSOFT, alpha=single_number(m.alpha, m.x))
