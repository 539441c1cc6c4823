"""A conversion that can be repeated: what is done to a model between load and save."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx

from fusionc.attempt.failures import explained
from fusionc.custom.loading import load_passes
from fusionc.custom.watchdog import watchdog
from fusionc.disk.load import load
from fusionc.disk.mapped_weights import write_mapped
from fusionc.disk.onnx_checker import fault_of, require_as_valid
from fusionc.disk.places import require_place
from fusionc.disk.publish import Saved
from fusionc.disk.save import save
from fusionc.graph_kernel.flags.read_flags import read_flags
from fusionc.graph_kernel.flags.stages import is_echoed, mindspore_names, switched
from fusionc.graph_kernel.library.kernel_library import KernelLibrary
from fusionc.graph_kernel.library.location import library_for
from fusionc.model.operators import opsets_of
from fusionc.model.write_back import write_back
from fusionc.options import Options
from fusionc.passes import PASSES
from fusionc.protos import copied
from fusionc.report import Plog
from fusionc.report.graph_dump import GraphDump
from fusionc.requested.free_dim import Freed
from fusionc.requested.output_type import cast_outputs
from fusionc.requested.requests import Requests
from fusionc.requested.target_opset import LostKernel, raise_opset
from fusionc.requested.types_of_a_run import TypesOfARun
from fusionc.rewrite import Pass
from fusionc.rewrite.log import Commit, PatternCount, RewriteLog
from fusionc.rewrite.pipeline import run
from fusionc.runtime.custom_operators import custom_operators, require_loadable
from fusionc.runtime.process import step_limit
from fusionc.runtime.runner import fault_of_loading
from fusionc.shapes.inference import typed_model
from fusionc.switches import Levels, decide

if TYPE_CHECKING:
    from fusionc.graph_kernel.fusion import Fused, GraphKernelFusion
    from fusionc.verify.reference_ahead import ReferenceAhead


OLDEST = 7  # opset of which onnxruntime promises to have all kernels


@dataclass
class Optimized:
    """What the passes and graph kernel fusion, if it ran, have made of a model."""

    proto: onnx.ModelProto
    counts: list[PatternCount]
    log: RewriteLog
    fused: Fused | None


@dataclass
class Job:
    """A conversion with its options, and what the switches have made of them.

    `custom` has the places of users' passes, by name; `shapes` are those to verify with; `left_out`
    are rewrites that are refused, and why; `freed` is what --free_dim made symbolic in the model;
    `types` are those that outputs get in the end; `ahead` is what the result is compared with,
    which runs meanwhile; `lost` are the kernels that it costs to raise the opset; `notices` are for
    the user.
    """

    options: Options
    passes: list[Pass]
    custom: Mapping[str, str]
    requests: Requests
    fusion: GraphKernelFusion | None
    kernels: KernelLibrary
    shapes: Mapping[str, tuple[int, ...]] | None
    notices: list[str]
    left_out: dict[Commit, str] = field(default_factory=dict)
    freed: Freed | None = None
    types: Mapping[str, int] = field(default_factory=dict)
    ahead: ReferenceAhead | None = None
    lost: Sequence[LostKernel] = ()

    def opened(self) -> onnx.ModelProto:
        """The model as it is in its file, for the first time: the result has a place, kernels of
        the model stay.
        """
        proto = self._loaded()
        require_place(self.options.destination)
        self.notices += self.requests.left_alone(proto)
        self.notices += self.kernels.inherit(
            proto, library_for(self.options.source), self.options.trust_kernels
        )
        return proto

    def _loaded(self) -> onnx.ModelProto:
        """The model; dumps of it have all weights in them."""
        return load(self.options.source, maps=self.options.dump_graph is None)

    def changed(self, proto: onnx.ModelProto) -> onnx.ModelProto:
        """The same proto, with what was asked to change of the model."""
        self.freed = self.requests.apply(proto, os.fspath(self.options.source.parent), self.freed)
        self.types = self.requests.types(proto)
        return proto

    def original(self) -> onnx.ModelProto:
        """The model once more, with what was asked to change of it."""
        return self.changed(self._loaded())

    @contextmanager
    def reference(self, changed: onnx.ModelProto) -> Iterator[Path]:
        """What the result is compared with, as a file: the model, or one with what was asked to
        change of it.

        `changed` is that model, which stays as it is. Where onnxruntime does not run opsets as old
        as the model's, what runs first is the raised one. Raises UsageError where the changed model
        is not valid.
        """
        source = self.options.source
        version = self.options.target_opset
        is_too_old = version is not None and self._is_too_old(changed)
        if not self.requests and not is_too_old:
            yield source
            return
        chosen = self.shapes or {}
        self.shapes = {**self.requests.sizes_to_run(changed, chosen), **chosen}
        copy = copied(changed)
        if version is not None and is_too_old:
            copy = self._raised(copy, version)
            said = f"onnxruntime does not run this model of opset {opsets_of(changed)['']}"
            self.notices.append(
                f"{said}: the result is compared with the model as raised to opset {version}"
            )
        with save(copy, source.parent, self.options.destination) as saved:
            del copy
            fault = fault_of(saved.model)
            if fault is not None and fault_of(source) is None:
                raise self.requests.unfit(fault)
            if self.freed is not None:
                self.requests.require_runs(saved.model, source, self.freed)
            yield saved.model

    def dump(self) -> GraphDump | None:
        """Where the graph is to be written after every pass, if it is."""
        folder = self.options.dump_graph
        return (
            None
            if folder is None
            else GraphDump(folder, [self.options.source, self.options.destination])
        )

    def optimized(
        self,
        proto: onnx.ModelProto,
        limit: int | None = None,
        dump: GraphDump | None = None,
        examine: Sequence[Callable[..., None]] = (),
    ) -> Optimized:
        """The optimized proto after at most `limit` rewrites. With every pass off it is the one
        that was loaded.

        Those of `examine` are shown each rewrite before it takes effect, as `RewriteLog` has it.
        """

        def examine_all(*about: Any) -> None:
            for look in examine:
                look(*about)

        log = RewriteLog(limit, self.left_out, examine_all if examine else None)
        if self.options.target_opset is not None:
            proto = self._raised(proto, self.options.target_opset)
        if dump is not None:
            dump.write(proto, "input")
        counts: list[PatternCount] = []
        fused = None
        if self.passes:
            model = typed_model(proto, os.fspath(self.options.source.parent), self.options.target)
            files = {p.name: "_".join([p.name, *mindspore_names(p)[:1]]) for p in self.passes}

            def after(name: str) -> None:
                if dump is not None:
                    dump.write(write_back(model), files[name])

            with watchdog(
                self.custom, self.options.progress if limit is None else lambda _: None
            ) as begin:
                counts = run(model, self.passes, log, begin, after)
            if self.fusion is not None and self.fusion.flags.is_on and not log.is_closed:
                self.options.progress("graph kernel fusion")
                fused = self.fusion.run(model, log)
            proto = write_back(model)
        if dump is not None:
            dump.write(proto, "output")
        return Optimized(proto, [*counts, *(fused.counts if fused is not None else ())], log, fused)

    def _raised(self, proto: onnx.ModelProto, version: int) -> onnx.ModelProto:
        """The model at that opset, and once a notice for each kernel of onnxruntime that this
        loses.
        """
        lost = list[LostKernel]()
        raised = raise_opset(proto, version, os.fspath(self.options.source.parent), lost.append)
        if not self.lost:
            self.lost = lost
            self.notices += map(str, lost)
        return raised

    def _is_too_old(self, proto: onnx.ModelProto) -> bool:
        return (
            opsets_of(proto).get("", 0) < OLDEST
            and fault_of_loading(self.options.source) is not None
        )

    def leave_out(self, pass_name: str) -> None:
        """Convert without a pass from now on."""
        self.passes = [p for p in self.passes if p.name != pass_name]
        if self.fusion is not None:
            self.fusion = replace(self.fusion, enabled=self.fusion.enabled - {pass_name})

    def finish(self, saved: Saved, done: Optimized, reference: Path | None) -> None:
        """Convert outputs of the saved result as asked for; with a reference, check that it stays a
        valid model.
        """
        if self.types:
            cast_outputs(done.proto, self.types)
            write_mapped(done.proto, self.options.source.parent, saved.model)
            if reference is not None:
                require_as_valid(saved.model, reference)


@contextmanager
def running(options: Options) -> Iterator[Plog]:
    """What holds while a conversion runs: its log, the limit of a step, the custom operators,
    errors for people.
    """
    with (
        Plog(options.log) as plog,
        step_limit(options.timeout),
        custom_operators(options.custom_op_library),
        explained(options.source, plog),
    ):
        yield plog


def job_of(options: Options, plog: Plog) -> Job:
    """The conversion that these options ask for: what the switch file, the switches and the flags
    decide.

    Raises UsageError for wrong ones and where --inputs leads to none, FusioncError where a file
    with users' passes fails.
    """
    require_loadable(options.custom_op_library)
    registry = load_passes(options.custom_passes)
    switches = decide(
        registry,
        switch_file=options.fusion_switch_file,
        optimization_switch=options.optimization_switch,
        levels=Levels(
            options.oo_level, options.oo_constant_folding, options.oo_dead_code_elimination
        ),
        pattern_fusion_pass=options.pattern_fusion_pass,
    )
    read = read_flags(options.graph_kernel_flags, is_enabled=options.enable_graph_kernel)
    kernels = KernelLibrary(options.target, options.progress)
    notices = [*switches.notices, *read.notices]
    fusion = None
    wanted = switched(registry, switches.enabled, read.flags)
    if not options.pattern_fusion_pass:
        wanted -= {p.name for p in registry if p.is_pattern_fusion}
    if read.raw or read.flags.is_on or is_echoed():
        # few conversions need it, and it is large
        from fusionc.graph_kernel.fusion import fusion_of
        from fusionc.graph_kernel.messages import tell_of_flags

        notices += tell_of_flags(read, registry, kernels.is_for_onnxruntime, plog)
        fusion = fusion_of(read.flags, registry, wanted, kernels)
    if options.inputs is not None:
        from fusionc.verify.inputs.given_values import GivenValues

        GivenValues(options.inputs)  # raises where there are none
    requests = Requests(
        options.input_shape,
        options.out_nodes,
        options.output_type,
        options.free_dim,
        TypesOfARun(options.inputs, options.verify_shape),
    )
    return Job(
        options,
        passes=[p for p in registry if p.name in wanted],
        custom={p.name: p.place for p in registry if p not in PASSES},
        requests=requests,
        fusion=fusion,
        kernels=kernels,
        shapes=options.verify_shape,
        notices=[*notices, *requests.notices(options.verify_shape), *options.notices()],
    )
