"""A pass that notes its matches while it runs. The notes explain why it did not rewrite a place
that other passes took later.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from fusionc.model.graph import Graph
from fusionc.rewrite import Match, Miss, Pass, Pattern
from fusionc.rewrite.match import Find
from fusionc.why.pass_places import Examine, Place, place_of_match


@dataclass
class Watched:
    """What a pass matched while it ran."""

    pass_: Pass
    examine: Examine  # may refuse rewrites
    # each place, with its latest outcome
    places: dict[tuple[int, str, tuple[str, ...]], Place] = field(default_factory=dict)

    @property
    def running(self) -> Pass:
        """A copy of the pass that also notes what it matches."""
        watched = copy.copy(self.pass_)
        vars(watched)["patterns"] = tuple(map(self._watch, self.pass_.patterns))
        return watched

    def _watch(self, pattern: Pattern) -> Pattern:
        if pattern.find is not None:
            return replace(pattern, find=self._noting(pattern, pattern.find))

        def note(match: Match) -> bool:
            self._note(pattern, match)
            return True

        return replace(pattern, where=(*pattern.conditions, note))

    def _noting(self, pattern: Pattern, find: Find) -> Find:
        def noting(graph: Graph) -> Iterator[Match | Miss]:
            for match in find(graph):
                if isinstance(match, Match) and not match.is_stale:
                    self._note(pattern, match)
                yield match

        return noting

    def _note(self, pattern: Pattern, match: Match) -> None:
        place = place_of_match(self.pass_, pattern, match, self.examine)
        self.places[place.graph_id, pattern.name, place.nodes] = place
