from fusionc.passes._shared.written_norms import channel_vector
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, const, op, refuse, var
from fusionc.shapes.equality import same_after_reshape

x = var("x")
_GROUPS = op.InstanceNormalization(
    op.Reshape(x, var("first")), const("ones"), const("zeros"), _as="norm"
)
_BACK = op.Reshape(_GROUPS, var("second"), _as="back")


class GroupNormFusionPass(Pass):
    """Group normalization that is written as an InstanceNormalization between Reshapes becomes
    GroupNormalization.

    before   Reshape(InstanceNormalization(Reshape(x, [N, G, −1]), 1, 0), shape of x) · scale +
             offset
    after    GroupNormalization(x, scale, offset) with num_groups = G
    refuses  opset below 21, in which scale and offset have one number for each group; scale and
             offset that do not have exactly one number for each channel; an InstanceNormalization
             with a scale other than 1 or an offset other than 0; unknown shapes; a target without a
             kernel for GroupNormalization (onnxruntime replaces it by the operators of ONNX's
             definition)
    never    off by default, because ONNX's definition computes the variance as a difference of two
             squares. The result is off by 0.01 % if the mean is 100 times the deviation, and by 8 %
             if it is 1000 times the deviation
    algebra  the definition of GroupNormalization
    source   CANN's GroupNormFusionPass; torch exports group_norm in this form
    """

    numerics = "approximate"
    default = "off"
    patterns = (Pattern("GroupNorm", _BACK * const("scale") + const("offset")),)

    def rewrite(self, m: Match, new: Tape) -> Result:
        if m.opset < 21:
            refuse("before opset 21, GroupNormalization scales each group, not each channel")
        if (m.ones.constant() != 1).any() or (m.zeros.constant() != 0).any():
            refuse("the InstanceNormalization has a scale or offset of its own")
        shape = m.x.require_shape(least=2)
        inner = m.norm.inputs[0].require_shape(3)
        channels = m.x.require_size(1, "the number of channels")
        groups = m.ones.constant().size
        has_batch = inner[0] == shape[0] is not None
        are_groups = has_batch and groups > 0 and channels % groups == 0
        if not are_groups or not same_after_reshape(m.back.outputs[0].shape, shape):
            refuse("the Reshapes do not form groups of channels")
        vectors = [
            new.const(channel_vector(value, channels, len(shape)), like=value)
            for value in (m.scale, m.offset)
        ]
        return new.GroupNormalization(
            m.x, *vectors, num_groups=groups, epsilon=m.norm.attr("epsilon")
        )
