"""Questions to a value that refuse by themselves: each returns the answer, or ends the rewrite with
a reason.

One vocabulary for all passes. A reason is one fact about one thing, in one of these forms:

    the rank of the mask is unknown         nothing tells it before the model runs
    the axes are not constant               the model computes them, or its caller gives them
    the rank is not 4                       it is known, and another one
    the shapes are not known to be equal    they may differ when the model runs
    before opset 7 Gemm does not broadcast  another opset would do

A rewrite therefore reads as what it needs:

    batch, length, size = m.x.require_shape(3)
    m.x.require_type(np.float32)
    heads = require_known(heads_of(m), "the number of heads")
    bounds = m.bounds.require_constant("the bounds")

`of` names the value in the reason if a rewrite asks several: `of="the mask"`. `what` is the subject
of the reason, with its article. A rewrite that finds out by itself says `refuse(unknown("the number
of heads"))`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import numpy as np

from fusionc.errors import choice_text

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from fusionc.model.tensors import Array, Shape

T = TypeVar("T")


class Refused(Exception):
    """Raised by `refuse`; the engine counts the match as refused for this reason."""

    def __init__(self, reason: str, opset: int = 0) -> None:
        super().__init__(reason)
        self.reason = str(reason)
        self.opset = opset


def refuse(reason: str, *, opset: int = 0) -> NoReturn:
    """Leave the match as it is. The reason is shown to the user: one phrase, the same for all such
    matches.

    `opset` is the first version of the standard operator set for which the reason does not hold, 0
    if there is none.
    """
    raise Refused(reason, opset)


def unknown(what: str) -> str:
    """The reason that nothing tells this before the model runs."""
    return f"{what} {_are(what)} unknown"


def not_constant(what: str) -> str:
    """The reason that this is not a constant of the model."""
    return f"{what} {_are(what)} not constant"


def require_known(answer: T | None, what: str) -> T:
    """The answer; refuses if it is None."""
    if answer is None:
        refuse(unknown(what))
    return answer


class Questions:
    """What a rewrite may require of a value (`m.x.require_rank(4)`)."""

    dtype: Any
    shape: Any
    rank: Any
    constant: Any

    def require_rank(self, *ranks: int, least: int = 0, of: str = "") -> int:
        """The number of dimensions: known, one of `ranks` if there are some, and at least
        `least`.
        """
        rank: int = require_known(self.rank, _name("the rank", of))
        if ranks and rank not in ranks:
            refuse(f"{_name('the rank', of)} is not {choice_text(ranks)}")
        if rank < least:
            refuse(f"{_name('the rank', of)} is less than {least}")
        return rank

    def require_shape(self, *ranks: int, least: int = 0, of: str = "") -> Shape:
        """The shape, which may have unknown dimensions; of one of `ranks`, and at least of rank
        `least`.
        """
        self.require_rank(*ranks, least=least, of=of)
        shape: Shape = require_known(self.shape, _name("the shape", of))
        return shape

    def require_sizes(self, *ranks: int, least: int = 0, of: str = "") -> tuple[int, ...]:
        """The shape, with a number for every dimension."""
        shape = self.require_shape(*ranks, least=least, of=of)
        sizes = tuple(size for size in shape if isinstance(size, int))
        if len(sizes) < len(shape):
            refuse(unknown(_name("the sizes", of)))
        return sizes

    def require_size(self, axis: int, what: str) -> int:
        """The number of elements along an axis, which may be negative."""
        shape = self.require_shape(least=axis + 1 if axis >= 0 else -axis)
        size = shape[axis]
        if not isinstance(size, int):
            refuse(unknown(what))
        return size

    def require_type(self, *types: DTypeLike, of: str = "") -> np.dtype[Any]:
        """The element type: known, and one of these numpy types if there are some."""
        dtype: np.dtype[Any] = require_known(self.dtype, _name("the element type", of))
        names = [np.dtype(each).name for each in types]
        if names and dtype.name not in names:
            refuse(f"{_name('the elements', of)} are not {choice_text(names)}")
        return dtype

    def require_constant(self, what: str) -> Array:
        """The elements of a constant."""
        array: Array | None = self.constant()
        if array is None:
            refuse(not_constant(what))
        return array

    def require_number(self, what: str) -> Any:
        """The number that a constant of one element is."""
        array = self.require_constant(what)
        if array.size != 1:
            refuse(f"{what} {_are(what)} not one number")
        return array.item()


def _name(fact: str, of: str) -> str:
    return f"{fact} of {of}" if of else fact


def _are(what: str) -> str:
    """The verb that follows a subject such as "the sizes of the image"."""
    head = what.partition(" of ")[0]
    return "are" if head.endswith("s") and not head.endswith(("axis", "bias")) else "is"
