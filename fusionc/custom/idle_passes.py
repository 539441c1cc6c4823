"""Users' passes that had no effect, and why."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from fusionc.report import PassTotal


def idle_passes(totals: Sequence[PassTotal], custom: Collection[str]) -> list[str]:
    """What to report of the users' passes, whose names are `custom`: which matched without effect,
    and why; which never matched.
    """
    own = [total for total in totals if total.name in custom]
    idle = [total for total in own if total.matched and not total.effected]
    told = [
        f"{total.name} matched, and took no effect: {', '.join(total.refused)}" for total in idle
    ]
    nowhere = [total.name for total in own if not total.matched]
    return [*told, f"matched nowhere: {', '.join(nowhere)}"] if nowhere else told
