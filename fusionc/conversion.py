"""The story on one page: load → switches → pipeline → save → check and verify → publish → report."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import perf_counter

import onnx

from fusionc.arguments import check_arguments
from fusionc.custom.loading import load_passes
from fusionc.disk.load import load
from fusionc.disk.paths import require_path, require_unread
from fusionc.disk.places import require_place
from fusionc.disk.save import save
from fusionc.errors import Defect, FusioncError, UsageError, said
from fusionc.graph_kernel.flags.read_flags import read_flags
from fusionc.graph_kernel.flags.stages import switched
from fusionc.graph_kernel.library.kernel_library import KernelLibrary
from fusionc.graph_kernel.library.location import library_for, published
from fusionc.graph_kernel.messages import fusion_of, tell_of_areas, tell_of_flags
from fusionc.job import Job, LeftOut, Progress, Shapes, verified
from fusionc.model.operators import KERNELS
from fusionc.model.tensors import byte_size
from fusionc.model.walk import nodes_of, tensors_of
from fusionc.passes import PASSES
from fusionc.report import Plog, Report, write_fusion_result
from fusionc.report.graph_dump import GraphDump
from fusionc.requested import Requests
from fusionc.requested.input_shape import Size
from fusionc.runtime.process import start, step_limit
from fusionc.runtime.run_errors import Overdue
from fusionc.runtime.runner import fault_of_loading
from fusionc.switches import Levels, decide
from fusionc.target_opset import newest_opset


def convert(
    model: str | os.PathLike[str],
    *,
    output: str | os.PathLike[str] | None = None,
    fusion_switch_file: str | os.PathLike[str] | None = None,
    optimization_switch: str | None = None,
    oo_level: str = "O3",
    oo_constant_folding: bool = True,
    oo_dead_code_elimination: bool = True,
    external_weight: int | None = None,
    input_shape: Mapping[str, Sequence[Size]] | None = None,
    out_nodes: str | None = None,
    output_type: str | None = None,
    verify: bool = True,
    verify_shape: Shapes | None = None,
    export_compile_stat: int = 0,
    log: str | None = None,
    target: str = "onnxruntime-cpu",
    target_opset: int | None = None,
    custom_passes: Sequence[str | os.PathLike[str]] = (),
    pattern_fusion_pass: bool = True,
    dump_graph: str | os.PathLike[str] | None = None,
    enable_graph_kernel: bool | None = None,
    graph_kernel_flags: str | None = None,
    trust_kernels: bool = False,
    timeout: float | None = None,
    progress: Progress | None = None,
) -> Report:
    """Optimize an ONNX model, verify the result in onnxruntime, write it, and report what was done.

    output                    the file to write, by default <model>_fusionc.onnx in the current folder
    fusion_switch_file        which passes run, as JSON
    optimization_switch       "P:on;Q:off"; it beats the file
    oo_level                  "O1" leaves on only what static sizes need, unless file or option name other passes
    oo_constant_folding, oo_dead_code_elimination
                              False switches that off, unless file or option name its passes
    external_weight           0 puts the weights into the model, 1 into a file beside it; by default they stay
    input_shape               sizes of inputs to fix, {"x": (1, 3, -1, (64, 256))}; -1 and ranges stay open
    out_nodes                 what becomes the outputs: "conv1:0;relu2:1", or names of values
    output_type               what the outputs are converted to in the end: "FP16", or "conv1:0:FP16;y:INT32"
    verify_shape              sizes of inputs to verify with, {"x": (1, 3, 224, 224)}
    target                    "onnxruntime-cpu", or "onnx" for any runtime
    target_opset              the version of the standard operators to raise the model to first; by default its own
    custom_passes             Python files with users' passes
    pattern_fusion_pass       False switches these off, and the built-in passes that do what TorchAir's do
    dump_graph                a folder for the graph after every pass that took effect; a former dump there is removed
    enable_graph_kernel       make areas of operators, with generated kernels in <output>.kernels.so
    graph_kernel_flags        "--opt_level=2 --dump_as_text" says how, and switches it on, too, unless it is False
    trust_kernels             load and keep the kernels of a model that another user or machine made
    timeout                   the seconds of one step of onnxruntime, loading a model or running it once; 0 is no
                              limit, the default is 300
    progress                  is called with a word on what is being done

    The passes see the model with the sizes and outputs that were asked for, and the result is verified against it.

    Raises VerificationError, and writes nothing, where the result does not compute what the model computes; it names
    the rewrite at fault. Raises UsageError for wrong switches and files that are not there, FusioncError for everything
    else that goes wrong.
    """
    check_arguments(locals())
    start()  # it imports onnxruntime meanwhile
    source = Path(model)
    require_path(source, "model")
    destination = output_path(source, None if output is None else Path(output))
    unwritable = {source: "the model itself", **{Path(file): "a file of custom passes" for file in custom_passes}}
    if fusion_switch_file is not None:
        unwritable[Path(fusion_switch_file)] = "the switch file"
    require_unread(destination, "--output", unwritable)
    report = Report(source, destination)
    tell = progress or (lambda _: None)
    started = perf_counter()
    kernels = KernelLibrary(target)
    with Plog(log) as plog, step_limit(timeout), ExitStack() as stack:
        try:
            registry = load_passes([Path(file) for file in custom_passes])
            switches = decide(
                registry,
                switch_file=None if fusion_switch_file is None else Path(fusion_switch_file),
                optimization_switch=optimization_switch,
                levels=Levels(oo_level, oo_constant_folding, oo_dead_code_elimination),
                pattern_fusion_pass=pattern_fusion_pass,
            )
            report.notices += switches.notices
            read = read_flags(graph_kernel_flags, is_enabled=enable_graph_kernel)
            report.notices += tell_of_flags(read, registry, kernels.is_for_onnxruntime, plog)
            custom = {p.name: p.place for p in registry if p not in PASSES}
            wanted = switched(registry, switches.enabled, read.flags)
            if not pattern_fusion_pass:
                wanted -= {p.name for p in registry if p.is_pattern_fusion}
            fusion = fusion_of(read.flags, registry, wanted, kernels)
            passes = [p for p in registry if p.name in wanted]
            requests = Requests(input_shape, out_nodes, output_type)
            report.notices += requests.notices(verify_shape)
            job = Job(
                source, destination, passes, target, target_opset, requests, verify_shape, tell, custom, fusion, kernels
            )
            tell("loading")
            with _timed(report, "load"):
                proto = load(source)
                require_place(destination)
                report.notices += kernels.inherit(proto, library_for(source), trust_kernels)
                report.operators_before, report.bytes_before = _operators(proto), _bytes_on_disk(proto, source)
            with _timed(report, "prepare"):
                requests.apply(proto, os.fspath(source.parent))
                types = requests.types(proto)
                reference = stack.enter_context(job.reference()) if verify else source
            done = None
            while done is None:
                dump = None if dump_graph is None else GraphDump(Path(dump_graph), [source, destination])
                with _timed(report, "fuse"):
                    done = job.optimized(proto, dump=dump)
                published(kernels.file, destination, source)  # whether the library has a place, before all is verified
                tell("saving")
                try:
                    with ExitStack() as files:
                        with _timed(report, "save"):
                            saved = files.enter_context(save(done.proto, source.parent, destination, external_weight))
                        if verify:
                            kernels.require_loadable()
                            with _timed(report, "verify"):
                                report.verification = verified(saved, job, done, reference)
                        with _timed(report, "save"):
                            job.finish(saved, done, types, reference if verify else None)
                            report.operators_after = _operators(done.proto)
                            report.bytes_after = _bytes_on_disk(done.proto, saved.model)
                            library = published(kernels.file, destination, source)
                            report.kernels = library.place if library.file is not None else None
                            saved.publish(library)
                except LeftOut:
                    proto, done = job.original(), None
                finally:
                    if done is not None:
                        report.patterns = done.counts
                        report.pattern_lines = plog.patterns([*done.counts, *done.fused.splits])
                        report.notices += tell_of_areas(done.fused, fusion, kernels, done.counts, plog)
                        report.notices += [*_of_no_use(report, custom), *_of_a_newer_opset(report), *job.notices()]
            write_fusion_result(report.patterns, export_compile_stat, report.notices)
        except Exception as error:
            explained = _explained(error, source)
            plog.error("Convert", " ".join(f"{explained}".split()))
            if isinstance(explained, FusioncError):
                explained.log_file = plog.file
            if explained is error:
                raise
            raise explained from error
        finally:
            report.notices += plog.notices
            report.log_file = plog.file
    report.seconds = perf_counter() - started
    return report


def _explained(error: Exception, source: Path) -> Exception:
    """The error, with what may help where it says too little.

    What nobody foresaw is the fault of a model that onnxruntime cannot load. onnx.checker is not asked: it has
    complaints about many a model that runs, which need not be related.
    """
    if isinstance(error, MemoryError):
        hint = "convert it on a machine with more; smaller sizes in --verify_shape, or --no-verify, need less"
        return FusioncError("there is not enough memory for this model", where=str(source), hint=hint)
    if isinstance(error, OSError) or (isinstance(error, FusioncError) and not isinstance(error, Defect)):
        return error
    late = error.__cause__ if isinstance(error, Defect) else error
    if isinstance(late, Overdue):
        return FusioncError(f"onnxruntime is not quick enough: {late}", where=str(source), hint="give it more seconds")
    if not isinstance(error, Defect):
        hint = "please report it, with what --log debug prints"
        error = Defect(f"the conversion failed: {said(error)}", where=str(source), hint=hint)
    fault = fault_of_loading(source)
    if fault is None:
        return error
    what = f"the model is not valid: onnxruntime cannot load it: {fault}"
    hint = "export the model again; leave out with --optimization_switch what fails on it"
    return FusioncError(what, where=str(source), hint=hint, code="E13005", details=[error.what])


def output_path(model: Path, output: Path | None) -> Path:
    """Where the result goes. Raises UsageError where that is a folder."""
    path = Path(f"{model.stem}_fusionc.onnx") if output is None else output
    if path.suffix.lower() != ".onnx" and path.name:
        path = path.with_name(f"{path.name}.onnx")
    require_path(path, "output")
    if path.is_dir() or (output is not None and output.is_dir()):
        hint = "give --output another file name"
        raise UsageError("the output is a folder", where=str(output or path), hint=hint, code="E10001")
    return path


def _of_no_use(report: Report, custom: Mapping[str, str]) -> list[str]:
    """Users' passes that matched and did nothing, and why; those that matched nowhere."""
    own = [total for total in report.passes() if total.name in custom]
    idle = [total for total in own if total.matched and not total.effected]
    told = [f"{total.name} matched, and took no effect: {', '.join(total.refused)}" for total in idle]
    nowhere = [total.name for total in own if not total.matched]
    return [*told, f"matched nowhere: {', '.join(nowhere)}"] if nowhere else told


def _of_a_newer_opset(report: Report) -> list[str]:
    """What was refused for the opset of the model alone, and the one that would allow it, if onnxruntime runs that."""
    waiting: dict[str, Counter[int]] = {}
    for count in report.patterns:
        if count.waiting:
            waiting.setdefault(count.pass_name, Counter()).update(count.waiting)
    newest = newest_opset() if waiting else 0
    allowed = {name: {v: n for v, n in times.items() if v <= newest} for name, times in waiting.items()}
    wanted = max((max(times, default=0) for times in allowed.values()), default=0)
    told = []
    for name, times in allowed.items():
        since = f", from {max(times)}" if times and max(times) < wanted else ""
        told += [f"{name} ({sum(times.values())}{since})"] if times else []
    return [f"--target_opset {wanted} would allow: {', '.join(told)}"] if told else []


@contextmanager
def _timed(report: Report, stage: str) -> Iterator[None]:
    """Add the seconds that this takes to those of a stage."""
    start = perf_counter()
    try:
        yield
    finally:
        report.stages[stage] = report.stages.get(stage, 0.0) + perf_counter() - start


def _bytes_on_disk(proto: onnx.ModelProto, path: Path) -> int:
    """The size of a model with the external data that it uses."""
    external = (t for t in tensors_of(proto) if t.data_location == onnx.TensorProto.EXTERNAL)
    return path.stat().st_size + sum(map(byte_size, external))


def _operators(proto: onnx.ModelProto) -> dict[str, int]:
    """How many nodes of each operator a model has, those in subgraphs and functions too; an area counts as one."""
    inside = Counter(node.op_type for f in proto.functions if f.domain == KERNELS for node in f.node)
    return dict(Counter(node.op_type for node in nodes_of(proto)) - inside)
