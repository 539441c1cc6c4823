from fusionc.model.operators import drops_nothing
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, op, refuse, rest, var


class DropOutPass(Pass):
    """Dropout that drops nothing becomes its input.

    before   Dropout(x, ratio?, training_mode?) with an unused mask
    after    x
    refuses  a Dropout whose training mode is on, or is unknown before the model runs, unless its
             ratio is known to be 0; a mask that is used; opset below 7 without is_test
    algebra  if training mode is off, Dropout is the identity for any ratio. In training mode with a
             ratio of 0, it is the identity, too: it drops nothing and divides by 1 (ONNX, Dropout 7
             to 22)
    source   CANN's DropOutPass
    """

    patterns = (Pattern("DropOut", op.Dropout(var("x"), rest("options"), _as="dropout")),)

    def rewrite(self, m: Match, new: Tape) -> Result:
        if not drops_nothing(m.dropout):
            refuse("training mode drops elements")
        return m.x
