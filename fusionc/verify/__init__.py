"""Does the result compute what the original computes? Run both in onnxruntime and compare."""

from fusionc.verify.model_check import check_model
from fusionc.verify.result import Difference, Verification
from fusionc.verify.verification import verify

__all__ = ["Difference", "Verification", "check_model", "verify"]
