"""Report users' passes that had no effect, and the reasons."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from fusionc.report import PassTotal


def idle_passes(totals: Sequence[PassTotal], custom: Collection[str]) -> list[str]:
    """Messages about the users' passes, whose names are `custom`: passes that matched without
    effect, with the reasons, and passes that never matched.
    """
    own = [total for total in totals if total.name in custom]
    idle = [total for total in own if total.matched and not total.effected]
    messages = [
        f"{total.name} matched, and took no effect: {', '.join(total.refused)}" for total in idle
    ]
    unmatched = [total.name for total in own if not total.matched]
    return [*messages, f"matched nowhere: {', '.join(unmatched)}"] if unmatched else messages
