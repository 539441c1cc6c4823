"""A way to convert and run a model, as what differs from the defaults, and one change of it that
may pay.
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
    """Passes that are off and on against their defaults, areas that are not made, whether there are
    areas at all, and the settings of a session. `is_original` is the model itself, not
    converted.
    """

    off: frozenset[str] = frozenset()
    on: frozenset[str] = frozenset()
    areas_off: frozenset[str] = frozenset()
    kernels: bool = False
    settings: SessionSettings = field(default_factory=SessionSettings)
    is_original: bool = False

    def key(self) -> str:
        """A name for it, of which the same configuration always has the same."""
        return hashlib.sha256(
            f"{self.graph_key()} {json.dumps(self.settings.as_json())}".encode()
        ).hexdigest()[:16]

    def graph_key(self) -> str:
        """The same for what the conversion makes, which does not depend on the settings."""
        parts = [
            sorted(self.off),
            sorted(self.on),
            sorted(self.areas_off),
            self.kernels,
            self.is_original,
        ]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]

    def options(self, asked: Options, destination: Path) -> Options:
        """Those of a conversion to it, with everything else as it was asked for."""
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
        """The flags of graph kernel fusion, which leave the areas out that cost, too. A level that
        is given would make areas where there are to be none.
        """
        words = [
            word
            for word in (asked or "").split(" ")
            if word and (self.kernels or not word.startswith(_LEVEL))
        ]
        # of a repeated one the first counts
        given = next((word for word in words if word.startswith(_AREAS)), _AREAS)
        if names := sorted(
            self.areas_off | set(filter(None, given.removeprefix(_AREAS).split(",")))
        ):
            words = [*(word for word in words if word != given), f"{_AREAS}{','.join(names)}"]
        return " ".join(words) or None


@dataclass(frozen=True)
class TunedChange:
    """One thing that may pay: what it is called, and what it does to a configuration."""

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
        """Whether it is about how many threads work, and how they wait."""
        return bool(self.threads) or self.no_spinning

    def applied(self, to: Configuration) -> Configuration:
        """The configuration with this change."""
        known = to.settings
        disabled = dict.fromkeys([*known.disabled_optimizers, *self.optimizers_off])
        return replace(
            to,
            off=to.off | self.off,
            on=to.on | self.on,
            areas_off=to.areas_off | self.areas_off,
            kernels=to.kernels if self.kernels is None else self.kernels,
            settings=SessionSettings(
                self.threads or known.threads,
                known.spinning and not self.no_spinning,
                known.arena and not self.no_arena,
                tuple(disabled),
                known.planned_memory and not self.no_planned_memory,
            ),
        )


def with_all(changes: Iterable[TunedChange], base: Configuration) -> Configuration:
    """The configuration with these changes, one after the other."""
    for change in changes:
        base = change.applied(base)
    return base
