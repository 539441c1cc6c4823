"""The reasons why a pass does not fire, the nearest misses first. Places with equal reasons are
grouped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fusionc.why.first_reason import strip_names
from fusionc.why.pass_places import Place


@dataclass(frozen=True)
class Reason:
    """Why a pass does not fire at a node where one of its patterns begins."""

    text: str
    root: str  # the node at which the pattern begins
    pattern: str
    graph_id: int
    is_match: bool  # whether the whole pattern fits; the pass then refuses the rewrite
    would_fire: bool  # whether the pass would fire here if it ran
    is_near: bool  # whether more than the first operator fits
    fitting: int  # operators of the pattern that fit
    size: int  # operators of the pattern
    unfit: int  # things that do not fit
    more: tuple[str, ...] = ()  # other roots with the same reason


def reasons_of(places: Sequence[Place]) -> list[Reason]:
    """Why nothing happens at these places: the nearest misses first, with equal reasons grouped.

    If several patterns begin at a node, only the nearest one counts. A place at which only the
    first operator of a pattern fits is left out if any other place is nearer.
    """
    at_root: dict[tuple[int, str], list[Place]] = {}
    for place in places:
        at_root.setdefault((place.graph_id, place.root), []).append(place)
    ranked = sorted(map(_nearest, at_root.values()), key=lambda place: place.rank)
    nearer = list(filter(_is_near, ranked))
    alike: dict[tuple[str, int, str], list[Place]] = {}
    for place in nearer or ranked:
        alike.setdefault((place.pattern, place.graph_id, strip_names(place.reason)), []).append(
            place
        )
    return [
        Reason(
            first.reason or f"{first.root}: it would take effect",
            first.root,
            first.pattern,
            first.graph_id,
            first.is_match,
            first.is_match and not first.reason,
            _is_near(first),
            first.fitting,
            first.size,
            first.unfit,
            tuple(place.root for place in others),
        )
        for first, *others in alike.values()
    ]


def _nearest(places: Sequence[Place]) -> Place:
    """The nearest of the patterns that begin at one node.

    A pattern that fits except for a condition is nearer than a larger pattern that lacks several
    things, because the model is unlikely to mean the larger one.
    """
    if any(place.is_whole and place.size > 1 for place in places):
        places = [place for place in places if place.is_whole or place.unfit == 1]
    return min(places, key=lambda place: place.rank)


def _is_near(place: Place) -> bool:
    return place.is_match or place.lacks_condition or place.fitting + place.beyond > 1
