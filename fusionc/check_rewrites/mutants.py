"""Mutants: models of a replacement with one planted fault, which a check must notice."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx

from fusionc.model.tensors import Array, to_array, to_proto
from fusionc.operators.facts import Trait, names_with
from fusionc.protos import copied, reads_of

_MAX_BYTES = 1 << 24  # bytes of a model; larger ones have no mutants, because each one is loaded


def mutants(model: onnx.ModelProto) -> Iterator[onnx.ModelProto]:
    """The model without one of its nodes, with a changed constant, or with the operands of a node
    exchanged. onnxruntime cannot run some of these. A large model has no mutants.
    """
    if model.ByteSize() > _MAX_BYTES:
        return
    for index in reversed(range(len(model.graph.node))):
        yield from _node_left_out(model, index)
    for index in range(len(model.graph.initializer)):
        yield from _with_another_constant(model, index)
    for index in reversed(range(len(model.graph.node))):
        yield from _swapped(model, index)


def _node_left_out(model: onnx.ModelProto, index: int) -> Iterator[onnx.ModelProto]:
    """The model with a node replaced by an Identity of its first input."""
    node = model.graph.node[index]
    if node.op_type == "Identity" or not node.input or not node.input[0] or not node.output[0]:
        return
    mutant = copied(model)
    outputs = list(node.output)
    mutant.graph.node[index].CopyFrom(
        onnx.helper.make_node("Identity", node.input[:1], outputs[:1])
    )
    read = {value.name for value in mutant.graph.output}.union(*map(reads_of, mutant.graph.node))
    if read.isdisjoint(outputs[1:]):  # the Identity has the first output only
        yield mutant


def _with_another_constant(model: onnx.ModelProto, index: int) -> Iterator[onnx.ModelProto]:
    tensor = model.graph.initializer[index]
    values = to_array(tensor, "")
    if not values.size:
        return
    mutant = copied(model)
    mutant.graph.initializer[index].CopyFrom(to_proto(other_elements(values), tensor.name))
    yield mutant


def other_elements(values: Array) -> Array:
    """Elements that all differ from these. Integers do not become 0: they may be divisors."""
    if values.dtype.kind in "OUS":
        return np.full(values.shape, "another", object)
    if values.dtype.kind == "b":
        return np.logical_not(values)
    with np.errstate(all="ignore"):
        if "int" in values.dtype.name:
            incremented = values + values.dtype.type(1)
            return np.asarray(
                np.where(incremented == 0, values.dtype.type(1), incremented), values.dtype
            )
        return np.asarray(values * values.dtype.type(1.5) + values.dtype.type(0.5), values.dtype)


def _swapped(model: onnx.ModelProto, index: int) -> Iterator[onnx.ModelProto]:
    node = model.graph.node[index]
    if (
        len(node.input) < 2
        or node.input[0] == node.input[1]
        or node.op_type in names_with(Trait.DIVIDES)
    ):
        return
    mutant = copied(model)
    mutant.graph.node[index].input[:2] = [node.input[1], node.input[0]]
    yield mutant
