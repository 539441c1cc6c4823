"""Graph kernel fusion on one page: flags → stages → areas in the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fusionc.graph_kernel.area import Area
from fusionc.graph_kernel.cluster import clusters_of
from fusionc.graph_kernel.contents import Contents, ReasonAgainst
from fusionc.graph_kernel.cut import Cut
from fusionc.graph_kernel.emit import ADDRESSES, emit, has_addressing, pass_of
from fusionc.graph_kernel.expand import Expander
from fusionc.graph_kernel.flags import Flags
from fusionc.graph_kernel.operators import CLUSTER as CLUSTER_OPERATORS
from fusionc.graph_kernel.plan import Plan, Planner, Watch
from fusionc.graph_kernel.simplify import simplifier
from fusionc.graph_kernel.split.patterns import PATTERNS
from fusionc.graph_kernel.stages import CLUSTER, EXPANDER, OP_COMBINER, SPLITTER, Stages
from fusionc.model.graph import Graph, Model, Node
from fusionc.rewrite import Pass
from fusionc.rewrite.apply import Ledger
from fusionc.rewrite.counters import PatternCount
from fusionc.rewrite.pipeline import run

_COMBINER_PASS = "SameInputMatMulPass"


@dataclass
class Fused:
    """What graph kernel fusion did: the areas in the model, each once, and how often the passes made one.

    `splits` counts for each pattern of split, `plans` is what became of each cluster.
    """

    areas: list[Area] = field(default_factory=list)
    counts: list[PatternCount] = field(default_factory=list)
    splits: list[PatternCount] = field(default_factory=list)
    plans: list[Plan] = field(default_factory=list)


@dataclass(frozen=True)
class GraphKernelFusion:
    """Graph kernel fusion with its switches.

    `registry` has all passes by name, `enabled` says which are on: those that simplify clusters are used either way,
    those that stand for areas decide whether such areas are made. `reason_against` says what a kernel cannot contain.
    """

    flags: Flags
    stages: Stages
    registry: Mapping[str, Pass]
    enabled: frozenset[str]
    reason_against: ReasonAgainst
    watch: Watch | None = None

    def run(self, model: Model, ledger: Ledger) -> Fused:
        """Make areas in all graphs of the model, functions excepted."""
        fused = Fused()
        if self.stages.runs(OP_COMBINER):
            with self.stages.timed(OP_COMBINER):
                fused.counts += run(model, [self.registry[_COMBINER_PASS]], ledger)
        if not self.stages.runs(CLUSTER) or not self.stages.runs(SPLITTER):
            return fused
        for graph in list(model.graphs):
            if not graph.in_function:
                self._fuse(graph, ledger, fused)
        return fused

    def _fuse(self, graph: Graph, ledger: Ledger, fused: Fused) -> None:
        contents = self._contents()
        expander = Expander(self.flags, self.stages.runs(EXPANDER), contents.reason)
        planner = Planner(
            expander,
            simplifier(self.registry, self.flags, self.stages),
            [p for p in PATTERNS if self.flags.has_pattern(p.name)],
            self.flags.composite_op_limit_size,
            self._contents,
            self.stages,
            self.watch,
        )

        def is_clusterable(node: Node) -> bool:
            return expander.takes(node) or contents.reason(node) is None

        with self.stages.timed(CLUSTER):
            clusters = [nodes for nodes in clusters_of(graph, is_clusterable) if len(nodes) > 1]
        plans = [planner.plan(graph, nodes) for nodes in clusters]
        fused.plans += plans
        fused.splits += _summed([count for plan in plans for count in plan.patterns])
        self._emit(graph, [cut for plan in plans for cut in plan.cuts], ledger, fused)

    def _contents(self) -> Contents:
        return Contents(self.flags.clusters(CLUSTER_OPERATORS), self.reason_against)

    def _emit(self, graph: Graph, cuts: Sequence[Cut], ledger: Ledger, fused: Fused) -> None:
        by_pass: dict[str, list[Cut]] = {}
        for cut in cuts:
            if len(cut.area.nodes) > 1 and (ADDRESSES in self.enabled or not has_addressing(cut)):
                by_pass.setdefault(pass_of(cut), []).append(cut)
        for name, found in by_pass.items():
            if name in self.enabled:
                fused.counts.append(emit(graph, found, self.registry[name], ledger))
        made = {(function.domain, function.name) for function in graph.model.proto.functions}
        known = {area.name for area in fused.areas}
        for cut in cuts:
            if (cut.area.name not in known) and ("fusionc.gk", cut.area.name) in made:
                fused.areas.append(cut.area)
                known.add(cut.area.name)


def _summed(counts: Sequence[PatternCount]) -> list[PatternCount]:
    """One count for each pattern of split, over all clusters of a graph."""
    totals: dict[str, PatternCount] = {}
    for count in counts:
        total = totals.setdefault(count.pattern, count)
        if total is not count:
            total.effected += count.effected
            total.seconds += count.seconds
            for reason, times in count.refused.items():
                total.refused[reason] = total.refused.get(reason, 0) + times
    return list(totals.values())
