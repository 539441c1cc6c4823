from fusionc.passes._shared.clipping import interval_of
from fusionc.passes._shared.constant_arithmetic import require_attribute, single_number
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, const, either, op, refuse, rest, var

x = var("x")
c = const("c")
_LINE = op.Add(either(x * const("a"), x / const("d"), x), const("b"))
_CLIP = op.Clip(_LINE, rest("limits"), _as="clip")


def _number(m: Match, name: str, default: float) -> float:
    return single_number(getattr(m, name), m.x, default)


def _alpha_and_beta(m: Match) -> tuple[float, float]:
    """alpha and beta of HardSigmoid, max(0, min(1, alpha · x + beta)). Refuses if the lower limit
    is not 0, or the upper limit is not the divisor.
    """
    limits = interval_of(m.clip)
    scale = 1.0
    if m.c is not None:
        scale = _number(m, "c", 1.0)
        scale = scale if m.last.op == "Div" else 1 / scale if scale else 0.0
    if limits.low != 0 or scale <= 0 or abs(limits.high / scale - 1) > 1e-6:
        refuse("the limits are not 0 and 1")
    divisor = _number(m, "d", 1.0)
    if divisor == 0:
        refuse("division by zero")
    line = _number(m, "a", 1.0) / divisor / scale, _number(m, "b", 0.0) / scale
    for number in line:
        require_attribute(number, m.x)
    return line


def _product(m: Match, new: Tape) -> Result:
    alpha, beta = _alpha_and_beta(m)
    return new.Mul(m.x, new.HardSigmoid(m.x, alpha=alpha, beta=beta))


class HardSigmoidFusionPass(Pass):
    """A linear function between two limits becomes HardSigmoid.

    before   Clip(x + 3, 0, 6) / 6, or multiplied by 1/6; Clip(a · x + b, 0, 1); x · Clip(x + 3, 0,
             6) / 6
    after    HardSigmoid(x), for example with alpha = 1/6 and beta = 1/2; x · HardSigmoid(x)
    refuses  a lower limit other than 0; an upper limit other than the divisor; division by zero;
             constants that are not single numbers or may enlarge x; for doubles, numbers that
             float32 cannot hold
    algebra  clip(x + b, 0, c) / c = max(0, min(1, x / c + b / c)) for c > 0
    source   CANN's HardSigmoidFusionPass; onnxruntime fuses HardSigmoid into the Conv before it,
             but not Add and Clip
    """

    numerics = "rounding"
    patterns = (
        Pattern(
            "HardSigmoidProduct",
            either(op.Div(x * _CLIP, c, _as="last"), op.Mul(x * _CLIP, c, _as="last")),
            _product,
        ),
        Pattern(
            "HardSigmoidScaled", either(op.Div(_CLIP, c, _as="last"), op.Mul(_CLIP, c, _as="last"))
        ),
        Pattern("HardSigmoid", _CLIP),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        alpha, beta = _alpha_and_beta(m)
        return new.HardSigmoid(m.x, alpha=alpha, beta=beta)
