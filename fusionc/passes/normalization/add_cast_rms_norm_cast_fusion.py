from itertools import chain

import numpy as np
from onnx import TensorProto

from fusionc.model.graph import Edge
from fusionc.passes._shared.skip_norms import (
    SUM,
    epsilon_of_last,
    gamma,
    joined,
    patterns_of,
    rms_norm,
)
from fusionc.passes._shared.written_norms import root_mean_square
from fusionc.rewrite import Match, Result, Tape, UBFusionPass, op, refuse

_WIDE = op.Cast(SUM, to=TensorProto.FLOAT)


def _narrow(value: Edge, new: Tape) -> Edge:
    """The scale `value` in float16. Refuses a scale that would be rounded."""
    array = value.constant()
    node = value.producer
    if value.elem_type == TensorProto.FLOAT16:
        return value
    if array is not None and np.array_equal(array.astype(np.float16), array):
        return new.const(array, dtype=np.float16, like=value)
    if array is None and node is not None and node.is_op("Cast"):
        source = node.inputs[0]
        if source is not None and source.elem_type == TensorProto.FLOAT16:
            return source
    refuse("float16 is not known to represent the scale exactly")


def _becomes_float32(m: Match) -> bool:
    """Whether a Cast to float32 reads the normalization, directly or after a Reshape or Flatten."""
    value: Edge = m.outputs[0]
    shaped = [user.outputs[0] for user in value.outputs if user.is_op("Reshape", "Flatten")]
    casts = chain.from_iterable(reader.outputs for reader in filter(None, (value, *shaped)))
    return any(user.is_op("Cast") and user.attr("to") == TensorProto.FLOAT for user in casts)


class AddCastRmsNormCastFusionPass(UBFusionPass):
    """A sum in float16 and its normalization in float32 become onnxruntime's
    SkipSimplifiedLayerNormalization.

    before   Cast(RMSNormalization(Cast(x + y), scale)) back to float16, with the scale applied
             before or after the last Cast; or RMSNormalization(x + y, scale) in float16 that is
             then cast to float32, directly or after a Reshape. Below opset 23, the normalization is
             written out as several operators
    after    com.microsoft.SkipSimplifiedLayerNormalization(x, y, scale) in float16, which computes
             in float32 internally. If the sum has other users, it is the fourth output
    refuses  everything that AddRmsNormFusionPass refuses; elements other than float16; a scale that
             float16 is not known to represent exactly
    never    off by default, because the operator takes longer (AddRmsNormFusionPass)
    algebra  the definition of the operator, which normalizes the sum before the sum is rounded to
             float16
    source   MindSpore's add_cast_rms_norm_cast_fusion; TorchAir's npu_add_rms_norm_cast
    """

    numerics = "rounding"
    default = "off"
    aliases = ("add_cast_rms_norm_cast_fusion", "npu_add_rms_norm_cast")
    is_pattern_fusion = True
    patterns = (
        *patterns_of("AddCastRmsNormCast", op.Cast(rms_norm(_WIDE), to=TensorProto.FLOAT16)),
        *patterns_of(
            "AddCastRmsNormCastScale",
            op.Cast(root_mean_square(_WIDE), to=TensorProto.FLOAT16) * gamma,
        ),
        *patterns_of("AddRmsNormCast", rms_norm(SUM), SUM, _becomes_float32),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        scale = _narrow(m.gamma, new)
        epsilon = epsilon_of_last(m)
        return joined(m, new, "SkipSimplifiedLayerNormalization", [scale], epsilon)
