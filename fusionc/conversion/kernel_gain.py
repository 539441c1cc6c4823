"""How much faster generated kernels would make a result that has none. The estimate is the one that
decides which areas (groups of operators with one generated kernel) are made.

Imports take most of the time of the estimate. Therefore a thread makes it while the child process
verifies the result, and a conversion waits at most a small share of its own time for the thread.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import perf_counter

from fusionc.attempt.attempt import ConversionAttempt
from fusionc.attempt.conversion_plan import ConversionPlan
from fusionc.model.graph import Model
from fusionc.report import Report
from fusionc.report.report import KernelGain
from fusionc.runtime.process import Process, lent, start

_LONGEST_WAIT = 0.05  # as a share of the time of the conversion
# of a model; for a smaller one, the estimate would take more than a twentieth of the conversion
_LEAST_BYTES = 16 * 2**20
_MOST_NODES = 5000  # of a model; the estimate for a larger one takes too long
_is_wanted = ContextVar("is_wanted", default=False)


@contextmanager
def gain_wanted() -> Iterator[None]:
    """A context manager in which conversions estimate what kernels would gain. The command
    `convert` uses it, because it shows the gain; other callers save the time of the estimate.
    """
    token = _is_wanted.set(True)
    try:
        yield
    finally:
        _is_wanted.reset(token)


@contextmanager
def gain_estimated(plan: ConversionPlan, done: ConversionAttempt, report: Report) -> Iterator[None]:
    """A context manager that estimates the gain while its block runs. `report.kernel_gain` stays
    None if the estimate is not wanted, fails or takes too long.
    """
    model = done.model
    if model is None or not _is_possible(model, report):
        yield
        return
    gains = list[KernelGain]()
    enabled = frozenset(p.name for p in plan.passes)
    thread = threading.Thread(target=_estimate, args=(model, enabled, start(), gains), daemon=True)
    began = perf_counter()
    thread.start()
    try:
        yield
    finally:
        seconds = perf_counter() - began + sum(report.stages.values())
        thread.join(_LONGEST_WAIT * seconds)
        report.kernel_gain = gains[0] if gains else None


def _is_possible(model: Model, report: Report) -> bool:
    """Whether the estimate is wanted, and is likely to cost less than the verification."""
    return (
        _is_wanted.get()
        and report.may_get_kernels
        and report.bytes_before >= _LEAST_BYTES
        and sum(len(graph.nodes) for graph in model.graphs) <= _MOST_NODES
    )


def _estimate(
    model: Model, enabled: frozenset[str], process: Process, gains: list[KernelGain]
) -> None:
    """Append the gain to `gains`."""
    try:
        with lent(process):
            gains.append(kernel_gain(model, enabled))
    except Exception:  # the conversion only lacks a piece of advice
        return


def kernel_gain(model: Model, enabled: frozenset[str]) -> KernelGain:
    """The estimated gain of a model as the passes leave it. `enabled` are the passes that are on.
    The model stays as it is.
    """
    # imported here because these modules are large
    from fusionc.graph_kernel.area import KernelKind
    from fusionc.graph_kernel.flags.read_flags import read_flags
    from fusionc.graph_kernel.fusion import fusion_of
    from fusionc.graph_kernel.library.kernel_library import KernelLibrary
    from fusionc.graph_kernel.select.time_estimate import times_of
    from fusionc.passes import PASSES

    flags = read_flags(None, is_enabled=True).flags
    fusion = fusion_of(flags, PASSES, enabled, KernelLibrary("onnxruntime-cpu"))
    locations = fusion.profitable_areas(model)
    times = [times_of(location.area) for location in locations]
    return KernelGain(
        operators=sum(len(location.nodes) for location in locations),
        of_operators=sum(len(graph.nodes) for graph in model.graphs),
        has_products=any(location.area.kind is not KernelKind.LOOPS for location in locations),
        before=sum(before for before, _ in times),
        after=sum(after for _, after in times),
    )
