"""What each rewrite did, grouped by form: noted before it takes effect, shown after the
conversion.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from fusionc.model.graph import Node
from fusionc.report.page.sketch import Sketch, sketch_of
from fusionc.rewrite.definition import Pass
from fusionc.rewrite.log import Commit
from fusionc.rewrite.match import Match
from fusionc.rewrite.soundness import Replacement
from fusionc.rewrite.tape import Tape


@dataclass
class Alike:
    """Rewrites of one pass and pattern that look alike; the sketches are those of the first one."""

    pass_: Pass
    pattern: str
    before: Sketch
    after: Sketch
    commits: list[Commit] = field(default_factory=list)
    made: list[list[Node]] = field(default_factory=list)  # the nodes of each


class RewriteNotes:
    """Notes each rewrite; `groups` are in the order of their first rewrites."""

    def __init__(self) -> None:
        self._groups: dict[object, Alike] = {}

    @property
    def groups(self) -> list[Alike]:
        """The rewrites so far."""
        return list(self._groups.values())

    def examine(
        self, commit: Commit, pass_: Pass, match: Match, new: Replacement, _tape: Tape
    ) -> None:
        """Note a rewrite that is about to take effect; `RewriteLog.examine` calls it."""
        before = sketch_of(
            sorted(match.nodes, key=lambda node: node.position),
            [(value, value.name) for value in match.outputs],
        )
        after = sketch_of(new.nodes, [(value, old.name) for old, value in new.pairs])
        key = (pass_.name, commit.pattern, before.form, after.form)
        group = self._groups.setdefault(key, Alike(pass_, commit.pattern, before, after))
        group.commits.append(commit)
        group.made.append(new.nodes)
