"""The opset that would allow what was refused for that of the model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from onnx import ModelProto

from fusionc.requested.target_opset.limits import newest_opset
from fusionc.requested.target_opset.lost_kernels import loses_kernels
from fusionc.rewrite.log import PatternCount


def opset_advice(counts: Iterable[PatternCount], model: ModelProto, folder: str) -> list[str]:
    """What was refused for the opset of the model alone, and the one that would allow it.

    That is one that onnxruntime runs, with a kernel for each operator of the model that it has one
    for.
    """
    waiting: dict[str, Counter[int]] = {}
    for count in counts:
        if count.waiting:
            waiting.setdefault(count.pass_name, Counter()).update(count.waiting)
    newest = _newest_without_loss(waiting.values(), model, folder) if waiting else 0
    allowed = {
        name: {v: n for v, n in times.items() if v <= newest} for name, times in waiting.items()
    }
    wanted = max((max(times, default=0) for times in allowed.values()), default=0)
    told = []
    for name, times in allowed.items():
        since = f", from {max(times)}" if times and max(times) < wanted else ""
        told += [f"{name} ({sum(times.values())}{since})"] if times else []
    return [f"--target_opset {wanted} would allow: {', '.join(told)}"] if told else []


def _newest_without_loss(waiting: Iterable[Counter[int]], model: ModelProto, folder: str) -> int:
    """The newest opset that something waits for at which no kernel is lost; 0 for none."""
    most = newest_opset()
    known = sorted(
        {version for times in waiting for version in times if version <= most}, reverse=True
    )
    return next((version for version in known if not loses_kernels(model, version, folder)), 0)
