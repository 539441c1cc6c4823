"""Notes about each rewrite for the page, grouped by similarity. A rewrite is noted before it takes
effect, while the graph still has the old nodes.
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
    """Similar rewrites of one pattern: they differ only in names, sizes and attributes."""

    pass_: Pass
    pattern: str
    before: Sketch  # of the first rewrite
    after: Sketch  # of the first rewrite
    commits: list[Commit] = field(default_factory=list)
    new_nodes: list[list[Node]] = field(default_factory=list)  # of each rewrite


class RewriteNotes:
    """Notes about all rewrites of an attempt."""

    def __init__(self) -> None:
        self._groups: dict[object, Alike] = {}

    @property
    def groups(self) -> list[Alike]:
        """The groups of similar rewrites, in the order of their first rewrites."""
        return list(self._groups.values())

    def examine(
        self, commit: Commit, pass_: Pass, match: Match, new: Replacement, _tape: Tape
    ) -> None:
        """Note a rewrite that is about to take effect. `RewriteLog.examine` calls this method."""
        before = sketch_of(
            sorted(match.nodes, key=lambda node: node.position),
            [(value, value.name) for value in match.outputs],
        )
        after = sketch_of(new.nodes, [(value, old.name) for old, value in new.pairs])
        key = (pass_.name, commit.pattern, before.form, after.form)
        group = self._groups.setdefault(key, Alike(pass_, commit.pattern, before, after))
        group.commits.append(commit)
        group.new_nodes.append(new.nodes)
