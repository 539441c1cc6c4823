"""Attributes whose default changed in a newer opset, with the default before."""

from __future__ import annotations

from dataclasses import dataclass

from onnx import TensorProto

_UNKNOWN = TensorProto.UNDEFINED


@dataclass(frozen=True)
class ChangedDefault:
    """A node of this operator that lacks the attribute meant `before` below the opset `since`."""

    op: str
    since: int
    attribute: str
    before: int | float | str
    of: tuple[
        int, ...
    ] = ()  # element types of the first two inputs for which it matters, if not all


# The axis of Softmax, LogSoftmax and Hardmax changes as well, and their meaning with it:
# target_opset writes these anew.
CHANGED_DEFAULTS = (
    # From opset 21 on it computes in float; the definition of opset 18 does so for the smaller
    # types only.
    ChangedDefault(
        "GroupNormalization", 21, "stash_type", TensorProto.DOUBLE, (TensorProto.DOUBLE,)
    ),
    # It divided float16 in float, whatever the type of the scale; from opset 23 on it does so in
    # that type.
    ChangedDefault(
        "QuantizeLinear", 23, "precision", 1, (_UNKNOWN, TensorProto.FLOAT16, TensorProto.BFLOAT16)
    ),
    ChangedDefault("Resize", 11, "coordinate_transformation_mode", "asymmetric"),
    # a Resize by then
    ChangedDefault("Upsample", 11, "coordinate_transformation_mode", "asymmetric"),
    ChangedDefault("RoiAlign", 16, "coordinate_transformation_mode", "output_half_pixel"),
    ChangedDefault("Selu", 6, "alpha", 1.6732),
    ChangedDefault("Selu", 6, "gamma", 1.0507),
)
