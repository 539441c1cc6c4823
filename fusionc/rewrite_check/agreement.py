"""Do the two models of a rewrite compute the same? Both run on a few inputs, and what differs is judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx

from fusionc.rewrite.definition import Numerics
from fusionc.rewrite_check.rewrite_models import RewriteModels
from fusionc.rewrite_check.sample_values import (
    MIXED,
    NARROWER,
    NOT_FINITE,
    ORDINARY,
    ZEROS,
    DimensionSizes,
    ValueStyle,
    draw_feeds,
    likely_sizes,
)
from fusionc.runtime.run_errors import RunError
from fusionc.runtime.runner import Runner
from fusionc.verify.compare import compare
from fusionc.verify.inputs.sample import Sample
from fusionc.verify.judge import Judge

_LARGEST = 1 << 30  # bytes of a model that is handed over in one piece
_NOT_RUN = "onnxruntime cannot run what it replaces"
_APPROXIMATE = 0.01
_HALF = ("float16", "bfloat16")  # onnxruntime computes them in float32, and rounds between nodes as it likes


@dataclass(frozen=True)
class Agreement:
    """Whether two models agree, None where neither ran on anything; `reason` says in what they do not, or why."""

    agrees: bool | None
    reason: str = ""


def agreement(models: RewriteModels, numerics: Numerics, is_for_finite: bool, kernels: Path | None = None) -> Agreement:
    """Run both models, which agree as far as `numerics` says; `is_for_finite`: on finite numbers alone.

    `kernels` is a library for operators of the second.
    """
    if models.before.ByteSize() + models.after.ByteSize() > _LARGEST:
        return Agreement(None, "its constants are too large")
    pair = _Pair(models, numerics, kernels)
    try:
        return pair.agreement(is_for_finite)
    finally:
        pair.close()


class _Pair:
    def __init__(self, models: RewriteModels, numerics: Numerics, kernels: Path | None) -> None:
        self._kernels = kernels
        self._models, self._is_exact, self._is_approximate = models, numerics == "bitwise", numerics == "approximate"
        self._runners: list[Runner] = []
        self._error = "the types of its inputs are not known"
        # A division of whole numbers by zero ends the process.
        self._divides = any(node.op_type in ("Div", "Mod") for node in models.before.graph.node)

    def close(self) -> None:
        for runner in self._runners:
            runner.close()

    def agreement(self, is_for_finite: bool) -> Agreement:
        try:
            before = self._runner(self._models.before)
            samples = self._samples(before, is_for_finite)
        except RunError:
            return Agreement(None, _NOT_RUN)
        if not samples:
            return Agreement(None, self._error)
        try:
            after = self._runner(self._models.after, self._kernels)
            ran = after.run_each([sample.feeds for sample in samples])
        except RunError as error:
            return Agreement(False, f"what it replaces runs, the replacement does not: {error}")
        for at, (sample, (found, why)) in enumerate(zip(samples, ran, strict=True)):
            if found is None and not sample.edge:  # at an edge: a negative index, say, which some operators refuse
                return Agreement(False, f"{sample.label}: what it replaces runs, the replacement does not: {why}")
            if found is not None and self._differ(sample.outputs, found):
                reason = self._judged(before, samples[: at + 1], found)
                if reason:
                    return Agreement(False, reason)
        return Agreement(True)

    def _runner(self, model: onnx.ModelProto, kernels: Path | None = None) -> Runner:
        runner = Runner(model.SerializeToString(), kernels=kernels)
        self._runners.append(runner)
        return runner

    def _samples(self, before: Runner, is_for_finite: bool) -> list[Sample]:
        """Ordinary ones with several sizes, as far as the model runs with them, then the edges."""
        sizes = list(likely_sizes(self._models.inputs))
        edges = [] if self._is_approximate or not self._models.inputs else [MIXED, ZEROS]
        edges += [NOT_FINITE] if edges and self._is_exact and not is_for_finite else []
        found = self._ran(before, [(ORDINARY, sizes[:1]), (ORDINARY, sizes[1:2]), *((s, sizes[:1]) for s in edges)])
        if not found or found[0].edge:
            found = self._ran(before, [(style, sizes) for style in (ORDINARY, *NARROWER)])[:2]
            found += self._ran(before, [(style, sizes) for style in edges if found])
        return found

    def _ran(self, before: Runner, wanted: Sequence[tuple[ValueStyle, Sequence[DimensionSizes]]]) -> list[Sample]:
        """The samples in these styles and sizes on which the model runs."""
        labels, edges = list[str](), list[bool]()
        several: list[dict[str, Any]] = []
        for style, choices in wanted:
            for sizes in choices:
                feeds = draw_feeds(self._models.inputs, sizes, style, len(several), self._divides)
                if feeds is not None:
                    labels.append(" ".join([f"{style.floats},", *(f"{s}={n}" for s, n in sizes.items())]).rstrip(","))
                    several.append(feeds)
                    edges.append(style not in (ORDINARY, *NARROWER))
        ran = before.run_each(several) if several else []
        self._error = _NOT_RUN if several else self._error
        return [
            Sample(label=label, feeds=feeds, outputs=outputs, edge=edge)
            for label, feeds, edge, (outputs, _) in zip(labels, several, edges, ran, strict=True)
            if outputs is not None
        ]

    def _differ(self, ours: Sequence[Any], theirs: Sequence[Any]) -> bool:
        pairs = zip(ours, theirs, strict=True)
        if self._is_exact:
            return not all(_same(a, b) for a, b in pairs)
        if self._is_approximate:
            return not all(_near(a, b) for a, b in pairs)
        return any(compare(a, b) for a, b in pairs)

    def _judged(self, before: Runner, seen: Sequence[Sample], found: Sequence[Any]) -> str:
        """What verification says of outputs that differ; empty where it is no difference."""
        with TemporaryDirectory(prefix="fusionc-") as folder:
            path = Path(folder, "before.onnx")
            onnx.save(self._models.before, path)
            judge = Judge(path, before)
            for sample in seen[:-1]:
                judge.outcome(sample, sample.outputs)  # for the scale of the outputs
            outcome, differences = judge.outcome(seen[-1], found)
        if outcome == "different":
            return str(differences[0])
        return "" if not self._is_exact or outcome != "same" else f"{seen[-1].label}: not equal bit by bit"


def _same(a: Any, b: Any) -> bool:
    """Whether two values are the same bit by bit, but for the sign of zero and the bits of NaN."""
    if not (isinstance(a, np.ndarray) and isinstance(b, np.ndarray)):
        return not compare(a, b)
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype.name in _HALF:
        return not compare(a, b)
    is_number = a.dtype.kind in "fc"
    return bool(np.array_equal(a, b, equal_nan=is_number))


def _near(a: Any, b: Any) -> bool:
    """Whether finite elements are the same within 1 % of the largest."""
    if not isinstance(a, np.ndarray) or a.dtype.kind != "f" or getattr(b, "shape", None) != a.shape:
        return not compare(a, b)
    finite = np.isfinite(a)
    scale = np.abs(a[finite]).max(initial=0.0)
    return bool((np.abs(a[finite] - b[finite]) <= _APPROXIMATE * scale).all())
