"""The whole of a tuning on a small model, measured with a clock that knows what every node
costs.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from itertools import count
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from click.testing import CliRunner
from harness import parse
from planted_runs import plant_runs

import fusionc
from fusionc.api import tune
from fusionc.bench.deployed_model import DeployedModel
from fusionc.bench.rounds import Measured
from fusionc.cli import main
from fusionc.custom import loading
from fusionc.errors import FusioncError, UsageError
from fusionc.graph_kernel.area import Area
from fusionc.graph_kernel.c import source
from fusionc.passes import PASSES
from fusionc.passes.areas._area_pass import AreaPass
from fusionc.runtime.optimizers import DISABLED
from fusionc.runtime.run_errors import OutOfMemory, Overdue, RunError
from fusionc.runtime.session_settings import SessionSettings
from fusionc.tune import changed_answers as changed_answers_module
from fusionc.tune import convert_to, measuring_laboratory, tune_story
from fusionc.tune.changed_answers import changed_answers
from fusionc.tune.measuring_laboratory import MeasuringLaboratory
from fusionc.verify import verify

MODEL = """g (float[N,8] x) => (float[N,8] y, float[N,8] z) <float[8,8] w, float[8] b> {
    m = MatMul (x, w)  a = Add (m, b)  s = Sigmoid (a)  q = Mul (a, s)
    e = Exp (q)  f = Abs (q)  y = Mul (e, f)
    t = Transpose <perm=[1,0]> (x)  z = Transpose <perm=[1,0]> (t) }"""
TWO_AREAS = """g (float[1000,1000] x, float[1000,9] w, float[1000,9] v) => (float[1000,9] y) {
    a = Sigmoid (x)  b = Mul (a, x)  c = Abs (b)  d = Sqrt (c)  m = MatMul (d, w)
    e = Exp (m)  f = Add (e, v)  g = Abs (f)  h = Sqrt (g)  y = Sigmoid (h) }"""
# Of which onnxruntime's optimizers make something else, on any processor.
FOR_OPTIMIZERS = """g (float[N,16,9,9] x) => (float[N,16,9,9] y) {
    s = Softmax (x)  t = Transpose <perm=[0,1,3,2]> (s)  m = MatMul (t, x)
    p = Transpose <perm=[0,2,3,1]> (m)  r = Softmax (p)  y = Transpose <perm=[0,3,1,2]> (r) }"""
# onnxruntime makes z / x of (1 / x) * z, which integers do not do.
QUOTIENT_OF_INTEGERS = """g (int64[4] x, int64[4] z) => (int64[4] y) <int64 one = {1}> {
    c = Max (x, one) a = Div (one, c) y = Mul (a, z) }"""
# What onnxruntime does not turn back.
SLOW_PASS = """import fusionc
from fusionc import op
fusionc.register_replacement(lambda x: op.Abs(x), lambda x: op.Max(x, op.Neg(x)), name="SlowPass")
"""
# Off by default: one that helps between two that cannot be applied.
OFF_PASSES = """import fusionc
from fusionc.rewrite import op, var

class FailsPass(fusionc.Pass):
    default = "off"
    patterns = (fusionc.Pattern("Exp", op.Exp(var("x"))),)
    def rewrite(self, m, new): raise RuntimeError("no")

class HelpsPass(fusionc.Pass):
    default = "off"
    patterns = (fusionc.Pattern("Abs", op.Abs(var("x"))),)
    def rewrite(self, m, new): return new.Max(m.x, new.Neg(m.x))

class FailsAsWellPass(FailsPass): pass
"""

# Those that have an effect on these models without areas. A tuning converts a model ten times, and
# most of a conversion would be searches of the other passes.
FEW_PASSES = tuple(
    p
    for p in PASSES
    if isinstance(p, AreaPass)
    or p.name
    in ("MatMulBiasAddFusionPass", "QuickGeluFusionPass", "TransOpSymmetryEliminationPass")
)


class FakeClock:
    """Stands in for rounds in fresh processes: `costs` are milliseconds of nodes, by operator;
    others take one. Those of "one_thread" and "optimizers_off" are factors.
    """

    def __init__(self, noise: float = 0.005, interrupt_at: int = 10_000, **costs: float) -> None:
        self.random = random.Random(0)
        self.noise = noise
        self.costs = costs
        self.interrupt_at = interrupt_at
        # with one thread
        self.rounds = 0
        self.is_crashing = False

    def __call__(
        self,
        models: Mapping[str, DeployedModel],
        feeds: Mapping[str, Any],
        seconds: float,
        seed: int,
    ) -> dict[str, Measured]:
        self.rounds += 1
        if self.rounds > self.interrupt_at:
            raise KeyboardInterrupt
        found = {}
        for name, model in models.items():
            nodes = onnx.load(model.file).graph.node
            if self.is_crashing and model.settings.threads == 1:
                raise RunError("it crashes")
            time = sum(self.costs.get(node.op_type, 1.0) for node in nodes) * math.exp(
                self.random.gauss(0, self.noise)
            )
            time *= self.costs.get("one_thread", 1.0) if model.settings.threads == 1 else 1.0
            time *= (
                self.costs.get("optimizers_off", 1.0) if model.settings.disabled_optimizers else 1.0
            )
            found[name] = Measured(((time / 1e3,),) * 3, 0.01, 1, 2, 3)
        return found


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    onnx.save(parse(MODEL), tmp_path / "in.onnx")
    Path("slow.py").write_text(SLOW_PASS)
    return tmp_path / "in.onnx"


@pytest.fixture
def tuned(model: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Tunes the model with a clock."""

    def run(clock: FakeClock, **options: Any) -> Any:
        monkeypatch.setattr(measuring_laboratory, "measure_round", clock)
        given = {"enable_graph_kernel": False, "log": "null", **options}
        for module in (loading, convert_to) if given["enable_graph_kernel"] is False else ():
            monkeypatch.setattr(module, "PASSES", FEW_PASSES)
        return tune(model, output="out.onnx", budget=3600, **given)

    return run


def states(found: Any, state: str) -> set[str]:
    return {worth.change.name for worth in found.worths if worth.state == state}


def operators(path: str) -> set[str]:
    return {node.op_type for node in onnx.load(path).graph.node}


def test_a_pass_that_costs_is_switched_off(tuned: Callable[..., Any]) -> None:
    found = tuned(FakeClock(Max=5.0), custom_passes=["slow.py"])
    assert found.confirmation.delivered == "tuned" and states(found, "pays") == {"SlowPass off"}
    assert "Abs" in operators("out.onnx") and "Transpose" not in operators("out.onnx")
    switches = json.loads(Path("out.switches.json").read_text())["Switch"]
    assert switches == {"GraphFusion": {"SlowPass": "off"}, "UBFusion": {}}
    again = {"fusion_switch_file": "out.switches.json", "custom_passes": ["slow.py"], "log": "null"}
    fusionc.convert("in.onnx", output="again.onnx", **again)
    assert Path("again.onnx").read_bytes() == Path("out.onnx").read_bytes()
    assert not Path("out.tune.jsonl").exists() and not list(Path().glob(".fusionc-*"))
    assert Path("out.tune.svg").read_text().startswith("<svg")
    assert json.loads(json.dumps(found.as_json()))["delivered"] == "tuned"


def test_what_is_off_and_fails_keeps_nothing_else_from_being_tried(
    tuned: Callable[..., Any],
) -> None:
    Path("off.py").write_text(OFF_PASSES)
    found = tuned(FakeClock(Abs=5.0), custom_passes=["off.py"])
    assert states(found, "pays") == {"HelpsPass on"} and "Max" in operators("out.onnx")
    assert not any("Fails" in worth.change.name for worth in found.worths)


def test_a_change_that_cannot_be_run_is_one_that_fails(tuned: Callable[..., Any]) -> None:
    clock = FakeClock(Max=5.0)
    clock.is_crashing = True
    found = tuned(clock, custom_passes=["slow.py"])
    (failing,) = [worth for worth in found.worths if worth.change.threads == 1]
    assert failing.state == "fails" and failing.why == "it cannot be run: it crashes"
    assert found.confirmation.delivered == "tuned" and "SlowPass" in found.configuration.off


def test_results_that_are_too_large_to_be_kept_are_made_again(
    tuned: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measuring_laboratory, "_MAX_BYTES", 1)
    found = tuned(FakeClock(Max=5.0), custom_passes=["slow.py"])
    assert found.confirmation.delivered == "tuned" and states(found, "pays") == {"SlowPass off"}


def test_the_original_has_what_was_asked_to_change_of_it(tuned: Callable[..., Any]) -> None:
    """Half of the nodes are gone: nothing that a pass has gained."""
    Path("off.json").write_text(
        '{"Switch": {"GraphFusion": {"ALL": "off"}, "UBFusion": {"ALL": "off"}}}'
    )
    found = tuned(FakeClock(noise=0.0001), out_nodes="e", fusion_switch_file="off.json")
    assert found.confirmation.default.ratio == pytest.approx(1, abs=0.01)
    assert found.confirmation.delivered != "tuned" and [
        o.name for o in onnx.load("out.onnx").graph.output
    ] == ["e"]


def test_inputs_have_the_sizes_that_were_asked_for(tuned: Callable[..., Any]) -> None:
    found = tuned(FakeClock(Identity=0.1), input_shape={"x": (1, -1)})
    assert found.confirmation.delivered == "default"


@pytest.mark.usefixtures("needs_a_compiler")
def test_kernels_of_the_model_are_no_gain(model: Path, tuned: Callable[..., Any]) -> None:
    fusionc.convert(model, output="areas.onnx", enable_graph_kernel=True, log="null")
    for ending in ("onnx", "kernels.so"):
        Path(f"areas.{ending}").replace(f"in.{ending}")
    clock = FakeClock()
    kernels = []

    def looks(models: Mapping[str, DeployedModel], *rest: Any) -> dict[str, Measured]:
        kernels.append({name: one.kernels for name, one in models.items()})
        return clock(models, *rest)

    tuned(looks, enable_graph_kernel=None)
    assert kernels[-1]["original"] is not None


def test_what_the_user_has_switched_stays(tuned: Callable[..., Any]) -> None:
    found = tuned(FakeClock(Max=5.0), custom_passes=["slow.py"], optimization_switch="SlowPass:on")
    assert "SlowPass off" not in {worth.change.name for worth in found.worths}


def test_settings_that_pay_reach_a_session(tuned: Callable[..., Any]) -> None:
    found = tuned(FakeClock(one_thread=0.5))
    assert found.confirmation.delivered == "tuned" and states(found, "pays") == {"1 thread"}
    assert fusionc.session("out.onnx").get_session_options().intra_op_num_threads == 1


def test_optimizers_that_cost_are_off_in_a_session(model: Path, tuned: Callable[..., Any]) -> None:
    onnx.save(parse(FOR_OPTIMIZERS), model)
    found = tuned(FakeClock(optimizers_off=0.5))
    off = found.configuration.settings.disabled_optimizers
    assert found.confirmation.delivered == "tuned" and off
    assert fusionc.session("out.onnx").get_session_options().get_session_config_entry(
        DISABLED
    ) == ";".join(off)


Guilt = Callable[[Collection[str]], bool]


@pytest.mark.parametrize(
    "is_wrong, said, guilty",
    [
        (bool, "the answers change (y, ", 2),
        (lambda off: "TransposeOptimizer" in off, "the answers change (y, ", 1),
        (lambda off: len(off) > 1, "with the others off the answers change (y, ", 1),
    ],
)
def test_optimizers_without_which_answers_change_stay_on(
    model: Path,
    tuned: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    is_wrong: Guilt,
    said: str,
    guilty: int,
) -> None:
    onnx.save(parse(FOR_OPTIMIZERS), model)
    paying = set(tuned(FakeClock(optimizers_off=0.5)).configuration.settings.disabled_optimizers)
    assert len(paying) == 2 and "TransposeOptimizer" in paying
    plant_wrong_answers(monkeypatch, is_wrong)
    found = tuned(FakeClock(optimizers_off=0.5, one_thread=0.8))
    left = set(found.configuration.settings.disabled_optimizers)
    assert len(paying - left) == guilty and not is_wrong(left)
    assert states(found, "fails") == {f"onnxruntime without {name}" for name in paying - left}
    assert all(worth.why.startswith(said) for worth in found.worths if worth.state == "fails")
    assert found.confirmation.delivered == "tuned" and found.configuration.settings.threads == 1


def test_where_only_such_optimizers_pay_the_default_is_delivered(
    model: Path, tuned: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    onnx.save(parse(FOR_OPTIMIZERS), model)
    plant_wrong_answers(monkeypatch, bool)
    found = tuned(FakeClock(optimizers_off=0.5))
    assert found.confirmation.delivered != "tuned" and not states(found, "pays")
    words = ["--log", "null", "--enable_graph_kernel=false"]
    result = CliRunner().invoke(
        main, ["tune", "--model", "in.onnx", "--output", "out.onnx", *words]
    )
    assert result.exit_code == 0 and "left out: the answers change (y, " in result.output
    assert tuned(
        FakeClock(optimizers_off=0.5), verify=False
    ).configuration.settings.disabled_optimizers


def test_answers_are_checked_on_what_was_asked_for_and_once(
    model: Path, tuned: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    onnx.save(parse(FOR_OPTIMIZERS), model)
    np.savez("x.npz", x=np.zeros((3, 16, 9, 9), np.float32))
    asked = list[dict[str, Any]]()

    def recorded(*paths: Path, **given: Any) -> Any:
        asked.append(given)
        return verify(*paths, **given)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(changed_answers_module, "verify", recorded)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(tune_story, "_last_run", interrupted)
        tuned(FakeClock(optimizers_off=0.5), inputs="x.npz")
    found = tuned(FakeClock(optimizers_off=0.5), inputs="x.npz")
    (given,) = asked
    assert given["inputs"] == Path("x.npz") and given["kernels"] is None
    assert given["optimizers_off"] == found.configuration.settings.disabled_optimizers
    tuned(FakeClock(optimizers_off=0.5), verify_shape={"x": (2, 16, 9, 9)})
    assert asked[1]["input_shape"] == {"x": (2, 16, 9, 9)} and len(asked) == 2


def test_answers_that_are_as_wrong_with_all_optimizers_are_no_reason_against_fewer(
    tmp_path: Path,
) -> None:
    file = tmp_path / "in.onnx"
    onnx.save(parse(QUOTIENT_OF_INTEGERS), file)
    model = DeployedModel(file, settings=SessionSettings(disabled_optimizers=("ConstantFolding",)))
    assert verify(file, file).optimizer_faults and not changed_answers(
        model, None, None, lambda _: None
    )


@pytest.mark.parametrize("error", [OutOfMemory("it is full"), Overdue("it takes too long")])
@pytest.mark.parametrize("is_seen", [False, True])
def test_answers_that_cannot_be_checked_are_not_taken_to_be_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: RunError, is_seen: bool
) -> None:
    """Be it that the model does not run without the optimizers, or that what differs then cannot be
    explained.
    """
    file = tmp_path / "in.onnx"
    onnx.save(parse(FOR_OPTIMIZERS), file)
    model = DeployedModel(
        file, settings=SessionSettings(disabled_optimizers=("TransposeOptimizer",))
    )

    def fails(_: Path, level: str, disabled: Collection[str], outputs: list[Any]) -> list[Any]:
        if level == "all" and bool(disabled) != is_seen:
            raise error
        return [value + 1 for value in outputs] if disabled else outputs

    assert not changed_answers(model, None, None, lambda _: None)
    plant_runs(monkeypatch, fails)
    said = changed_answers(model, None, None, lambda _: None)
    assert (
        said.startswith("the answers cannot be checked (")
        and str(error) in said
        and str(tmp_path) not in said
    )


def test_a_model_that_gives_something_else_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "in.onnx"
    onnx.save(parse("g (float[N,3] x) => (float[N,3] y) { y = Neg (x) }"), file)
    model = DeployedModel(
        file, settings=SessionSettings(disabled_optimizers=("TransposeOptimizer",))
    )
    runs = count()
    plant_runs(monkeypatch, lambda _, __, ___, outputs: [value + next(runs) for value in outputs])
    assert changed_answers(model, None, None, lambda _: None).startswith(
        "the answers cannot be checked ("
    )


def plant_wrong_answers(monkeypatch: pytest.MonkeyPatch, is_wrong: Guilt) -> None:
    """With such optimizers off, the outputs are larger than they should be."""
    plant_runs(
        monkeypatch, lambda _, __, off, outputs: [value + is_wrong(off) for value in outputs]
    )


def test_where_nothing_pays_it_is_the_default_or_the_original(tuned: Callable[..., Any]) -> None:
    found = tuned(FakeClock(Identity=0.1))
    assert (
        found.confirmation.delivered == "default"
        and not states(found, "pays")
        and found.settings is None
    )
    assert fusionc.session("out.onnx").get_session_options().intra_op_num_threads == 0
    assert not any("busy" in notice for notice in found.notices)
    found = tuned(FakeClock(noise=0.5))
    assert found.confirmation.delivered == "original"
    assert any(
        notice.startswith("the machine was busy: from process to process")
        for notice in found.notices
    )
    assert onnx.load("out.onnx").graph == onnx.load("in.onnx").graph


def test_an_interrupted_run_goes_on_and_decides_the_same(tuned: Callable[..., Any]) -> None:
    with pytest.raises(KeyboardInterrupt):
        tuned(FakeClock(interrupt_at=20, Max=5.0), custom_passes=["slow.py"])
    assert (
        Path("out.tune.jsonl").is_file()
        and not Path("out.onnx").exists()
        and not list(Path().glob(".fusionc-*"))
    )
    rest = FakeClock(Max=5.0)
    found = tuned(rest, custom_passes=["slow.py"])
    whole = FakeClock(Max=5.0)
    assert any("continued" in notice for notice in found.notices)
    assert (
        found.confirmation.delivered
        == tuned(whole, custom_passes=["slow.py"]).confirmation.delivered
        == "tuned"
    )
    assert rest.rounds <= whole.rounds - 15


@pytest.mark.usefixtures("needs_a_compiler")
def test_a_slow_area_is_switched_off_by_name(model: Path, tuned: Callable[..., Any]) -> None:
    fusionc.convert(model, output="areas.onnx", enable_graph_kernel=True, log="null")
    (slow, *_) = [
        node.op_type for node in onnx.load("areas.onnx").graph.node if node.domain == "fusionc.gk"
    ]
    found = tuned(FakeClock(**{slow: 20.0}), enable_graph_kernel=True)
    assert found.confirmation.delivered == "tuned" and f"area {slow} off" in states(found, "pays")
    assert slow not in operators("out.onnx") and slow in found.configuration.areas_off


@pytest.mark.parametrize(
    "name, content",
    [
        ("out.switches.json", "{}"),
        ("out.switches.json", "5"),
        ("out.switches.json", '{"Switch": {"GraphFusion": {"ALL": "off"}}}'),
        ("out.tune.svg", "mine"),
        ("out.tune.svg", "<svg>mine</svg>"),
    ],
)
def test_files_of_others_stay(tuned: Callable[..., Any], name: str, content: str) -> None:
    Path(name).write_text(content)
    with pytest.raises(FusioncError, match="that was not written by a tuning, or was changed"):
        tuned(FakeClock())
    assert Path(name).read_text() == content and not Path("out.tune.jsonl").exists()


def test_its_own_files_are_written_again_and_not_what_somebody_made_of_them(
    tuned: Callable[..., Any],
) -> None:
    for costs in ({"Identity": 0.1}, {"Max": 5.0}):
        found = tuned(FakeClock(**costs), custom_passes=["slow.py"])
    assert "SlowPass" in Path("out.switches.json").read_text()
    assert not any("not tested" in notice for notice in found.notices), (
        "it had all the time that it wanted"
    )
    Path("out.switches.json").write_text('{"Switch": {"GraphFusion": {"SlowPass": "on"}}}')
    with pytest.raises(FusioncError, match="or was changed"):
        tuned(FakeClock())


def test_wrong_options_leave_no_journal(tuned: Callable[..., Any]) -> None:
    Path("broken.json").write_text("{")
    for wrong in ({"fusion_switch_file": "broken.json"}, {"optimization_switch": "Foo:off"}):
        with pytest.raises(UsageError):
            tuned(FakeClock(), **wrong)
    assert not Path("out.tune.jsonl").exists()


def test_what_was_measured_on_other_values_is_not_gone_on_with(tuned: Callable[..., Any]) -> None:
    values = {"custom_passes": ["slow.py"], "inputs": "x.npz"}
    np.savez("x.npz", x=np.ones((2, 8), np.float32))
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            tuned(FakeClock(interrupt_at=20, Max=5.0), **values)
        before = Path("out.tune.jsonl").read_text()
        np.savez("x.npz", x=np.zeros((2, 8), np.float32))
    assert len({json.loads(line)["tune"] for line in before.splitlines()}) == 2
    found = tuned(FakeClock(Max=5.0), **values)
    assert any("continued" in notice for notice in found.notices), "the second of these runs"


def test_what_was_not_tested_is_said_and_the_most_promising_has_the_last_run(
    tuned: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MeasuringLaboratory, "has_time", lambda self, stage: stage != "test")
    found = tuned(FakeClock(Max=5.0), custom_passes=["slow.py"])
    assert found.confirmation.delivered == "tuned" and not states(found, "pays")
    assert found.configuration.off == {"SlowPass"}
    assert [one["change"] for one in found.as_json()["changes"] if one["delivered"]] == [
        "SlowPass off"
    ]
    (notice,) = [
        notice
        for notice in found.notices
        if "were not measured, or seemed to pay but were not tested" in notice
    ]
    assert notice.endswith(", because 3600 s are too few; give a larger --budget")
    switches = ["--output", "out.again.onnx", "--fusion_switch_file", "out.switches.json"]
    assert found.again[4:] == [*switches, "--custom_passes", "slow.py"]
    found = tuned(FakeClock(Abs=3.0, Max=1.0, noise=0.3), custom_passes=["slow.py"])
    assert found.confirmation.delivered != "tuned", "it is not confirmed"


def test_a_switch_file_that_is_read_is_not_written(tuned: Callable[..., Any]) -> None:
    Path("out.switches.json").write_text('{"Switch": {}}')
    with pytest.raises(UsageError, match="a file that the tuning reads"):
        tuned(FakeClock(), fusion_switch_file="out.switches.json")
    with pytest.raises(UsageError, match="not write a ready form"):
        tuned(FakeClock(), ready=True)


def test_a_model_that_onnxruntime_cannot_measure(tuned: Callable[..., Any]) -> None:
    def fails(*_: object) -> dict[str, Measured]:
        raise RunError("no")

    with pytest.raises(FusioncError, match="onnxruntime cannot run the model: no"):
        tuned(fails)


@pytest.mark.timing
def test_a_pass_that_is_slow_on_this_machine_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(parse("g (float[1000,1000] x) => (float[1000,1000] y) { y = Abs (x) }"), "in.onnx")
    Path("slow.py").write_text(
        SLOW_PASS.replace("op.Max(x, op.Neg(x))", "op.Max(op.Tan(op.Atan(x)), op.Neg(x))")
    )
    begin = perf_counter()
    options = {"custom_passes": ["slow.py"], "verify": False, "log": "null"}
    found = tune("in.onnx", output="out.onnx", budget=60, enable_graph_kernel=False, **options)
    assert states(found, "pays") >= {"SlowPass off"} and "Tan" not in operators("out.onnx")
    assert perf_counter() - begin < 120


@pytest.mark.timing
@pytest.mark.usefixtures("needs_a_compiler")
def test_an_area_that_is_slow_on_this_machine_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(parse(TWO_AREAS), "in.onnx")
    made = source.kernel_of

    def slow(area: Area) -> source.Kernel:
        kernel = made(area)
        if len(area.inputs) == 1:
            return kernel
        wait = "\n  for (volatile int slow = 0; slow < 300000; slow++);\n"
        bodies = {name: body.replace("{\n", "{" + wait, 1) for name, body in kernel.bodies.items()}
        return replace(kernel, bodies=bodies)

    monkeypatch.setattr(source, "kernel_of", slow)
    begin = perf_counter()
    found = tune(
        "in.onnx", output="out.onnx", budget=60, enable_graph_kernel=True, verify=False, log="null"
    )
    off = [name for name in states(found, "pays") if name.startswith("area Exp_Add")]
    assert (
        len(off) == 1
        and found.confirmation.delivered != "default"
        and "Exp" in operators("out.onnx")
    )
    assert perf_counter() - begin < 120


@pytest.mark.parametrize("budget", [0, -1.0, float("nan"), float("inf")])
def test_no_time_to_measure(model: Path, budget: float) -> None:
    with pytest.raises(UsageError, match="the budget must be"):
        tune(model, budget=budget)


@pytest.mark.parametrize("confidence", [95, 1.0, 0.3, float("nan")])
def test_what_is_no_confidence(model: Path, confidence: float) -> None:
    with pytest.raises(UsageError, match="the confidence must be"):
        tune(model, confidence=confidence)


def test_flags_that_cannot_be_added_to(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        UsageError, match="names a file: a tuning could not switch single areas off"
    ):
        tune(model, graph_kernel_flags="--path=flags.json")
    monkeypatch.setenv("MS_DEV_GRAPH_KERNEL_FLAGS", "")
    with pytest.raises(
        UsageError, match="the environment variable MS_DEV_GRAPH_KERNEL_FLAGS is set"
    ):
        tune(model)


def test_the_default_has_areas_where_flags_ask_for_them(tuned: Callable[..., Any]) -> None:
    flags = {"enable_graph_kernel": None, "graph_kernel_flags": "--opt_level=2"}
    found = tuned(FakeClock(), **flags)
    assert "areas with kernels" not in {worth.change.name for worth in found.worths}
    assert any(worth.change.kind == "areas" for worth in found.worths)


def test_a_real_run_in_a_moment(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tune_story, "least_rounds", lambda *_: 2)
    monkeypatch.setattr(measuring_laboratory, "_MIN_SECONDS", 0.02)
    found = tune(model, output="out.onnx", budget=0.5, enable_graph_kernel=False, log="null")
    x = np.ones((2, 8), np.float32)
    before, after = (
        ort.InferenceSession(path).run(None, {"x": x})[0] for path in ("in.onnx", "out.onnx")
    )
    np.testing.assert_allclose(before, after, rtol=1e-5)
    assert found.confirmation.delivered in ("default", "original", "tuned")
