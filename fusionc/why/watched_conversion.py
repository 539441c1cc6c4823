"""A conversion that keeps everything that an answer needs: the model before and after, each
rewrite, and the matches of the passes in question.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import onnx

from fusionc.attempt.asked_model import AskedModel
from fusionc.attempt.attempt import LeftOut, attempt
from fusionc.attempt.conversion_plan import ConversionPlan
from fusionc.model.graph import Model
from fusionc.options import Options
from fusionc.protos.node_origin import origin_of
from fusionc.report.model_nodes import nodes_of_graphs
from fusionc.requested.kept_nodes import refuse_for
from fusionc.rewrite import Pass
from fusionc.rewrite.log import Commit
from fusionc.shapes.inference import typed_model
from fusionc.why.pass_places import Examine, Place, allow
from fusionc.why.watched_pass import Watched

if TYPE_CHECKING:
    from fusionc.graph_kernel.fusion import Fused


@dataclass(frozen=True)
class Converted:
    """A model before and after its conversion."""

    before: Model
    after: Model
    commits: Sequence[Commit]  # the rewrites that took effect
    watched: Mapping[str, Watched]  # for each pass in question, what it matched while it ran
    fused: Fused | None = None  # the areas; None without graph kernels
    examine: Examine = allow  # refuses rewrites of kept nodes

    def nodes(self) -> list[str]:
        """The names of all nodes, before and after."""
        return [
            node.label() for model in (self.before, self.after) for node in nodes_of_graphs(model)
        ]

    def matched(self, pass_: Pass) -> list[Place]:
        """What a pass matched while it ran; empty if it was not watched."""
        watched = self.watched.get(pass_.name)
        return [] if watched is None else list(watched.places.values())

    def made_of(self, names: Collection[str]) -> set[str]:
        """These nodes, and the nodes that passes have made of them."""
        origins = ((node.label(), origin_of(node.proto)) for node in nodes_of_graphs(self.after))
        made = {
            label
            for label, origin in origins
            if origin is not None and not set(names).isdisjoint(origin.sources)
        }
        return made | set(names)


def converted(plan: ConversionPlan, registry: Sequence[Pass], asked: Sequence[Pass]) -> Converted:
    """Convert by a plan. The passes in question run even if they are off."""
    examine = refuse_for(plan.kept_nodes.has)
    watched = {p.name: Watched(p, examine) for p in asked}
    wanted = {p.name for p in (*plan.passes, *asked)}
    passes = tuple(
        watched[p.name].running if p.name in watched else p for p in registry if p.name in wanted
    )
    fusion = plan.fusion
    if fusion is not None:
        fusion = replace(fusion, enabled=fusion.enabled | watched.keys())
    model = AskedModel(replace(plan, passes=passes, fusion=fusion))
    commits: list[Commit] = []

    def note(commit: Commit, *_: object) -> None:
        commits.append(commit)

    done = attempt(model.plan, model.rebuild(), LeftOut(), examine=[note])
    before, after = (_typed(proto, plan.options) for proto in (model.rebuild(), done.proto))
    return Converted(before, after, commits, watched, done.fused, examine)


def _typed(proto: onnx.ModelProto, options: Options) -> Model:
    return typed_model(proto, os.fspath(options.source.parent), options.target)
