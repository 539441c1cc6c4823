import numpy as np

from fusionc.model.graph import Node
from fusionc.model.operators import MICROSOFT
from fusionc.rewrite import Match, Pattern, Result, Tape, UBFusionPass, maybe, op, refuse, rest, var

_CONV = op.Conv(var("x"), var("W"), maybe(var("B")), _as="conv")
_PARAMETERS = {"LeakyRelu": ("alpha",), "HardSigmoid": ("alpha", "beta")}
_LIMIT = float(np.finfo(np.float32).max)


def _clip_bounds(clip: Node, opset: int) -> list[float]:
    if opset < 11:
        return [clip.attr("min", -_LIMIT), clip.attr("max", _LIMIT)]
    bounds = []
    for at, missing in ((1, -_LIMIT), (2, _LIMIT)):
        given = clip.inputs[at] if at < len(clip.inputs) else None
        array = None if given is None else given.constant()
        if given is not None and array is None:
            refuse("the bounds are not known before the model runs")
        bounds.append(missing if array is None else float(array.item()))
    return bounds


class TbeConvElemwiseFusionPass(UBFusionPass):
    """A convolution and its activation become onnxruntime's FusedConv.

    before   f(Conv(x, W, B?)) with f one of Relu, LeakyRelu, Sigmoid, Tanh, HardSigmoid, Clip
    after    com.microsoft.FusedConv(x, W, B?) with that activation
    refuses  elements other than float32 (there is no kernel); bounds of Clip that the model computes
    algebra  the kernel applies f to each result while it is still in the cache
    source   CANN's TbeConvElemwiseFusionPass; onnxruntime's ConvActivationFusion makes the same node at load
    """

    numerics = "rounding"
    aliases = ("TbeConv2DReluv2Pass", "ConvClipByValueFusionPass")
    patterns = (
        Pattern("ConvActivation", op["Relu", "LeakyRelu", "Sigmoid", "Tanh", "HardSigmoid"](_CONV, _as="activation")),
        Pattern("ConvClip", op.Clip(_CONV, rest("bounds"), _as="activation")),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        kind = m.activation.op
        if kind == "Clip":
            parameters = _clip_bounds(m.activation, m.opset)
        else:
            parameters = [float(m.activation.attr(name)) for name in _PARAMETERS.get(kind, ())]
        return new.node(
            "FusedConv", [m.x, m.W, m.B], domain=MICROSOFT, like=m.conv,
            activation=kind, activation_params=parameters or None,
        )  # fmt: skip
