"""A configuration (how to convert and run a model, as differences from the defaults), and a change
of a configuration.
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
_LEVEL_FLAG = "--opt_level="
_AREAS_FLAG = "--disable_areas="


@dataclass(frozen=True)
class Configuration:
    """How to convert and run a model. A field with its default value means the default."""

    off: frozenset[str] = frozenset()  # names of passes that are on by default, but switched off
    on: frozenset[str] = frozenset()  # names of passes that are off by default, but switched on
    areas_off: frozenset[str] = frozenset()  # names of areas that are not made
    kernels: bool = False  # whether areas with kernels are made
    settings: SessionSettings = field(default_factory=SessionSettings)
    is_original: bool = False  # whether all passes are switched off

    def key(self) -> str:
        """A key that is equal for equal configurations."""
        return hashlib.sha256(
            f"{self.graph_key()} {json.dumps(self.settings.as_json())}".encode()
        ).hexdigest()[:16]

    def graph_key(self) -> str:
        """A key that is equal for configurations with the same converted model. The session
        settings do not matter for it.
        """
        parts = [
            sorted(self.off),
            sorted(self.on),
            sorted(self.areas_off),
            self.kernels,
            self.is_original,
        ]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]

    def options(self, user_options: Options, destination: Path) -> Options:
        """The user's options, changed so that a conversion makes this configuration in
        `destination`.
        """
        switches = [user_options.optimization_switch] if user_options.optimization_switch else []
        switches += [f"{name}:off" for name in sorted(self.off)] + [
            f"{name}:on" for name in sorted(self.on)
        ]
        return replace(
            user_options,
            destination=destination,
            optimization_switch=";".join(switches) or None,
            enable_graph_kernel=self.kernels,
            graph_kernel_flags=self.flags(user_options.graph_kernel_flags),
        )

    def flags(self, user_flags: str | None) -> str | None:
        """The user's flags of graph kernel fusion, with `areas_off` added to the areas that they
        leave out. Without kernels, --opt_level is dropped, because it would switch areas on.
        """
        words = [
            word
            for word in (user_flags or "").split(" ")
            if word and (self.kernels or not word.startswith(_LEVEL_FLAG))
        ]
        # only the first one of repeated flags has an effect
        user_areas = next((word for word in words if word.startswith(_AREAS_FLAG)), _AREAS_FLAG)
        if names := sorted(
            self.areas_off | set(filter(None, user_areas.removeprefix(_AREAS_FLAG).split(",")))
        ):
            words = [
                *(word for word in words if word != user_areas),
                f"{_AREAS_FLAG}{','.join(names)}",
            ]
        return " ".join(words) or None


@dataclass(frozen=True)
class TunedChange:
    """A change of a configuration. A field with its default value changes nothing."""

    name: str
    kind: Kind
    off: frozenset[str] = frozenset()  # passes to switch off
    on: frozenset[str] = frozenset()  # passes to switch on
    areas_off: frozenset[str] = frozenset()  # areas to leave out
    optimizers_off: tuple[str, ...] = ()  # optimizers of onnxruntime to switch off
    kernels: bool | None = None  # whether to make areas with kernels
    threads: int = 0
    no_spinning: bool = False
    no_arena: bool = False
    no_planned_memory: bool = False
    label: str = ""  # a shorter name for people

    @property
    def title(self) -> str:
        """The name for tables and plots."""
        return self.label or self.name

    @property
    def is_of_threads(self) -> bool:
        """Whether the change concerns threads: their number, or how they wait."""
        return bool(self.threads) or self.no_spinning

    def apply_to(self, base: Configuration) -> Configuration:
        """`base` with this change."""
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
    """`base` with these changes, applied one after the other."""
    for change in changes:
        base = change.apply_to(base)
    return base
