"""The opset that would allow what was refused because of the model's opset."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from onnx import ModelProto

from fusionc.requested.target_opset.limits import newest_opset
from fusionc.requested.target_opset.lost_kernels import loses_kernels
from fusionc.rewrite.log import PatternCount


def opset_advice(counts: Iterable[PatternCount], model: ModelProto, folder: str) -> list[str]:
    """What was refused only for the opset of the model, and the opset that would allow it.

    onnxruntime runs that opset, and loses no kernel by it for an operator of the model.
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
    wanted = max(map(max, allowed.values()))
    told = (
        f"{name} ({sum(refused.values())}{_since(max(refused), wanted)})"
        for name, refused in allowed.items()
    )
    return [f"--target_opset {wanted} would allow: {', '.join(told)}"]


def _since(opset: int, wanted: int) -> str:
    return f", from {opset}" if opset < wanted else ""


def _newest_without_loss(waiting: Iterable[Counter[int]], model: ModelProto, folder: str) -> int:
    """The newest opset that a refused rewrite needs and that costs no kernel; 0 if there is
    none.
    """
    most = newest_opset()
    known = sorted(
        {version for times in waiting for version in times if version <= most}, reverse=True
    )
    return next((version for version in known if not loses_kernels(model, version, folder)), 0)
