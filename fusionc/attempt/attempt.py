"""One attempt: the passes and graph kernel fusion, run once on the model that was asked for."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from onnx import ModelProto

from fusionc.attempt.conversion_plan import ConversionPlan
from fusionc.attempt.runtime_names import avoid_names_of_the_runtime
from fusionc.custom.watchdog import watchdog
from fusionc.graph_kernel.flags.stages import mindspore_names
from fusionc.model.graph import Model
from fusionc.model.write_back import write_back
from fusionc.report.graph_dump import GraphDump
from fusionc.report.run_cost import RunCost, run_cost
from fusionc.requested.kept_nodes import refuse_for
from fusionc.rewrite.log import Commit, PatternCount, RewriteLog
from fusionc.rewrite.pipeline import run
from fusionc.shapes.inference import typed_model

if TYPE_CHECKING:
    from fusionc.graph_kernel.fusion import Fused

# After this many failed rewrites of one pass the whole pass is left out, because finding each
# failed rewrite takes a search.
_MAX_FAILED_REWRITES = 3


@dataclass
class LeftOut:
    """What an attempt leaves out because earlier attempts failed: rewrites, passes, and the lower
    precision of nodes.
    """

    rewrites: dict[Commit, str] = field(default_factory=dict)  # with the reasons
    passes: set[str] = field(default_factory=set)
    # nodes that stay in float32: the name for --keep_dtype → the loss that a lower precision would
    # cause, or "" if that was not measured for this node alone
    wide: dict[str, str] = field(default_factory=dict)

    def roll_back(self, commit: Commit, reason: str) -> None:
        """Leave out a rewrite. Leave out its whole pass after several failed rewrites."""
        self.rewrites[commit] = reason
        if (
            sum(other.pass_name == commit.pass_name for other in self.rewrites)
            == _MAX_FAILED_REWRITES
        ):
            self.passes.add(commit.pass_name)

    def notices(self) -> list[str]:
        """What to tell the user about passes left out and nodes that stay in float32."""
        more = [name for name, cost in self.wide.items() if not cost]
        rest = f"so do {len(more)} nodes after these: the report lists all as in float32"
        return [
            *(
                f"{name} is off: the result was wrong with {_MAX_FAILED_REWRITES} of its rewrites"
                for name in sorted(self.passes)
            ),
            *(f"{name} stays in float32: {cost}" for name, cost in self.wide.items() if cost),
            *([rest] if more else []),
        ]


@dataclass(frozen=True)
class ConversionAttempt:
    """The result of running the passes on the model."""

    proto: ModelProto  # the rewritten model
    counts: list[PatternCount]
    log: RewriteLog
    fused: Fused | None  # the result of graph kernel fusion, if it ran
    model: Model | None = None  # the graphs of `proto`; None if no pass is on
    cost: RunCost | None = None  # of a run after the passes and before areas, if all passes may run

    @property
    def is_narrow(self) -> bool:
        """Whether the kernels of the result multiply numbers of bfloat16."""
        return self.fused is not None and bool(self.fused.narrow)

    @property
    def inner_names(self) -> Mapping[str, Mapping[str, str]]:
        """By the first output of an area's call: the values inside → their names before."""
        return {} if self.fused is None else self.fused.inner_names


def attempt(
    plan: ConversionPlan,
    proto: ModelProto,
    left_out: LeftOut,
    limit: int | None = None,
    dump: GraphDump | None = None,
    examine: Sequence[Callable[..., None]] = (),
) -> ConversionAttempt:
    """Rewrite the model with at most `limit` rewrites. With every pass off the model stays
    unchanged.

    Each function of `examine` is called with every rewrite before the rewrite takes effect, as
    `RewriteLog` describes.
    """

    examiners = [*examine]

    def examine_all(*rewrite: Any) -> None:
        for function in examiners:
            function(*rewrite)

    plan = plan.omit(left_out.passes)
    log = RewriteLog(limit, left_out.rewrites, examine_all)
    if dump is not None:
        dump.write(proto, "input")
    counts: list[PatternCount] = []
    fused = None
    model = None
    cost = None
    if plan.passes:
        options = plan.options
        model = typed_model(proto, os.fspath(options.source.parent), options.target)
        kept_nodes = plan.kept_nodes.nodes_in(model)
        if kept_nodes:  # comes first: the other examiners see only rewrites that this one allows
            examiners.insert(0, refuse_for(kept_nodes.__contains__))
        files = {p.name: "_".join([p.name, *mindspore_names(p)[:1]]) for p in plan.passes}

        def after(name: str) -> None:
            if dump is not None:
                dump.write(write_back(model), files[name])

        say = options.progress if limit is None else lambda _: None
        with watchdog(plan.custom, say) as begin:
            counts = run(model, plan.passes, log, begin, after)
        cost = _cost(model, plan) if limit is None else None
        if plan.makes_areas and not plan.precision and not log.is_closed:
            fused = _fuse(plan, model, log, left_out)
            counts = [*counts, *fused.counts]
        proto = write_back(model)
        if log.count:
            avoid_names_of_the_runtime(proto)
    if dump is not None:
        dump.write(proto, "output")
    return ConversionAttempt(proto, counts, log, fused, model, cost)


def _cost(model: Model, plan: ConversionPlan) -> RunCost:
    """What a run costs; at the first profile if the model is converted for several."""
    profiles = plan.requests.profiles
    return run_cost(model, profiles.shapes[0], profiles.option) if profiles else run_cost(model)


def fuse_areas(
    plan: ConversionPlan, done: ConversionAttempt, proto: ModelProto, folder: str
) -> ConversionAttempt:
    """The attempt `done`, continued with graph kernel fusion on the lowered model `proto`, whose
    external data is in `folder`.
    """
    model = typed_model(proto, folder, plan.options.target)
    fused = _fuse(plan, model, done.log, LeftOut())
    counts = [*done.counts, *fused.counts]
    return replace(done, proto=write_back(model), counts=counts, fused=fused, model=model)


def _fuse(plan: ConversionPlan, model: Model, log: RewriteLog, left_out: LeftOut) -> Fused:
    assert plan.fusion is not None
    plan.options.progress("graph kernel fusion")
    kept = plan.kept.with_names(left_out.wide)
    kept_nodes = plan.kept_nodes.nodes_in(model)
    return replace(plan.fusion, stays_wide=kept.keeps, kept_nodes=kept_nodes).run(model, log)
