"""Measure how much parallel processes speed up the conversion of a folder of small models, and
check that a killed run continues.

    python benchmarks/batch.py
    python benchmarks/batch.py --also ../shared/peer_models --rounds 2
    python benchmarks/batch.py --dask

The models are those of --also, and variations of sample_models/ with other weights. They are
converted with --jobs 1 on one core, with --jobs 1 on all cores, and with as many jobs as cores, in
turn. The ratios are medians over the rounds. Then they are converted in a run that is killed in the
middle and resumed. With --dask they are also converted on a cluster of two workers, one of which is
killed during the run. All results must be the same, byte for byte, and no model may be converted
twice. Otherwise the exit code is 1.

Even one job uses a second core: it imports and verifies on several threads. Therefore many jobs are
compared with one job on one core, and with as many separate commands as there are cores, each with
its share of the models. The separate commands show how much busy cores slow one another down, which
the jobs cannot influence. The processor time is shown next to each time: on a machine with other
work it shows how much of the time other processes took.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from operator import truediv
from pathlib import Path
from statistics import median
from time import perf_counter, sleep

import numpy as np
import onnx
from onnx import numpy_helper
from rich.console import Console

SAMPLES = Path(__file__).parents[1] / "sample_models"
LARGEST = 200_000  # bytes of a model of --also


def make_models(folder: Path, count: int, also: Path | None) -> None:
    """Write this many models. At most half of them are from `also`, with the names that they have
    there.
    """
    found = (
        [path for path in sorted(also.rglob("*.onnx")) if path.stat().st_size <= LARGEST]
        if also
        else []
    )
    for path in found[: count // 2]:
        place = folder / "also" / path.relative_to(also or folder)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, place)
    samples = sorted(SAMPLES.glob("*.onnx"))
    random = np.random.default_rng(0)
    for number in range(count - len(found[: count // 2])):
        round_, which = divmod(number, len(samples))
        model = onnx.load(samples[which])
        for tensor in model.graph.initializer:
            if (
                tensor.data_type == onnx.TensorProto.FLOAT
                and numpy_helper.to_array(tensor).size > 1
            ):
                values = numpy_helper.to_array(tensor)
                scaled = values * random.uniform(0.9, 1.1, values.shape).astype(np.float32)
                tensor.CopyFrom(numpy_helper.from_array(scaled, tensor.name))
        place = folder / f"varied-{round_:03}" / samples[which].name
        place.parent.mkdir(parents=True, exist_ok=True)
        onnx.save(model, place)


def command(models: Path, output: Path, *words: str) -> list[str]:
    return [
        sys.executable,
        "-m",
        "fusionc",
        "convert",
        f"--model={models}",
        f"--output={output}",
        *words,
    ]


def timed(words: list[str], cores: set[int]) -> tuple[float, float]:
    """The elapsed seconds of a command on these cores, and the processor seconds of all its
    processes.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = perf_counter()
    own = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)  # a process inherits the cores of its parent
    try:
        subprocess.run(words, stdout=subprocess.DEVNULL, check=True)
    finally:
        os.sched_setaffinity(0, own)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return perf_counter() - started, used


def share_out(models: Path, folders: Sequence[Path]) -> None:
    """Distribute the models evenly to the folders."""
    for number, path in enumerate(sorted(models.rglob("*.onnx"))):
        place = folders[number % len(folders)] / path.relative_to(models)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, place)


def commands_at_once(shares: Sequence[Path], output: Path, cores: Sequence[int]) -> float:
    """The seconds of one command for each share of the models, each on its own core, at once."""
    started = perf_counter()
    running = list[subprocess.Popen[bytes]]()
    own = os.sched_getaffinity(0)
    try:
        for models, core in zip(shares, cores, strict=True):
            words = command(models, output / models.name, "--jobs=1")
            os.sched_setaffinity(0, {core})
            running.append(subprocess.Popen(words, stdout=subprocess.DEVNULL))
    finally:
        os.sched_setaffinity(0, own)
    codes = [process.wait() for process in running]
    assert not any(codes)
    return perf_counter() - started


def results(output: Path) -> dict[str, str]:
    """The hashes of all files except the records."""
    files = {
        path.relative_to(output).as_posix(): path for path in output.rglob("*") if path.is_file()
    }
    own = {name: path for name, path in files.items() if not name.startswith("fusionc_records/")}
    return {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in own.items()}


def done(output: Path) -> dict[Path, int]:
    """The time at which each model was done."""
    return {
        path: path.stat().st_mtime_ns for path in (output / "fusionc_records").rglob("outcome.json")
    }


def wait_for(output: Path, count: int, process: subprocess.Popen[bytes]) -> None:
    while len(done(output)) < count:
        assert process.poll() is None, "it ended before"
        sleep(0.1)


def killed_and_resumed(models: Path, output: Path, count: int) -> dict[str, int]:
    """The number of models that were done when the run was killed, the number that were converted
    again, and the outcomes.
    """
    with subprocess.Popen(command(models, output), stdout=subprocess.DEVNULL) as process:
        wait_for(output, count // 3, process)
        process.send_signal(signal.SIGKILL)
    sleep(6)  # its processes notice
    before = done(output)
    subprocess.run(command(models, output, "--resume"), stdout=subprocess.DEVNULL, check=True)
    after = done(output)
    counts = json.loads((output / "fusionc_records/summary.json").read_text())["counts"]
    return {
        "done before": len(before),
        "done twice": sum(after[path] != before[path] for path in before),
        **counts,
    }


@contextmanager
def cluster(folder: Path) -> Iterator[tuple[str, int]]:
    """A context manager for a cluster with two workers: the address of the scheduler, and the
    process id of one worker.
    """
    file = folder / "scheduler.json"
    started = list[subprocess.Popen[bytes]]()
    programs = (
        "dask_scheduler --host=127.0.0.1 --port=0",
        *["dask_worker --nthreads=1 --no-nanny"] * 2,
    )
    try:
        for number, program in enumerate(programs):
            words = [sys.executable, "-m", *f"distributed.cli.{program} --no-dashboard".split()]
            with open(folder / f"log{number}", "w") as log:
                options = [f"--scheduler-file={file}"]
                started.append(
                    subprocess.Popen([*words, *options], cwd=folder, stdout=log, stderr=log)
                )
        while not file.is_file() or '"address"' not in file.read_text():
            for number, process in enumerate(started):
                assert process.poll() is None, (folder / f"log{number}").read_text()[-1000:]
            sleep(0.1)
        yield json.loads(file.read_text())["address"], started[-1].pid
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait()


def on_cluster(models: Path, output: Path, count: int, folder: Path) -> float:
    """The seconds of a run on a cluster. A worker is killed when a third of the models is done."""
    with cluster(folder) as (address, worker):
        started = perf_counter()
        words = command(models, output, f"--scheduler={address}")
        with subprocess.Popen(words, stdout=subprocess.DEVNULL) as process:
            wait_for(output, count // 3, process)
            os.kill(worker, signal.SIGKILL)
        assert process.returncode == 0
        return perf_counter() - started


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", type=int, default=300, help="how many")
    parser.add_argument(
        "--also", type=Path, help="a folder of models, of which small ones are taken"
    )
    parser.add_argument(
        "--rounds", type=int, default=1, help="how often both numbers of jobs are measured"
    )
    parser.add_argument(
        "--dask",
        action="store_true",
        help="on a cluster, too; needs pip install 'fusionc[cluster]'",
    )
    options = parser.parse_args()
    console = Console(width=120)
    count = options.models
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        models = folder / "models"
        make_models(models, count, options.also)
        outputs = [folder / "resumed", *measure_speed(models, folder, options, console)]
        counts = killed_and_resumed(models, outputs[0], count)
        console.print(
            "killed and resumed: "
            f"{', '.join(f'{what} {number}' for what, number in counts.items())}"
        )
        if options.dask:
            outputs.append(folder / "dask")
            seconds = on_cluster(models, outputs[-1], count, folder)
            console.print(f"on Dask, with a worker less from a third on: {seconds:.1f} s")
        expected = results(outputs[-1])
        wrong = [output.name for output in outputs if results(output) != expected]
    console.print(
        f"{len(expected)} files, {'the same in all runs' if not wrong else f'others in {wrong}'}"
    )
    return 1 if wrong or counts["done twice"] else 0


def measure_speed(
    models: Path, folder: Path, options: argparse.Namespace, console: Console
) -> list[Path]:
    """Print the speed of one job and of several jobs, and the speed that the cores allow. Return
    the folders of results.
    """
    cores = sorted(os.sched_getaffinity(0))
    jobs = len(cores)
    shares = [folder / f"share-{number}" for number in range(min(jobs, options.models))]
    share_out(models, shares)
    outputs = []
    times: dict[tuple[int, int], list[float]] = {}  # by jobs and cores
    at_most: list[float] = []  # the speedups that the cores allow
    for number in range(options.rounds):
        for way in dict.fromkeys(((1, 1), (1, jobs), (jobs, jobs))):
            at_once, on = way
            output = folder / f"{number}-jobs-{at_once}-cores-{on}"
            seconds, used = timed(command(models, output, f"--jobs={at_once}"), set(cores[:on]))
            figures = f"{seconds:.1f} s, {used:.1f} s of processors, {used / seconds:.2f} at once"
            console.print(f"--jobs {at_once}, {on} cores: {figures}")
            times.setdefault(way, []).append(seconds)
            outputs.append(output)
        at_most.append(commands_at_once(shares, folder / f"{number}-shares", cores[: len(shares)]))
        console.print(
            f"{jobs} commands at once, each for its share on its core: {at_most[-1]:.1f} s"
        )
    ratios = {
        way: median(map(truediv, times[way], times[jobs, jobs])) for way in ((1, 1), (1, jobs))
    }
    faster = [f"{ratio:.2f} times as fast as one on {on}" for (_, on), ratio in ratios.items()]
    console.print(f"{jobs} jobs on {jobs} cores: {', '.join(faster)}")
    allowed = median(map(truediv, times[1, 1], at_most))
    console.print(
        f"{jobs} commands at once: {allowed:.2f} times as fast as one job on 1, which the "
        "cores allow"
    )
    return outputs


if __name__ == "__main__":
    sys.exit(main())
