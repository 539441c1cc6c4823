"""Activations that onnxruntime's FusedConv can apply."""

from __future__ import annotations

from typing import Any

import numpy as np

from fusionc.model.graph import Node
from fusionc.operators.clip_bounds import clip_bounds
from fusionc.operators.facts import Trait, names_with
from fusionc.rewrite import op, rest
from fusionc.rewrite.pattern import Formula

# Clip is matched separately, because its bounds are inputs.
_FUSED_ACTIVATIONS = tuple(sorted(names_with(Trait.JOINS_CONV) - {"Clip"}))
_PARAMETERS = {"LeakyRelu": ("alpha",), "HardSigmoid": ("alpha", "beta")}
_LIMIT = float(np.finfo(np.float32).max)


def activated(value: Formula) -> Formula:
    """An activation of the value that FusedConv can apply, captured as `activation`."""
    return op[_FUSED_ACTIVATIONS](value, _as="activation")


def clipped(value: Formula) -> Formula:
    """A Clip of the value, captured as `activation`."""
    return op.Clip(value, rest("bounds"), _as="activation")


def activation_attributes(activation: Node) -> dict[str, Any]:
    """The attributes of a FusedConv with this activation. Refuses bounds that are not constant."""
    if activation.op == "Clip":
        parameters = _clip_bounds(activation)
    else:
        parameters = [float(activation.attr(name)) for name in _PARAMETERS.get(activation.op, ())]
    return {"activation": activation.op, "activation_params": parameters or None}


def _clip_bounds(clip: Node) -> list[float]:
    for bound in clip.inputs[1:]:
        if bound is not None:
            bound.require_number("the bound")
    return [bound for bound in clip_bounds(clip, _LIMIT) if bound is not None]
