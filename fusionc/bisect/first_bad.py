"""Bisection: find the first of many changes that makes a result wrong. It may be impossible to
judge some of the results.
"""

from __future__ import annotations

from collections.abc import Callable


def first_bad(count: int, is_good: Callable[[int], bool | None]) -> range:
    """The number of a change that breaks the result, counted from 1. If it cannot be decided which
    of several adjacent changes does, the numbers of all of them.

    `is_good(k)` says whether the result with only the first k of `count` changes is right. It
    returns None if that is unknown. `is_good(0)` is assumed to be True and `is_good(count)` to be
    False; neither is called. There are at most ceil(log2(count)) calls, plus one for each unknown
    result. Right and wrong results may alternate; even then, the returned change turns a right
    result into a wrong one.
    """
    if count < 1:
        raise ValueError(f"first_bad needs at least one change, got {count}")
    good = 0
    bad = count
    unknown = set[int]()
    while candidates := [k for k in range(good + 1, bad) if k not in unknown]:
        # The neighbours of an unknown result are often unknown, too. So after each unknown result,
        # the search jumps farther away from the middle.
        missing = bad - good - 1 - len(candidates)
        target = (good + bad) // 2 + (-1) ** missing * (2**missing - 1)
        middle = min(candidates, key=lambda k: abs(k - target))
        answer = is_good(middle)
        if answer is None:
            unknown.add(middle)
        elif answer:
            good = middle
        else:
            bad = middle
    return range(good + 1, bad + 1)
