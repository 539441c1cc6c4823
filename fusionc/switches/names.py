"""The names that a switch accepts: passes, their aliases, and pass names of CANN and MindSpore."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from fusionc.errors import SHOWN, Typos, nearest, quote

if TYPE_CHECKING:
    from fusionc.rewrite.definition import Pass


class PassNames:
    """Looks up names in one registry of passes. An alias may name several passes; these keep the
    order of the registry.
    """

    def __init__(self, passes: Sequence[Pass]) -> None:
        # Imported here because it imports all passes, which would delay `fusionc --help`.
        from fusionc.passes.ascend_names import ASCEND_NAMES

        self._ascend_names = ASCEND_NAMES
        by_name: dict[str, list[Pass]] = {}
        for p in passes:
            for name in (p.name, *p.aliases):
                by_name.setdefault(name, []).append(p)
        self._passes = {name: tuple(named) for name, named in by_name.items()}
        # The search for the nearest name is slow. An error shows only the first SHOWN mistakes, so
        # at most SHOWN searches are made.
        self._searches = iter(range(SHOWN))

    def find(self, name: str) -> tuple[Pass, ...]:
        """The passes of this name or alias; empty if the registry does not have it."""
        return self._passes.get(name, ())

    def aliases(self) -> list[tuple[str, tuple[Pass, ...]]]:
        """All aliases in alphabetical order, with their passes."""
        return [
            (name, passes)
            for name, passes in sorted(self._passes.items())
            if name not in {p.name for p in passes}
        ]

    def is_ascend_only(self, name: str) -> bool:
        """Whether CANN or MindSpore has this name and the registry does not."""
        return name not in self._passes and name in self._ascend_names

    @cached_property
    def typos(self) -> Typos:
        """The words that differ from a name of the registry in at most two letters."""
        return Typos(self._passes)

    def complaint(self, name: str) -> str:
        """The message that `name` is not a pass, with the nearest name if there is one."""
        is_shown = next(self._searches, None) is not None
        near = nearest(name, self._passes, self._ascend_names) if is_shown else None
        hint = f"did you mean {quote(near)}?" if near else '"fusionc passes" lists the names'
        return f"{quote(name)} is not a pass; {hint}"
