"""Notices about switches that another switch overrides, or that have no effect."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence

from fusionc.graph_kernel.flags.read_flags import ReadFlags
from fusionc.passes import PASSES
from fusionc.passes.areas._area_pass import AreaPass
from fusionc.rewrite import Pass
from fusionc.switches import Switches

# Environment variables of CANN, MindSpore and OpenMP that fusionc does not read, and what to use
# instead.
_IGNORED = {
    "ASCEND_MODULE_LOG_LEVEL": "ASCEND_GLOBAL_LOG_LEVEL and --log set the level of the whole log",
    "DUMP_GE_GRAPH": "--dump_graph writes the graph after each pass",
    "MS_DEV_ENABLE_KERNEL_PACKET": (
        "--enable_pass=8.0 and --disable_pass=8.0 in --graph_kernel_flags switch packets"
    ),
}
_IGNORED_BY_KERNELS = {
    "OMP_NUM_THREADS": (
        "kernels run in the threads of onnxruntime, whose number is "
        "SessionOptions.intra_op_num_threads"
    ),
}


def ignored_variables(*, has_kernels: bool) -> Iterator[str]:
    """A notice for each environment variable that is set and has no effect."""
    for name, instead in (_IGNORED | (_IGNORED_BY_KERNELS if has_kernels else {})).items():
        if os.environ.get(name):
            yield f"the environment variable {name} has no effect: {instead}"


def switch_notices(
    registry: Sequence[Pass], switches: Switches, enabled: frozenset[str], read: ReadFlags
) -> Iterator[str]:
    """Notices about passes that are switched in vain.

    `switches` is the decision by the switch file and the options. `enabled` are the passes that run
    in the end. `read` has the graph kernel flags, which may also switch passes.
    """

    def listed(condition: Callable[[Pass], bool]) -> str:
        return ", ".join(p.name for p in registry if condition(p))

    def is_changed(p: Pass) -> bool:
        return (p.name in enabled) != (p.name in switches.enabled)

    if names := listed(lambda p: is_changed(p) and p.default == "must"):
        yield f"off by {read.source}, although a switch file cannot switch them off: {names}"
    if names := listed(
        lambda p: is_changed(p) and p.default != "must" and p.name in switches.named
    ):
        yield f"{read.source} overrides the switches of {names}"
    yield from _idle_areas(switches.named, read)
    idle = [p for p in registry if p.never_matches and p.name in enabled]
    if idle:
        yield "never matches: " + "; ".join(f"{p.name}: {p.never_matches}" for p in idle)


def _idle_areas(named: Mapping[str, bool], read: ReadFlags) -> Iterator[str]:
    """A notice about passes that are switched on but make no area, because graph kernels are off. A
    file that lists all passes, as `fusionc switch_file` prints it, does not ask for areas.
    """
    areas = [p.name for p in PASSES if isinstance(p, AreaPass) and named.get(p.name)]
    if areas and not read.flags.is_on and any(p.name not in named for p in PASSES):
        yield f"no effect without --enable_graph_kernel: {', '.join(areas)}"
