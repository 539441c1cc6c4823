"""Advice to raise the opset if passes refused rewrites only because the model's opset is old."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np
from onnx import ModelProto

from fusionc.exactness import decisions_ahead
from fusionc.model.graph import Model
from fusionc.model.questions import refuse
from fusionc.requested.target_opset.limits import newest_opset
from fusionc.requested.target_opset.lost_kernels import loses_kernels
from fusionc.rewrite import Pass
from fusionc.rewrite.log import PatternCount, RewriteLog
from fusionc.rewrite.pipeline import apply, rewritable_graphs


@np.errstate(all="ignore")  # as when the passes ran
def waiting_in_result(
    counts: Iterable[PatternCount], passes: Iterable[Pass], model: Model
) -> list[PatternCount]:
    """The counts of the patterns of the passes that `counts` says a newer opset would allow, in the
    final model. Another pass may have rewritten a refused place since then. The model stays as it
    is.
    """
    names = {count.pass_name for count in counts if count.waiting}
    searched = [p for p in passes if p.name in names]
    if searched:
        model.types.begin_pass()
        decisions_ahead.forget(model)
    log = RewriteLog(examine=_refuse_all)
    return [
        apply(pass_, pattern, graph, log)
        for pass_ in searched
        for graph in rewritable_graphs(model)
        for pattern in pass_.patterns
    ]


def _refuse_all(*_: object) -> None:
    refuse("the search changes nothing")


def opset_advice(counts: Iterable[PatternCount], model: ModelProto, folder: str) -> list[str]:
    """A notice that names the passes whose rewrites were refused only because of the opset of the
    model, and the opset that would allow these rewrites.

    Only an opset is advised at which onnxruntime still has all kernels that it now has for the
    operators of the model.
    """
    waiting: dict[str, Counter[int]] = {}
    for count in counts:
        if count.waiting:
            waiting.setdefault(count.pass_name, Counter()).update(count.waiting)
    if not waiting:
        return []
    newest = _newest_without_loss(waiting.values(), model, folder)
    allowed = {
        name: {opset: times for opset, times in refused.items() if opset <= newest}
        for name, refused in waiting.items()
    }
    allowed = {name: refused for name, refused in allowed.items() if refused}
    if not allowed:
        return []
    advised = max(map(max, allowed.values()))
    texts = (
        f"{name} ({sum(refused.values())}{_since(max(refused), advised)})"
        for name, refused in allowed.items()
    )
    return [f"--target_opset {advised} would allow: {', '.join(texts)}"]


def _since(opset: int, advised: int) -> str:
    return f", from {opset}" if opset < advised else ""


def _newest_without_loss(waiting: Iterable[Counter[int]], model: ModelProto, folder: str) -> int:
    """The newest opset that a refused rewrite needs and at which onnxruntime lacks none of the
    kernels that it now has for the model. 0 if such an opset does not exist.
    """
    most = newest_opset()
    known = sorted(
        {version for times in waiting for version in times if version <= most}, reverse=True
    )
    return next((version for version in known if not loses_kernels(model, version, folder)), 0)
