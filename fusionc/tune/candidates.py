"""The candidates of a tuning: changes of the conversion or of the session settings that may make
this model faster. They are in groups, so that many can be tried at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from fusionc.runtime.optimizers import OPTIMIZERS
from fusionc.tune.configuration import TunedChange

_LAYOUT = (
    "NchwcTransformer",
    "NhwcTransformer",
    "TransposeOptimizer",
    "TransposeOptimizer_CPUExecutionProvider",
)


@dataclass(frozen=True)
class Group:
    """A change, and the smaller changes that it is composed from. A single change has no
    members.
    """

    whole: TunedChange
    members: tuple[TunedChange, ...] = ()

    def changes(self) -> tuple[TunedChange, ...]:
        """The whole change, and then its members."""
        return self.whole, *self.members


@dataclass(frozen=True)
class Facts:
    """The parts of the default conversion that have an effect, and passes that could have one."""

    passes: Mapping[str, str]  # names of the passes that take effect → the topic of each
    areas: Sequence[str]  # the names of the areas (operators that one generated kernel computes)
    idle: Sequence[str]  # names of passes that are off by default, but would take effect
    optimizers: Sequence[str]  # names of onnxruntime's optimizers that change the model
    labels: Mapping[str, str] = field(default_factory=dict)  # names of areas → shorter labels


def groups_of(facts: Facts, threads: Sequence[int]) -> list[Group]:
    """The groups of changes. Changes of the graph come before changes of settings. `threads` are
    the numbers of threads to try.
    """
    return [
        *_pass_groups(facts),
        *_area_groups(facts),
        *_optimizer_groups(facts.optimizers),
        *_settings(threads),
    ]


def _pass_groups(facts: Facts) -> list[Group]:
    by_topic = groupby(
        sorted(facts.passes.items(), key=lambda item: item[1]), key=lambda item: item[1]
    )
    groups = []
    for topic, items in by_topic:
        names = [name for name, _ in items]
        whole = TunedChange(f"passes of {topic} off", "passes", off=frozenset(names))
        members = [TunedChange(f"{name} off", "passes", off=frozenset({name})) for name in names]
        groups.append(_group(whole, members))
    idle = [TunedChange(f"{name} on", "passes", on=frozenset({name})) for name in facts.idle]
    return [*groups, *map(Group, idle)]


def _area_groups(facts: Facts) -> list[Group]:
    if not facts.areas:
        return []
    whole = TunedChange("all areas off", "areas", kernels=False)
    members = [
        TunedChange(
            f"area {name} off",
            "areas",
            areas_off=frozenset({name}),
            label=f"{facts.labels[name]}: off" if name in facts.labels else "",
        )
        for name in facts.areas
    ]
    return [_group(whole, members)]


def _optimizer_groups(optimizers: Sequence[str]) -> list[Group]:
    by_title: dict[str, list[str]] = {"layouts": [], "fusions": [], "other optimizers": []}
    for name in optimizers:
        if name in OPTIMIZERS and "RuleBased" not in name:
            by_title[_title(name)].append(name)
    groups = []
    for title, names in by_title.items():
        if names:
            prefix = "onnxruntime without"
            off = tuple(names)
            whole = TunedChange(f"{prefix} its {title}", "optimizers", optimizers_off=off)
            members = [
                TunedChange(f"{prefix} {name}", "optimizers", optimizers_off=(name,))
                for name in names
            ]
            groups.append(_group(whole, members))
    return groups


def _title(optimizer: str) -> str:
    if optimizer in _LAYOUT:
        return "layouts"
    return "fusions" if "Fusion" in optimizer else "other optimizers"


def _group(whole: TunedChange, members: Sequence[TunedChange]) -> Group:
    """A group. If there is only one member, the group is this single change."""
    return Group(members[0]) if len(members) == 1 else Group(whole, tuple(members))


def _settings(threads: Sequence[int]) -> list[Group]:
    changes = [
        TunedChange(f"{count} thread{'s' * (count > 1)}", "settings", threads=count)
        for count in threads
    ]
    # Settings of onnxruntime: threads do not spin (wait actively); memory is not kept in an arena
    # for later use; the memory of a run is not planned in advance.
    changes += [
        TunedChange("no spinning", "settings", no_spinning=True),
        TunedChange("no arena", "settings", no_arena=True),
        TunedChange("no planned memory", "settings", no_planned_memory=True),
    ]
    return [Group(change) for change in changes]
