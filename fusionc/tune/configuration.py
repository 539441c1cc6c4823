"""A way to convert and run a model, as differences from the defaults; and one change of it that may
pay.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from fusionc.options import Options
from fusionc.runtime.session_settings import SessionSettings

Kind = Literal["passes", "areas", "optimizers", "settings"]
_LEVEL = "--opt_level="
_AREAS = "--disable_areas="


@dataclass(frozen=True)
class Configuration:
    """A way to convert and run a model."""

    off: frozenset[str] = frozenset()  # passes that are on by default
    on: frozenset[str] = frozenset()  # passes that are off by default
    areas_off: frozenset[str] = frozenset()  # areas that are not made
    kernels: bool = False  # whether areas are made at all
    settings: SessionSettings = field(default_factory=SessionSettings)
    is_original: bool = False  # the model itself, not converted

    def key(self) -> str:
        """A name that equal configurations share."""
        return hashlib.sha256(
            f"{self.graph_key()} {json.dumps(self.settings.as_json())}".encode()
        ).hexdigest()[:16]

    def graph_key(self) -> str:
        """A name that configurations share if the conversion makes the same model of them. Settings
        have no part in it.
        """
        parts = [
            sorted(self.off),
            sorted(self.on),
            sorted(self.areas_off),
            self.kernels,
            self.is_original,
        ]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]

    def options(self, asked: Options, destination: Path) -> Options:
        """The options of a conversion to it, otherwise as asked."""
        switches = [asked.optimization_switch] if asked.optimization_switch else []
        switches += [f"{name}:off" for name in sorted(self.off)] + [
            f"{name}:on" for name in sorted(self.on)
        ]
        return replace(
            asked,
            destination=destination,
            optimization_switch=";".join(switches) or None,
            enable_graph_kernel=self.kernels,
            graph_kernel_flags=self.flags(asked.graph_kernel_flags),
        )

    def flags(self, asked: str | None) -> str | None:
        """The flags of graph kernel fusion that were asked for, and a flag that leaves out
        `areas_off`. Without kernels, a level is dropped: it would make areas.
        """
        words = [
            word
            for word in (asked or "").split(" ")
            if word and (self.kernels or not word.startswith(_LEVEL))
        ]
        # if a flag is repeated, the first one counts
        asked_areas = next((word for word in words if word.startswith(_AREAS)), _AREAS)
        if names := sorted(
            self.areas_off | set(filter(None, asked_areas.removeprefix(_AREAS).split(",")))
        ):
            words = [*(word for word in words if word != asked_areas), f"{_AREAS}{','.join(names)}"]
        return " ".join(words) or None


@dataclass(frozen=True)
class TunedChange:
    """One thing that may pay: its name, and what it does to a configuration."""

    name: str
    kind: Kind
    off: frozenset[str] = frozenset()
    on: frozenset[str] = frozenset()
    areas_off: frozenset[str] = frozenset()
    optimizers_off: tuple[str, ...] = ()
    kernels: bool | None = None
    threads: int = 0
    no_spinning: bool = False
    no_arena: bool = False
    no_planned_memory: bool = False

    @property
    def is_of_threads(self) -> bool:
        """Whether it decides how many threads work, or how they wait."""
        return bool(self.threads) or self.no_spinning

    def apply_to(self, base: Configuration) -> Configuration:
        """The configuration with this change."""
        known = base.settings
        disabled = dict.fromkeys([*known.disabled_optimizers, *self.optimizers_off])
        return replace(
            base,
            off=base.off | self.off,
            on=base.on | self.on,
            areas_off=base.areas_off | self.areas_off,
            kernels=base.kernels if self.kernels is None else self.kernels,
            settings=SessionSettings(
                self.threads or known.threads,
                known.spinning and not self.no_spinning,
                known.arena and not self.no_arena,
                tuple(disabled),
                known.planned_memory and not self.no_planned_memory,
            ),
        )


def apply_all(changes: Iterable[TunedChange], base: Configuration) -> Configuration:
    """The configuration with these changes, applied in turn."""
    for change in changes:
        base = change.apply_to(base)
    return base
