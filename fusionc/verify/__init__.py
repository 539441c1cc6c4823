"""Does the result compute what the original computes? Run both in onnxruntime and compare.

Nothing here uses what makes the result: neither the graph in memory nor fusionc's inference of shapes nor the engine.
Where a value goes, and which sizes it has, is read from the protos again, so that no defect of those picks the inputs
that hide it.
"""

from fusionc.verify.result import Difference, Verification
from fusionc.verify.verification import verify

__all__ = ["Difference", "Verification", "verify"]
