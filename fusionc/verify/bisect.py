"""Finding the commit that breaks a model."""

from __future__ import annotations

from collections.abc import Callable


def first_bad(count: int, is_good: Callable[[int], bool]) -> int:
    """The 1-based number of a commit that breaks the result, by halving.

    `is_good(k)` says whether the result with only the first k of `count` commits is right. It is taken as known that
    `is_good(0)` holds and `is_good(count)` does not; neither is called. At most ceil(log2(count)) calls are made.
    Where goodness comes and goes, the returned commit is still one that turned a right result into a wrong one.
    """
    if count < 1:
        raise ValueError(f"first_bad needs at least one commit, got {count}")
    good, bad = 0, count
    while bad - good > 1:
        middle = (good + bad) // 2
        if is_good(middle):
            good = middle
        else:
            bad = middle
    return bad
