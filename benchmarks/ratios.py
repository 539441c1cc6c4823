"""Convert a model, measure how far outputs differ, and compute means of ratios of run times."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import onnxruntime
from interleaved import KERNELS
from numpy.typing import NDArray

import fusionc
from fusionc.bench.deployed_model import DeployedModel
from fusionc.bench.what_runs import what_runs
from fusionc.graph_kernel.library.location import library_for

Array = NDArray[np.generic]
SLOWER = 1.01  # a larger ratio gets a remark


def converted(
    path: Path, folder: Path, inputs: Path, with_kernels: bool
) -> tuple[Path | None, str]:
    """The converted model and the sentence of the verification, which also uses these inputs. None
    if the options ask for kernels and none are made.

    Raises FusioncError if the model cannot be converted, or if the result gives other outputs.
    """
    made = folder / (f"with{KERNELS}.onnx" if with_kernels else "default.onnx")
    report = fusionc.convert(
        path, output=made, inputs=inputs, export_compile_stat=0, enable_graph_kernel=with_kernels
    )
    has_all = not with_kernels or library_for(made).is_file()
    return made if has_all else None, report.verification or ""


def outputs(model: Path, feeds: dict[str, Array]) -> list[Array]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    if model.stem.endswith(KERNELS):
        fusionc.register_kernels(options, model)
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    found: list[Array] = session.run(None, feeds)
    return found


def operators_run(model: Path) -> Counter[str]:
    """The operators that onnxruntime runs after optimizing a model, without kernels."""
    return what_runs(DeployedModel(model)).operators


def error(expected: list[Array], found: list[Array]) -> float:
    """The largest difference of an output, divided by the largest element of this output. Infinite
    if an element is finite in only one of both.
    """
    worst = 0.0
    for one, other in zip(expected, found, strict=True):
        if one.shape != other.shape or not np.array_equal(np.isfinite(one), np.isfinite(other)):
            return math.inf
        if (finite := np.isfinite(one)).any():
            left = one[finite].astype(np.float64)
            right = other[finite].astype(np.float64)
            worst = max(worst, float(np.abs(left - right).max() / max(np.abs(left).max(), 1e-3)))
    return worst


def mean_of(ratios: Iterable[float]) -> str:
    """The geometric mean as text."""
    logarithms = [math.log(ratio) for ratio in ratios]
    return f"{math.exp(statistics.fmean(logarithms)):.3f}" if logarithms else "none"
