"""Graph kernel fusion on one page: flags → stages → areas in the model."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from fusionc.graph_kernel.area import DOMAIN, Area
from fusionc.graph_kernel.cluster import clusters_of
from fusionc.graph_kernel.contents import Contents, ReasonAgainst
from fusionc.graph_kernel.cost import Cost
from fusionc.graph_kernel.cut import Cut
from fusionc.graph_kernel.emit import ADDRESSES, emit, has_addressing, pass_of
from fusionc.graph_kernel.expand import Expander
from fusionc.graph_kernel.flags import Flags
from fusionc.graph_kernel.operators import CLUSTER as CLUSTER_OPERATORS
from fusionc.graph_kernel.operators import SOURCE_OF_SIZES
from fusionc.graph_kernel.packet import packets_of
from fusionc.graph_kernel.plan import Plan, Planner, Watch
from fusionc.graph_kernel.simplify import simplifier
from fusionc.graph_kernel.split.patterns import PATTERNS, SplitPattern
from fusionc.graph_kernel.split.stitch import STITCH
from fusionc.graph_kernel.stages import BUILD, CLUSTER, EXPANDER, OP_COMBINER, PACKET, SPLITTER, Stages
from fusionc.model.graph import Graph, Model, Node
from fusionc.rewrite import Pass
from fusionc.rewrite.log import PatternCount, RewriteLog
from fusionc.rewrite.pipeline import is_alive, run

_COMBINER_PASS = "SameInputMatMulPass"
_SPLIT_PATTERNS = (*PATTERNS, STITCH)


@dataclass
class Fused:
    """What graph kernel fusion did.

    `areas` are those that the model has now, each once, `counts` how often each pass made one. `splits` counts for each
    pattern of split, `plans` is what became of each cluster. `unwanted` are the names of passes that are off, once for
    each area that they would have made. `raised_ir` is the IR version that the model needed for the areas, 0 where it
    had it.
    """

    areas: list[Area] = field(default_factory=list)
    counts: list[PatternCount] = field(default_factory=list)
    splits: list[PatternCount] = field(default_factory=list)
    plans: list[Plan] = field(default_factory=list)
    unwanted: list[str] = field(default_factory=list)
    raised_ir: int = 0


def always_pays(area: Area) -> float:
    """For functions without kernels: there is nothing to lose."""
    return math.inf


def no_kernels(areas: Sequence[Area]) -> Mapping[str, str]:
    """For functions without kernels: there is nothing that could go wrong."""
    return {}


@dataclass(frozen=True)
class GraphKernelFusion:
    """Graph kernel fusion with its switches.

    `registry` has all passes by name, `enabled` says which are on: those that simplify clusters are used either way,
    those that stand for areas decide whether such areas are made. `reason_against` says why no kernel can be made of an
    area, `saves` how many seconds it saves. `build` makes the kernels of areas and returns why it could not, by the
    names of those that have none.
    """

    flags: Flags
    stages: Stages
    registry: Mapping[str, Pass]
    enabled: frozenset[str]
    reason_against: ReasonAgainst
    saves: Callable[[Area], float] = always_pays
    build: Callable[[Sequence[Area]], Mapping[str, str]] = no_kernels
    watch: Watch | None = None

    def run(self, model: Model, log: RewriteLog) -> Fused:
        """Make areas in all graphs of the model, functions excepted."""
        fused, ir_version = Fused(), model.ir_version
        if self.stages.runs(OP_COMBINER):
            with self.stages.timed(OP_COMBINER):
                fused.counts += run(model, [self.registry[_COMBINER_PASS]], log)
        if not self.stages.runs(CLUSTER) or not self.stages.runs(SPLITTER):
            return fused
        graphs = [graph for graph in model.graphs if is_alive(graph) and not graph.in_function]
        judged = {graph: self._areas_of(graph, fused) for graph in graphs}
        wanted = {cut.area.name: cut.area for cuts in judged.values() for cut, reason in cuts if reason is None}
        with self.stages.timed(BUILD):
            failed = self.build(list(wanted.values())) if self.stages.runs(BUILD) else {}
        for graph, cuts in judged.items():
            built = [(cut, reason or failed.get(cut.area.name)) for cut, reason in cuts]
            for name in dict.fromkeys(pass_of(cut) for cut, _ in cuts):
                own = [(cut, reason) for cut, reason in built if pass_of(cut) == name]
                fused.counts.append(emit(graph, own, self.registry[name], log))
        fused.areas = [area for name, area in wanted.items() if (DOMAIN, name, "") in model.functions]
        fused.raised_ir = model.ir_version if model.ir_version != ir_version else 0
        return fused

    def _areas_of(self, graph: Graph, fused: Fused) -> list[tuple[Cut, str | None]]:
        """The areas that a graph may have, each with what speaks against it."""
        contents = self._contents()
        expander = Expander(self.flags, self.stages.runs(EXPANDER), contents.of_node)
        planner = Planner(
            expander,
            simplifier(self.registry, self.flags, self.stages),
            self._patterns(),
            self.flags.composite_op_limit_size,
            contents,
            self.stages,
            self.watch,
        )

        def is_clusterable(node: Node) -> bool:
            return expander.takes(node) or contents.of_node(node) is None

        with self.stages.timed(CLUSTER):
            clusters = [nodes for nodes in clusters_of(graph, is_clusterable) if len(nodes) > 1]
        plans = [planner.plan(graph, nodes) for nodes in clusters]
        fused.plans += plans
        fused.splits += _summed([count for plan in plans for count in plan.patterns])
        cost = Cost(graph, self.saves)
        cuts = self._wanted([cut for plan in plans for cut in plan.cuts], fused)
        judged = [(cut, cost.reason_against(cut)) for cut in cuts]
        if self.stages.runs(PACKET):
            taken = {node for cut, reason in judged if reason is None for node in cut.nodes}
            with self.stages.timed(PACKET):
                packets = packets_of(graph, taken, self._contents({SOURCE_OF_SIZES}), self.flags)
            judged += [(cut, cost.reason_against_packet(cut)) for cut in self._wanted(packets, fused)]
        return judged

    def _contents(self, more: Collection[str] = ()) -> Contents:
        return Contents(self.flags.clusters(CLUSTER_OPERATORS).union(more), self.reason_against)

    def _wanted(self, cuts: Sequence[Cut], fused: Fused) -> list[Cut]:
        """Those whose passes are on; the others are noted."""
        wanted = []
        for cut in cuts:
            needed = (pass_of(cut), ADDRESSES) if has_addressing(cut) else (pass_of(cut),)
            off = [name for name in needed if name not in self.enabled]
            fused.unwanted += off
            wanted += [] if off else [cut]
        return wanted

    def _patterns(self) -> list[SplitPattern]:
        found = [pattern for pattern in _SPLIT_PATTERNS if self.flags.has_pattern(pattern.name)]
        return [pattern for pattern in found if pattern is not STITCH or self.flags.enable_stitch_fusion]


def unknown_patterns(flags: Flags) -> list[str]:
    """A warning for each entry of enable_fusion_pattern_only and disable_fusion_pattern that is part of no name."""
    known = [pattern.name for pattern in _SPLIT_PATTERNS]
    return [
        f'the flag "--{which}": no split pattern has "{part}" in its name; they are {", ".join(known)}'
        for which, part in flags.entries("_fusion_pattern", "_fusion_pattern_only")
        if not any(part in name for name in known)
    ]


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
