from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from harness import parse

from fusionc.bench.bench_story import BenchRequest, bench
from fusionc.bench.deployed_model import DeployedModel
from fusionc.bench.rounds import Measured, measure_round
from fusionc.errors import FusioncError, UsageError
from fusionc.runtime import profile
from fusionc.runtime.process import step_limit

MLP = "g (float[N,8] x) => (float[N,4] y) <float[8,4] w> { a = MatMul (x, w)  y = Relu (a) }"

WITH_AREA = """<ir_version: 8, opset_import: ["" : 18, "fusionc.gk" : 1]>
g (float[N,8] x) => (float[N,8] y) { y = fusionc.gk.Area (x) }
<domain: "fusionc.gk", opset_import: ["" : 18]> Area (a) => (b) { b = Abs (a) }"""


class FakeRounds:
    """Times by the name of the model, and all of a process slower than others of the same."""

    def __init__(self, **seconds: float) -> None:
        self.seconds = seconds
        self.calls: list[tuple[Mapping[str, DeployedModel], Mapping[str, Mapping[str, Any]]]] = []

    def __call__(
        self,
        models: Mapping[str, DeployedModel],
        feeds: Mapping[str, Mapping[str, Any]],
        seconds: float,
        seed: int,
    ) -> dict[str, Measured]:
        self.calls.append((models, feeds))
        drift = 1 + 0.1 * seed
        found = {}
        for name, model in models.items():
            run = self.seconds[Path(name).stem] * drift * (1 + 0.001 * seed * len(name))
            run /= model.settings.threads or 1
            found[name] = Measured(
                ((run, run), (run,), (run, 9 * run)), 0.1 * drift, 50, 60, 70 + seed
            )
        return found


@pytest.fixture
def models(tmp_path: Path) -> tuple[Path, Path]:
    for name in ("slow", "faster"):
        onnx.save(parse(MLP), tmp_path / f"{name}.onnx")
    return tmp_path / "slow.onnx", tmp_path / "faster.onnx"


def test_costs_and_ratios(models: tuple[Path, Path]) -> None:
    found = bench(
        BenchRequest(models, processes=3, seconds=0.01), FakeRounds(slow=0.010, faster=0.008)
    )
    slow, faster = found.costs
    assert slow.ratio is None and faster.ratio is not None and faster.ratio.is_faster
    assert faster.ratio.ratio == pytest.approx(0.8, rel=0.01) and faster.ratio.observations == 3
    assert slow.seconds[0.5] == pytest.approx(0.011, rel=0.02) and slow.seconds[0.99] > 0.09
    assert (slow.imported, slow.loaded, slow.peak) == (50, 60, 71)
    assert slow.operators.operators.keys() >= {"MatMul"}
    plain = json.loads(json.dumps(found.as_json()))
    assert plain["models"][1]["ratio"]["low"] < 0.8 < plain["models"][1]["ratio"]["high"]
    assert plain["models"][0]["seconds"].keys() == {"p50", "p90", "p99"}


def test_a_profile_may_take_as_long_as_it_was_asked_to(
    models: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(profile, "_PATIENCE", 1e-6)
    found = bench(BenchRequest(models[:1], processes=1, seconds=0.01), FakeRounds(slow=0.010))
    assert found.costs[0].operators.runs
    with pytest.raises(FusioncError, match="it takes longer than"), step_limit(1e-6):
        bench(BenchRequest(models[:1], processes=1, seconds=0.0), FakeRounds(slow=0.010))


def test_the_same_model_twice_is_two(models: tuple[Path, Path]) -> None:
    found = bench(
        BenchRequest([models[0]] * 2, processes=2, seconds=0.01),
        lambda *given: FakeRounds(**{"slow": 1.0, "slow.onnx (2)": 1.0})(*given),
    )
    assert [cost.name.endswith(" (2)") for cost in found.costs] == [False, True]


def test_throughput_in_batches_on_threads(models: tuple[Path, Path]) -> None:
    rounds = FakeRounds(slow=0.010, faster=0.005)
    found = bench(
        BenchRequest(models, processes=1, seconds=0.01, batch_sizes=(1, 8), threads=(1, 2)), rounds
    )
    rates = {
        (one.name, one.batch, one.threads): round(one.samples_per_second)
        for one in found.throughput
    }
    assert (
        rates["slow.onnx", 8, 2] == 1600 and rates["faster.onnx", 1, 1] == 200 and len(rates) == 8
    )
    assert {feeds["slow.onnx"]["x"].shape[0] for _, feeds in rounds.calls[1:]} == {1, 8}


@pytest.mark.parametrize(
    "given", ["float[2] z", "int32[2] x", "float[N,2,3,4,5,6] x", "float[977] x"]
)
def test_other_inputs_than_the_first_takes(
    given: str, models: tuple[Path, Path], tmp_path: Path
) -> None:
    kind, name = given.split()
    onnx.save(parse(f"g ({given}) => ({kind} y) {{ y = Abs ({name}) }}"), tmp_path / "other.onnx")
    with pytest.raises(
        UsageError, match=rf"slow\.onnx does not take the input {name} with the same"
    ):
        bench(BenchRequest([models[0], tmp_path / "other.onnx"]), FakeRounds())


def test_areas_whose_kernels_are_not_there(models: tuple[Path, Path], tmp_path: Path) -> None:
    onnx.save(onnx.parser.parse_model(WITH_AREA), tmp_path / "area.onnx")
    found = bench(
        BenchRequest([tmp_path / "area.onnx", models[0]], processes=1),
        FakeRounds(slow=1.0, area=1.0),
    )
    told = [notice for notice in found.notices if "kernels" in notice]
    assert told == ["area.kernels.so is not next to area.onnx, so its areas run without kernels"]


def test_a_model_that_does_not_run(tmp_path: Path) -> None:
    text = "g (float[N,3] x) => (float[2,3] y) <int64[2] s = {2, 5}> { y = Reshape (x, s) }"
    onnx.save(parse(text), tmp_path / "m.onnx")
    with pytest.raises(FusioncError, match="no inputs on which the model runs"):
        bench(BenchRequest([tmp_path / "m.onnx"]), FakeRounds())


def test_a_model_that_is_not_loaded(tmp_path: Path) -> None:
    made = parse("g (float[2] x) => (float[2] y) { y = Relu (x) }")
    made.graph.node[0].op_type = "Reluu"
    onnx.save(made, tmp_path / "m.onnx")
    with pytest.raises(FusioncError, match=r"onnxruntime cannot load the model: .*Reluu") as caught:
        bench(BenchRequest([tmp_path / "m.onnx"]), FakeRounds())
    assert "--custom_op_library" in (caught.value.hint or "")
    (tmp_path / "m.onnx").write_text("{}")
    with pytest.raises(FusioncError) as caught:
        bench(BenchRequest([tmp_path / "m.onnx"]), FakeRounds())
    assert caught.value.code == "E13005"


def test_one_batch_size_where_none_is_open(tmp_path: Path) -> None:
    onnx.save(parse("g (float[2] x) => (float[2] y) { y = Relu (x) }"), tmp_path / "m.onnx")
    rounds = FakeRounds(m=1.0)
    with pytest.raises(
        UsageError, match="no input of the model leaves its first dimension open"
    ) as caught:
        bench(BenchRequest([tmp_path / "m.onnx"], processes=1, batch_sizes=(2,)), rounds)
    assert not rounds.calls and (caught.value.hint or "").endswith('--free_dim "x:0"')


def test_the_batch_is_the_open_dimension(tmp_path: Path) -> None:
    text = "g (float[7,N,3] h, float[N,3] x) => (float[7,N,3] y) { y = Add (h, x) }"
    onnx.save(parse(text), tmp_path / "m.onnx")
    rounds = FakeRounds(m=1.0)
    (one,) = bench(
        BenchRequest([tmp_path / "m.onnx"], processes=1, threads=(2,)), rounds
    ).throughput
    assert one.batch == rounds.calls[-1][1]["m.onnx"]["x"].shape[0] != 7


def test_no_sample_to_make_a_batch_of(tmp_path: Path) -> None:
    onnx.save(parse("g (float[N,3] x) => (float[N,3] y) { y = Relu (x) }"), tmp_path / "m.onnx")
    np.savez(tmp_path / "none.npz", x=np.zeros((0, 3), np.float32))
    asked = BenchRequest(
        [tmp_path / "m.onnx"], processes=1, batch_sizes=(2,), inputs=tmp_path / "none.npz"
    )
    with pytest.raises(UsageError, match="the input x has no sample to repeat"):
        bench(asked, FakeRounds(m=1.0))


def test_a_round_in_processes_of_their_own(models: tuple[Path, Path]) -> None:
    feeds = {"x": np.ones((2, 8), np.float32)}
    forms = {path.stem: DeployedModel(path).with_threads(1) for path in models}
    found = measure_round(forms, dict.fromkeys(forms, feeds), 0.02, 0)
    assert found.keys() == forms.keys()
    for measured in found.values():
        assert len(measured.slices) >= 3 and min(measured.runs) > 0 and measured.load_seconds > 0
        assert 10e6 < measured.imported <= measured.loaded <= measured.peak < 300e6
