"""A process that ends instead of answering."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from many_models import needs_two_cores, wait_until

from fusionc.batch import converting_process, pinned_processes
from fusionc.batch.converting_process import check, end_processes, start_processes, unpin_processes
from fusionc.errors import FusioncError
from fusionc.runtime.cores import core_numbers


def test_one_that_is_killed(tmp_path: Path) -> None:
    """As a system does that has no memory left."""
    file = tmp_path / "deadly.py"
    file.write_text("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
    with pytest.raises(
        FusioncError,
        match="a converting process ended at once: it was killed, probably",
    ):
        check({"custom_passes": (file,)}, "run")


def test_one_that_was_killed_while_nobody_asked_it() -> None:
    first = check({}, "idle")
    for process in converting_process._idle:
        process.kill()
        process.exit_code()
    assert check({}, "idle") == first


def test_no_run_begins_anew_once_it_is_over() -> None:
    end_processes("over")
    with pytest.raises(FusioncError, match="the run is over"):
        check({}, "over")


def test_an_idle_one_leaves_no_folder_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "own.py"
    seen = tmp_path / "seen"
    file.write_text(
        "from pathlib import Path\nfrom fusionc.graph_kernel.library.cache import _own_folder\n"
        f"Path({str(seen)!r}).write_text(_own_folder().name)\n"
    )
    with pytest.raises(FusioncError, match="has no pass"):
        check({"custom_passes": (file,)}, "own")
    assert Path(seen.read_text()).is_dir()
    end_processes("own")
    assert not Path(seen.read_text()).exists()


def asked_in_the_meantime(
    folder: Path, run: str
) -> tuple[threading.Thread, list[FusioncError], Path]:
    """A thread that asks a process which answers that a file has no pass, once another file is
    there; what came of it; that other file.
    """
    go = folder / f"{run}.go"
    file = folder / f"{run}.py"
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
    assert "has no pass" in str(came[0]) and "a converting process ended at once" in str(its[0])
    assert check({}, "next") == []


def test_one_that_answers_while_it_is_ended_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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


@needs_two_cores
def test_each_has_a_core_of_its_own_until_they_are_unpinned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    end_processes("none")  # none is idle
    first_two = set(sorted(core_numbers())[:2])
    monkeypatch.setattr(pinned_processes, "core_numbers", lambda: first_two)
    start_processes(2, are_pinned=True)
    first, second = converting_process._idle
    pinned = [os.sched_getaffinity(process.id) for process in (first, second)]
    second.kill()
    second.exit_code()
    thread, came, go = asked_in_the_meantime(tmp_path, "pinned")  # the other one
    said = check({}, "pinned")
    (in_its_place,) = converting_process._idle
    pinned.append(os.sched_getaffinity(in_its_place.id))
    unpin_processes()
    children = Path(f"/proc/{first.id}/task/{first.id}/children").read_text().split()
    unpinned = [os.sched_getaffinity(int(n)) for n in (first.id, in_its_place.id, *children)]
    go.touch()
    thread.join()
    end_processes("pinned")
    assert said == [] and "has no pass" in str(came[0]) and len(children) == 1
    assert len(pinned[0]) == len(pinned[1]) == 1 and pinned[0] | pinned[1] == first_two
    assert pinned[2] == pinned[1], "it has the core of the one in whose place it is"
    assert unpinned == [core_numbers()] * 3
    start_processes(2, are_pinned=False)
    assert [process.cores for process in converting_process._idle] == [None, None]
    end_processes("unpinned")


def test_the_next_run_is_pinned_only_if_it_asks_for_that(monkeypatch: pytest.MonkeyPatch) -> None:
    end_processes("none")  # none is idle
    # which there need not be
    monkeypatch.setattr(converting_process, "cores_of_jobs", lambda _: [{0}, {1}])
    start_processes(2, are_pinned=True)
    assert [process.cores for process in converting_process._idle] == [{0}, {1}]
    end_processes("pinned before")
    assert check({}, "of a cluster") == [] and converting_process._idle[0].cores is None
    end_processes("of a cluster")
