"""Activations: operators that apply the same function to each element."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
import onnx

from fusionc.graph_kernel.blocked.float16_values import IN_HALF_RANGE
from fusionc.graph_kernel.blocked.image_area import ImageArea, UnfitOperator
from fusionc.graph_kernel.blocked.step_kind import Activated, Activation
from fusionc.graph_kernel.lower.area_info import attribute
from fusionc.model.operators import MICROSOFT

_LARGEST = float(np.finfo(np.float32).max)
_HARD_SIGMOID = (0.2, 0.5)
_SLOPE = 0.01
_QUICK_GELU = 1.702

_Reader = Callable[[ImageArea, onnx.NodeProto], Activated]


def _plain(function: Activation) -> _Reader:
    return lambda images, node: Activated(function)


def _with_alpha(function: Activation, default: float) -> _Reader:
    return lambda images, node: _activated(function, float(attribute(node, "alpha", default)))


def _activated(function: Activation, *parameters: float) -> Activated:
    """The activation. Raises UnfitOperator if its result for 0 may be NaN: the unused lanes after
    the last channel are 0, and must not become NaN.
    """
    is_open = (
        function is Activation.CLIP and parameters[0] <= _LARGEST and parameters[1] >= -_LARGEST
    )
    if not is_open and not all(map(math.isfinite, parameters)):
        raise UnfitOperator("a parameter of an activation is not finite")
    return Activated(function, *parameters)


def _hard_sigmoid(images: ImageArea, node: onnx.NodeProto) -> Activated:
    alpha, beta = (
        attribute(node, n, d) for n, d in zip(("alpha", "beta"), _HARD_SIGMOID, strict=True)
    )
    return _activated(Activation.HARD_SIGMOID, float(alpha), float(beta))


def _clip(images: ImageArea, node: onnx.NodeProto) -> Activated:
    bounds = []
    for k, (name, missing) in enumerate((("min", -_LARGEST), ("max", _LARGEST)), 1):
        numbers = images.numbers(node, k, name)
        if numbers is not None and len(numbers) != 1:
            raise UnfitOperator("a bound is not a single number")
        bounds.append(missing if numbers is None else numbers[0])
    return _activated(Activation.CLIP, *bounds)


def _gelu(images: ImageArea, node: onnx.NodeProto) -> Activated:
    is_tanh = attribute(node, "approximate", "none") == "tanh"
    return Activated(Activation.TANH_GELU if is_tanh else Activation.GELU)


ACTIVATIONS: Mapping[tuple[str, str], _Reader] = {
    ("", "Relu"): _plain(Activation.RELU),
    ("", "Clip"): _clip,
    ("", "LeakyRelu"): _with_alpha(Activation.LEAKY_RELU, _SLOPE),
    ("", "Sigmoid"): _plain(Activation.SIGMOID),
    ("", "HardSigmoid"): _hard_sigmoid,
    ("", "HardSwish"): _plain(Activation.HARD_SWISH),
    ("", "Swish"): _with_alpha(Activation.SWISH, 1.0),
    ("", "Tanh"): _plain(Activation.TANH),
    ("", "Gelu"): _gelu,
    IN_HALF_RANGE: _plain(Activation.HALF_RANGE),
    (MICROSOFT, "Gelu"): _plain(Activation.GELU),
    (MICROSOFT, "QuickGelu"): _with_alpha(Activation.SWISH, _QUICK_GELU),
}
# The name of an activation in a FusedConv or FusedGemm → the activation, and the number of its
# parameters.
_FUSED = {
    "Relu": (Activation.RELU, 0),
    "LeakyRelu": (Activation.LEAKY_RELU, 1),
    "Sigmoid": (Activation.SIGMOID, 0),
    "Tanh": (Activation.TANH, 0),
    "HardSigmoid": (Activation.HARD_SIGMOID, 2),
    "Clip": (Activation.CLIP, 2),
}


def fused_activation(node: onnx.NodeProto) -> Activated:
    """The activation of a FusedConv or FusedGemm. Raises UnfitOperator if no step can apply it."""
    name = attribute(node, "activation", "")
    if not name:
        return Activated()
    of_gemm = [attribute(node, f"activation_{letter}") for letter in ("alpha", "beta", "gamma")]
    written = attribute(node, "activation_params") or [
        value for value in of_gemm if value is not None
    ]
    parameters = list(map(float, written))
    function, count = _FUSED.get(name, (Activation.NONE, -1))
    if len(parameters) != count:
        raise UnfitOperator("no step has this activation")
    return _activated(function, *parameters)
