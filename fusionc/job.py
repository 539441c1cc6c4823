"""A conversion that can be repeated, so that a wrong result has a culprit: the rewrite at fault."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import onnx

from fusionc.custom.watchdog import watchdog
from fusionc.disk.checker import fault_of
from fusionc.disk.load import load
from fusionc.disk.publish import Saved
from fusionc.disk.save import save
from fusionc.errors import UsageError, VerificationError
from fusionc.graph_kernel.flags.stages import mindspore_names
from fusionc.graph_kernel.fusion import Fused, GraphKernelFusion
from fusionc.graph_kernel.library.kernel_library import KernelLibrary
from fusionc.model.write_back import write_back
from fusionc.report.graph_dump import GraphDump
from fusionc.requested import Requests
from fusionc.requested.output_type import cast_outputs
from fusionc.rewrite import Pass
from fusionc.rewrite.log import Commit, PatternCount, RewriteLog
from fusionc.rewrite.pipeline import run
from fusionc.shapes.inference import typed_model
from fusionc.target_opset import raise_opset

_MOST_LEFT_OUT = 8  # rewrites; more are a defect that is to be seen
Progress = Callable[[str], None]
Shapes = Mapping[str, tuple[int, ...]]


@dataclass
class Optimized:
    """What the passes and graph kernel fusion have made of a model."""

    proto: onnx.ModelProto
    counts: list[PatternCount]
    log: RewriteLog
    fused: Fused


@dataclass(frozen=True)
class Verdict:
    """On a converted model, with a sentence on it; `is_loadable`: valid, and loaded by onnxruntime."""

    is_right: bool
    summary: str
    is_loadable: bool


class LeftOut(Exception):
    """The result cannot be loaded with a rewrite that the job leaves out from now on: convert again."""


@dataclass
class Job:
    """A conversion that can be repeated. Is its result right? And if not: which rewrite broke it?"""

    source: Path
    destination: Path
    passes: list[Pass]
    target: str
    target_opset: int | None
    requests: Requests
    shapes: Shapes | None  # to verify with
    tell: Progress
    custom: Mapping[str, str]  # the places of users' passes
    fusion: GraphKernelFusion
    kernels: KernelLibrary
    left_out: list[Commit] = field(default_factory=list)  # rewrites with which the result could not be loaded

    def original(self) -> onnx.ModelProto:
        """The model with what was asked to change of it."""
        proto = load(self.source)
        self.requests.apply(proto, os.fspath(self.source.parent))
        return proto

    @contextmanager
    def reference(self) -> Iterator[Path]:
        """What the result is compared with, as a file: the model, or one with what was asked to change of it.

        Raises UsageError where that is no valid model.
        """
        if not self.requests:
            yield self.source
            return
        proto = self.original()
        ranges = self.requests.sizes_to_run(proto)
        self.shapes = {**ranges, **(self.shapes or {})}
        with save(proto, self.source.parent, self.destination) as saved:
            del proto
            fault = fault_of(saved.model)
            if fault is not None and fault_of(self.source) is None:
                raise self.no_such_model(fault)
            yield saved.model

    def no_such_model(self, reason: str) -> UsageError:
        """What to say where the model is right, and the one that was asked for is not."""
        what = f"the model does not work with what was asked to change of it: {reason}"
        return UsageError(what, where=str(self.requests), hint="ask for other sizes or outputs", code="E10001")

    def optimized(self, proto: onnx.ModelProto, limit: int | None = None, dump: GraphDump | None = None) -> Optimized:
        """The optimized proto after at most `limit` rewrites. With every pass off it is the one that was loaded."""
        log = RewriteLog(limit, self.left_out)
        if self.target_opset is not None:
            proto = raise_opset(proto, self.target_opset)
        if dump is not None:
            dump.write(proto, "input")
        counts: list[PatternCount] = []
        fused = Fused()
        if self.passes:
            model = typed_model(proto, os.fspath(self.source.parent), self.target)
            files = {p.name: "_".join([p.name, *mindspore_names(p)[:1]]) for p in self.passes}
            after = None if dump is None else lambda name: dump.write(write_back(model), files[name])
            with watchdog(self.custom, self.tell if limit is None else lambda _: None) as begin:
                counts = run(model, self.passes, log, begin, after)
            if self.fusion.flags.is_on and not log.is_closed:
                self.tell("graph kernel fusion")
                fused = self.fusion.run(model, log)
            proto = write_back(model)
        if dump is not None:
            dump.write(proto, "output")
        return Optimized(proto, [*counts, *fused.counts], log, fused)

    def verdict(self, reference: Path, candidate: Path, counts: Sequence[PatternCount]) -> Verdict:
        """Whether a model is valid and computes what the original computes.

        `counts` say what took effect: some passes are for finite numbers only.
        """
        from fusionc.verify import check_model, verify

        try:
            check_model(reference, candidate)
        except VerificationError as error:
            return Verdict(False, error.what, is_loadable=False)
        effective = {count.pass_name for count in counts if count.effected}
        finite = sorted(p.name for p in self.passes if p.is_for_finite and p.name in effective)
        check = partial(verify, reference, candidate, input_shape=self.shapes, progress=self.tell)
        found = check(nonfinite=not finite)
        has_sizes = self.requests.input_shape is not None
        if found.is_refused and has_sizes and verify(self.source, self.source, seeds=(0,)).runs:
            raise self.no_such_model(found.summary)
        if found.status == "equal" and self.kernels.file is not None:
            found = check(nonfinite=not finite, kernels=self.kernels.file)
            summary = f"with generated kernels and without: {found.summary}"
        else:
            summary = f"not verified: {found.summary}" if found.status == "impossible" else found.summary
        if finite and found.status == "equal":
            summary = f"{summary}; NaN and Inf left out, for which {', '.join(finite)} may give other results"
        return Verdict(found.status != "different", summary, found.is_loadable)

    def notices(self) -> list[str]:
        """What was left out so that the result can be loaded."""
        return [
            f"{commit.pass_name} left {', '.join(commit.nodes) or 'the graph'} as it is: the result could not be loaded"
            for commit in self.left_out
        ]

    def finish(self, saved: Saved, done: Optimized, types: Mapping[str, int], reference: Path | None) -> None:
        """Convert outputs of the saved result to these types; with a reference, check that it stays a valid model."""
        from fusionc.verify import check_model

        if types:
            cast_outputs(done.proto, types)
            saved.model.write_bytes(done.proto.SerializeToString())
            if reference is not None:
                check_model(reference, saved.model)

    def again(self, reference: Path, limit: int) -> tuple[bool, Commit | None]:
        """The same conversion, stopped after `limit` rewrites: whether the model is right, and the last rewrite."""
        self.tell(f"looking for the rewrite at fault: {limit}")
        done = self.optimized(self.original(), limit)
        with save(done.proto, self.source.parent, self.destination) as saved:
            return self.verdict(reference, saved.model, done.counts).is_right, done.log.last


def verified(saved: Saved, job: Job, done: Optimized, reference: Path) -> str:
    """A sentence on the saved model, of which `done` says how it was made.

    Raises VerificationError that names the rewrite at fault; LeftOut where the model could not be loaded with that one.
    """
    from fusionc.verify import first_bad

    job.tell("verifying")
    verdict = job.verdict(reference, saved.model, done.counts)
    rewrites = done.log.count
    if verdict.is_right:
        return verdict.summary
    what, source = f"the result does not compute what the model computes: {verdict.summary}", str(job.source)
    if job.target_opset is not None and not job.again(reference, 0)[0]:
        hint = "nothing was written; leave --target_opset out, or give another one"
        raise VerificationError(what, where=f"{source}, raised to opset {job.target_opset}", hint=hint, code="E13028")
    if not rewrites:
        raise VerificationError(
            f"the result differs although nothing was rewritten: {verdict.summary}",
            where=source,
            hint="the model gives another answer each time; use --no-verify if that is meant",
            code="E13028",
        )
    number = first_bad(rewrites, lambda limit: job.again(reference, limit)[0])
    guilty = job.again(reference, number)[1]
    assert guilty is not None
    if not verdict.is_loadable and guilty.pass_name not in job.custom and len(job.left_out) < _MOST_LEFT_OUT:
        job.left_out.append(guilty)
        raise LeftOut
    place = job.custom.get(guilty.pass_name)
    at = f"at {', '.join(guilty.nodes) or 'the whole graph'} (rewrite {number} of {rewrites})"
    where = ", ".join(filter(None, (guilty.pass_name, place, f"pattern {guilty.pattern}", at)))
    off = f'convert with --optimization_switch "{guilty.pass_name}:off"'
    is_approximate = any(p.name == guilty.pass_name and p.numerics == "approximate" for p in job.passes)
    hint = (
        f"the pass is approximate, too much so for this model; {off}"
        if is_approximate
        else f"{off}, and please report it"
    )
    if place is not None:
        hint = f'correct the pass, or switch it off: --optimization_switch "{guilty.pass_name}:off"'
    raise VerificationError(what, where=where, hint=f"nothing was written; {hint}", code="E13028")
