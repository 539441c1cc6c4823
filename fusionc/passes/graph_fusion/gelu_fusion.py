import math

from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, either, op, var
from fusionc.rewrite.pattern import Formula

x = var("x")
_CUBIC = 0.044715
_SLOPE = math.sqrt(2 / math.pi)


def _half(value: Formula) -> Formula:
    return either(value * 0.5, value / 2.0)


def _half_product(value: Formula) -> Formula:
    """x · value / 2, associated in any way."""
    return either(_half(x) * value, _half(x * value), x * _half(value))


_ERF = op.Erf(either(x / math.sqrt(2), x * math.sqrt(0.5)))
_CUBE = either(x**3.0, x * (x * x), x * (x**2.0))
_CUBIC_TERM = either(_CUBE * _CUBIC, (x * _CUBIC) * (x * x), x * ((x * x) * _CUBIC), x * (x * (x * _CUBIC)))
_SQUARE_TERM = either((x * x) * _CUBIC, (x**2.0) * _CUBIC, x * (x * _CUBIC))
_INNER = either(
    (x + _CUBIC_TERM) * _SLOPE,
    (x * _SLOPE) * (_SQUARE_TERM + 1.0),
    x * ((_SQUARE_TERM + 1.0) * _SLOPE),
    (x * (_SQUARE_TERM + 1.0)) * _SLOPE,
)


def _tanh(m: Match, new: Tape) -> Result:
    return new.Gelu(m.x, approximate="tanh")


class GeluFusionPass(Pass):
    """GELU that is written out becomes Gelu.

    before   x · (1 + Erf(x / √2)) / 2 associated in any way, x · (Erf(x / √2) / 2 + 1/2);
             x · (1 + Tanh(√(2/π) · (x + 0.044715 x³))) / 2, with x³ as Pow or Mul, x factored out or not
    after    Gelu(x); Gelu(x), approximate tanh
    refuses  opset below 20
    algebra  the definition of Gelu
    source   CANN's GeluFusionPass; onnxruntime finds the first at load, of the second none
    """

    numerics = "rounding"
    patterns = (
        Pattern("Gelu", either(_half_product(_ERF + 1.0), x * (_half(_ERF) + 0.5))),
        Pattern("GeluTanh", either(_half_product(op.Tanh(_INNER) + 1.0), x * (_half(op.Tanh(_INNER)) + 0.5)), _tanh),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        return new.Gelu(m.x)
