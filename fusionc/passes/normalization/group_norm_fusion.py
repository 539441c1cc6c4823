from fusionc.passes._shared.written_norms import channel_vector
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, const, op, refuse, var
from fusionc.shapes.equality import same_after_reshape

x = var("x")
_GROUPS = op.InstanceNormalization(
    op.Reshape(x, var("first")), const("ones"), const("zeros"), _as="norm"
)
_BACK = op.Reshape(_GROUPS, var("second"), _as="back")


class GroupNormFusionPass(Pass):
    """Group normalization that is written with InstanceNormalization becomes GroupNormalization.

    before   Reshape(InstanceNormalization(Reshape(x, [N, G, −1]), 1, 0), shape of x) · scale +
             offset
    after    GroupNormalization(x, scale, offset), num_groups G
    refuses  opset below 21, in which scale and offset count for groups; scale and offset that are
             not one number for each channel; an InstanceNormalization that scales; shapes that are
             not known; a target that has no kernel (onnxruntime takes the operator apart again)
    never    by default: what onnx writes for a runtime without a kernel subtracts two squares to
             get the variance, and is off by 0.01 % where the mean is 100 times the deviation, by 8
             % where it is 1000 times
    algebra  the definition of GroupNormalization
    source   CANN's GroupNormFusionPass; how torch exports group_norm
    """

    numerics = "approximate"
    default = "off"
    patterns = (Pattern("GroupNorm", _BACK * const("scale") + const("offset")),)

    def rewrite(self, m: Match, new: Tape) -> Result:
        if m.opset < 21:
            refuse("opset below 21: its GroupNormalization scales groups")
        if (m.ones.constant() != 1).any() or (m.zeros.constant() != 0).any():
            refuse("the InstanceNormalization scales")
        shape = m.x.shape
        inner = m.norm.inputs[0].shape
        if (
            shape is None
            or inner is None
            or len(shape) < 2
            or len(inner) != 3
            or not isinstance(shape[1], int)
        ):
            refuse("the shapes are not known")
        groups = m.ones.constant().size
        rest_is_one_group = (
            inner[0] == shape[0] is not None and groups > 0 and shape[1] % groups == 0
        )
        if not rest_is_one_group or not same_after_reshape(m.back.outputs[0].shape, shape):
            refuse("these are not groups of channels")
        constants = (m.scale, m.offset)
        vectors = [
            new.const(channel_vector(value, shape[1], len(shape)), like=value)
            for value in constants
        ]
        return new.GroupNormalization(
            m.x, *vectors, num_groups=groups, epsilon=m.norm.attr("epsilon")
        )
