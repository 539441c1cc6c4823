"""Faults that a check has to notice: the model of a replacement with one thing in it that is
wrong.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx

from fusionc.model.tensors import Array, to_array, to_proto
from fusionc.operators.facts import Trait, names_with
from fusionc.protos import copied, reads_of

_LARGEST = 1 << 24  # bytes of a model that gets mutants: each is loaded


def mutants(model: onnx.ModelProto) -> Iterator[onnx.ModelProto]:
    """The model without one of its nodes, with another constant, or with the operands of a node
    swapped; onnxruntime cannot run some of these. None of a large model.
    """
    if model.ByteSize() > _LARGEST:
        return
    for at in reversed(range(len(model.graph.node))):
        yield from _node_left_out(model, at)
    for at in range(len(model.graph.initializer)):
        yield from _with_another_constant(model, at)
    for at in reversed(range(len(model.graph.node))):
        yield from _swapped(model, at)


def _node_left_out(model: onnx.ModelProto, at: int) -> Iterator[onnx.ModelProto]:
    """A node passes its first operand on. An Identity does so anyway."""
    node = model.graph.node[at]
    if node.op_type == "Identity" or not node.input or not node.input[0] or not node.output[0]:
        return
    mutant = copied(model)
    outputs = list(node.output)
    mutant.graph.node[at].CopyFrom(onnx.helper.make_node("Identity", node.input[:1], outputs[:1]))
    read = {value.name for value in mutant.graph.output}.union(*map(reads_of, mutant.graph.node))
    if read.isdisjoint(outputs[1:]):  # of a node that is left out, only the first output is there
        yield mutant


def _with_another_constant(model: onnx.ModelProto, at: int) -> Iterator[onnx.ModelProto]:
    tensor = model.graph.initializer[at]
    values = to_array(tensor, "")
    if not values.size:
        return
    mutant = copied(model)
    mutant.graph.initializer[at].CopyFrom(to_proto(other_elements(values), tensor.name))
    yield mutant


def other_elements(values: Array) -> Array:
    """Elements that are not these; a whole number does not become 0, by which it may divide."""
    if values.dtype.kind in "OUS":
        return np.full(values.shape, "another", object)
    if values.dtype.kind == "b":
        return np.logical_not(values)
    with np.errstate(all="ignore"):
        if "int" in values.dtype.name:
            more = values + values.dtype.type(1)
            return np.asarray(np.where(more == 0, values.dtype.type(1), more), values.dtype)
        return np.asarray(values * values.dtype.type(1.5) + values.dtype.type(0.5), values.dtype)


def _swapped(model: onnx.ModelProto, at: int) -> Iterator[onnx.ModelProto]:
    node = model.graph.node[at]
    if (
        len(node.input) < 2
        or node.input[0] == node.input[1]
        or node.op_type in names_with(Trait.DIVIDES)
    ):
        return
    mutant = copied(model)
    mutant.graph.node[at].input[:2] = [node.input[1], node.input[0]]
    yield mutant
