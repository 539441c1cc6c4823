"""Graph kernel fusion on one page: flags → stages → areas in the model."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from operator import or_

from fusionc.graph_kernel.area import Area, KernelKind
from fusionc.graph_kernel.c.source import reason_against
from fusionc.graph_kernel.flags.flag_table import Flags
from fusionc.graph_kernel.flags.stages import (
    BUILD,
    CLUSTER,
    EXPANDER,
    OP_COMBINER,
    PACKET,
    SPLITTER,
    Stages,
)
from fusionc.graph_kernel.library.kernel_library import KernelLibrary
from fusionc.graph_kernel.select.area_location import AreaLocation
from fusionc.graph_kernel.select.blocked_clusters import NOT_FASTER, blocked_locations
from fusionc.graph_kernel.select.cluster import clusters_of
from fusionc.graph_kernel.select.cost import Cost
from fusionc.graph_kernel.select.expand import Expander
from fusionc.graph_kernel.select.left_to_onnxruntime import computed_at_load, normalizations
from fusionc.graph_kernel.select.operator_kinds import CLUSTER as CLUSTER_OPERATORS
from fusionc.graph_kernel.select.operator_kinds import SOURCE_OF_SIZES
from fusionc.graph_kernel.select.packet import packets_of
from fusionc.graph_kernel.select.plan import Plan, Planner, StageObserver
from fusionc.graph_kernel.select.replace_by_call import (
    ALGORITHMS,
    DATA_MOVEMENT,
    count_steps,
    moves_data,
    pass_of,
    replace_by_calls,
)
from fusionc.graph_kernel.select.simplify import simplifier
from fusionc.graph_kernel.select.split.split_patterns import SplitPattern
from fusionc.graph_kernel.select.split.splitter import SPLIT_PATTERNS
from fusionc.graph_kernel.select.split.stitch import STITCH
from fusionc.graph_kernel.select.supported_operators import (
    ReasonAgainst,
    SupportedOperators,
    any_standard_operator,
)
from fusionc.graph_kernel.select.time_estimate import Savings
from fusionc.integer_groups.kept_groups import nodes_in_groups
from fusionc.model.graph import Graph, Model, Node
from fusionc.model.operators import KERNELS, qualified
from fusionc.rewrite import Pass
from fusionc.rewrite.log import PatternCount, RewriteLog
from fusionc.rewrite.pipeline import is_alive, run

_COMBINER_PASS = "SameInputMatMulPass"
SWITCHED_OFF = "it is switched off by --disable_areas"


@dataclass(frozen=True)
class NoArea:
    """Operators of a graph that became no area of a pass, or of any where `pass_name` is empty, and
    why.
    """

    pass_name: str
    graph_id: int
    nodes: tuple[str, ...]
    reason: str


@dataclass
class Fused:
    """What graph kernel fusion did.

    `areas` are those that the model has now, each once, `counts` how often each pass made one.
    `splits` counts for each pattern of split, `plans` is what became of each cluster. `unwanted`
    are the names of passes that are off, once for each area that they would have made. `raised_ir`
    is the IR version that the model needed for the areas, 0 where it had it. `refused` are the
    areas that were not made; each of `outside` says of the operators of a graph why they are in
    none.
    """

    areas: list[Area] = field(default_factory=list)
    counts: list[PatternCount] = field(default_factory=list)
    splits: list[PatternCount] = field(default_factory=list)
    plans: list[Plan] = field(default_factory=list)
    unwanted: list[str] = field(default_factory=list)
    raised_ir: int = 0
    refused: list[NoArea] = field(default_factory=list)
    outside: list[Callable[[], Iterator[NoArea]]] = field(default_factory=list)


def always_pays(area: Area) -> float:
    """For functions without kernels: there is nothing to lose."""
    return math.inf


def no_kernels(areas: Sequence[Area]) -> Mapping[str, str]:
    """For functions without kernels: there is nothing that could go wrong."""
    return {}


@dataclass(frozen=True)
class GraphKernelFusion:
    """Graph kernel fusion with its switches.

    `registry` has all passes by name, `enabled` says which are on: those that simplify clusters are
    used either way, those that stand for areas decide whether such areas are made. `reason_against`
    says why no kernel can be made of an area, `saves` how many seconds it saves. `build` makes the
    kernels of areas and returns why it could not, by the names of those that have none.
    `has_programs` says that kernels may be programs over images in blocks. `tell` is called with
    how far it is.
    """

    flags: Flags
    stages: Stages
    registry: Mapping[str, Pass]
    enabled: frozenset[str]
    reason_against: ReasonAgainst
    saves: Callable[[Area], float] = always_pays
    build: Callable[[Sequence[Area]], Mapping[str, str]] = no_kernels
    observer: StageObserver | None = None
    has_programs: bool = False
    tell: Callable[[str], None] = lambda _: None

    def run(self, model: Model, log: RewriteLog) -> Fused:
        """Make areas in all graphs of the model, functions excepted."""
        fused = Fused()
        ir_version = model.ir_version
        if self.stages.runs(OP_COMBINER):
            with self.stages.timed(OP_COMBINER):
                fused.counts += run(model, [self.registry[_COMBINER_PASS]], log)
        if not self.stages.runs(CLUSTER) or not self.stages.runs(SPLITTER):
            return fused
        alive = [graph for graph in model.graphs if is_alive(graph) and not graph.in_function]
        graphs = [graph for graph in alive if not _needs_inference(graph)]
        judged = {graph: self._areas_of(graph, fused) for graph in graphs}
        wanted = {
            location.area.name: location.area
            for locations in judged.values()
            for location, reason in locations
            if reason is None
        }
        with self.stages.timed(BUILD):
            failed = self.build(list(wanted.values())) if self.stages.runs(BUILD) else {}
        for graph, locations in judged.items():
            built = [
                (location, reason or failed.get(location.area.name))
                for location, reason in locations
            ]
            fused.refused += [
                _refused(graph, location, reason)
                for location, reason in built
                if reason is not None
            ]
            for name in dict.fromkeys(pass_of(location) for location, _ in locations):
                own = [
                    (location, reason) for location, reason in built if pass_of(location) == name
                ]
                fused.counts.append(replace_by_calls(graph, own, self.registry[name], log))
            for name in self._algorithms():
                fused.counts.append(count_steps(graph, built, self.registry[name]))
        fused.areas = [
            area for name, area in wanted.items() if (KERNELS, name, "") in model.functions
        ]
        fused.raised_ir = model.ir_version if model.ir_version != ir_version else 0
        return fused

    def _areas_of(self, graph: Graph, fused: Fused) -> list[tuple[AreaLocation, str | None]]:
        """The areas that a graph may have, each with what speaks against it."""
        blocked = self._blocked(graph, fused)
        taken = {node for location, reason in blocked if reason is None for node in location.nodes}
        supported = self._supported()
        expander = Expander(self.flags, self.stages.runs(EXPANDER), supported.of_node)
        planner = Planner(
            expander,
            simplifier(self.registry, self.flags, self.stages),
            self._patterns(),
            self.flags.composite_op_limit_size,
            supported,
            self.stages,
            self.observer,
        )

        reasons = dict.fromkeys(nodes_in_groups(graph), _IN_INTEGERS) | dict.fromkeys(
            computed_at_load(graph), _AT_LOAD
        )
        fused.outside.append(partial(_outside, graph, reasons, expander, supported))
        left = set(reasons)
        if not self.flags.enable_stitch_fusion:  # else a kernel has all of a normalization in it
            left |= normalizations(graph, self.registry)

        def is_clusterable(node: Node) -> bool:
            is_free = node not in left and node not in taken
            return is_free and (expander.takes(node) or supported.of_node(node) is None)

        with self.stages.timed(CLUSTER):
            clusters = [nodes for nodes in clusters_of(graph, is_clusterable) if len(nodes) > 1]
        plans = list[Plan]()
        for number, nodes in enumerate(clusters, 1):
            self.tell(f"graph kernel fusion: cluster {number} of {len(clusters)}")
            plans.append(planner.plan(graph, nodes))
        fused.plans += plans
        fused.splits += _summed([count for plan in plans for count in plan.patterns])
        cost = Cost(graph, self.saves)
        locations = self._wanted([location for plan in plans for location in plan.locations], fused)
        judged = [(at, self._switched_off(at) or cost.why_unprofitable(at)) for at in locations]
        if self.stages.runs(PACKET):
            taken.update(
                node for location, reason in judged if reason is None for node in location.nodes
            )
            with self.stages.timed(PACKET):
                packets = packets_of(graph, taken, self._supported({SOURCE_OF_SIZES}), self.flags)
            wanted = self._wanted(packets, fused)
            judged += [
                (at, self._switched_off(at) or cost.why_unprofitable_packet(at)) for at in wanted
            ]
        return [*blocked, *judged]

    def _blocked(self, graph: Graph, fused: Fused) -> list[tuple[AreaLocation, str | None]]:
        """The areas of convolutions, each with what speaks against it."""
        if not self.has_programs:
            return []
        with self.stages.timed(CLUSTER):
            kinds = (ALGORITHMS[name] for name in self._algorithms())
            kind = reduce(or_, kinds, KernelKind.BLOCKED)
            in_integers = nodes_in_groups(graph)
            found = blocked_locations(
                graph, kind, lambda node: node in in_integers or self._is_left_out(node)
            )
        wanted = self._wanted(found, fused)
        return [
            (at, self._switched_off(at) or (None if self.saves(at.area) > 0 else NOT_FASTER))
            for at in wanted
        ]

    def _is_left_out(self, node: Node) -> bool:
        """Whether flags keep an operator out of all areas."""
        name = qualified(node.op, node.domain)
        return name not in self.flags.clusters([name])

    def _algorithms(self) -> list[str]:
        """The passes that are on and say how blocked areas compute."""
        return [name for name in ALGORITHMS if self.has_programs and name in self.enabled]

    def _switched_off(self, location: AreaLocation) -> str | None:
        return SWITCHED_OFF if location.area.name in self.flags.disable_areas else None

    def _supported(self, more: Collection[str] = ()) -> SupportedOperators:
        return SupportedOperators(
            self.flags.clusters(CLUSTER_OPERATORS).union(more), self.reason_against
        )

    def _wanted(self, locations: Sequence[AreaLocation], fused: Fused) -> list[AreaLocation]:
        """Those whose passes are on; the others are noted."""
        wanted = []
        for location in locations:
            needed = (
                (pass_of(location), DATA_MOVEMENT) if moves_data(location) else (pass_of(location),)
            )
            off = [name for name in needed if name not in self.enabled]
            fused.unwanted += off
            wanted += [] if off else [location]
        return wanted

    def _patterns(self) -> list[SplitPattern]:
        found = [pattern for pattern in SPLIT_PATTERNS if self.flags.has_pattern(pattern.name)]
        return [
            pattern for pattern in found if pattern is not STITCH or self.flags.enable_stitch_fusion
        ]


def fusion_of(
    flags: Flags, registry: Sequence[Pass], enabled: frozenset[str], kernels: KernelLibrary
) -> GraphKernelFusion:
    """Graph kernel fusion with these flags, the passes of the registry that are `enabled`, and
    their kernels.
    """
    observer = None
    if flags.enable_debug_mode:
        from fusionc.graph_kernel.stage_check import StageCheck

        observer = StageCheck().see
    has_kernels = kernels.is_for_onnxruntime
    return GraphKernelFusion(
        flags,
        Stages(flags),
        registry={p.name: p for p in registry},
        enabled=enabled,
        reason_against=reason_against if has_kernels else any_standard_operator,
        saves=Savings().of if has_kernels else always_pays,
        build=kernels.build,
        observer=observer,
        has_programs=has_kernels,
        tell=kernels.tell,
    )


def _refused(graph: Graph, location: AreaLocation, reason: str) -> NoArea:
    return NoArea(
        pass_of(location), graph.id, tuple(node.label() for node in location.nodes), reason
    )


_AT_LOAD = "it needs nothing but constants: onnxruntime computes it when it loads the model"
_IN_INTEGERS = "it is part of a group that onnxruntime computes in integers"


def _outside(
    graph: Graph, reasons: Mapping[Node, str], expander: Expander, supported: SupportedOperators
) -> Iterator[NoArea]:
    """Why the operators that a graph has now are in no area; of some the reason is known."""
    for node in (node for node in graph.nodes if node.domain != KERNELS):
        if node in reasons:
            reason = reasons[node]
        elif expander.takes(node) or supported.of_node(node) is None:
            reason = "a kernel could hold it, but no area with its neighbours was made"
        else:
            reason = supported.of_node(node) or ""
        yield NoArea("", graph.id, (node.label(),), f"{node.op}: {reason}")


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


def _needs_inference(graph: Graph) -> bool:
    """Whether onnxruntime has to infer shapes through the body of a Scan, which it cannot through
    kernels.
    """
    is_open = False
    while graph.owner is not None:
        is_open = is_open or not all(
            output.type.tensor_type.HasField("shape") for output in graph.proto.output
        )
        if is_open and graph.owner.is_op("Scan"):
            return True
        graph = graph.owner.graph
    return False
