from fusionc.exactness.decisions_ahead import CANCELS, TINY, ZERO, decider_of
from fusionc.passes._shared.constant_arithmetic import require_attribute, single_number
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, const, either, op, refuse, var

x = var("x")
_POWER = op.Exp(op.Neg(x)) + 1.0


def _require_no_later_digits(m: Match) -> None:
    """Refuse if a later operator depends on digits that onnxruntime's Sigmoid lacks.

    For x below −18, onnxruntime's Sigmoid is 0, and just above −18 it has few correct digits. It
    also reaches 1 at another x than the written-out formula, which keeps all digits.
    """
    if decider := decider_of(m.outputs[0]):
        refuse(f"the result of the later {decider} depends on the last bit")
    deciders = (decider_of(m.outputs[0], kind) for kind in (ZERO, TINY, CANCELS))
    if decider := next(filter(None, deciders), ""):
        refuse(f"the later {decider} needs the digits of small numbers")


def _sigmoid(m: Match, new: Tape) -> Result:
    _require_no_later_digits(m)
    return new.Sigmoid(m.x)


def _product(m: Match, new: Tape) -> Result:
    _require_no_later_digits(m)
    return new.Mul(m.x, new.Sigmoid(m.x))


class SwishFusionPass(Pass):
    """Sigmoid that is written out becomes Sigmoid, and x · Sigmoid(x) becomes Swish.

    before   1 / (1 + Exp(−x)), Reciprocal(1 + Exp(−x)); x / (1 + Exp(−x)); x · Sigmoid(x), x ·
             Sigmoid(alpha · x)
    after    Sigmoid(x); x · Sigmoid(x); Swish(x)
    refuses  for Sigmoid: a written-out form whose result reaches a logarithm, quotient or root,
             directly or through sums, products and other functions that map 0 to 0, or reaches a
             normalization, because onnxruntime's Sigmoid is 0 for x below −18 (an added constant
             of at least 0.001, or 1e-6 for squares, hides that); a written-out form whose result
             reaches a rounding operator, because onnxruntime's Sigmoid reaches 1 at another x. For
             Swish: opset below 24; a target without a Swish kernel (onnxruntime replaces Swish by
             Sigmoid and Mul); an alpha that may enlarge x; for doubles, an alpha that float32
             cannot hold
    algebra  the definitions of Sigmoid and Swish; if Exp overflows, the written-out form and the
             operator both return 0
    source   CANN's SwishFusionPass
    """

    numerics = "rounding"
    patterns = (
        Pattern("Sigmoid", either(1.0 / _POWER, op.Reciprocal(_POWER)), _sigmoid),
        Pattern("SigmoidProduct", x / _POWER, _product),
        Pattern("Swish", x * op.Sigmoid(x)),
        Pattern("SwishAlpha", x * op.Sigmoid(x * const("alpha"))),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        alpha = single_number(m.alpha, m.x)
        require_attribute(alpha, m.x)
        return new.Swish(m.x, alpha=alpha)
