"""BatchNormalization in inference mode as a factor and an addend for each channel."""

from __future__ import annotations

import numpy as np

from fusionc.model.graph import Node
from fusionc.model.tensors import Array
from fusionc.rewrite import Match, const, op, refuse
from fusionc.rewrite.pattern import Formula, OpFormula


def batchnorm_of(x: Formula) -> OpFormula:
    """A BatchNormalization of x whose scale, offset, mean and variance are constants. Captures what
    `affine` reads.
    """
    return op.BatchNormalization(x, *map(const, ("scale", "offset", "mean", "variance")), _as="bn")


def affine(m: Match, channels: int | None = None) -> tuple[Array, Array]:
    """Factor and addend of each channel, in float64: bn(x) = x·factor + addend. Refuses training
    mode, and statistics that do not have exactly one number for each channel.

    If `channels` is None, the number of channels is the length of the scale.
    """
    if not _is_inference(m.bn, m.opset):
        refuse("the BatchNormalization is in training mode")
    if not m.bn.attr("spatial", 1):
        refuse("the BatchNormalization has statistics for each activation")
    scale, offset, mean, variance = (
        value.constant().astype(np.float64) for value in (m.scale, m.offset, m.mean, m.variance)
    )
    wanted = scale.shape[:1] if channels is None else (channels,)
    if any(statistic.shape != wanted for statistic in (scale, offset, mean, variance)):
        refuse("the statistics do not have exactly one number for each channel")
    factor = scale / np.sqrt(variance + m.bn.attr("epsilon"))
    return factor, offset - mean * factor


def _is_inference(bn: Node, opset: int) -> bool:
    """Whether a BatchNormalization of any opset version uses its stored statistics."""
    if opset < 7:
        return bool(bn.attr("is_test"))
    if opset < 14:  # more than one output means training mode
        return sum(output is not None for output in bn.outputs) == 1
    return not bn.attr("training_mode")
