"""Differences that rounding excuses: single elements, and never a region.

On ordinary samples, one in fifty elements of each output, plus one, may differ by more than the
widest tolerance. They are excused only if the reference gives the candidate's value, too, when it
is moved by rounding. If more elements differ, the models are different, unless most of the output
moves: then the output proves nothing.

The reach of an element is how far rounding, or another order of a sum, can move it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from fusionc.operators.facts import Trait, names_with
from fusionc.protos import reads_of
from fusionc.verify.compare import SLICE, Yardstick, as_float64, unequal
from fusionc.verify.noise import ONE_IN
from fusionc.verify.order_dependence import Reach

# one in this many elements of a quantization or rounding may be rounded to the next number; in
# correct models with 8 bits, about one in several thousand elements is
STEPS_ONE_IN = 500
# the share of an output that must move if the model amplifies rounding as a whole
_MOST = 0.5


_SORTS = names_with(Trait.SORTS)


@dataclass(frozen=True)
class Excused:
    """The excused elements of one output on one sample."""

    elements: int  # excused elements
    size: int  # elements that were compared
    far: int  # excused elements whose error is larger than the widest tolerance
    farthest: float  # the largest error of an excused element

    @property
    def reason(self) -> str:
        """A message for more excused elements than are accepted."""
        return (
            f"{self.far:,} of {self.size:,} elements differ by more than rounding explains, "
            f"by up to {self.farthest:.2g}; "
            f"rounding may decide single elements, one in {ONE_IN}, and never a whole region"
        )


@dataclass
class Excuses:
    """The excused elements: the total over all samples that needed an excuse, and, for each output,
    the number in ordinary samples.
    """

    one_in: int = ONE_IN  # one in this many elements may be excused
    one_each: bool = False  # whether each sample that is not tiny may have one more
    samples: int = 0  # samples with excused elements
    elements: int = 0  # excused elements in these samples
    compared: int = 0  # compared elements in these samples
    farthest: float = 0.0
    # for each output, over all ordinary samples: the elements far off, the compared elements, and
    # the samples that may have one more element far off
    _far: Counter[str] = field(default_factory=Counter)
    _sizes: Counter[str] = field(default_factory=Counter)
    _large: Counter[str] = field(default_factory=Counter)

    def add(self, excused: Mapping[str, Excused]) -> None:
        """Count the outputs of one sample, if any element is excused."""
        if not any(one.elements for one in excused.values()):
            return
        self.samples += 1
        for one in excused.values():
            self.elements += one.elements
            self.compared += one.size
            self.farthest = max(self.farthest, one.farthest)

    def include(self, other: Excuses) -> None:
        """Add the totals of another object."""
        self.samples += other.samples
        self.elements += other.elements
        self.compared += other.compared
        self.farthest = max(self.farthest, other.farthest)

    def take(self, name: str, excused: Excused) -> None:
        """Count the elements of an output on an ordinary sample."""
        self._far[name] += excused.far
        self._sizes[name] += excused.size
        self._large[name] += self.one_each and excused.size >= SLICE

    def has_room(self, name: str, excused: Excused) -> bool:
        """Whether these far elements may be excused together with those of earlier samples."""
        most = 1 + (self._sizes[name] + excused.size) // self.one_in + self._large[name]
        return not excused.far or self._far[name] + excused.far <= most

    def __str__(self) -> str:
        moved = f", which move by up to {self.farthest:.2g}" if self.farthest else ""
        return f"{self.elements:,} of {self.compared:,} elements{moved}"


def size_of(value: Any) -> int:
    """The number of elements of a value that are compared."""
    return value.size if isinstance(value, np.ndarray) else 1


def excused_elements(
    ours: Any, theirs: Any, order: Reach | None, reach: Reach | None, yardstick: Yardstick
) -> Excused:
    """The excused elements of an output on one sample: those that move within its reach, or all
    that differ if it has no reach. An infinite reach in `order` means that the model does not
    determine the element; it then does not count as far off.
    """
    size = size_of(ours)
    if not isinstance(ours, np.ndarray) or not isinstance(theirs, np.ndarray):
        return Excused(0, size, 0, 0.0)
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return Excused(size, size, 0 if order is not None and np.isinf(order).all() else size, 0.0)
    wrong = unequal(ours, theirs, yardstick)
    far = wrong & unequal(ours, theirs, replace(yardstick, numerics="approximate"))
    if order is not None:
        far &= ~np.isinf(order)
    return Excused(int(wrong.sum()), size, int(far.sum()), _farthest(ours, theirs, wrong))


def moves_as_a_whole(ours: Any, moved: Any, yardstick: Yardstick) -> bool:
    """Whether most of an output changes if the inputs and weights of the model are moved."""
    return (
        isinstance(ours, np.ndarray)
        and isinstance(moved, np.ndarray)
        and (ours.shape != moved.shape or bool(unequal(ours, moved, yardstick).mean() > _MOST))
    )


def reach_moves_whole(ours: Any, reach: Reach | None, yardstick: Yardstick) -> bool:
    """Whether most elements of an output have a reach larger than the tolerance."""
    if not isinstance(ours, np.ndarray) or reach is None:
        return False
    return bool((~_is_held(ours, reach, yardstick)).mean() > _MOST)


def _is_held(ours: NDArray[Any], reach: Reach, yardstick: Yardstick) -> NDArray[np.bool_]:
    if ours.dtype.kind != "f":
        return np.asarray(reach == 0)
    with np.errstate(all="ignore"):
        moved = (ours + reach).astype(ours.dtype)
    return ~unequal(ours, moved, yardstick)


def sorted_outputs(model: onnx.ModelProto) -> frozenset[str]:
    """The outputs that depend on operators which sort elements."""
    sorted_values = set[str]()
    sorts = {
        (function.domain, function.name) for function in model.functions if _sorts(function.node)
    }
    for node in model.graph.node:
        is_such = node.op_type in _SORTS or (node.domain, node.op_type) in sorts
        bodies = (attribute.g.node for attribute in node.attribute if attribute.HasField("g"))
        if is_such or any(map(_sorts, bodies)) or not sorted_values.isdisjoint(reads_of(node)):
            sorted_values.update(node.output)
    return frozenset(value.name for value in model.graph.output if value.name in sorted_values)


def _sorts(nodes: Sequence[onnx.NodeProto]) -> bool:
    return any(node.op_type in _SORTS for node in nodes)


def _farthest(ours: NDArray[Any], theirs: NDArray[Any], where: NDArray[np.bool_]) -> float:
    if ours.dtype.kind in "OUSb" or not where.any():
        return 0.0
    with np.errstate(all="ignore"):
        off = np.abs(as_float64(ours[where]) - as_float64(theirs[where]))
    return float(off[np.isfinite(off)].max(initial=0.0))
