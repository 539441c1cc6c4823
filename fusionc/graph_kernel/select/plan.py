"""Take one cluster through the stages: expand, simplify, split. The result is a list of areas; the
model is not changed.

An area cannot be cut out of the model if an expanded operator or a simplification extends beyond
the area. Some other areas cannot have a kernel. In both cases, the stages run again on the cluster
with fewer expanded operators, and finally without expansion and simplification.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import onnx

from fusionc.graph_kernel.flags.stages import CLUSTER, EXPANDER, SPLITTER, StagePass, Stages
from fusionc.graph_kernel.select.area_location import AreaLocation, located
from fusionc.graph_kernel.select.area_values import edges_of
from fusionc.graph_kernel.select.cluster_model import cluster_model, cluster_proto
from fusionc.graph_kernel.select.expand import Expander
from fusionc.graph_kernel.select.simplify import Simplifier
from fusionc.graph_kernel.select.split.regions import Region
from fusionc.graph_kernel.select.split.split_patterns import SplitPattern
from fusionc.graph_kernel.select.split.splitter import split
from fusionc.graph_kernel.select.split.stitch import STITCH
from fusionc.graph_kernel.select.supported_operators import SupportedOperators
from fusionc.model.graph import Graph, Model, Node
from fusionc.model.operators import qualified
from fusionc.model.write_back import write_back
from fusionc.protos import copied
from fusionc.rewrite.log import PatternCount

StageObserver = Callable[[StagePass, onnx.ModelProto], None]


@dataclass(frozen=True)
class Plan:
    """The areas of one cluster, and how the cluster was split."""

    nodes: tuple[Node, ...]  # the operators of the cluster
    locations: tuple[AreaLocation, ...] = ()
    regions: tuple[Region, ...] = ()  # the parts into which the cluster was split
    patterns: tuple[PatternCount, ...] = ()  # one count for each split pattern


@dataclass(frozen=True)
class Attempt:
    """How a cluster is expanded, simplified and split."""

    expanded: frozenset[str]  # names of the operators that are expanded
    is_simplified: bool
    patterns: tuple[SplitPattern, ...]


@dataclass(frozen=True)
class Planner:
    """The stages, with the switches that the flags set."""

    expander: Expander
    simplifier: Simplifier
    patterns: Sequence[SplitPattern]
    most_operators: int  # the largest number of operators that an area may have
    supported: SupportedOperators
    stages: Stages
    # receives the model of a cluster before the first stage and after each stage
    observer: StageObserver | None = None

    def plan(self, graph: Graph, nodes: Sequence[Node]) -> Plan:
        """The areas of a cluster."""
        originals = {edge.name: edge for node in nodes for edge in edges_of(node)}
        for attempt in self._attempts(nodes):
            proto = cluster_proto(graph, nodes)
            if proto is None:
                break
            model = self._prepared(proto, attempt)
            with self.stages.timed(SPLITTER):
                regions, counts = split(
                    model.main,
                    attempt.patterns,
                    self.supported.of_node,
                    self.most_operators,
                    graph.id,
                )
                locations = [
                    self._possible(located(region, originals, nodes))
                    for region in regions
                    if region.is_composite and not region.is_lone
                ]
            if None not in locations or attempt == self._least:
                possible = tuple(location for location in locations if location is not None)
                return Plan(tuple(nodes), possible, tuple(regions), tuple(counts))
        return Plan(tuple(nodes))

    def _possible(self, location: AreaLocation | None) -> AreaLocation | None:
        """The location if a kernel can compute its area."""
        if location is None or self.supported.of_area(location.area) is not None:
            return None
        return location

    @property
    def _least(self) -> Attempt:
        return Attempt(frozenset(), False, tuple(p for p in self.patterns if p is not STITCH))

    def _attempts(self, nodes: Sequence[Node]) -> Iterator[Attempt]:
        """The attempts, in the order in which they are made. No further attempt is made after one
        whose areas are all possible.
        """
        names = frozenset(
            qualified(node.op, node.domain) for node in nodes if self.expander.takes(node)
        )
        fewer = [names - {name} for name in sorted(names)] if len(names) > 1 else []
        every = tuple(self.patterns)
        for expanded in dict.fromkeys([names, *fewer, frozenset[str]()]):
            yield Attempt(expanded, True, every)
        yield Attempt(frozenset(), False, every)
        yield self._least

    def _prepared(self, proto: onnx.ModelProto, attempt: Attempt) -> Model:
        if self.observer is not None:
            self.observer(CLUSTER, copied(proto))
        with self.stages.timed(EXPANDER):
            model = cluster_model(
                self.expander.expand(proto, attempt.expanded) if attempt.expanded else proto
            )
            if attempt.expanded:
                self.simplifier.tidy(model)
        if attempt.expanded:
            self.stages.note_change(EXPANDER)
            self._show(EXPANDER, model)
        if attempt.is_simplified:
            self.simplifier.simplify(model, lambda stage_pass: self._show(stage_pass, model))
        return model

    def _show(self, stage_pass: StagePass, model: Model) -> None:
        if self.observer is not None:
            self.observer(stage_pass, copied(write_back(model)))
