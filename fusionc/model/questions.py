"""Questions that a rewrite asks about a value of the graph. Each question returns the answer, or
refuses the rewrite with a reason. A refused rewrite leaves the matched nodes unchanged.

All passes use the same wording. A reason is one fact, in one of these forms:

    the rank of the mask is unknown         the rank is not known before the model runs
    the axes are not constant               the model computes them, or they are a graph input
    the rank is not 4                       the rank is known and differs
    the shapes are not known to be equal    the shapes may differ when the model runs
    before opset 7 Gemm does not broadcast  a newer opset would allow the rewrite

A rewrite lists its requirements like this:

    batch, length, size = m.x.require_shape(3)
    m.x.require_type(np.float32)
    heads = require_known(heads_of(m), "the number of heads")
    bounds = m.bounds.require_constant("the bounds")

If a rewrite asks about several values, `of` names the value in the reason: `of="the mask"`. `what`
is the subject of the reason, with its article. A rewrite that makes another check calls
`refuse(unknown("the number of heads"))`.
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
    """End the rewrite, so that the matched nodes stay unchanged. The user sees the reason and how
    often it occurred; therefore similar matches must have exactly the same reason.

    `opset` is the first version of the standard opset with which the rewrite would not be refused
    for this reason. It is 0 if no version would help.
    """
    raise Refused(reason, opset)


def unknown(what: str) -> str:
    """The reason that `what` is not known before the model runs."""
    return f"{what} {_are(what)} unknown"


def not_constant(what: str) -> str:
    """The reason that `what` is not a constant of the model."""
    return f"{what} {_are(what)} not constant"


def require_known(answer: T | None, what: str) -> T:
    """The answer. Refuses the rewrite if the answer is None."""
    if answer is None:
        refuse(unknown(what))
    return answer


class Questions:
    """The requirements that a rewrite may have for a value (`m.x.require_rank(4)`)."""

    dtype: Any
    shape: Any
    rank: Any
    constant: Any

    def require_rank(self, *ranks: int, least: int = 0, of: str = "") -> int:
        """The rank. Refuses unless the rank is known, is one of `ranks` (if given), and is at
        least `least`.
        """
        rank: int = require_known(self.rank, _name("the rank", of))
        if ranks and rank not in ranks:
            refuse(f"{_name('the rank', of)} is not {choice_text(ranks)}")
        if rank < least:
            refuse(f"{_name('the rank', of)} is less than {least}")
        return rank

    def require_shape(self, *ranks: int, least: int = 0, of: str = "") -> Shape:
        """The shape; its dimensions may be unknown. Refuses as `require_rank` does."""
        self.require_rank(*ranks, least=least, of=of)
        shape: Shape = require_known(self.shape, _name("the shape", of))
        return shape

    def require_sizes(self, *ranks: int, least: int = 0, of: str = "") -> tuple[int, ...]:
        """The shape. Refuses unless the size of every dimension is known."""
        shape = self.require_shape(*ranks, least=least, of=of)
        sizes = tuple(size for size in shape if isinstance(size, int))
        if len(sizes) < len(shape):
            refuse(unknown(_name("the sizes", of)))
        return sizes

    def require_size(self, axis: int, what: str) -> int:
        """The size of one dimension. `axis` may be negative."""
        shape = self.require_shape(least=axis + 1 if axis >= 0 else -axis)
        size = shape[axis]
        if not isinstance(size, int):
            refuse(unknown(what))
        return size

    def require_type(self, *types: DTypeLike, of: str = "") -> np.dtype[Any]:
        """The element type. Refuses unless the type is known and is one of `types` (if given)."""
        dtype: np.dtype[Any] = require_known(self.dtype, _name("the element type", of))
        names = [np.dtype(each).name for each in types]
        if names and dtype.name not in names:
            refuse(f"{_name('the elements', of)} are not {choice_text(names)}")
        return dtype

    def require_constant(self, what: str) -> Array:
        """The elements. Refuses unless the value is a constant."""
        array: Array | None = self.constant()
        if array is None:
            refuse(not_constant(what))
        return array

    def require_number(self, what: str) -> Any:
        """The single element of a constant. Refuses unless there is exactly one element."""
        array = self.require_constant(what)
        if array.size != 1:
            refuse(f"{what} {_are(what)} not a single number")
        return array.item()


def _name(fact: str, of: str) -> str:
    return f"{fact} of {of}" if of else fact


def _are(what: str) -> str:
    """The verb that follows a subject such as "the sizes of the image"."""
    head = what.partition(" of ")[0]
    return "are" if head.endswith("s") and not head.endswith(("axis", "bias")) else "is"
