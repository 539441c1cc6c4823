"""Find the first of many changes after which a result is wrong, by halving; some answers may be
missing.
"""

from __future__ import annotations

from collections.abc import Callable


def first_bad(count: int, is_good: Callable[[int], bool | None]) -> range:
    """The 1-based number of a change that breaks the result; several numbers if it cannot be told
    which of them does.

    `is_good(k)` says whether the result with only the first k of `count` changes is right; None if
    that cannot be told. `is_good(0)` must hold and `is_good(count)` must not; neither is called. It
    takes at most ceil(log2(count)) calls, and one more for each missing answer. If results are
    right and wrong by turns, the change that is returned still turned a right result into a wrong
    one.
    """
    if count < 1:
        raise ValueError(f"first_bad needs at least one change, got {count}")
    good = 0
    bad = count
    unknown = set[int]()
    while left := [k for k in range(good + 1, bad) if k not in unknown]:
        # If one answer is missing, its neighbours often are, too: the search goes
        # farther each time.
        missing = bad - good - 1 - len(left)
        wanted = (good + bad) // 2 + (-1) ** missing * (2**missing - 1)
        middle = min(left, key=lambda k: abs(k - wanted))
        answer = is_good(middle)
        if answer is None:
            unknown.add(middle)
        elif answer:
            good = middle
        else:
            bad = middle
    return range(good + 1, bad + 1)
