"""Join Convs that read the same value into one Conv."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fusionc.model.graph import Edge, Node
from fusionc.operators.facts import Trait, names_with
from fusionc.passes._shared.constants import array_of
from fusionc.passes.convolution._channels import bias_or_zero
from fusionc.passes.convolution._windows import window_of
from fusionc.rewrite import Tape, refuse

ELEMENTWISE = tuple(sorted(names_with(Trait.ACTIVATION)))


def conv_key(conv: Node) -> tuple[Any, ...]:
    """A key that is equal for Convs that can be joined: Convs that differ only in their weights,
    biases and number of filters. Refuses other operators, Convs with groups, and weights or biases
    that are not constant.
    """
    if not conv.is_op("Conv") or conv.has_references:
        refuse(f"{conv.op} is not a Conv with known attributes")
    x, weight, bias = [*conv.inputs, None][:3]
    shape = weight.shape if weight is not None and weight.is_constant else None
    if x is None or weight is None or shape is None:
        refuse("the weights are not constant")
    if bias is not None and not bias.is_constant:
        refuse("the bias is not constant")
    window = window_of(conv, len(shape) - 2)
    if window.group != 1:
        refuse("the Conv has groups")
    return (x, window, shape[1:], weight.elem_type)


def elementwise_key(node: Node) -> tuple[Any, ...] | None:
    """A key that is equal for activations that compute the same function; None for other operators,
    and for activations whose parameters are not constant.
    """
    if not node.is_op(*ELEMENTWISE) or node.has_references:
        return None
    options = [None if value is None else value.constant() for value in node.inputs[1:]]
    if any(
        value is not None and o is None for value, o in zip(node.inputs[1:], options, strict=True)
    ):
        return None
    attributes = tuple(sorted((name, repr(value)) for name, value in node.attrs.items()))
    return (
        node.op,
        attributes,
        tuple(None if o is None else (o.shape, o.tobytes()) for o in options),
    )


def one_conv(
    new: Tape, convs: Sequence[Node], activation: Node | None = None
) -> tuple[Edge, list[int]]:
    """One Conv in place of Convs with equal keys, followed by the activation if one is given; and
    the number of output channels of each of the Convs.
    """
    weights = [conv.inputs[1] for conv in convs]
    biases = [[*conv.inputs, None][2] for conv in convs]
    arrays = [array_of(weight) for weight in weights if weight is not None]
    sizes = [array.shape[0] for array in arrays]
    bias = None
    if any(biases):
        parts = [bias_or_zero(b, size) for b, size in zip(biases, sizes, strict=True)]
        bias = new.const(np.concatenate(parts), dtype=arrays[0].dtype)
    weight = new.const(np.concatenate(arrays), like=weights[0])
    result = new.Conv(convs[0].inputs[0], weight, bias, like=convs[0])
    if activation is not None:
        result = new.node(activation.op, [result, *activation.inputs[1:]], like=activation)
    return result, sizes
