"""Attributes whose default value changed in a newer opset, and their old defaults."""

from __future__ import annotations

from dataclasses import dataclass

from onnx import TensorProto

_UNKNOWN = TensorProto.UNDEFINED


@dataclass(frozen=True)
class ChangedDefault:
    """Below the opset `since`, a node without the attribute used the default `before`."""

    op: str
    since: int
    attribute: str
    before: int | float | str
    # the element types of the first two inputs for which the change matters; all types if empty
    of: tuple[int, ...] = ()


# The default axis of Softmax, LogSoftmax and Hardmax changed, too. They are not in this table,
# because the meaning of the axis also changed: the room `target_opset` rewrites these nodes.
CHANGED_DEFAULTS = (
    # From opset 21 on, GroupNormalization computes in float32. By the definition of opset 18, only
    # types smaller than float32 do.
    ChangedDefault(
        "GroupNormalization", 21, "stash_type", TensorProto.DOUBLE, (TensorProto.DOUBLE,)
    ),
    # Before opset 23, QuantizeLinear divided float16 in float32, whatever the type of the scale.
    # From opset 23 on, it divides in the type of the scale.
    ChangedDefault(
        "QuantizeLinear", 23, "precision", 1, (_UNKNOWN, TensorProto.FLOAT16, TensorProto.BFLOAT16)
    ),
    ChangedDefault("Resize", 11, "coordinate_transformation_mode", "asymmetric"),
    # From opset 11 on, an Upsample becomes a Resize.
    ChangedDefault("Upsample", 11, "coordinate_transformation_mode", "asymmetric"),
    ChangedDefault("RoiAlign", 16, "coordinate_transformation_mode", "output_half_pixel"),
    ChangedDefault("Selu", 6, "alpha", 1.6732),
    ChangedDefault("Selu", 6, "gamma", 1.0507),
)
