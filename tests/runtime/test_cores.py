"""How many processors a process may use: those of its affinity, and the quota of each control group
around it.
"""

from __future__ import annotations

import os
from pathlib import Path

import onnx
import pytest

from fusionc.runtime import control_groups, sessions
from fusionc.runtime.cores import cores

MODEL = Path(__file__).parents[2] / "sample_models" / "matmul_bias.onnx"


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tree of control groups, with this process in the group that the file `own` says, on eight
    processors.
    """
    monkeypatch.setattr(control_groups, "GROUPS", tmp_path)
    monkeypatch.setattr(control_groups, "OWN", tmp_path / "own")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    return tmp_path


def of_second_version(folder: Path, text: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cpu.max").write_text(f"{text}\n")


def of_first_version(folder: Path, quota: int, period: int = 100_000) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cpu.cfs_quota_us").write_text(f"{quota}\n")
    (folder / "cpu.cfs_period_us").write_text(f"{period}\n")


def test_the_affinity_alone(groups: Path) -> None:
    assert cores() == 8


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("max 100000", 8),
        ("150000 100000", 2),
        ("100000 100000", 1),
        ("1000 100000", 1),
        ("1600000 100000", 8),
        ("", 8),
    ],
)
def test_a_quota_of_the_second_version(groups: Path, text: str, expected: int) -> None:
    (groups / "own").write_text("0::/job")
    of_second_version(groups / "job", text)
    assert cores() == expected


@pytest.mark.parametrize(("quota", "expected"), [(-1, 8), (300_000, 3), (50_000, 1), (0, 1)])
def test_a_quota_of_the_first_version(groups: Path, quota: int, expected: int) -> None:
    (groups / "own").write_text("5:memory:/job\n4:cpu,cpuacct:/job\n0::/")
    of_first_version(groups / "cpu" / "job", quota)
    assert cores() == expected


def test_the_tightest_of_the_groups_around_counts(groups: Path) -> None:
    (groups / "own").write_text("0::/outer/inner")
    of_second_version(groups / "outer", "200000 100000")
    of_second_version(groups / "outer" / "inner", "max 100000")
    assert cores() == 2


def test_a_group_that_is_not_seen_from_a_container(groups: Path) -> None:
    (groups / "own").write_text("4:cpu:/docker/1234")
    of_first_version(groups / "cpu", 200_000)
    assert cores() == 2


@pytest.mark.parametrize(("text", "threads"), [("100000 100000", 1), ("400000 100000", 2)])
def test_a_session_takes_no_more_threads(
    groups: Path, monkeypatch: pytest.MonkeyPatch, text: str, threads: int
) -> None:
    (groups / "own").write_text("0::/")
    of_second_version(groups, text)
    assert threads_of(model_of_bytes(1 << 17)) == threads


def test_a_small_model_has_one_thread(groups: Path) -> None:
    """Unless its weights are in another file."""
    (groups / "own").write_text("0::/")
    elsewhere = onnx.load(MODEL)
    onnx.helper.set_model_props(elsewhere, {"location": "another file"})
    assert threads_of(str(MODEL)) == threads_of(MODEL.read_bytes()) == 1
    assert threads_of(elsewhere.SerializeToString()) == 2


def test_a_small_model_that_quantizes_in_each_thread_has_as_many_threads_as_with_kernels(
    groups: Path,
) -> None:
    """A thread quantizes its part of a batch on its own, so two threads compute other numbers."""
    (groups / "own").write_text("0::/")
    text = """<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]>
        agraph (float[3,2,4] x, uint8[1,4,8] w, uint8[1,2,8] r) => (float y) <float[1] s = {0.01}, uint8[1] z = {3}>
        { y = com.microsoft.DynamicQuantizeLSTM <hidden_size = 2> (x, w, r, , , , , , s, z, s, z) }"""
    assert threads_of(onnx.parser.parse_model(text).SerializeToString()) == 2


def threads_of(model: str | bytes) -> int:
    session = sessions._session(model, None, (), "disabled", {}, True)
    return int(session.get_session_options().intra_op_num_threads)


def model_of_bytes(size: int) -> bytes:
    model = onnx.load(MODEL)
    model.doc_string = "x" * size
    return model.SerializeToString()
