"""Whether the result computes what the original computes: both run in onnxruntime, and are
compared.

Nothing here uses what makes the result: neither the graph in memory nor fusionc's shape inference
nor the engine. Uses and sizes of values are read from the protos again, so that no defect in those
chooses inputs that hide it.
"""

from typing import TYPE_CHECKING, Any

from fusionc.verify.result import Difference, Verification

if TYPE_CHECKING:
    from fusionc.verify.verification import verify

__all__ = ["Difference", "Verification", "verify"]


def __getattr__(name: str) -> Any:
    """`verify` is imported on first use: a conversion without verification does not wait for all
    that it needs.
    """
    if name != "verify":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from fusionc.verify.verification import verify

    return verify
