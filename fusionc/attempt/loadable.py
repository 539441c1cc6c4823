"""Whether onnxruntime loads a result with onnxruntime's default settings, as in deployment: all of
its optimizers are on.
"""

from __future__ import annotations

from pathlib import Path

from fusionc.attempt.conversion_plan import ConversionPlan
from fusionc.runtime.runner import fault_of_loading

DEPLOYED = "all"  # the default level of onnxruntime's optimizers


def fault_of_result(plan: ConversionPlan, result: Path) -> str | None:
    """Why onnxruntime cannot load a result. None if onnxruntime loads the result, or if it cannot
    load the original model either. A result with kernels is loaded with and without the kernels,
    because it must also run without them.
    """
    for library in dict.fromkeys((None, plan.kernels.file)):
        fault = fault_of_loading(result, DEPLOYED, library)
        if fault is not None:
            return fault if fault_of_loading(plan.options.source, DEPLOYED) is None else None
    return None
