from fusionc.model.operators import MICROSOFT
from fusionc.passes.convolution._fused_activation import activated, activation_attributes, clipped
from fusionc.rewrite import Match, Pattern, Result, Tape, UBFusionPass, maybe, op, var

_CONV = op.Conv(var("x"), var("W"), maybe(var("B")), _as="conv")


class TbeConvElemwiseFusionPass(UBFusionPass):
    """A Conv and its activation become onnxruntime's FusedConv.

    before   f(Conv(x, W, B?)) with f one of Relu, LeakyRelu, Sigmoid, Tanh, HardSigmoid, Clip
    after    com.microsoft.FusedConv(x, W, B?) with activation f
    refuses  elements other than float32, for which no kernel exists; bounds of Clip that are not
             constant
    algebra  the kernel applies f to each result while it is still in the cache
    source   CANN's TbeConvElemwiseFusionPass; onnxruntime's ConvActivationFusion creates the same
             node when it loads a model
    """

    numerics = "rounding"
    aliases = (
        "TbeConv2DReluv2Pass",
        "ConvClipByValueFusionPass",
        "TbeDepthwiseConvElemwiseFusionPass",
        "TbeConv3dElemwisePass",
    )
    patterns = (
        Pattern("ConvActivation", activated(_CONV)),
        Pattern("ConvClip", clipped(_CONV)),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        attributes = activation_attributes(m.activation)
        return new.node("FusedConv", [m.x, m.W, m.B], domain=MICROSOFT, like=m.conv, **attributes)
