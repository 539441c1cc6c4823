"""fusionc: optimize ONNX models by switchable fusion passes, each counted, explained and verified.

report = fusionc.convert("model.onnx", output="fast.onnx", fusion_switch_file="switches.json")
print(report.nodes_before, "→", report.nodes_after, report.verification)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fusionc.conversion import convert
    from fusionc.errors import FusioncError, UsageError, VerificationError
    from fusionc.report import Report

__version__ = "0.1.0"
__all__ = ["FusioncError", "Report", "UsageError", "VerificationError", "convert"]

_HOMES = {
    "convert": "fusionc.conversion",
    "FusioncError": "fusionc.errors",
    "UsageError": "fusionc.errors",
    "VerificationError": "fusionc.errors",
    "Report": "fusionc.report",
}


def __getattr__(name: str) -> Any:
    """Import on first use: `fusionc --help` must not wait for onnx."""
    if name not in _HOMES:
        raise AttributeError(f"module 'fusionc' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
