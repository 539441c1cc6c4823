"""A conversion that keeps everything to be told: the model before and after, each rewrite, and what
the passes in question matched on the way.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import onnx

from fusionc.diff.model_nodes import nodes_of_graphs
from fusionc.job import Job
from fusionc.model.graph import Model
from fusionc.node_origin import origin_of
from fusionc.options import Options
from fusionc.rewrite import Pass
from fusionc.rewrite.log import Commit
from fusionc.shapes.inference import typed_model
from fusionc.target_opset import raise_opset
from fusionc.why.pass_places import Place
from fusionc.why.watched_pass import Watched

if TYPE_CHECKING:
    from fusionc.graph_kernel.fusion import Fused


@dataclass(frozen=True)
class Converted:
    """A model before and after its conversion."""

    before: Model
    after: Model
    commits: Sequence[Commit]  # the rewrites that took effect
    watched: Mapping[str, Watched]  # by pass: what it matched while it ran
    fused: Fused | None = None  # the areas; None without graph kernels

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
        """These nodes, and those that passes have made of them."""
        origins = ((node.label(), origin_of(node.proto)) for node in nodes_of_graphs(self.after))
        made = {
            label
            for label, origin in origins
            if origin is not None and not set(names).isdisjoint(origin.sources)
        }
        return made | set(names)


def converted(job: Job, registry: Sequence[Pass], asked: Sequence[Pass]) -> Converted:
    """The conversion of a job, in which the passes in question run, too."""
    watched = {p.name: Watched(p) for p in asked}
    wanted = {p.name for p in (*job.passes, *asked)}
    job.passes = [
        watched[p.name].running if p.name in watched else p for p in registry if p.name in wanted
    ]
    if job.fusion is not None:
        job.fusion = replace(job.fusion, enabled=job.fusion.enabled | watched.keys())
    commits: list[Commit] = []

    def note(commit: Commit, *_: object) -> None:
        commits.append(commit)

    done = job.optimized(job.original(), examine=[note])
    original = job.original()
    if job.options.target_opset is not None:
        original = raise_opset(
            original, job.options.target_opset, os.fspath(job.options.source.parent)
        )
    before, after = (_typed(proto, job.options) for proto in (original, done.proto))
    return Converted(before, after, commits, watched, done.fused)


def _typed(proto: onnx.ModelProto, options: Options) -> Model:
    return typed_model(proto, os.fspath(options.source.parent), options.target)
