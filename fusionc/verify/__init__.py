"""Does the result compute what the original computes? Run both in onnxruntime and compare."""

from .bisect import first_bad
from .model_check import check_model
from .result import Difference, Verification
from .verification import verify

__all__ = ["Difference", "Verification", "check_model", "first_bad", "verify"]
