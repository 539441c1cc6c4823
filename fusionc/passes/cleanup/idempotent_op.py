from fusionc.operators.facts import Trait, names_with
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, op, var
from fusionc.rewrite.pattern import OpFormula

x = var("x")


def _twice(name: str) -> OpFormula:
    return op[name](op[name](x))


def _once(m: Match, new: Tape) -> Result:
    return new.node(m.nodes[0].op, [m.x], like=m.nodes[0])


class IdempotentOpPass(Pass):
    """An operator that is applied twice in a row is applied once, or not at all.

    before   Relu(Relu(x)), and the same with Abs, Ceil, Floor, Round and Sign; Neg(Neg(x)), and the
             same with Not and BitwiseNot
    after    Relu(x), and so on; x
    refuses  only what every pass refuses
    never    Clip(Clip(x)), which ClipFusionPass joins; Reciprocal(Reciprocal(x)), which is not
             exact
    algebra  f(f(x)) = f(x) for projections; f(f(x)) = x for involutions, bit by bit
    source   onnx-optimizer's passes for consecutive idempotent operators
    """

    patterns = (
        *(
            Pattern(f"{name}{name}", _twice(name), _once)
            for name in sorted(names_with(Trait.IDEMPOTENT))
        ),
        *(Pattern(f"{name}{name}", _twice(name)) for name in sorted(names_with(Trait.INVOLUTION))),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        return m.x
