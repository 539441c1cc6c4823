"""fusionc: optimize ONNX models by switchable fusion passes, each counted, explained and verified.

report = fusionc.convert("model.onnx", output="fast.onnx", fusion_switch_file="switches.json")
print(report.nodes_before, "→", report.nodes_after, report.verification)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fusionc.version import __version__ as __version__

if TYPE_CHECKING:
    from fusionc.api import convert
    from fusionc.custom.builder import op
    from fusionc.custom.replacement import register_replacement
    from fusionc.errors import FusioncError, UnverifiedError, UsageError, VerificationError
    from fusionc.graph_kernel.library.register import register_kernels
    from fusionc.in_memory.onnxsim_call import simplify
    from fusionc.in_memory.onnxslim_call import slim
    from fusionc.in_memory.optimize import optimize
    from fusionc.ready_form.session import session
    from fusionc.report import Report
    from fusionc.rewrite import Match, Pass, Pattern, Tape, UBFusionPass, refuse

__all__ = [
    "FusioncError",
    "Match",
    "Pass",
    "Pattern",
    "Report",
    "Tape",
    "UBFusionPass",
    "UnverifiedError",
    "UsageError",
    "VerificationError",
    "convert",
    "op",
    "optimize",
    "refuse",
    "register_kernels",
    "register_replacement",
    "session",
    "simplify",
    "slim",
]

_MODULES = {
    "convert": "fusionc.api",
    "FusioncError": "fusionc.errors",
    "UnverifiedError": "fusionc.errors",
    "UsageError": "fusionc.errors",
    "VerificationError": "fusionc.errors",
    "Match": "fusionc.rewrite",
    "Pass": "fusionc.rewrite",
    "Pattern": "fusionc.rewrite",
    "Report": "fusionc.report",
    "Tape": "fusionc.rewrite",
    "UBFusionPass": "fusionc.rewrite",
    "op": "fusionc.custom.builder",
    "optimize": "fusionc.in_memory.optimize",
    "refuse": "fusionc.rewrite",
    "register_kernels": "fusionc.graph_kernel.library.register",
    "register_replacement": "fusionc.custom.replacement",
    "session": "fusionc.ready_form.session",
    "simplify": "fusionc.in_memory.onnxsim_call",
    "slim": "fusionc.in_memory.onnxslim_call",
}


def __getattr__(name: str) -> Any:
    """Import a name when it is first used, because `fusionc --help` must not wait for onnx."""
    if name not in _MODULES:
        raise AttributeError(f"module 'fusionc' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    """The names for `help` and completion, including those that are imported on first use."""
    return sorted({*globals(), *__all__})
