"""Whether an optimized model computes what its original computes: both run in onnxruntime, and
their outputs are compared. The original is called the reference, the optimized model the candidate.

Nothing here uses the code that makes the candidate: neither the graph in memory nor fusionc's shape
inference nor the engine. Uses and sizes of values are read from the protos again, so that a defect
in that code cannot lead to inputs that hide the defect.
"""

from typing import TYPE_CHECKING, Any

from fusionc.verify.result import Difference, Verification

if TYPE_CHECKING:
    from fusionc.verify.verification import verify

__all__ = ["Difference", "Verification", "verify"]


def __getattr__(name: str) -> Any:
    """Import `verify` on first use, so that a conversion without verification does not have to wait
    for its imports.
    """
    if name != "verify":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from fusionc.verify.verification import verify

    return verify
