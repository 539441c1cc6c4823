from fusionc.model.operators import MICROSOFT
from fusionc.rewrite import Match, Pattern, Result, Tape, UBFusionPass, either, op, var

gate = var("gate")
up = var("up")
_SIGMOID = op.Sigmoid(gate)


class InferenceSwigluFusionPass(UBFusionPass):
    """SwiGLU becomes onnxruntime's QuickGelu and a Mul.

    before   gate · Sigmoid(gate) · up, with the factors in any order; gate and up may be the halves
             of a Split, or two products
    after    com.microsoft.QuickGelu(gate) · up, with alpha 1
    refuses  elements other than float32, for which no kernel exists
    algebra  multiplication is associative; gate and up may be any values
    source   MindSpore's inference_swiglu_fusion
    """

    numerics = "rounding"
    aliases = ("inference_swiglu_fusion",)
    patterns = (
        Pattern(
            "Swiglu", either((gate * _SIGMOID) * up, (gate * up) * _SIGMOID, gate * (up * _SIGMOID))
        ),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        return new.Mul(new.node("QuickGelu", [m.gate], domain=MICROSOFT, alpha=1.0), m.up)
