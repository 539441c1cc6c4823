from fusionc.model.operators import is_inference_dropout
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, op, refuse, rest, var


class DropOutPass(Pass):
    """Dropout in inference becomes its input.

    before   Dropout(x, ratio?, training_mode?), the mask unused
    after    x
    refuses  training mode, also where it is decided at run time; a mask that is used; opset below 7 without is_test
    algebra  without training mode Dropout is the identity, whatever its ratio is (ONNX, Dropout 7 to 22)
    source   CANN's DropOutPass
    """

    patterns = (Pattern("DropOut", op.Dropout(var("x"), rest("options"), _as="dropout")),)

    def rewrite(self, m: Match, new: Tape) -> Result:
        if not is_inference_dropout(m.dropout):
            refuse("training mode drops elements")
        return m.x
