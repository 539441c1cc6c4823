"""Find the optimizers of onnxruntime that change the result of a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fusionc.runtime.optimizers import OPTIMIZERS

# optimizers; if more must be off, the difference is not the fault of single optimizers
_MOST = 6


def optimizers_at_fault(
    is_right: Callable[[Sequence[str]], bool], known: Sequence[str] = ()
) -> tuple[str, ...]:
    """The optimizers that must be off so that the result is right. The `known` optimizers are tried
    first; the others are found by bisection.

    `is_right` says whether the result is right with the given optimizers off. Returns an empty
    tuple if the result is wrong even with all optimizers off that have names, or if too many must
    be off.
    """
    guilty = list(known)
    while not is_right(guilty):
        if len(guilty) == _MOST or (len(guilty) == len(known) and not is_right(OPTIMIZERS)):
            return ()
        # bisection: how many of the first optimizers must be off
        wrong = 0
        right = len(OPTIMIZERS)
        while right - wrong > 1:
            middle = (wrong + right) // 2
            if is_right([*guilty, *OPTIMIZERS[:middle]]):
                right = middle
            else:
                wrong = middle
        guilty.append(OPTIMIZERS[right - 1])
    return tuple(guilty)
