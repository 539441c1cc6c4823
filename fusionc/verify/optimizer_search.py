"""Which of onnxruntime's own optimizers make another result of a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fusionc.runtime.optimizers import OPTIMIZERS

_MOST = 6  # optimizers that are looked for; more are not a fault but a way to compute


def optimizers_at_fault(
    is_right: Callable[[Sequence[str]], bool], known: Sequence[str] = ()
) -> tuple[str, ...]:
    """The optimizers that have to be off so that the result is right: those that are `known` first,
    the others by halving.

    `is_right` says whether it is right without these. None are returned if it is wrong without all
    that can be switched off by name, or without a few.
    """
    guilty = list(known)
    while not is_right(guilty):
        if len(guilty) == _MOST or (len(guilty) == len(known) and not is_right(OPTIMIZERS)):
            return ()
        # with that many of the first ones off
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
