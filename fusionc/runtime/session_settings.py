"""Settings of an onnxruntime session that change the speed of a model and not its results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from fusionc.runtime.optimizers import DISABLED

SPINNING = "session.intra_op.allow_spinning"  # a session configuration entry: "0" or "1"
_SWITCHES = ("spinning", "arena", "planned_memory")


@dataclass(frozen=True)
class SessionSettings:
    """Settings of a session. The default values are those of onnxruntime."""

    threads: int = 0  # the number of threads within an operator; 0 for onnxruntime's choice
    spinning: bool = True  # whether threads spin while they wait for work
    arena: bool = True  # whether freed memory is kept in an arena
    disabled_optimizers: tuple[str, ...] = ()  # the names of optimizers that do not run
    # Whether onnxruntime plans in advance which values share memory. Without a plan each value
    # takes the memory that was freed last, which is more often still in the processor's cache.
    planned_memory: bool = True

    def apply(self, options: Any) -> None:
        """Apply the settings to an onnxruntime.SessionOptions. Options that are already set are not
        changed.
        """
        if self.threads and not options.intra_op_num_threads:
            options.intra_op_num_threads = self.threads
        if not self.spinning and not _entry(options, SPINNING):
            options.add_session_config_entry(SPINNING, "0")
        if not self.arena:
            options.enable_cpu_mem_arena = False
        if not self.planned_memory:
            options.enable_mem_reuse = False
        if self.disabled_optimizers:
            names = [*filter(None, _entry(options, DISABLED).split(";")), *self.disabled_optimizers]
            options.add_session_config_entry(DISABLED, ";".join(dict.fromkeys(names)))

    def as_json(self) -> dict[str, Any]:
        """The settings as plain data, which `settings_of` reads."""
        return asdict(self)

    def __str__(self) -> str:
        parts = [f"{self.threads} thread{'s' * (self.threads > 1)}"] if self.threads else []
        parts += [] if self.spinning else ["no spinning"]
        parts += [] if self.arena else ["no arena"]
        parts += [] if self.planned_memory else ["no planned memory"]
        parts += (
            [f"without {', '.join(self.disabled_optimizers)}"] if self.disabled_optimizers else []
        )
        return "; ".join(parts) or "onnxruntime's defaults"


def settings_of(content: Mapping[str, Any]) -> SessionSettings:
    """The settings from plain data (see `as_json`). A missing setting has onnxruntime's default.
    Raises ValueError for invalid data.
    """
    threads = content.get("threads")
    names = content.get("disabled_optimizers")
    switches = [content.get(name, True) for name in _SWITCHES]
    if not isinstance(threads, int) or not 0 <= threads < 1 << 16:
        raise ValueError(f"threads is {threads!r}")
    if not all(isinstance(switch, bool) for switch in switches):
        raise ValueError(f"{', '.join(_SWITCHES)}: each must be true or false")
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise ValueError("disabled_optimizers is not a list of names")
    spinning, arena, planned_memory = map(bool, switches)
    return SessionSettings(threads, spinning, arena, tuple(names), planned_memory)


def _entry(options: Any, key: str) -> str:
    try:
        return str(options.get_session_config_entry(key))
    except RuntimeError:  # the entry is not set
        return ""
