from typing import Any

from fusionc.model.operators import MICROSOFT
from fusionc.operators.facts import Trait, names_with
from fusionc.rewrite import Match, Pattern, Result, Tape, UBFusionPass, maybe, op, var

a = var("a")
b = var("b")
c = var("c")
_ACTIVATIONS = op[tuple(sorted(names_with(Trait.JOINS_GEMM)))]
_PARAMETERS = {"LeakyRelu": ("alpha",), "Elu": ("alpha",), "HardSigmoid": ("alpha", "beta")}


class ATbeMatMulElemwiseFusionPass(UBFusionPass):
    """A matrix product and its activation become onnxruntime's FusedGemm.

    before   f(Gemm(a, b, c?)) or f(MatMul(a, b)) of rank 2, with f one of Relu, LeakyRelu, Sigmoid,
             Tanh, HardSigmoid, Elu, Softplus, Softsign
    after    com.microsoft.FusedGemm(a, b, c?) with activation f
    refuses  ranks other than 2; element types for which onnxruntime lacks a kernel (it computes
             float16 in float32); opset below 7, which has another form of Gemm
    algebra  the kernel applies f to each result while it is still in the cache
    source   CANN's ATbeMatMulElemwiseFusionPass; MindSpore's matmul_elemwise_fusion; onnxruntime's
             GemmActivationFusion creates the same node when it loads a model
    """

    numerics = "rounding"
    aliases = (
        "matmul_elemwise_fusion",
        "ATbeMatmulElemwiseFusionPass",
        "TbeBatchMatmulElementWiseFusionPass",
        "TbeFullyconnectionElemwiseDequantFusionPass",
        "MatmulGeneralizedUbFusion",
    )
    patterns = (
        Pattern(
            "GemmActivation", _ACTIVATIONS(op.Gemm(a, b, maybe(c), _as="product"), _as="activation")
        ),
        Pattern("MatMulActivation", _ACTIVATIONS(op.MatMul(a, b, _as="product"), _as="activation")),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        m.require_opset(7, "Gemm does not broadcast")
        m.a.require_rank(2)
        m.b.require_rank(2)
        kind = m.activation.op
        inputs = [m.a, m.b, m.c]
        parameters: dict[str, Any] = {
            f"activation_{name}": float(m.activation.attr(name))
            for name in _PARAMETERS.get(kind, ())
        }
        return new.node(
            "FusedGemm", inputs, domain=MICROSOFT, like=m.product, activation=kind, **parameters
        )
