"""Bisection: find the first of many changes that makes a result wrong. Some results may be
impossible to judge.
"""

from __future__ import annotations

from collections.abc import Callable


def first_bad(count: int, is_good: Callable[[int], bool | None]) -> range:
    """The 1-based number of a change that breaks the result. Several numbers if it cannot be
    decided which of these changes does.

    `is_good(k)` says whether the result with only the first k of `count` changes is right. None
    means that this is unknown. `is_good(0)` is assumed to be True and `is_good(count)` to be False;
    neither is called. There are at most ceil(log2(count)) calls, and one more for each unknown
    result. Right and wrong results may alternate; the returned change still turned a right result
    into a wrong one.
    """
    if count < 1:
        raise ValueError(f"first_bad needs at least one change, got {count}")
    good = 0
    bad = count
    unknown = set[int]()
    while candidates := [k for k in range(good + 1, bad) if k not in unknown]:
        # The neighbours of an unknown result are often unknown, too. After each unknown result the
        # search jumps farther from the middle.
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
