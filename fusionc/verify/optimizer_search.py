"""Which of onnxruntime's own optimizers change the result of a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fusionc.runtime.optimizers import OPTIMIZERS

_MOST = 6  # optimizers to look for; if more are needed, it is not a fault but a way to compute


def optimizers_at_fault(
    is_right: Callable[[Sequence[str]], bool], known: Sequence[str] = ()
) -> tuple[str, ...]:
    """The optimizers that have to be off so that the result is right. The `known` ones are tried
    first; the others are found by bisection.

    `is_right` says whether the result is right with given optimizers off. The answer is empty if
    the result is wrong even with all off that have names, or if too many have to be off.
    """
    guilty = list(known)
    while not is_right(guilty):
        if len(guilty) == _MOST or (len(guilty) == len(known) and not is_right(OPTIMIZERS)):
            return ()
        # bisect how many of the first optimizers have to be off
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
