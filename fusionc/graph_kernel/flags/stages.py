"""The passes of graph kernel fusion's stages, with MindSpore's names and ids. Also: which passes
the flags enable_pass and disable_pass switch.

In these two flags, a stage pass is written `stage.pass` or `id.id`. A pass of the registry (a pass
that also runs without graph kernel fusion) is written with its name or alias. MindSpore's prefixes
`fusion_group.` and `backend_fusion.` may precede it. disable_pass switches off passes that would
run, and enable_pass switches on passes that would not run.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Protocol

from fusionc.graph_kernel.flags.flag_table import MANAGERS, Flags
from fusionc.rewrite import Pass

# MindSpore's variable for the level of messages on stderr, and its values for debug and info
_LEVEL = "GLOG_v"
_INFO = ("0", "1")


class Log(Protocol):
    """The log that the stages write to."""

    def info(self, function: str, message: str) -> object: ...


def is_echoed() -> bool:
    """Whether the log of passes also goes to stderr: as in MindSpore, the environment variable
    GLOG_v asks for it.
    """
    return os.environ.get(_LEVEL, "").strip() in _INFO


@dataclass(frozen=True)
class StagePass:
    """One pass of a stage. It is on by default if opt_level is at least `level`."""

    stage_id: int
    stage: str
    pass_id: int
    name: str
    level: int

    @property
    def full_name(self) -> str:
        """The name in lines of the log."""
        return f"stage{self.stage_id}_{self.stage}_{self.pass_id}_{self.name}"

    @property
    def names(self) -> tuple[str, str]:
        """The names that enable_pass and disable_pass accept."""
        return f"{self.stage_id}.{self.pass_id}", f"{self.stage}.{self.name}"


# The passes of MindSpore's table that have an effect here, with their ids.
EXPANDER = StagePass(1, "cluster", 3, "graph_kernel_expander", 1)
OP_COMBINER = StagePass(1, "cluster", 4, "graph_kernel_op_combiner", 3)
CLUSTER = StagePass(1, "cluster", 5, "graph_kernel_cluster", 1)
SIMPLIFY = StagePass(2, "highlevelopt1", 4, "arithmetic_simplify", 2)
CSE = StagePass(2, "highlevelopt1", 7, "graph_kernel_cse", 2)
TRANSFORM_OPS = StagePass(2, "highlevelopt1", 8, "transform_op_optimizer", 2)
SPLITTER = StagePass(3, "split", 4, "graph_kernel_splitter", 1)
BUILD = StagePass(6, "build", 5, "graph_kernel_build", 1)
PACKET = StagePass(8, "kernelpacket", 0, "symbol_engine_extender", 1)
STAGE_PASSES = (
    EXPANDER,
    OP_COMBINER,
    CLUSTER,
    SIMPLIFY,
    CSE,
    TRANSFORM_OPS,
    SPLITTER,
    BUILD,
    PACKET,
)


class Stages:
    """Which stage passes run, how long each takes, and which ones have changed something."""

    def __init__(self, flags: Flags) -> None:
        self._on = {p: _is_on(p.names, _meets(p, flags), flags) for p in STAGE_PASSES}
        self._seconds = dict.fromkeys(STAGE_PASSES, 0.0)
        self._changed: set[StagePass] = set()

    def runs(self, pass_: StagePass) -> bool:
        """Whether a stage pass is on."""
        return self._on[pass_]

    @contextmanager
    def timed(self, pass_: StagePass) -> Iterator[None]:
        """A context whose duration is added to the time of the pass."""
        start = perf_counter()
        yield
        self._seconds[pass_] += perf_counter() - start

    def note_change(self, pass_: StagePass) -> None:
        """Remember for the log that a pass has changed a cluster."""
        self._changed.add(pass_)

    def write(self, log: Log) -> None:
        """Log whether each stage pass is on, its time, and whether it changed a cluster."""
        for pass_, is_on in self._on.items():
            name = f"graph kernel pass {pass_.full_name}"
            if not is_on:
                log.info("Run", f"{name} is disabled.")
                continue
            log.info("Run", f"{name} is enabled.")
            log.info("RunPass", f"Run {name} in {self._seconds[pass_] * 1e6:.2f} us")
            if pass_ in self._changed:
                log.info("RunPass", f"{name} changed.")


def _meets(pass_: StagePass, flags: Flags) -> bool:
    return flags.opt_level >= pass_.level or (
        pass_ is OP_COMBINER and flags.enable_parallel_op_combine
    )


def _is_on(names: Iterable[str], meets_conditions: bool, flags: Flags) -> bool:
    listed = flags.disable_pass if meets_conditions else flags.enable_pass
    return meets_conditions != any(name in listed for name in names)


def switched(passes: Sequence[Pass], enabled: frozenset[str], flags: Flags) -> frozenset[str]:
    """The names of the registry's passes that run: `enabled`, as changed by enable_pass and
    disable_pass.
    """
    return frozenset(p.name for p in passes if _is_on(names_of(p), p.name in enabled, flags))


def disabled_by(flags: Flags, passes: Sequence[Pass]) -> frozenset[str]:
    """The names of the passes that disable_pass lists."""
    return frozenset(p.name for p in passes if not set(names_of(p)).isdisjoint(flags.disable_pass))


def names_of(pass_: Pass) -> list[str]:
    """The names that enable_pass and disable_pass accept for a pass of the registry."""
    own = (pass_.name, *pass_.aliases)
    return [*own, *(f"{manager}.{name}" for manager in MANAGERS for name in own)]


def mindspore_names(pass_: Pass) -> tuple[str, ...]:
    """The aliases of a pass that come from MindSpore or TorchAir: those in lower case."""
    return tuple(alias for alias in pass_.aliases if alias.islower())


def write_passes(
    passes: Sequence[Pass], enabled: frozenset[str], seconds: Mapping[str, float], log: Log
) -> None:
    """Log every pass that can be switched: its name, whether it ran, and how long it took."""
    names = {pass_: (pass_.name, *mindspore_names(pass_)) for pass_ in passes}
    every = dict.fromkeys(name for own in names.values() for name in own)
    log.info("GetBackendFusionGroupPassManager", f"graph kernel passes: {','.join(every)}.")
    for number, (pass_, own) in enumerate(names.items()):
        for name in (f"graph kernel pass fusion_group_{number}_{name}" for name in own):
            if pass_.name in enabled:
                log.info("RunPass", f"Run {name} in {seconds.get(pass_.name, 0.0) * 1e6:.2f} us")
            else:
                log.info("Run", f"{name} is disabled.")
