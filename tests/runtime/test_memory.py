"""What a process may take: what the machine and the control groups around it still have."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fusionc.runtime import control_groups, memory

ROOT = Path(__file__).parents[2]
MIB = 1 << 20


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tree of control groups with this process in the group that the file `own` says, in a
    machine that has 1 GiB.
    """
    machine = ["MemTotal: 9999999 kB", "MemAvailable: 1048576 kB"]
    lines = memory.lines
    information = Path("/proc/meminfo")
    monkeypatch.setattr(control_groups, "GROUPS", tmp_path)
    monkeypatch.setattr(control_groups, "OWN", tmp_path / "own")
    monkeypatch.setattr(
        memory, "lines", lambda file: iter(machine) if file == information else lines(file)
    )
    monkeypatch.setattr(memory, "_KEPT_FREE", 0)
    return tmp_path


def group(folder: Path, **files: object) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(f"{text}\n")


def test_the_machine_alone(groups: Path) -> None:
    assert memory.available() == 1024 * MIB


def test_the_tightest_of_the_groups_around_counts(groups: Path) -> None:
    (groups / "own").write_text("0::/outer/inner")
    group(
        groups / "outer",
        memory__max=300 * MIB,
        memory__current=200 * MIB,
        memory__stat=f"active_file {50 * MIB}",
    )
    group(groups / "outer/inner", memory__max="max", memory__current=100 * MIB)
    assert memory.available() == 150 * MIB


def test_groups_of_the_first_version(groups: Path) -> None:
    (groups / "own").write_text("5:cpu,memory:/job")
    name = "memory/job"
    group(groups / name, memory__limit_in_bytes=64 * MIB, memory__usage_in_bytes=60 * MIB)
    group(groups / name, memory__stat=f"total_inactive_file {MIB}\nrss 7")
    assert memory.available() == 5 * MIB


def test_more_than_there_is_in_use(groups: Path) -> None:
    (groups / "own").write_text("0::/")
    group(groups, memory__max=MIB, memory__current=2 * MIB)
    assert memory.available() == 0


def test_what_is_beyond_the_limit_is_an_exception() -> None:
    program = """
import numpy
from fusionc.runtime.memory import limit_growth
limit_growth(256 << 20)
kept = numpy.ones(64 << 20, numpy.uint8)
try:
    numpy.ones(512 << 20, numpy.uint8)
except MemoryError:
    limit_growth(1024 << 20)
    print(numpy.ones(512 << 20, numpy.uint8).size + kept.size)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert int(done.stdout) == 576 << 20
