"""Where graph kernel fusion made no area, and why. An area is a group of operators that becomes one
operator with a generated kernel. Each kind of area counts as the work of a pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from fusionc.passes.areas._area_pass import AreaPass
from fusionc.why.pass_places import Place

if TYPE_CHECKING:
    from fusionc.graph_kernel.fusion import Fused, NoArea

_OF_LOOPS = (
    "AutomaticUbFusion",
    "TbeEltwiseFusionPass",
    "TbeMultiOutputFusionPass",
    "TbeReduceElemwiseFusionPass",
)
_OFF = (
    "this pass takes effect only with --enable_graph_kernel: give that option here, too, to see "
    "which areas are made, and why there are not more"
)


def places_without_area(pass_: AreaPass, fused: Fused | None) -> Iterator[Place]:
    """The areas of a pass that were refused, and each operator outside of all areas that could be
    in an area of this pass.
    """
    if fused is None:
        return
    for refused in fused.refused:
        if refused.pass_name == pass_.name:
            yield _place(refused, is_match=True)
    wanted = "" if pass_.name in _OF_LOOPS else pass_.name
    for one in (one for outside in fused.outside for one in outside()):
        if one.pass_name == wanted:
            yield _place(one, is_match=False)


def notes_on_areas(pass_: AreaPass, fused: Fused | None, *, is_idle: bool) -> Iterator[str]:
    """Further notes: how many areas of a pass were refused, and, if `is_idle`, which operators the
    areas of the pass may have. A pass is idle if it neither fired nor refused anything.
    """
    if fused is None:
        yield _OFF
        return
    told = {refused.reason for refused in fused.refused if refused.pass_name == pass_.name}
    own = [count for count in fused.counts if count.pass_name == pass_.name]
    for count in own:
        yield from (
            f"refused in {_places(times)}: {why}"
            for why, times in count.refused.items()
            if why not in told
        )
    if is_idle and not any(count.matched for count in own):
        hint = f'"fusionc passes {pass_.name}" says which operators can be in such an area'
        yield f"no operator here could be in an area of this pass: {hint}"


def _places(number: int) -> str:
    return "one place" if number == 1 else f"{number} places"


def _place(no_area: NoArea, *, is_match: bool) -> Place:
    count = len(no_area.nodes)
    size = count if is_match else 2  # an area has at least two operators
    return Place(
        no_area.graph_id,
        "area",
        no_area.nodes[0],
        no_area.reason,
        no_area.nodes,
        is_match,
        count,
        size,
        not is_match,
    )
