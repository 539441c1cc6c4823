"""Graph kernel fusion on one page: from the flags, through the stages, to areas in the model.

An area is a group of operators that one operator with a generated kernel replaces.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from itertools import chain
from operator import or_

from fusionc.exactness.decisions_ahead import forget
from fusionc.graph_kernel.area import Area, KernelKind
from fusionc.graph_kernel.blocked.image_operators import CONVOLVING, is_product
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
from fusionc.graph_kernel.select.blocked_clusters import (
    NOT_FASTER,
    blocked_locations,
    integer_locations,
    narrow_products,
    reason_outside,
)
from fusionc.graph_kernel.select.cluster import clusters_of
from fusionc.graph_kernel.select.cost import Cost
from fusionc.graph_kernel.select.exact_results import decided_by_last_bit
from fusionc.graph_kernel.select.expand import Expander
from fusionc.graph_kernel.select.left_to_onnxruntime import computed_at_load, normalizations
from fusionc.graph_kernel.select.operator_kinds import CLUSTER as CLUSTER_OPERATORS
from fusionc.graph_kernel.select.operator_kinds import SOURCE_OF_SIZES, SQUARE
from fusionc.graph_kernel.select.packet import packets_of
from fusionc.graph_kernel.select.plan import Plan, Planner, StageObserver
from fusionc.graph_kernel.select.replace_by_call import (
    ALGORITHMS,
    BLOCKED,
    DATA_MOVEMENT,
    PRODUCTS,
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
from fusionc.integer_groups.misread_scales import consumers_that_prevent_fusion
from fusionc.model.graph import Graph, Model, Node
from fusionc.model.operators import KERNELS, qualified
from fusionc.rewrite import Pass
from fusionc.rewrite.log import PatternCount, RewriteLog
from fusionc.rewrite.pipeline import is_alive, run

_COMBINER_PASS = "SameInputMatMulPass"
SWITCHED_OFF = "it is switched off by --disable_areas"


# Areas that could be made, each with the reason why it is not made. None: it is made.
_Judged = list[tuple[AreaLocation, str | None]]


@dataclass(frozen=True)
class NoArea:
    """Operators of a graph that are in no area, and the reason."""

    pass_name: str  # the pass that would have made the area; empty if there is none
    graph_id: int
    nodes: tuple[str, ...]
    reason: str


@dataclass
class Fused:
    """The result of graph kernel fusion."""

    areas: list[Area] = field(default_factory=list)  # areas that the model now calls, each once
    counts: list[PatternCount] = field(default_factory=list)  # of matches, one for each pass
    splits: list[PatternCount] = field(default_factory=list)  # one for each split pattern
    plans: list[Plan] = field(default_factory=list)  # one for each cluster
    # names of passes that are off; a name is repeated for each area that its pass would have made
    unwanted: list[str] = field(default_factory=list)
    # operators that --enable_expand_ops lists, but that are still in the model
    whole: list[str] = field(default_factory=list)
    called: list[str] = field(default_factory=list)  # called functions, which get no areas inside
    raised_ir: int = 0  # the IR version to which the areas raised the model; 0 if it did not change
    refused: list[NoArea] = field(default_factory=list)  # areas that were not made
    # for each graph, a function that says why its remaining operators are in no area
    outside: list[Callable[[], Iterator[NoArea]]] = field(default_factory=list)
    # first output of an area's call → (name of a value inside the area → its name in the model)
    inner_names: dict[str, Mapping[str, str]] = field(default_factory=dict)
    # convolutions and products that kernels compute in bfloat16, in the order of areas
    narrow: list[Node] = field(default_factory=list)


def always_saves(area: Area) -> float:
    """Infinite savings: areas without kernels (functions) are always made."""
    return math.inf


def no_kernels(areas: Sequence[Area]) -> Mapping[str, str]:
    """Build no kernels. No area fails."""
    return {}


@dataclass(frozen=True)
class GraphKernelFusion:
    """Graph kernel fusion with its switches."""

    flags: Flags
    stages: Stages
    registry: Mapping[str, Pass]  # all passes by name
    # Names of passes that are on. A pass that makes areas makes none if it is missing here. Passes
    # that simplify clusters run in any case.
    enabled: frozenset[str]
    reason_against: ReasonAgainst  # returns the reason why an area cannot have a kernel, or None
    saves: Callable[[Area], float] = always_saves  # seconds that the kernel of an area saves
    # Builds the kernels of areas. Returns the name of each area whose kernel failed → the reason.
    build: Callable[[Sequence[Area]], Mapping[str, str]] = no_kernels
    observer: StageObserver | None = None
    has_programs: bool = False  # whether kernels may be programs of steps in a blocked layout
    is_narrow: bool = False  # whether such programs multiply bfloat16 numbers
    stays_wide: Callable[[Node], bool] = lambda _: False  # which operators stay in float32
    kept_nodes: Collection[Node] = frozenset()  # operators that no area takes
    tell: Callable[[str], None] = lambda _: None  # receives messages about the progress

    def run(self, model: Model, log: RewriteLog) -> Fused:
        """Make areas in all graphs of the model, except inside functions."""
        fused = Fused()
        ir_version = model.ir_version
        if self.stages.runs(OP_COMBINER):
            with self.stages.timed(OP_COMBINER):
                fused.counts += run(model, [self.registry[_COMBINER_PASS]], log)
        if self.stages.runs(CLUSTER) and self.stages.runs(SPLITTER):
            self._make_areas(model, log, fused)
        fused.whole = self._whole_operators(model)
        fused.called = _called_functions(model)
        fused.raised_ir = model.ir_version if model.ir_version != ir_version else 0
        return fused

    def profitable_areas(self, model: Model) -> list[AreaLocation]:
        """The areas that `run` would make if all kernels can be built. The model stays as it is."""
        fused = Fused()
        forget(model)
        graphs = (graph for graph in model.graphs if _may_have_areas(graph))
        judged = chain.from_iterable(self._areas_of(graph, fused) for graph in graphs)
        return [at for at, reason in judged if reason is None]

    def _whole_operators(self, model: Model) -> list[str]:
        """The operators that the flags ask to expand, but that remain unexpanded outside areas."""
        flags = self.flags
        forced = {*flags.enable_expand_ops, *flags.enable_expand_ops_only} - {SQUARE}
        return sorted(forced & {qualified(node.op, node.domain) for node in _nodes_outside(model)})

    def _make_areas(self, model: Model, log: RewriteLog, fused: Fused) -> None:
        forget(model)
        judged = {g: self._areas_of(g, fused) for g in model.graphs if _may_have_areas(g)}
        areas = _areas_to_make(judged.values())
        with self.stages.timed(BUILD):
            failed = self.build(list(areas.values())) if self.stages.runs(BUILD) else {}
        for graph, locations in judged.items():
            built = [(at, reason or failed.get(at.area.name)) for at, reason in locations]
            fused.narrow += _narrow_nodes(built)
            self._replace(graph, built, log, fused)
        fused.areas = [
            area for name, area in areas.items() if (KERNELS, name, "") in model.functions
        ]

    def _replace(self, graph: Graph, locations: _Judged, log: RewriteLog, fused: Fused) -> None:
        """Replace the operators of each area by a call, and count what each pass made or
        refused.
        """
        fused.refused += [_refused(graph, at, reason) for at, reason in locations if reason]
        made = (at for at, reason in locations if reason is None)
        fused.inner_names |= {at.outputs[0].name: at.area.sources for at in made}
        by_pass: dict[str, _Judged] = {}
        for at, reason in locations:
            by_pass.setdefault(pass_of(at), []).append((at, reason))
        for name, own in by_pass.items():
            fused.counts.append(replace_by_calls(graph, own, self.registry[name], log))
        for name in self._algorithms():
            fused.counts.append(count_steps(graph, locations, self.registry[name]))

    def _areas_of(self, graph: Graph, fused: Fused) -> _Judged:
        """The areas that a graph could have, each with the reason against it or None."""
        blocked = self._blocked(graph, fused)
        taken = _nodes_in_areas(blocked)
        supported = self._supported()
        expander = Expander(self.flags, self.stages.runs(EXPANDER), supported.of_node)
        reasons = {
            **dict.fromkeys(consumers_that_prevent_fusion(graph), _PREVENTS_FUSION),
            **dict.fromkeys(nodes_in_groups(graph), _IN_INTEGERS),
            **dict.fromkeys(decided_by_last_bit(graph), _DECIDED),
            **dict.fromkeys(computed_at_load(graph), _AT_LOAD),
            **dict.fromkeys(filter(self.kept_nodes.__contains__, graph.nodes), _KEPT),
        }
        fused.outside.append(partial(_outside, graph, reasons, expander, supported))
        excluded = taken | set(reasons)
        if not self.flags.enable_stitch_fusion:  # stitch kernels may contain whole normalizations
            excluded |= normalizations(graph, self.registry)
        plans = self._plans(graph, excluded, expander, supported)
        fused.plans += plans
        fused.splits += _summed([count for plan in plans for count in plan.patterns])
        cost = Cost(graph, self.saves)
        locations = self._wanted([location for plan in plans for location in plan.locations], fused)
        judged = [(at, self._switched_off(at) or cost.why_unprofitable(at)) for at in locations]
        if self.stages.runs(PACKET):
            taken |= _nodes_in_areas(judged) | {*self.kept_nodes}
            with self.stages.timed(PACKET):
                packets = packets_of(graph, taken, self._supported({SOURCE_OF_SIZES}), self.flags)
            wanted = self._wanted(packets, fused)
            judged += [
                (at, self._switched_off(at) or cost.why_unprofitable_packet(at)) for at in wanted
            ]
        return [*blocked, *judged]

    def _plans(
        self,
        graph: Graph,
        excluded: Collection[Node],
        expander: Expander,
        supported: SupportedOperators,
    ) -> list[Plan]:
        """A plan for each cluster of at least two operators that are not excluded."""
        planner = Planner(
            expander,
            simplifier(self.registry, self.flags, self.stages),
            self._patterns(),
            self.flags.composite_op_limit_size,
            supported,
            self.stages,
            self.observer,
        )

        def is_clusterable(node: Node) -> bool:
            if node in excluded:
                return False
            return expander.takes(node) or supported.of_node(node) is None

        with self.stages.timed(CLUSTER):
            clusters = [nodes for nodes in clusters_of(graph, is_clusterable) if len(nodes) > 1]
        plans = list[Plan]()
        for number, nodes in enumerate(clusters, 1):
            self.tell(f"graph kernel fusion: cluster {number} of {len(clusters)}")
            plans.append(planner.plan(graph, nodes))
        return plans

    def _blocked(self, graph: Graph, fused: Fused) -> _Judged:
        """The areas of convolutions and products, each with the reason against it or None."""
        if not self.has_programs:
            return []
        with self.stages.timed(CLUSTER):
            kinds = (ALGORITHMS[name] for name in self._algorithms())
            least = KernelKind.NARROW if self.is_narrow else KernelKind.BLOCKED
            kind = reduce(or_, kinds, least)
            found = integer_locations(graph, KernelKind.BLOCKED, self._is_left_out)
            of_integers = self._judged(found, fused)
            kept = nodes_in_groups(graph) | consumers_that_prevent_fusion(graph)
            kept |= _nodes_in_areas(of_integers) | decided_by_last_bit(graph)
            found = blocked_locations(
                graph,
                kind,
                lambda node: node in kept or self._is_left_out(node),
                self.stays_wide,
            )
            return [*self._judged(found, fused), *of_integers]

    def _judged(self, locations: Sequence[AreaLocation], fused: Fused) -> _Judged:
        """The areas whose passes are on, each with the reason against it or None. Their kernels are
        programs of steps.
        """
        return [
            (at, self._switched_off(at) or (None if self.saves(at.area) > 0 else NOT_FASTER))
            for at in self._wanted(locations, fused)
        ]

    def _is_left_out(self, node: Node) -> bool:
        """Whether the options exclude an operator from all areas."""
        name = qualified(node.op, node.domain)
        return node in self.kept_nodes or name not in self.flags.clusters([name])

    def _algorithms(self) -> list[str]:
        """The enabled passes that choose algorithms for areas in a blocked layout."""
        return [name for name in ALGORITHMS if self.has_programs and name in self.enabled]

    def _switched_off(self, location: AreaLocation) -> str | None:
        if any(node in self.kept_nodes for node in location.nodes):
            return _KEPT
        return SWITCHED_OFF if location.area.name in self.flags.disable_areas else None

    def _supported(self, more: Collection[str] = ()) -> SupportedOperators:
        return SupportedOperators(
            self.flags.clusters(CLUSTER_OPERATORS).union(more), self.reason_against
        )

    def _wanted(self, locations: Sequence[AreaLocation], fused: Fused) -> list[AreaLocation]:
        """The areas whose passes are all on. For each pass that is off, `fused.unwanted` gets its
        name once for each area.
        """
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
        return [
            pattern
            for pattern in SPLIT_PATTERNS
            if self.flags.has_pattern(pattern.name)
            and (pattern is not STITCH or self.flags.enable_stitch_fusion)
        ]


def fusion_of(
    flags: Flags,
    registry: Sequence[Pass],
    enabled: frozenset[str],
    kernels: KernelLibrary,
    *,
    is_narrow: bool = False,
) -> GraphKernelFusion:
    """Graph kernel fusion with these flags, with those passes of the registry that `enabled` names,
    and with a library of kernels.
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
        saves=Savings().of if has_kernels else always_saves,
        build=kernels.build,
        observer=observer,
        has_programs=has_kernels,
        is_narrow=is_narrow,
        tell=kernels.tell,
    )


def _areas_to_make(judged: Iterable[_Judged]) -> dict[str, Area]:
    """The areas that no reason speaks against, by name."""
    return {
        at.area.name: at.area for locations in judged for at, reason in locations if reason is None
    }


def _narrow_nodes(judged: _Judged) -> list[Node]:
    """The convolutions and products that are computed in bfloat16, from the areas that no reason
    speaks against.
    """
    made = (at for at, reason in judged if reason is None)
    return [node for at in made for node in narrow_products(at)]


def _nodes_in_areas(judged: _Judged) -> set[Node]:
    """The nodes of the areas that no reason speaks against."""
    return {node for at, reason in judged if reason is None for node in at.nodes}


def _refused(graph: Graph, location: AreaLocation, reason: str) -> NoArea:
    return NoArea(
        pass_of(location), graph.id, tuple(node.label() for node in location.nodes), reason
    )


_AT_LOAD = "it needs only constants, so onnxruntime computes it when it loads the model"
_IN_INTEGERS = "it is part of a group that onnxruntime computes in integers"
_KEPT = "--keep_nodes keeps it as it is"
_DECIDED = "the last bit of its result decides a later result"
_PREVENTS_FUSION = "if it were gone, onnxruntime might compute in integers, with a wrong result"


def _outside(
    graph: Graph, reasons: Mapping[Node, str], expander: Expander, supported: SupportedOperators
) -> Iterator[NoArea]:
    """The reason why each remaining operator of a graph is in no area.

    `reasons` contains the reasons that are already known. A convolution or product yields two
    reasons: one for the pass of its own areas, and one for the passes of all other areas.
    """
    for node in (node for node in graph.nodes if node.domain != KERNELS):
        if node.operator in CONVOLVING and (why := reasons.get(node) or reason_outside(node)):
            name = PRODUCTS if is_product(node.op) else BLOCKED
            yield NoArea(name, graph.id, (node.label(),), f"{node.op}: {why}")
        if node in reasons:
            reason = reasons[node]
        elif expander.takes(node) or supported.of_node(node) is None:
            reason = "a kernel could compute it, but no area with its neighbours was made"
        else:
            reason = supported.of_node(node) or ""
        yield NoArea("", graph.id, (node.label(),), f"{node.op}: {reason}")


def _summed(counts: Sequence[PatternCount]) -> list[PatternCount]:
    """The counts of all clusters of a graph: one sum for each split pattern."""
    totals: dict[str, PatternCount] = {}
    for count in counts:
        total = totals.setdefault(count.pattern, count)
        if total is not count:
            total.at = total.at if total.matched else count.at
            total.effected += count.effected
            total.seconds += count.seconds
            for reason, times in count.refused.items():
                total.refused[reason] = total.refused.get(reason, 0) + times
    return list(totals.values())


def _nodes_outside(model: Model) -> Iterator[Node]:
    """The nodes of all graphs that may have areas. They are outside areas, or calls of areas."""
    return chain.from_iterable(graph.nodes for graph in model.graphs if _may_have_areas(graph))


def _called_functions(model: Model) -> list[str]:
    """The model-local functions that graphs with areas call, except the functions of areas."""
    calls = (node for node in _nodes_outside(model) if node.function is not None)
    return sorted({qualified(node.op, node.domain) for node in calls if node.domain != KERNELS})


def _may_have_areas(graph: Graph) -> bool:
    return is_alive(graph) and not graph.in_function and not _needs_inference(graph)


def _needs_inference(graph: Graph) -> bool:
    """Whether onnxruntime must infer shapes inside a Scan. Calls of kernels would prevent that."""
    is_open = False
    while graph.owner is not None:
        is_open = is_open or not all(
            output.type.tensor_type.HasField("shape") for output in graph.proto.output
        )
        if is_open and graph.owner.is_op("Scan"):
            return True
        graph = graph.owner.graph
    return False
