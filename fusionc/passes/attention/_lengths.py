"""Sizes of axes that may be unknown until the model runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np

from fusionc.model.graph import Edge
from fusionc.passes._shared.shape_of_some_axes import can_take_some_axes
from fusionc.rewrite import Tape


def length_of(value: Edge, axis: int, new: Tape) -> Edge:
    """The size of an axis, as a vector of one element.

    If the size is unknown, a Shape computes it. The Shape reads the first value in the graph that
    has the same size, so that many users can share it.
    """
    length = None if value.shape is None else value.shape[axis]
    graph = new.graph
    if isinstance(length, int):
        return new.const(np.array([length], np.int64))
    if length is not None and value.graph is graph:
        for source in chain(graph.inputs, _earlier_values(value)):
            if source.shape is not None and length in source.shape:
                value = source
                axis = source.shape.index(length)
                break
    if not can_take_some_axes(graph):
        return new.Gather(new.Shape(value), new.const(np.array([axis], np.int64)))
    return new.Shape(value, start=axis, end=axis + 1)


def _earlier_values(value: Edge) -> Iterator[Edge]:
    """The outputs of all nodes before the producer of a value, in graph order."""
    for node in [] if value.producer is None else value.graph.ordered():
        if node is value.producer:
            return
        yield from (output for output in node.outputs if output is not None)


def expanded(x: Edge, lengths: list[Edge], new: Tape) -> Edge:
    """x, with its last axes broadcast to these lengths. A length of 1 keeps the axis of x."""
    return new.Expand(x, vector_of(lengths, new))


def vector_of(parts: Sequence[Edge], new: Tape) -> Edge:
    """The vectors concatenated; a constant if all of them are constants."""
    arrays = [part.constant() for part in parts]
    known = [array for array in arrays if array is not None]
    return (
        new.const(np.concatenate(known))
        if len(known) == len(arrays)
        else new.Concat(*parts, axis=0)
    )
