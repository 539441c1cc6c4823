"""Lengths of axes that may be known only when the model runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np

from fusionc.model.graph import Edge
from fusionc.passes._shared.shape_of_some_axes import can_take_some_axes
from fusionc.rewrite import Tape


def length_of(value: Edge, axis: int, new: Tape) -> Edge:
    """The length of an axis, as a vector of one element: of the first value in the graph that has
    the same, so that many users will share it.
    """
    length = None if value.shape is None else value.shape[axis]
    graph = new.graph
    if isinstance(length, int):
        return new.const(np.array([length], np.int64))
    if length is not None and value.graph is graph:
        for source in chain(graph.inputs, _made_before(value)):
            if source.shape is not None and length in source.shape:
                value = source
                axis = source.shape.index(length)
                break
    if not can_take_some_axes(graph):
        return new.Gather(new.Shape(value), new.const(np.array([axis], np.int64)))
    return new.Shape(value, start=axis, end=axis + 1)


def _made_before(value: Edge) -> Iterator[Edge]:
    for node in [] if value.producer is None else value.graph.ordered():
        if node is value.producer:
            return
        yield from (output for output in node.outputs if output is not None)


def expanded(x: Edge, lengths: list[Edge], new: Tape) -> Edge:
    """x, broadcast to at least these lengths of its last axes."""
    return new.Expand(x, vector_of(lengths, new))


def vector_of(parts: Sequence[Edge], new: Tape) -> Edge:
    """Vectors, one behind the other: a constant where all of them are."""
    known = [part.constant() for part in parts]
    arrays = [array for array in known if array is not None]
    return (
        new.const(np.concatenate(arrays))
        if len(arrays) == len(known)
        else new.Concat(*parts, axis=0)
    )
