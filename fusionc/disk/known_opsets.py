"""Refuse models whose opset is newer than the installed onnx: it knows neither the types nor the
meaning of their operators, so nothing about such a model could be checked.
"""

from __future__ import annotations

from pathlib import Path

import onnx

from fusionc.errors import FusioncError
from fusionc.model.operators import canonical_domain
from fusionc.operators.domains import TRADITIONAL

# the columns are the release of onnx, the IR version, and the opsets of ai.onnx and ai.onnx.ml
_NEWEST = {
    domain: max(int(release[column]) for release in onnx.helper.VERSION_TABLE)
    for domain, column in (("", 2), (TRADITIONAL, 3))
}


def require_known_opsets(model: onnx.ModelProto, path: Path) -> None:
    """Raise FusioncError if the installed onnx does not know an opset of the model."""
    for imports in (model.opset_import, *(function.opset_import for function in model.functions)):
        for entry in imports:
            newest = _NEWEST.get(canonical_domain(entry.domain))
            if newest is not None and entry.version > newest:
                raise _too_new(entry, newest, path)


def _too_new(entry: onnx.OperatorSetIdProto, newest: int, path: Path) -> FusioncError:
    return FusioncError(
        f"the model has opset {entry.version} of {entry.domain or 'ai.onnx'}, and the installed "
        f"onnx {onnx.__version__} knows opsets up to {newest}",
        where=str(path),
        hint=f"install a newer onnx and onnxruntime, or export the model with opset {newest} or "
        "an older one",
        code="E13005",
    )
