"""The story on one page: load → switches → pipeline → save → check and verify → publish → report."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter

import onnx

from fusionc.errors import FusioncError, UsageError, VerificationError
from fusionc.model.build import build
from fusionc.model.load import load
from fusionc.model.save import Saved, save
from fusionc.model.tensors import byte_size
from fusionc.model.walk import nodes_of, tensors_of
from fusionc.model.write_back import write_back
from fusionc.passes import PASSES
from fusionc.report import Plog, Report, write_fusion_result
from fusionc.rewrite import Pass
from fusionc.rewrite.apply import Commit, Ledger
from fusionc.rewrite.counters import PatternCount
from fusionc.rewrite.pipeline import run
from fusionc.switches import decide

Progress = Callable[[str], None]
Shapes = Mapping[str, tuple[int, ...]]


def convert(
    model: str | os.PathLike[str],
    *,
    output: str | os.PathLike[str] | None = None,
    fusion_switch_file: str | os.PathLike[str] | None = None,
    optimization_switch: str | None = None,
    external_weight: int | None = None,
    input_shape: Shapes | None = None,
    verify: bool = True,
    export_compile_stat: int = 0,
    log: str | None = None,
    target: str = "onnxruntime-cpu",
    progress: Progress | None = None,
) -> Report:
    """Optimize an ONNX model, verify the result in onnxruntime, write it, and report what was done.

    `output` is the file to write, by default <model>_fusionc.onnx in the current folder. `fusion_switch_file` and
    `optimization_switch` ("P:on;Q:off", which beats the file) say which passes run. `external_weight` 0 puts the
    weights into the model, 1 into a file beside it; by default they stay where they are. `input_shape` gives the
    sizes of inputs that verification uses. `target` is "onnxruntime-cpu", or "onnx" for any runtime. `progress` is
    called with a word on what is being done.

    Raises VerificationError, and writes nothing, where the result does not compute what the model computes; it names
    the rewrite at fault. Raises UsageError for wrong switches, FusioncError for everything else that goes wrong.
    """
    source = Path(model)
    destination = Path(f"{source.stem}_fusionc.onnx") if output is None else Path(output)
    if destination.exists() and source.exists() and destination.samefile(source):
        raise UsageError("the result would overwrite the model", where=str(destination), code="E10001")
    report = Report(source, destination)
    tell = progress or (lambda _: None)
    started = perf_counter()
    with Plog(log) as plog:
        try:
            switches = decide(
                PASSES,
                switch_file=None if fusion_switch_file is None else Path(fusion_switch_file),
                optimization_switch=optimization_switch,
            )
            report.notices += switches.notices
            passes = [p for p in PASSES if p.name in switches.enabled]
            tell("loading")
            with _timed(report, "load"):
                proto = load(source)
            report.operators_before, report.bytes_before = _operators(proto), _bytes_on_disk(proto, source)
            with _timed(report, "fuse"):
                proto, report.patterns, ledger = _optimize(proto, source, passes, target, None, tell)
            report.operators_after = _operators(proto)
            report.pattern_lines = plog.patterns(report.patterns)
            tell("saving")
            with save(proto, source.parent, destination, external_weight) as saved:
                report.bytes_after = _bytes_on_disk(proto, saved.model)
                if verify:
                    with _timed(report, "verify"):
                        trial = _Trial(source, destination, passes, target, input_shape, tell)
                        report.verification = _verify(saved, trial, ledger.count)
                saved.publish()
            write_fusion_result(report.patterns, export_compile_stat, report.notices)
        except FusioncError as error:
            plog.error("Convert", " ".join(str(error).split()))
            raise
        finally:
            report.notices += plog.notices
            report.log_file = plog.file
    report.seconds = perf_counter() - started
    return report


def _optimize(
    proto: onnx.ModelProto, source: Path, passes: list[Pass], target: str, limit: int | None, progress: Progress
) -> tuple[onnx.ModelProto, list[PatternCount], Ledger]:
    """The optimized proto. With every pass off it is the one that was loaded, untouched."""
    ledger = Ledger(limit)
    if not passes:
        return proto, [], ledger
    graph = build(proto, os.fspath(source.parent), target)
    counts = run(graph, passes, ledger, progress)
    return write_back(graph), counts, ledger


class _Trial:
    """Is the result right? And if not: which rewrite broke it?"""

    def __init__(
        self, source: Path, destination: Path, passes: list[Pass], target: str, shapes: Shapes | None, tell: Progress
    ) -> None:
        self.source, self.destination, self.passes, self.target = source, destination, passes, target
        self.shapes, self.tell = shapes, tell

    def verdict(self, candidate: Path) -> tuple[bool, str]:
        """Whether a model is valid and computes what the original computes, and a sentence on it."""
        from fusionc.verify import check_model, verify

        try:
            check_model(self.source, candidate)
        except VerificationError as error:
            return False, error.what
        found = verify(self.source, candidate, input_shape=self.shapes, progress=self.tell)
        return found.status != "different", found.summary

    def again(self, limit: int) -> tuple[bool, Commit | None]:
        """The same conversion, stopped after `limit` rewrites: whether the model is right, and the last rewrite."""
        self.tell(f"looking for the rewrite at fault: {limit}")
        proto, _, ledger = _optimize(load(self.source), self.source, self.passes, self.target, limit, lambda _: None)
        with save(proto, self.source.parent, self.destination) as saved:
            return self.verdict(saved.model)[0], ledger.last


def _verify(saved: Saved, trial: _Trial, rewrites: int) -> str:
    """A sentence on the saved model. Raises VerificationError that names the rewrite at fault."""
    from fusionc.verify import first_bad

    trial.tell("verifying")
    is_right, summary = trial.verdict(saved.model)
    if is_right:
        return summary
    if not rewrites:
        raise VerificationError(
            f"the result differs although nothing was rewritten: {summary}",
            where=str(trial.source),
            hint="the model gives another answer each time; use --no-verify if that is meant",
            code="E13028",
        )
    number = first_bad(rewrites, lambda limit: trial.again(limit)[0])
    guilty = trial.again(number)[1]
    assert guilty is not None
    raise VerificationError(
        f"the result does not compute what the model computes: {summary}",
        where=f"{guilty.pass_name}, pattern {guilty.pattern}, at {', '.join(guilty.nodes) or 'the whole graph'}"
        f" (rewrite {number} of {rewrites})",
        hint=f'nothing was written; convert with --optimization_switch "{guilty.pass_name}:off", and please report it',
        code="E13028",
    )


@contextmanager
def _timed(report: Report, stage: str) -> Iterator[None]:
    start = perf_counter()
    yield
    report.stages[stage] = perf_counter() - start


def _bytes_on_disk(proto: onnx.ModelProto, path: Path) -> int:
    """The size of a model with the external data that it uses."""
    external = (t for t in tensors_of(proto) if t.data_location == onnx.TensorProto.EXTERNAL)
    return path.stat().st_size + sum(map(byte_size, external))


def _operators(proto: onnx.ModelProto) -> dict[str, int]:
    """How many nodes of each operator a model has, those in subgraphs and functions too."""
    return dict(Counter(node.op_type for node in nodes_of(proto)))
