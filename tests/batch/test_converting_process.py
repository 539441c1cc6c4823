"""A process that ends instead of answering."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from many_models import wait_until

from fusionc.batch import converting_process, tied_processes
from fusionc.batch.converting_process import check, end_processes, start_processes, untie_processes
from fusionc.batch.tied_processes import can_tie
from fusionc.errors import FusioncError
from fusionc.runtime.cores import core_numbers, cores


def test_one_that_is_killed(tmp_path: Path) -> None:
    """As a system does that has no memory left."""
    file = tmp_path / "deadly.py"
    file.write_text("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
    with pytest.raises(FusioncError, match="a converting process ends at once: something has killed it, as systems do"):
        check({"custom_passes": (file,)}, "run")


def test_one_that_was_killed_while_nobody_asked_it() -> None:
    first = check({}, "idle")
    for process in converting_process._idle:
        process._child.kill()
        process._child.wait()
    assert check({}, "idle") == first


def test_no_run_begins_anew_once_it_is_over() -> None:
    end_processes("over")
    with pytest.raises(FusioncError, match="the run is over"):
        check({}, "over")


def test_an_idle_one_leaves_no_folder_of_its_own(tmp_path: Path) -> None:
    file, seen = tmp_path / "own.py", tmp_path / "seen"
    file.write_text(
        "from pathlib import Path\nfrom fusionc.graph_kernel.library.cache import _own_folder\n"
        f"Path({str(seen)!r}).write_text(_own_folder().name)\n"
    )
    with pytest.raises(FusioncError, match="has no pass"):
        check({"custom_passes": (file,)}, "own")
    assert Path(seen.read_text()).is_dir()
    end_processes("own")
    assert not Path(seen.read_text()).exists()


def asked_in_the_meantime(folder: Path, run: str) -> tuple[threading.Thread, list[FusioncError], Path]:
    """A thread that asks a process which answers that a file has no pass, once another file is there; what came of it;
    that other file."""
    go, file = folder / f"{run}.go", folder / f"{run}.py"
    begun = folder / f"{run}.begun"
    file.write_text(
        f"import time\nfrom pathlib import Path\nPath({str(begun)!r}).touch()\n"
        f"while not Path({str(go)!r}).exists():\n    time.sleep(0.01)\n"
    )
    came: list[FusioncError] = []

    def ask() -> None:
        with pytest.raises(FusioncError) as raised:
            check({"custom_passes": (file,)}, run)
        came.append(raised.value)

    thread = threading.Thread(target=ask)
    thread.start()
    wait_until(begun.exists)
    return thread, came, go


def test_what_another_run_converts_goes_on(tmp_path: Path) -> None:
    thread, came, go = asked_in_the_meantime(tmp_path, "goes_on")
    other, its, _ = asked_in_the_meantime(tmp_path, "ends")
    end_processes("ends")
    go.touch()
    for one in (thread, other):
        one.join()
    assert "has no pass" in str(came[0]) and "a converting process ends at once" in str(its[0])
    assert check({}, "next") == []


def test_one_that_answers_while_it_is_ended_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    end_processes("none")  # none is idle
    thread, came, go = asked_in_the_meantime(tmp_path, "answers")
    end = converting_process._ConvertingProcess.begin_to_end

    def answered_first(self: converting_process._ConvertingProcess) -> None:
        go.touch()
        thread.join()
        end(self)

    monkeypatch.setattr(converting_process._ConvertingProcess, "begin_to_end", answered_first)
    end_processes("answers")
    assert "has no pass" in str(came[0]) and not converting_process._idle


@pytest.mark.skipif(cores() < 2 or not can_tie(), reason="needs two cores, and a system that ties processes to them")
def test_each_keeps_to_a_core_of_its_own_until_they_are_untied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    end_processes("none")  # none is idle
    first_two = set(sorted(core_numbers())[:2])
    monkeypatch.setattr(tied_processes, "core_numbers", lambda: first_two)
    start_processes(2, are_tied=True)
    first, second = converting_process._idle
    tied = [os.sched_getaffinity(process._child.pid) for process in (first, second)]
    first._child.kill()
    first._child.wait()
    thread, came, go = asked_in_the_meantime(tmp_path, "tied")  # the other one
    said, (in_its_place,) = check({}, "tied"), converting_process._idle
    untie_processes()
    children = Path(f"/proc/{second._child.pid}/task/{second._child.pid}/children").read_text().split()
    untied = [os.sched_getaffinity(int(n)) for n in (second._child.pid, in_its_place._child.pid, *children)]
    go.touch()
    thread.join()
    end_processes("tied")
    assert said == [] and "has no pass" in str(came[0]) and len(children) == 1
    assert len(tied[0]) == len(tied[1]) == 1 and tied[0] | tied[1] == first_two
    assert untied == [core_numbers()] * 3
    start_processes(2, are_tied=False)
    assert [process.cores for process in converting_process._idle] == [None, None]
    end_processes("untied")


@pytest.mark.skipif(cores() < 2 or not can_tie(), reason="needs two cores, and a system that ties processes to them")
def test_one_that_takes_the_place_of_another_has_its_core(monkeypatch: pytest.MonkeyPatch) -> None:
    end_processes("none")  # none is idle
    monkeypatch.setattr(tied_processes, "core_numbers", lambda: set(sorted(core_numbers())[:2]))
    start_processes(2, are_tied=True)
    killed = converting_process._idle.pop(0)
    killed._child.kill()
    killed._child.wait()
    other = converting_process._new_process()
    converting_process._idle.append(other)
    end_processes("in its place")
    assert killed.cores is not None and other.cores == killed.cores
    assert not converting_process._cores, "the next run may be of a cluster"
