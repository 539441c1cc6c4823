"""What a conversion would do with a model: the passes run on a copy, and nothing is written."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fusionc.disk.load import load
from fusionc.errors import FusioncError
from fusionc.inspect.integer_census import integer_census
from fusionc.passes import PASSES
from fusionc.report.run_cost import RunCost, run_cost
from fusionc.rewrite.log import Commit, PatternCount, RewriteLog
from fusionc.rewrite.pipeline import run
from fusionc.shapes.inference import typed_model


@dataclass(frozen=True)
class DryRun:
    """What a conversion would do with a model."""

    left: frozenset[str] = frozenset()  # labels of the nodes of the result
    # for each replaced node, the passes that took part
    taken: Mapping[str, frozenset[str]] = field(default_factory=dict)
    effected: Counter[str] = field(default_factory=Counter)  # how often each pass takes effect
    # for each pass, its reasons to refuse and their counts
    refused: Mapping[str, Counter[str]] = field(default_factory=dict)
    cost: RunCost | None = None  # of a run of the result
    in_integers: int = 0  # operators of the result that onnxruntime computes in integers

    def keeps(self, label: str) -> bool:
        """Whether no pass replaces the node with this label. Nodes of an inlined function get other
        labels, so for these the answer may be wrong.
        """
        return label in self.left or label not in self.taken

    def takes(self, pass_name: str, labels: Iterable[str]) -> int:
        """How many of these nodes a pass replaces."""
        return sum(pass_name in self.taken.get(label, ()) for label in labels)

    def reason(self, pass_name: str) -> str:
        """A pass's most frequent reason to refuse; empty if the pass refuses nothing."""
        reasons = self.refused.get(pass_name)
        return reasons.most_common(1)[0][0] if reasons else ""


def dry_run(path: Path) -> DryRun:
    """Run the default passes of a conversion on a copy of the model. If that fails, the result is
    empty.
    """
    model = typed_model(load(path), os.fspath(path.parent))
    commits: list[Commit] = []

    def note(commit: Commit, *_: object) -> None:
        commits.append(commit)

    try:
        counts = run(model, [p for p in PASSES if p.default != "off"], RewriteLog(examine=note))
    except FusioncError:  # a conversion will report it
        return DryRun()
    taken: dict[str, set[str]] = {}
    for commit in commits:
        for label in commit.nodes:
            taken.setdefault(label, set()).add(commit.pass_name)
    left = frozenset(node.label() for graph in model.graphs for node in graph.nodes)
    effected, refused = _summed(counts)
    return DryRun(
        left,
        {label: frozenset(names) for label, names in taken.items()},
        effected,
        refused,
        run_cost(model),
        len(integer_census(node for graph in model.graphs for node in graph.nodes).in_integers),
    )


def _summed(counts: Iterable[PatternCount]) -> tuple[Counter[str], dict[str, Counter[str]]]:
    effected = Counter[str]()
    refused = dict[str, Counter[str]]()
    for count in counts:
        effected[count.pass_name] += count.effected
        refused.setdefault(count.pass_name, Counter()).update(count.refused)
    return effected, refused
