"""A conversion that can be repeated: what is done to a model between load and save, and whether the result is right."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import onnx

from fusionc.custom.loading import load_passes
from fusionc.custom.watchdog import watchdog
from fusionc.disk.checker import fault_of
from fusionc.disk.load import load
from fusionc.disk.publish import Saved
from fusionc.disk.save import save
from fusionc.errors import UsageError, VerificationError
from fusionc.failures import explained
from fusionc.graph_kernel.flags.read_flags import read_flags
from fusionc.graph_kernel.flags.stages import mindspore_names, switched
from fusionc.graph_kernel.fusion import Fused, GraphKernelFusion, fusion_of
from fusionc.graph_kernel.library.kernel_library import KernelLibrary
from fusionc.graph_kernel.messages import tell_of_flags
from fusionc.model.write_back import write_back
from fusionc.options import Options
from fusionc.passes import PASSES
from fusionc.report import Plog
from fusionc.report.graph_dump import GraphDump
from fusionc.requested.output_type import cast_outputs
from fusionc.requested.requests import Requests
from fusionc.rewrite import Pass
from fusionc.rewrite.log import Commit, PatternCount, RewriteLog
from fusionc.rewrite.pipeline import run
from fusionc.runtime.custom_operators import custom_operators, require_loadable
from fusionc.runtime.process import step_limit
from fusionc.shapes.inference import typed_model
from fusionc.switches import Levels, decide
from fusionc.target_opset import raise_opset
from fusionc.verify.compare import Numerics
from fusionc.verify.output_errors import OutputErrors


@dataclass
class Optimized:
    """What the passes and graph kernel fusion have made of a model."""

    proto: onnx.ModelProto
    counts: list[PatternCount]
    log: RewriteLog
    fused: Fused


@dataclass(frozen=True)
class Verdict:
    """On a converted model, with a sentence on it; `is_loadable`: valid, and loaded by onnxruntime; `is_verified`: the
    reference runs, so that there was something to compare; `outputs`: how far each of them is off."""

    is_right: bool
    summary: str
    is_loadable: bool
    is_verified: bool = True
    outputs: Sequence[OutputErrors] = ()


@dataclass
class Job:
    """A conversion with its options, and what the switches have made of them.

    `custom` has the places of users' passes, by name; `shapes` are those to verify with; `left_out` are rewrites
    that are refused, and why; `notices` are for the user.
    """

    options: Options
    passes: list[Pass]
    custom: Mapping[str, str]
    requests: Requests
    fusion: GraphKernelFusion
    kernels: KernelLibrary
    shapes: Mapping[str, tuple[int, ...]] | None
    notices: list[str]
    left_out: dict[Commit, str] = field(default_factory=dict)

    def original(self) -> onnx.ModelProto:
        """The model with what was asked to change of it."""
        proto = load(self.options.source)
        self.requests.apply(proto, os.fspath(self.options.source.parent))
        return proto

    @contextmanager
    def reference(self, changed: onnx.ModelProto) -> Iterator[Path]:
        """What the result is compared with, as a file: the model, or one with what was asked to change of it.

        `changed` is that model, which stays as it is. Raises UsageError where it is not valid.
        """
        source = self.options.source
        if not self.requests:
            yield source
            return
        self.shapes = {**self.requests.sizes_to_run(changed), **(self.shapes or {})}
        copy = onnx.ModelProto()
        copy.CopyFrom(changed)
        with save(copy, source.parent, self.options.destination) as saved:
            del copy
            fault = fault_of(saved.model)
            if fault is not None and fault_of(source) is None:
                raise self.no_such_model(fault)
            yield saved.model

    def no_such_model(self, reason: str) -> UsageError:
        """What to say where the model is right, and the one that was asked for is not."""
        what = f"the model does not work with what was asked to change of it: {reason}"
        return UsageError(what, where=str(self.requests), hint="ask for other sizes or outputs", code="E10001")

    def dump(self) -> GraphDump | None:
        """Where the graph is to be written after every pass, if it is."""
        folder = self.options.dump_graph
        return None if folder is None else GraphDump(folder, [self.options.source, self.options.destination])

    def optimized(
        self,
        proto: onnx.ModelProto,
        limit: int | None = None,
        dump: GraphDump | None = None,
        examine: Sequence[Callable[..., None]] = (),
    ) -> Optimized:
        """The optimized proto after at most `limit` rewrites. With every pass off it is the one that was loaded.

        Those of `examine` are shown each rewrite before it takes effect, as `RewriteLog` has it.
        """

        def examine_all(*about: Any) -> None:
            for look in examine:
                look(*about)

        log = RewriteLog(limit, self.left_out, examine_all if examine else None)
        if self.options.target_opset is not None:
            proto = raise_opset(proto, self.options.target_opset)
        if dump is not None:
            dump.write(proto, "input")
        counts: list[PatternCount] = []
        fused = Fused()
        if self.passes:
            model = typed_model(proto, os.fspath(self.options.source.parent), self.options.target)
            files = {p.name: "_".join([p.name, *mindspore_names(p)[:1]]) for p in self.passes}
            after = None if dump is None else lambda name: dump.write(write_back(model), files[name])
            with watchdog(self.custom, self.options.progress if limit is None else lambda _: None) as begin:
                counts = run(model, self.passes, log, begin, after)
            if self.fusion.flags.is_on and not log.is_closed:
                self.options.progress("graph kernel fusion")
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
        options = self.options
        check = partial(
            verify,
            reference,
            candidate,
            input_shape=self.shapes,
            inputs=options.inputs,
            levels=options.runtime_level,
            numerics=self._numerics(effective),
            progress=options.progress,
        )
        found = check(nonfinite=not finite)
        has_sizes = self.requests.input_shape is not None
        if (
            found.is_refused
            and has_sizes
            and verify(self.options.source, self.options.source, seeds=(0,), levels=()).runs
        ):
            raise self.no_such_model(found.summary)
        if found.status == "equal" and self.kernels.file is not None:
            found = check(nonfinite=not finite, kernels=self.kernels.file)
            summary = f"with generated kernels and without: {found.summary}"
        else:
            summary = f"not verified: {found.summary}" if found.status == "impossible" else found.summary
        if finite and found.status == "equal":
            summary = f"{summary}; NaN and Inf left out, for which {', '.join(finite)} may give other results"
        is_known = found.status != "impossible"
        return Verdict(found.status != "different", summary, found.is_loadable, is_known, found.outputs)

    def _numerics(self, effective: Collection[str]) -> Numerics:
        """What the passes that took effect claim together: what the least precise of them does."""
        if self.options.target_opset is not None:
            return "rounding"
        claims = {p.numerics for p in self.passes if p.name in effective}
        return next((kind for kind in ("approximate", "rounding") if kind in claims), "bitwise")

    def leave_out(self, pass_name: str) -> None:
        """Convert without a pass from now on."""
        self.passes = [p for p in self.passes if p.name != pass_name]
        self.fusion = replace(self.fusion, enabled=self.fusion.enabled - {pass_name})

    def what_was_left_out(self, plog: Plog) -> list[str]:
        """What the user should know that was left out so that the result is right; the log gets a line for each."""
        notices = []
        for commit, reason in self.left_out.items():
            nodes = ", ".join(commit.nodes) or "the graph"
            place = f"GraphId[{commit.graph_id}], Pass[{commit.pass_name}]: pattern={commit.pattern}"
            plog.warning("Rollback", f"{place}, left_out_times=1, nodes: {nodes}, reason: {reason}.")
            notices.append(f"{commit.pass_name} left {nodes} as it is: {reason}")
        return notices

    def finish(self, saved: Saved, done: Optimized, types: Mapping[str, int], reference: Path | None) -> None:
        """Convert outputs of the saved result to these types; with a reference, check that it stays a valid model."""
        from fusionc.verify import check_model

        if types:
            cast_outputs(done.proto, types)
            saved.model.write_bytes(done.proto.SerializeToString())
            if reference is not None:
                check_model(reference, saved.model)


@contextmanager
def running(options: Options) -> Iterator[Plog]:
    """What holds while a conversion runs: its log, the limit of a step, the custom operators, errors for people."""
    with (
        Plog(options.log) as plog,
        step_limit(options.timeout),
        custom_operators(options.custom_op_library),
        explained(options.source, plog),
    ):
        yield plog


def job_of(options: Options, plog: Plog) -> Job:
    """The conversion that these options ask for: what the switch file, the switches and the flags decide.

    Raises UsageError for wrong ones, FusioncError where a file with users' passes fails.
    """
    require_loadable(options.custom_op_library)
    registry = load_passes(options.custom_passes)
    switches = decide(
        registry,
        switch_file=options.fusion_switch_file,
        optimization_switch=options.optimization_switch,
        levels=Levels(options.oo_level, options.oo_constant_folding, options.oo_dead_code_elimination),
        pattern_fusion_pass=options.pattern_fusion_pass,
    )
    read = read_flags(options.graph_kernel_flags, is_enabled=options.enable_graph_kernel)
    kernels = KernelLibrary(options.target)
    notices = [*switches.notices, *tell_of_flags(read, registry, kernels.is_for_onnxruntime, plog)]
    wanted = switched(registry, switches.enabled, read.flags)
    if not options.pattern_fusion_pass:
        wanted -= {p.name for p in registry if p.is_pattern_fusion}
    requests = Requests(options.input_shape, options.out_nodes, options.output_type)
    return Job(
        options,
        passes=[p for p in registry if p.name in wanted],
        custom={p.name: p.place for p in registry if p not in PASSES},
        requests=requests,
        fusion=fusion_of(read.flags, registry, wanted, kernels),
        kernels=kernels,
        shapes=options.verify_shape,
        notices=[*notices, *requests.notices(options.verify_shape), *_notices(options)],
    )


def _notices(options: Options) -> list[str]:
    """What the inputs to verify with come to. Raises UsageError where there are none at their path."""
    from fusionc.verify.inputs.given_values import GivenValues

    if options.inputs is None:
        return []
    GivenValues(options.inputs)
    return [] if options.verify else ["--inputs has no effect without verification"]
