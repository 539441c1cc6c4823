"""The second half of a conversion to float16: lower the optimized model in float32 to float16, and
judge the lowered model by how far its outputs move.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from onnx import ModelProto

from fusionc.attempt.asked_model import AskedModel, ReferenceModel
from fusionc.attempt.attempt import ConversionAttempt, LeftOut, fuse_areas
from fusionc.attempt.loadable import DEPLOYED, fault_of_result
from fusionc.attempt.verdict import verdict_on
from fusionc.bisect.lost_precision import LossSearch
from fusionc.disk.load import load
from fusionc.disk.publish import Saved
from fusionc.disk.save import save
from fusionc.errors import UsageError, VerificationError
from fusionc.model.graph import Node
from fusionc.model.operators import opsets_of
from fusionc.protos import is_external
from fusionc.report import Report
from fusionc.requested.float16.customized_types import Form
from fusionc.requested.float16.half_constants import LARGEST
from fusionc.requested.float16.lower_graph import Choice, Float16Lowering
from fusionc.requested.float16.mixed_lists import MATRIX_OPERATORS
from fusionc.requested.float16.precision_modes import FP16
from fusionc.runtime.runner import closes_runners
from fusionc.verify.budget import elements_of
from fusionc.verify.largest_values import largest_values
from fusionc.verify.model_file import ModelFile
from fusionc.verify.precision_loss import PrecisionLosses, ReferenceSamples, losses_on
from fusionc.verify.reference import Reference

_OLDEST = 7  # the first opset with float16 in most operators
_SHOWN = 3  # names that a notice lists
_NOT_FASTER = (
    "onnxruntime computes most operators of float16 in float32 on a CPU, between Casts: there the "
    "result is smaller, not faster"
)


@dataclass(frozen=True)
class LoweredResult:
    """The result in float16, saved."""

    done: ConversionAttempt
    saved: Saved
    folder: Path  # the folder of the external weights of the attempt's proto
    notices: list[str]  # for the user


@closes_runners
def lower_result(
    model: AskedModel,
    done: ConversionAttempt,
    saved: Saved,
    reference: ReferenceModel | None,
    left_out: LeftOut,
    report: Report,
    files: ExitStack,
) -> LoweredResult:
    """Lower the saved result of an attempt to float16, except the nodes that lose too much. Then
    make its areas (groups of operators with one generated kernel). `files` keeps the new files.
    Without a reference nothing is measured.

    Raises VerificationError if the lowered result does not keep the bound, and UsageError if the
    model is too old for float16.
    """
    return _Lowerer(model, saved, reference, left_out).run(done, report, files)


class _Lowerer:
    def __init__(
        self,
        model: AskedModel,
        saved: Saved,
        reference: ReferenceModel | None,
        left_out: LeftOut,
    ) -> None:
        self._plan = model.plan
        self._options = model.plan.options
        self._saved = saved
        self._reference = reference
        self._left_out = left_out
        self._measured: dict[frozenset[str], PrecisionLosses] = {}  # by nodes in float32
        self._proto = load(saved.model, maps=True)
        self._folder = saved.model.parent
        _require_opset(self._proto, os.fspath(self._options.source))
        self._lowering = Float16Lowering(
            self._proto, os.fspath(self._folder), self._options.target, self._plan.precision
        )

    def run(self, done: ConversionAttempt, report: Report, files: ExitStack) -> LoweredResult:
        """Lower, save and judge."""
        self._options.progress("lowering to float16")
        if self._reference is not None and self._plan.precision.searches:
            self._keep_lossy_nodes()
        choices = self._lowering.choices(self._left_out.wide)
        lowered = self._lowering.lowered(choices)
        notices = [*self._notices(choices)]
        plain = files.enter_context(self._save(lowered))
        result = plain
        folder = self._folder
        done = replace(done, proto=lowered)
        if self._plan.makes_areas:
            folder = plain.model.parent
            proto = load(plain.model, maps=True)
            done = fuse_areas(self._plan, done, proto, os.fspath(folder))
            result = files.enter_context(self._save(done.proto, plain))
            self._judge_areas(done, plain, result)
        fault = fault_of_result(self._plan, result.model)
        if fault is not None:
            what = f"onnxruntime cannot load the result in float16: {fault}"
            raise self._error(what, "keep the nodes that it names in float32 with --keep_dtype")
        if self._reference is not None and _lowered(choices):
            self._judge(result, report)
        return LoweredResult(done, result, folder, notices)

    def _save(
        self, proto: ModelProto, source: Saved | None = None
    ) -> AbstractContextManager[Saved]:
        """Save a lowered proto. Its other weights are those of `source`, by default the result in
        float32. If some weights were external, all become external.
        """
        chosen = self._options.external_weight
        is_apart = any(map(is_external, self._proto.graph.initializer))
        place = 1 if is_apart and chosen is None else chosen
        folder = (source or self._saved).model.parent
        return save(proto, folder, self._options.destination, place)

    def _keep_lossy_nodes(self) -> None:
        """Find the nodes that lose too much, and note them in `left_out`."""
        wide = self._left_out.wide
        wide |= self._overflows()
        losses = self._measure(wide)
        choices = self._lowering.choices(wide)
        names = dict.fromkeys(self._name(node) for node in _lowered(choices))
        search = LossSearch(
            list(names),
            lambda more: self._measure({*wide, *more}),
            "float16",
            self._options.progress,
        )
        wide |= search.find(losses)

    def _overflows(self) -> dict[str, str]:
        """The nodes whose values float16 cannot hold on the samples, with the reasons."""
        nodes = {node: self._lowering.nodes[node] for node in _lowered(self._lowering.choices())}
        edges = {
            edge.name: edge
            for one in nodes.values()
            for edge in (*one.inputs.values(), *one.outputs.values())
            if not edge.is_constant
        }
        ranges = largest_values(self._samples, self._saved.model, list(edges))
        reasons = dict[str, str]()
        for node, one in nodes.items():
            names = {edge.name for edge in (*one.inputs.values(), *one.outputs.values())}
            largest = max((ranges.get(name, 0.0) for name in names), default=0.0)
            if largest > LARGEST:
                what = f"its values reach {largest:.3g}, and float16 ends at {LARGEST:.5g}"
                reasons[self._name(node)] = what
        return reasons

    def _measure(self, wide: Collection[str]) -> PrecisionLosses:
        """The losses if these nodes stay in float32, as a runtime of float16 computes."""
        key = frozenset(wide)
        if key not in self._measured:
            choices = self._lowering.choices(wide)
            with self._save(self._lowering.lowered(choices, is_emulated=True)) as saved:
                self._measured[key] = self._losses(ModelFile(saved.model))
        return self._measured[key]

    def _losses(self, candidate: ModelFile, level: str = "disabled") -> PrecisionLosses:
        bound = self._options.precision_error
        progress = self._options.progress
        return losses_on(self._samples, candidate, bound, "float16", level, progress)

    @cached_property
    def _samples(self) -> ReferenceSamples:
        assert self._reference is not None
        elements = elements_of(self._options.verify_budget)
        sizes = self._reference.sizes
        ours = Reference(self._reference.file, sizes, self._options.inputs, elements=elements)
        return ReferenceSamples(ours)

    def _name(self, node: Node) -> str:
        return self._plan.kept.name_of(node)

    def _judge_areas(self, done: ConversionAttempt, plain: Saved, result: Saved) -> None:
        """Raise VerificationError if kernels do not compute what the lowered model computes."""
        if self._reference is None:
            return
        self._plan.kernels.require_loadable()
        lowered = ReferenceModel(plain.model, self._reference.sizes)
        names = done.inner_names
        verdict = verdict_on(result.model, lowered, self._plan, done.counts, inner_names=names)
        if not verdict.is_right:
            raise self._error(
                f"the kernels do not compute what the model in float16 computes: {verdict.summary}",
                "convert without --enable_graph_kernel, and please report it",
            )

    def _judge(self, result: Saved, report: Report) -> None:
        """Raise VerificationError if the result moves an output by more than the bound. The result
        is computed as a runtime of float16 does, and in onnxruntime without and with its
        optimizers.
        """
        levels = ["disabled", *(one for one in self._options.runtime_level if one == DEPLOYED)]
        candidate = ModelFile(result.model, self._plan.kernels.file)
        measured = [self._measure(self._left_out.wide)]
        measured += [self._losses(candidate, level) for level in levels]
        for losses in measured:
            if not losses.is_within:
                mode = self._plan.precision.mode
                advice = "allow more with --precision_error, or keep nodes with --keep_dtype"
                if mode == FP16:
                    advice = f"mixed_float16 instead of {FP16} keeps nodes that lose too much"
                raise self._error(f"the result in float16 is {losses}", advice)
        report.verification = f"{report.verification}; in float16: {measured[0]}"

    def _error(self, what: str, advice: str = "") -> VerificationError:
        hint = "; ".join(filter(None, ["nothing was written", advice]))
        source = os.fspath(self._options.source)
        return VerificationError(what, where=source, hint=hint, code="E13028")

    def _notices(self, choices: Mapping[Node, Choice]) -> Iterator[str]:
        """Which nodes compute in float16, and why others do not."""
        lowered = _lowered(choices)
        products = [node for node in choices if node.op in MATRIX_OPERATORS]
        count = sum(node in lowered for node in products)
        yield (
            f"in float16: {count} of {len(products)} convolutions and matrix products, "
            f"{len(lowered)} of {len(choices)} nodes of float32"
        )
        groups = defaultdict[str, list[str]](list)
        for node, choice in choices.items():
            if choice.form is Form.FLOAT32 and choice.reason:
                groups[choice.reason].append(self._name(node))
        for reason, names in groups.items():
            different = list(dict.fromkeys(names))
            more = f" and {len(different) - _SHOWN} more" if len(different) > _SHOWN else ""
            shown = ", ".join(different[:_SHOWN])
            stay = f"{len(names)} node{'s' if len(names) > 1 else ''} in float32"
            yield f"{stay}, because {reason}: {shown}{more}"
        if lowered:
            yield _NOT_FASTER
            yield from self._measuring_notices()

    def _measuring_notices(self) -> Iterator[str]:
        if self._reference is None:
            yield "what float16 costs is not measured, because nothing is verified"
        elif self._options.inputs is None:
            yield "what float16 costs is measured on random inputs; give real ones with --inputs"


def _lowered(choices: Mapping[Node, Choice]) -> dict[Node, Choice]:
    """The nodes that compute in float16, or round their inputs to float16."""
    return {node: one for node, one in choices.items() if one.form is not Form.FLOAT32}


def _require_opset(proto: ModelProto, source: str) -> None:
    opset = opsets_of(proto).get("", 0)
    if opset < _OLDEST:
        what = f"float16 needs opset {_OLDEST} or newer, and the model has opset {opset or 'none'}"
        hint = "raise the model with --target_opset"
        raise UsageError(what, where=source, hint=hint, code="E10001")
