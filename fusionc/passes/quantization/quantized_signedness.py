from fusionc.passes.quantization._change_of_signedness import change, matches
from fusionc.rewrite import Match, Pattern, Result, Tape, UBFusionPass


class QuantizedSignednessPass(UBFusionPass):
    """Quantized values become uint8, and weights int8: products are fast in that form alone.

    before   values in int8 with zero point z, between the operators that know it: QuantizeLinear,
             DequantizeLinear, QLinearConv, QLinearMatMul, MatMulInteger, ConvInteger, QGemm, …;
             constant weights in uint8
    after    the same values plus 128 in uint8 with zero point z + 128; weights minus 128 in int8;
             for ConvInteger, which has its operands the other way round, data in int8 and weights
             in uint8; Cast, Add and Cast for an input of the model
    refuses  integers that are outputs of the model, that a subgraph reads, or that an operator
             without a zero point makes or reads; zero points that the model computes; one
             region of a network if another one must stay that an operator wants of the same type;
             without VNNI, weights of int8 with which a sum may saturate in 16 bits; processors
             other than x86-64; other targets
    algebra  sat(round(x/s) + z) in the range of int8, plus 128, is sat(round(x/s) + z + 128) in that
             of uint8; (q + 128) − (z + 128) = q − z
    source   microsoft/onnxruntime 6732 and 12854, where maintainers name signed values as the cause
             of slow models; the types were measured (operators/signedness.py)
    """

    changes_whole_groups = True
    patterns = (Pattern("QuantizedSignedness", find=lambda graph: matches(graph, is_exact=True)),)

    def rewrite(self, m: Match, new: Tape) -> Result:
        return change(m, new)
