from fusionc.passes.quantization._change_of_signedness import change, matches
from fusionc.rewrite import Match, Pattern, Result, Tape, UBFusionPass


class QuantizedSumSignednessPass(UBFusionPass):
    """QuantizedSignednessPass for networks with QLinearAdd and QLinearMul, which may round otherwise.

    before   values in int8 between operators that know their zero point, QLinearAdd or QLinearMul
             among them
    after    the same values plus 128 in uint8
    refuses  what QuantizedSignednessPass refuses
    algebra  (a − z)·s + (b − y)·t in another order of the zero points: onnxruntime 1.32 gives the
             next integer in 3 to 5 of a million cases
    source   as QuantizedSignednessPass; residual networks of quantize_static in the QOperator format
    """

    numerics = "rounding"
    changes_whole_groups = True
    patterns = (
        Pattern("QuantizedSumSignedness", find=lambda graph: matches(graph, is_exact=False)),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        return change(m, new)
