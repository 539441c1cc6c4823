"""Activations that onnxruntime's FusedConv applies itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from fusionc.model.graph import Node
from fusionc.rewrite import op, rest
from fusionc.rewrite.pattern import Formula

_OF_CONV = ("Relu", "LeakyRelu", "Sigmoid", "Tanh", "HardSigmoid")
_PARAMETERS = {"LeakyRelu": ("alpha",), "HardSigmoid": ("alpha", "beta")}
_LIMIT = float(np.finfo(np.float32).max)


def activated(value: Formula) -> Formula:
    """An activation of the value that FusedConv can apply, captured as `activation`."""
    return op[_OF_CONV](value, _as="activation")


def clipped(value: Formula) -> Formula:
    """A Clip of the value, captured as `activation`."""
    return op.Clip(value, rest("bounds"), _as="activation")


def activation_attributes(activation: Node) -> dict[str, Any]:
    """The attributes of FusedConv for this activation. Refuses bounds that the model computes."""
    if activation.op == "Clip":
        parameters = _clip_bounds(activation)
    else:
        parameters = [float(activation.attr(name)) for name in _PARAMETERS.get(activation.op, ())]
    return {"activation": activation.op, "activation_params": parameters or None}


def _clip_bounds(clip: Node) -> list[float]:
    if clip.graph.opset < 11:
        return [clip.attr("min", -_LIMIT), clip.attr("max", _LIMIT)]
    bounds = []
    for at, missing in ((1, -_LIMIT), (2, _LIMIT)):
        bound = clip.inputs[at] if at < len(clip.inputs) else None
        bounds.append(missing if bound is None else float(bound.require_number("the bound")))
    return bounds
