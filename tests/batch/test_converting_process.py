"""A process that ends instead of answering."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from many_models import wait_until

from fusionc.batch import converting_process
from fusionc.batch.converting_process import check, end_processes, share_cores_no_more, start_processes
from fusionc.batch.core_shares import all_cores
from fusionc.errors import FusioncError


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


@pytest.mark.skipif(len(all_cores()) < 2, reason="needs two cores, and a system that ties processes to them")
def test_processes_keep_to_cores_of_their_own_as_long_as_all_have_work(tmp_path: Path) -> None:
    end_processes("none")  # none is idle
    start_processes(2)
    first, second = converting_process._idle
    tied = [os.sched_getaffinity(process._child.pid) for process in (first, second)]
    assert tied == [first.cores, second.cores] and not tied[0] & tied[1]
    first._child.kill()
    first._child.wait()
    thread, came, go = asked_in_the_meantime(tmp_path, "shares")  # the other one
    assert check({}, "shares") == [] and converting_process._idle[0].cores == first.cores
    share_cores_no_more()
    for process in (second, *converting_process._idle):
        assert os.sched_getaffinity(process._child.pid) == all_cores()
    go.touch()
    thread.join()
    end_processes("shares")
    assert "has no pass" in str(came[0])
