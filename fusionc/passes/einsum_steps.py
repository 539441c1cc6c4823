"""Einsum taken apart: its equation, and the steps that arrange a value for a product."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from fusionc.model.graph import Edge, Node
from fusionc.passes.reduction import new_reduce
from fusionc.passes.slicing import new_unsqueeze
from fusionc.passes.weights import shape_of
from fusionc.rewrite import Tape, refuse

Dim = int | str | None
Sizes = dict[str, Dim]


def equation_of(node: Node) -> tuple[list[str], str]:
    """The labels of each input and those of the result. Refuses what is not written with one letter an axis."""
    text = node.attr("equation").replace(" ", "")
    left, arrow, result = text.partition("->")
    terms = left.split(",")
    if not all(term.isalpha() or not term for term in (*terms, result)):
        refuse("an ellipsis")
    if not arrow:
        result = "".join(sorted(label for label in set(left) - {","} if left.count(label) == 1))
    if len(terms) != len(node.inputs) or any(len(set(term)) < len(term) for term in (*terms, result)):
        refuse("a diagonal")
    return terms, result


def sizes_of(terms: Sequence[str], inputs: Sequence[Edge | None]) -> Sizes:
    """The dimension of each label. Refuses those that may be 1 in one input and more in the other."""
    sizes: Sizes = {}
    for term, value in zip(terms, inputs, strict=True):
        shape = shape_of(value)
        if shape is None or len(shape) != len(term):
            refuse("the rank is unknown")
        for label, dim in zip(term, shape, strict=True):
            if dim == 0 or (label in sizes and (dim is None or sizes[label] != dim)):
                refuse("the dimensions are not known to be equal")
            sizes[label] = dim
    return sizes


def arranged(new: Tape, value: Edge, labels: str, wanted: str) -> Edge:
    """The value with its axes in another order."""
    if labels == wanted:
        return value
    made: Edge = new.Transpose(value, perm=[labels.index(label) for label in wanted])
    return made


def summed(new: Tape, value: Edge, labels: str, kept: str) -> tuple[Edge, str]:
    """The sum over all labels that are not kept, and the labels that are left."""
    axes = [axis for axis, label in enumerate(labels) if label not in kept]
    left = "".join(label for label in labels if label in kept)
    if not axes:
        return value, labels
    return new_reduce(new, "ReduceSum", value, axes, keepdims=False), left


def joined(new: Tape, value: Edge, groups: Sequence[str], sizes: Sizes) -> Edge:
    """Each group of axes as one axis; an empty group is an axis of one element."""
    if all(len(group) < 2 for group in groups):
        empty = [axis for axis, group in enumerate(groups) if not group]
        return new_unsqueeze(new, value, empty) if empty else value
    flat = "".join(groups)
    is_kept = [flat[axis : axis + 1] == group for axis, group in enumerate(groups)]
    return _reshaped(new, value, [[sizes[label] for label in group] for group in groups], is_kept)


def parted(new: Tape, value: Edge, groups: Sequence[str], sizes: Sizes) -> Edge:
    """What `joined` does, undone."""
    if all(len(group) < 2 for group in groups):
        empty = [axis for axis, group in enumerate(groups) if not group]
        return new_unsqueeze(new, value, empty, "Squeeze") if empty else value
    flat = "".join(groups)
    is_kept = [label == (groups[axis] if axis < len(groups) else "") for axis, label in enumerate(flat)]
    return _reshaped(new, value, [[sizes[label]] for label in flat], is_kept)


def _reshaped(new: Tape, value: Edge, dims: Sequence[Sequence[Dim]], is_kept: Sequence[bool]) -> Edge:
    """A Reshape: numbers, 0 for an unknown dimension that stays in its place, −1 for another one."""
    target = []
    for group, stays in zip(dims, is_kept, strict=True):
        numbers = [dim for dim in group if isinstance(dim, int)]
        target.append(math.prod(numbers) if len(numbers) == len(group) else 0 if stays else -1)
    if target.count(-1) > 1 or (-1 in target and 0 in target):  # with 0 elements, −1 would be anything
        refuse("more than one dimension is unknown")
    made: Edge = new.Reshape(value, new.const(np.array(target, np.int64)))
    return made
