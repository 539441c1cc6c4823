"""The process that runs onnxruntime: it crashes, hangs, is killed, and nobody but the question is
hurt.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
import pytest
from dangerous import ENDLESS, HUNGRY, OVERFLOW, PLAIN, SPLIT, model, saved

from fusionc.errors import FusioncError
from fusionc.runtime import process, wire
from fusionc.runtime.process import current, insist, lent, request, start, step_limit
from fusionc.runtime.run_errors import Crashed, Killed, OutOfMemory, Overdue, RunError
from fusionc.runtime.runner import Runner, closes_runners, fault_of_loading

ROOT = Path(__file__).parents[2]
FEEDS = {"x": np.array([1, 2], np.int64)}
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


def runner(text: str) -> Runner:
    return Runner(model(text).SerializeToString())


@contextmanager
def started(*command: str, **options: Any) -> Iterator[subprocess.Popen[str]]:
    """A command that is ended where the test fails, however long it would run."""
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT, **options
    ) as caller:
        try:
            yield caller
        finally:
            caller.kill()


def is_alive(number: int) -> bool:
    return Path(f"/proc/{number}").exists()


def wait_until(condition: Callable[[], bool], seconds: float = 30.0) -> bool:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return condition()


@contextmanager
def killing(times: int) -> Iterator[None]:
    """Kill the process of this thread in the middle of what it does, so many times."""
    owner = process._state.__dict__

    def kill() -> None:
        killed: set[int] = set()
        end = time.monotonic() + 30
        while len(killed) < times and time.monotonic() < end:
            running = owner.get("process")
            if running is not None and running._is_ready and running.id not in killed:
                time.sleep(0.2)
                os.kill(running.id, signal.SIGKILL)
                killed.add(running.id)
            time.sleep(0.01)

    thread = threading.Thread(target=kill)
    thread.start()
    yield
    thread.join()


def test_runs_a_model_again_and_again_in_one_process() -> None:
    plain = runner(PLAIN)
    numbers = {(plain.run(FEEDS)[0].tolist() == [4, 7], start().id) for _ in range(3)}
    assert len(numbers) == 1 and numbers.pop()[0]


@pytest.mark.parametrize(("text", "how"), [(SPLIT, "SIGSEGV"), (OVERFLOW, "SIGFPE")])
def test_a_crash_is_an_error(text: str, how: str) -> None:
    plain = runner(PLAIN)
    crashing = runner(text)
    first = start().id
    with pytest.raises(Crashed, match=how):
        crashing.run(FEEDS)
    assert not is_alive(first)
    assert plain.run(FEEDS)[0].tolist() == [4, 7]  # it opens again by itself


def test_an_endless_run_ends_at_the_limit() -> None:
    endless = runner(ENDLESS)
    begin = time.monotonic()
    first = start().id
    with step_limit(0.5), pytest.raises(Overdue, match=r"longer than 0\.5 s"):
        endless.run(FEEDS)
    assert time.monotonic() - begin < 20 and not is_alive(first)
    assert runner(PLAIN).run(FEEDS)[0].tolist() == [4, 7]


def test_a_model_that_had_no_time_to_load_is_not_said_to_be_at_fault(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(model(PLAIN).SerializeToString())
    with step_limit(1e-9):
        assert fault_of_loading(path) is None
    path.write_bytes(b"no model")
    assert fault_of_loading(path) is not None


def test_the_limit_of_an_inner_block_ends_with_it() -> None:
    with step_limit(0.5):
        with step_limit(0):
            pass
        with pytest.raises(Overdue):
            runner(ENDLESS).run(FEEDS)


def test_hunger_is_an_error() -> None:
    with pytest.raises(OutOfMemory):
        runner(HUNGRY).run(FEEDS)


def test_what_onnxruntime_refuses_does_not_end_the_process() -> None:
    first = start().id
    with pytest.raises(RunError, match="x"):
        runner(PLAIN).run({})
    with pytest.raises(RunError):
        Runner(b"no model")
    assert start().id == first


def test_killed_once_in_the_middle_it_begins_again() -> None:
    endless = runner(ENDLESS)
    with killing(1), step_limit(3), pytest.raises(Overdue):
        endless.run(FEEDS)


def test_killed_twice_in_the_middle_it_is_hunger() -> None:
    """So the system ends processes that take all of its memory."""
    endless = runner(ENDLESS)
    with (
        killing(2),
        step_limit(60),
        pytest.raises(Killed, match=r"SIGKILL.* run out of memory; free some"),
    ):
        endless.run(FEEDS)


def kill_at_once(monkeypatch: pytest.MonkeyPatch, times: int) -> list[int]:
    """Kill processes as soon as they are started, so many of them."""
    killed: list[int] = []

    class Killed(process.Process):
        def __init__(self) -> None:
            super().__init__()
            if len(killed) < times:
                os.kill(self.id, signal.SIGKILL)
                killed.append(self.id)

    start().end()
    monkeypatch.setattr(process, "Process", Killed)
    return killed


def test_killed_while_it_starts_it_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    killed = kill_at_once(monkeypatch, 1)
    assert runner(PLAIN).run(FEEDS)[0].tolist() == [4, 7] and start().id not in killed


def test_killed_each_time_it_cannot_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    killed = kill_at_once(monkeypatch, 5)
    with pytest.raises(
        FusioncError,
        match=r"cannot be started: the process of onnxruntime is killed, .* out of memory",
    ) as caught:
        runner(PLAIN)
    assert caught.value.hint.startswith("free some memory") and "install" not in caught.value.hint
    assert len(killed) == 2


def test_killed_between_two_runs_it_begins_again() -> None:
    plain = runner(PLAIN)
    os.kill(start().id, signal.SIGKILL)
    assert plain.run(FEEDS)[0].tolist() == [4, 7]


@pytest.mark.parametrize(
    ("said", "error"),
    [("free(): invalid pointer", Crashed), ("what():  std::bad_alloc", OutOfMemory)],
)
def test_its_last_words_are_told(said: str, error: type[RunError]) -> None:
    running = start()
    running.ask("close", (0,), None)
    with Path(f"/proc/{running.id}/fd/2").open("ab") as stream:
        stream.write(f"long ago\nterminate called\n\x1b[31m{said}\n".encode())
    os.kill(running.id, signal.SIGABRT)
    with pytest.raises(error) as caught:
        running.ask("close", (0,), None)
    assert str(caught.value).endswith(f"terminate called [31m{said}")


def test_threads_have_processes_of_their_own_which_end_with_them() -> None:
    found: dict[int, tuple[int, bool]] = {}

    def work(number: int) -> None:
        feeds = {"x": np.array([number, number], np.int64)}
        plain = runner(PLAIN)
        right = all(plain.run(feeds)[0].tolist() == [number + 3, number + 5] for _ in range(20))
        found[number] = start().id, right

    threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(right for _, right in found.values())
    numbers = {number for number, _ in found.values()}
    assert len(numbers) == 2 and wait_until(lambda: not any(map(is_alive, numbers)))


def test_a_lack_of_memory_ends_no_process_of_which_another_thread_waits_for_an_answer() -> None:
    """Two threads that share one: who has met it waits until the answer of the other one is
    there.
    """
    shared = start()
    answers = list[object]()

    def runs() -> None:
        with lent(shared), step_limit(3):
            try:
                answers.append(
                    request(
                        "open", -1, model(ENDLESS).SerializeToString(), None, (), "disabled", {}
                    )
                )
                answers.append(request("run", -1, FEEDS, set(), False))
            except RunError as error:
                answers.append(error)

    other = threading.Thread(target=runs)
    other.start()
    assert wait_until(lambda: len(answers) == 1)
    time.sleep(0.5)  # it runs now
    attempts = iter([OutOfMemory("not enough"), None])

    def attempt() -> str:
        if error := next(attempts):
            raise error
        return "done"

    assert insist(attempt) == "done"
    other.join()
    assert isinstance(answers[1], Overdue)


def test_who_closes_a_runner_whose_process_has_ended_starts_none() -> None:
    ended = runner(PLAIN)
    start().end()
    ended.close()
    assert current() is None
    ended = runner(PLAIN)
    process_of_it = start()
    process_of_it._end()  # as another thread ends it
    ended.close()
    assert current() is None and not process_of_it.is_alive


def test_a_fork_has_a_process_of_its_own() -> None:
    plain = runner(PLAIN)
    number = start().id
    child = os.fork()
    if not child:
        right = plain.run(FEEDS)[0].tolist() == [4, 7] and start().id != number
        start().end()
        os._exit(0 if right else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert plain.run(FEEDS)[0].tolist() == [4, 7] and start().id == number


def test_closed_runners_hold_nothing() -> None:
    @closes_runners
    def use() -> Runner:
        plain = runner(PLAIN)
        plain.run(FEEDS)
        return plain

    plain = use()
    with pytest.raises(RunError):
        request("run", plain._number, FEEDS, set(), False)


@closes_runners
def test_a_runner_that_is_closed_early_is_held_by_its_owner_alone() -> None:
    """With it goes a model of maybe gigabytes."""
    plain = runner(PLAIN)
    held = weakref.ref(plain)
    plain.close()
    plain.run(FEEDS)  # which opens it again
    plain.close()
    del plain
    gc.collect()
    assert held() is None


def test_a_runner_of_somebody_else_stays_open() -> None:
    plain = runner(PLAIN)

    @closes_runners
    def use() -> None:
        plain.run(FEEDS)

    use()
    home = plain._home
    assert home is not None and home is current()


def test_it_has_no_descriptor_but_its_own(tmp_path: Path) -> None:
    start().end()
    with (tmp_path / "open").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        runner(PLAIN)
    running = current()
    assert running is not None
    names = [os.readlink(entry) for entry in Path(f"/proc/{running.id}/fd").iterdir()]
    assert not [name for name in names if name.startswith(str(tmp_path))]


PROGRAM = """
import sys
from pathlib import Path
import fusionc.conversion.conversion_story
from fusionc.runtime.process import start, step_limit
from fusionc.runtime.runner import Runner
{more}
runner = Runner(Path(sys.argv[1]))
print(start().id, flush=True)
import numpy
print(runner.run({{"x": numpy.array([1, 2])}}))
"""


def test_modules_named_like_standard_ones_are_not_imported(tmp_path: Path) -> None:
    for name in ("ctypes", "json", "queue", "select", "threading", "typing"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit(99)")
    program = PROGRAM.format(more=f"sys.path.insert(0, {str(tmp_path)!r})")
    command = [sys.executable, "-c", program, str(saved(PLAIN, tmp_path / "m.onnx"))]
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, check=False)
    assert done.returncode == 0, done.stderr
    assert "array([4, 7])" in done.stdout


def test_it_ends_when_its_caller_is_killed(tmp_path: Path) -> None:
    path = str(saved(ENDLESS, tmp_path / "m.onnx"))
    with started(sys.executable, "-c", PROGRAM.format(more=""), path) as caller:
        assert caller.stdout is not None
        number = int(caller.stdout.readline())
        time.sleep(0.2)  # it is in the middle of the run
        assert is_alive(number)
        caller.kill()
    assert wait_until(lambda: not is_alive(number))


def children(number: int) -> list[int]:
    return [
        int(child) for child in Path(f"/proc/{number}/task/{number}/children").read_text().split()
    ]


def test_ctrl_c_in_the_middle_of_a_run_leaves_nothing(tmp_path: Path) -> None:
    path = saved(ENDLESS, tmp_path / "m.onnx")
    command = [
        sys.executable,
        "-m",
        "fusionc",
        "convert",
        "--model",
        str(path),
        "--output",
        "out.onnx",
    ]
    with started(*command, cwd=tmp_path, stderr=subprocess.PIPE, start_new_session=True) as caller:
        assert wait_until(lambda: any(seconds_of(child) > 1.0 for child in children(caller.pid)))
        (number,) = children(caller.pid)
        os.killpg(caller.pid, signal.SIGINT)
        _, told = caller.communicate()
    assert caller.returncode == 130 and told.strip() == "fusionc: interrupted"
    assert not is_alive(number)
    assert sorted(p.name for p in tmp_path.iterdir() if p.suffix == ".onnx") == ["m.onnx"]


def seconds_of(number: int) -> float:
    """The processor time of a process: one that only imports onnxruntime takes less than a
    second.
    """
    try:
        fields = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_a_python_without_onnxruntime_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "onnxruntime"
    package.mkdir()
    (package / "__init__.py").write_text("raise ImportError('a library is missing')")
    monkeypatch.syspath_prepend(tmp_path)
    start().end()
    with pytest.raises(FusioncError, match="cannot be started: ImportError: a library is missing"):
        start().ask("close", (0,), None)


def test_an_interpreter_that_is_none_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    start().end()
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with pytest.raises(FusioncError, match="cannot be started"):
        start()


def test_the_interpreter_may_be_a_script_around_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "python"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    script.chmod(0o755)
    start().end()
    monkeypatch.setattr(sys, "executable", str(script))
    assert runner(PLAIN).run(FEEDS)[0].tolist() == [4, 7]


def test_large_arrays_arrive_as_they_are() -> None:
    big = "agraph (float[N] x) => (float[N] y, float[N] z) { y = Neg(x) z = Identity(x) }"
    x = np.arange(3_000_000, dtype=np.float32)
    y, z = runner(big).run({"x": x})
    assert (y == -x).all() and (z == x).all()


def environment_of(number: int) -> list[str]:
    end = time.monotonic() + 10
    text = ""
    while not text and time.monotonic() < end:  # until its program is loaded
        text = Path(f"/proc/{number}/environ").read_text()
    return text.split("\0")


def test_numpy_starts_no_threads_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    started = process.Process()
    assert "OPENBLAS_NUM_THREADS=1" in environment_of(started.id)
    started.end()
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "3")
    started = process.Process()
    assert "OPENBLAS_NUM_THREADS=3" in environment_of(started.id), "what the user wants holds"
    started.end()


def test_numpy_starts_no_threads_in_the_command() -> None:
    told = "import os, fusionc.cli; fusionc.cli.main = lambda **_: print(os.environ['OPENBLAS_NUM_THREADS'])"
    environment = {
        name: text for name, text in ENVIRONMENT.items() if name != "OPENBLAS_NUM_THREADS"
    }
    script = f"{told}; from fusionc.__main__ import run; run()"
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True
    )
    assert done.stdout == "1\n"


def test_a_limit_of_months_is_one() -> None:
    """A system waits for 24 days at most."""
    reader, writer = os.pipe()
    try:
        wire._wait(writer, select.POLLOUT, monotonic() + 1e9)
    finally:
        os.close(reader)
        os.close(writer)
