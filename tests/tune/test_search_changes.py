"""The search in a laboratory where it is known what every change is worth."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest

from fusionc.runtime.session_settings import SessionSettings
from fusionc.tune.candidates import Facts, Group, groups_of
from fusionc.tune.configuration import Configuration, TunedChange
from fusionc.tune.decisions import Worth, paying_changes
from fusionc.tune.search_changes import Stage, search

FACTS = Facts(
    passes={f"Pass{number}": f"topic{number % 4}" for number in range(12)},
    areas=[f"area{number}" for number in range(5)],
    idle=["Idle1", "Idle2"],
    optimizers=[
        "NchwcTransformer",
        "SkipLayerNormFusion",
        "BiasGeluFusion",
        "MatMulAddFusion",
        "ConstantFolding",
    ],
)
GROUPS = groups_of(FACTS, threads=(1,))
BASE = Configuration(kernels=True)
CONFIDENCE = 0.95


class Simulation:
    """Every process is off by some percent as a whole, and now and then one by far more, as on a
    machine in use.

    `effects` are logarithms of ratios by the names of passes, areas, optimizers and settings that
    are switched off.
    """

    batch_size = 4

    def __init__(
        self, seed: int, noise: float = 0.01, rounds: int = 10_000, **effects: float
    ) -> None:
        self.random = random.Random(seed)
        self.noise = noise
        self.effects = effects
        self.rounds = rounds
        self.observed = 0

    def compare(self, base: Configuration, other: Configuration) -> str:
        return "same" if other.off and other.off <= {"Pass0", "Pass4", "Pass8"} else "different"

    def has_time(self, stage: Stage) -> bool:
        return self.observed < self.rounds * {"settings": 0.2, "choose": 0.6, "test": 1}[stage]

    def observe(
        self, stage: Stage, base: Configuration, others: Mapping[str, Configuration], number: int
    ) -> dict[str, float]:
        self.observed += 1
        shift = self._process()
        return {
            name: self._effect(other) + self._process() - shift for name, other in others.items()
        }

    def _process(self) -> float:
        return self.random.gauss(0, self.noise) * (6 if self.random.random() < 0.05 else 1)

    def _effect(self, one: Configuration) -> float:
        names = [*one.off, *one.on, *one.areas_off, *one.settings.disabled_optimizers]
        names += [] if one.kernels else list(FACTS.areas)
        names += ["one_thread"] * (one.settings.threads == 1) + ["no_spinning"] * (
            not one.settings.spinning
        )
        return sum(self.effects.get(name, 0.0) for name in names)


def paying(simulation: Simulation) -> set[str]:
    found = search(BASE, GROUPS, simulation, CONFIDENCE)
    return {name for name, worth in found.items() if worth.state == "pays"}


def test_a_planted_slow_pass_and_a_planted_slow_area_are_found() -> None:
    found = [paying(Simulation(seed, Pass5=-0.08, area3=-0.10)) for seed in range(20)]
    assert all(
        {"Pass5 off"} < names <= {"Pass5 off", "area area3 off", "all areas off"} for names in found
    )
    assert sum(names == {"Pass5 off", "area area3 off"} for names in found) >= 19


def test_an_optimizer_and_a_setting_that_cost_are_found() -> None:
    found = paying(Simulation(3, SkipLayerNormFusion=-0.07, no_spinning=-0.3))
    assert found == {"onnxruntime without SkipLayerNormFusion", "no spinning"}
    assert paying(Simulation(3, one_thread=-0.4, no_spinning=-0.3)) == {"1 thread"}, (
        "one thread does not spin"
    )


@pytest.mark.parametrize("noise", [0.002, 0.02, 0.1])
def test_an_a_a_run_decides_nothing_at_the_stated_confidence(noise: float) -> None:
    wrong = sum(bool(paying(Simulation(seed, noise))) for seed in range(100))
    assert wrong <= 100 * (1 - CONFIDENCE)


def test_two_runs_agree() -> None:
    effects = {"Pass6": -0.06, "area1": -0.05, "no_spinning": 0.2}
    assert (
        paying(Simulation(1, **effects))
        == paying(Simulation(2, **effects))
        == {"Pass6 off", "area area1 off"}
    )


def test_of_what_threads_do_the_best_is_taken() -> None:
    worths = [
        Worth(TunedChange("1 thread", "settings", threads=1), "pays", tested=[-0.1]),
        Worth(TunedChange("no spinning", "settings", no_spinning=True), "pays", tested=[-0.4]),
        Worth(TunedChange("no arena", "settings", no_arena=True), "pays", tested=[-0.05]),
        Worth(
            TunedChange("Pass off", "passes", off=frozenset({"Pass"})), "undecided", tested=[-0.5]
        ),
    ]
    assert [change.name for change in paying_changes(worths)] == ["no spinning", "no arena"]


def test_what_costs_is_not_switched() -> None:
    found = search(BASE, GROUPS, Simulation(0, NchwcTransformer=0.5, Pass1=0.1), CONFIDENCE)
    # and not tested, as it seems to cost
    assert found["onnxruntime without NchwcTransformer"].state == "undecided"
    assert not found["onnxruntime without NchwcTransformer"].tested


def test_members_of_a_group_that_runs_the_same_are_not_measured() -> None:
    found = search(BASE, GROUPS, Simulation(0), CONFIDENCE)
    assert {found[f"Pass{number} off"].state for number in (0, 4, 8)} == {"same"}


def test_without_time_nothing_is_decided() -> None:
    found = search(BASE, GROUPS, Simulation(0, rounds=0, Pass5=-0.5), CONFIDENCE)
    assert {worth.state for worth in found.values()} == {"not measured"}


def test_a_short_budget_still_finds_what_is_large() -> None:
    assert paying(Simulation(0, 0.005, rounds=45, Pass5=-0.2)) >= {"Pass5 off"}


def test_what_cannot_be_had_says_why() -> None:
    class Failing(Simulation):
        def compare(self, base: Configuration, other: Configuration) -> str:
            return "no such thing" if other.on else "different"

    found = search(BASE, GROUPS, Failing(0), CONFIDENCE)
    assert (found["Idle1 on"].state, found["Idle1 on"].why) == ("fails", "no such thing")


def test_groups() -> None:
    names = [group.whole.name for group in GROUPS]
    assert names[:4] == [f"passes of topic{number} off" for number in range(4)]
    assert names[4:] == [
        "Idle1 on", "Idle2 on", "all areas off", "onnxruntime without NchwcTransformer",
        "onnxruntime without its fusions", "onnxruntime without ConstantFolding", "1 thread",
        "no spinning", "no arena",
        "no planned memory",
    ]  # fmt: skip
    assert GROUPS[0] == Group(GROUPS[0].whole, GROUPS[0].members) and len(GROUPS[0].members) == 3
    applied = GROUPS[6].members[0].apply_to(BASE)
    assert applied.areas_off == {"area0"} and applied.settings == SessionSettings()


def test_settings() -> None:
    settings = [group.whole.apply_to(BASE).settings for group in GROUPS[-4:]]
    assert settings == [
        SessionSettings(threads=1),
        SessionSettings(spinning=False),
        SessionSettings(arena=False),
        SessionSettings(planned_memory=False),
    ]
