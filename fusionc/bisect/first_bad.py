"""The first of many changes after which something is wrong, by halving, where some answers may be
missing.
"""

from __future__ import annotations

from collections.abc import Callable


def first_bad(count: int, is_good: Callable[[int], bool | None]) -> range:
    """The 1-based number of a change that breaks the result; several where nobody can tell which of
    them does.

    `is_good(k)` says whether the result with only the first k of `count` changes is right, None
    where that cannot be told. It is taken as known that `is_good(0)` holds and `is_good(count)`
    does not; neither is called. At most ceil(log2(count)) calls are made, and one more for each
    answer that is missing. Where goodness comes and goes, the change that is returned is still one
    that turned a right result into a wrong one.
    """
    if count < 1:
        raise ValueError(f"first_bad needs at least one change, got {count}")
    good = 0
    bad = count
    unknown = set[int]()
    while left := [k for k in range(good + 1, bad) if k not in unknown]:
        # Of what cannot be told, the neighbours can often not be told, either: the search goes
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
