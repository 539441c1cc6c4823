from fusionc.passes._shared.constant_arithmetic import require_attribute, single_number
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, const, either, op, refuse, var
from fusionc.rewrite.pattern import Formula

x = var("x")
alpha = const("alpha")


def _exp_minus_one(power: Formula) -> Formula:
    """alpha · (Exp − 1) with a constant alpha, or Exp − 1."""
    less_one = either(power - 1.0, power + -1.0)
    return either(less_one * alpha, less_one)


_ELU = _exp_minus_one(op.Exp(x))
_CELU = op.Mul(
    either(op.Exp(x / const("divisor")) - 1.0, op.Exp(x / const("divisor")) + -1.0), alpha
)


def _number(m: Match, name: str) -> float:
    number = single_number(getattr(m, name), m.x)
    require_attribute(number, m.x)
    return number


def _elu_min(m: Match, new: Tape) -> Result:
    if not _number(m, "alpha") > 0:  # otherwise Min may replace a positive number by 0
        refuse("alpha is not positive")
    return new.Elu(m.x, alpha=_number(m, "alpha"))


def _selu(m: Match, new: Tape) -> Result:
    gamma = _number(m, "gamma")
    # onnxruntime computes Selu's negative part as min(0, product), which needs alpha > 0.
    if not m.elu.attr("alpha") > 0:
        refuse("alpha is not positive")
    return new.Selu(m.x, alpha=m.elu.attr("alpha"), gamma=gamma)


def _celu(m: Match, new: Tape) -> Result:
    alpha_number = _number(m, "alpha")
    if alpha_number <= 0 or _number(m, "divisor") != alpha_number:
        refuse("alpha is not the same positive number in both places")
    return new.Celu(m.x, alpha=alpha_number)


class EluSeluCeluFusionPass(Pass):
    """Exponential linear units that are written out become Elu, Selu and Celu.

    before   Elu: Where(x > 0, x, a · (Exp(x) − 1)), also with ≥, or with < or ≤ and exchanged
             branches; Relu(x) + Min(0, a · (Exp(x) − 1)). Selu: Elu(x) · c. Celu: Relu(x) + Min(0,
             a · (Exp(x / a) − 1))
    after    Elu(x) with alpha = a; Selu(x) with gamma = c; Celu(x) with alpha = a
    refuses  constants that are not single numbers, or may enlarge x; in forms with Min and for
             Selu, an alpha that is not positive; for Celu, two different numbers a; for doubles,
             numbers that float32 cannot hold
    algebra  the definitions of Elu, Selu and Celu; at x = 0 both branches of Where are 0
    source   CANN's Elu, Selu and Celu fusion passes
    """

    numerics = "rounding"
    patterns = (
        Pattern(
            "Elu",
            either(
                op.Where(op["Greater", "GreaterOrEqual"](x, 0.0), x, _ELU),
                op.Where(op["Less", "LessOrEqual"](x, 0.0), _ELU, x),
            ),
        ),
        Pattern("EluMin", op.Relu(x) + op.Min(_ELU, 0.0), _elu_min),
        Pattern("Selu", op.Elu(x, _as="elu") * const("gamma"), _selu),
        Pattern("Celu", op.Relu(x) + op.Min(_CELU, 0.0), _celu),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        return new.Elu(m.x, alpha=_number(m, "alpha"))
