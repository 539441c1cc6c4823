"""Many models on a cluster: a real scheduler and two workers, of which one is killed on the way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from many_models import WAIT, content, is_running, planted, wait_until, write_model

from fusionc.attempt.surroundings import versions
from fusionc.batch import on_dask
from fusionc.batch.conversion_task import ConversionTask
from fusionc.errors import UsageError


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a scheduler with two workers."""
    pytest.importorskip(
        "distributed", reason="needs dask.distributed: pip install 'fusionc[cluster]'"
    )
    folder = tmp_path_factory.mktemp("cluster")
    file = folder / "scheduler.json"
    start = [sys.executable, "-m"]
    scheduler = [
        *start,
        "distributed.cli.dask_scheduler",
        "--host=127.0.0.1",
        "--port=0",
        "--no-dashboard",
    ]
    worker = [*start, "distributed.cli.dask_worker", "--nthreads=1", "--no-nanny", "--no-dashboard"]
    with ExitStack() as running, open(folder / "log", "w") as log:
        for command in ([*scheduler, "--no-show"], [*worker, "--name=a"], [*worker, "--name=b"]):
            words = [*command, f"--scheduler-file={file}"]
            process = running.enter_context(
                subprocess.Popen(words, cwd=folder, stdout=log, stderr=log)
            )
            running.callback(process.terminate)
        wait_until(lambda: file.is_file() and '"address"' in file.read_text())
        yield json.loads(file.read_text())["address"]


def test_the_same_as_here_with_a_worker_less(cluster: str, models: Path) -> None:
    for name in ("slow", "late"):
        write_model(models / f"{name}.onnx", "Softsign")
    (models / "damaged.onnx").write_bytes(b"\xff")
    pids = models.parent / "pids"
    worker = models.parent / "worker"
    planted(
        models.parent, f"Path('{worker}').write_text(str(os.getppid())); {WAIT.format(pids=pids)}"
    )
    convert = [
        sys.executable,
        "-m",
        "fusionc",
        "convert",
        "--model=models",
        "--custom_passes=planted.py",
    ]
    words = [*convert, "--output=there", f"--scheduler={cluster}"]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        wait_until(lambda: pids.is_file() and len(pids.read_text().split()) == 2)
        Path("pids.go").touch()
        lost = [*map(int, pids.read_text().split()), int(worker.read_text())]
        os.kill(lost[-1], signal.SIGKILL)
        output, errors = process.communicate()
    assert process.returncode == 1 and "E19999: 1 of 5 models were not converted" in errors
    assert "models   5: 4 converted, 1 failed\n" in output
    wait_until(lambda: not any(map(is_running, lost)))
    subprocess.run([*convert, "--output=here"], capture_output=True, check=False)
    assert len(content(Path("here"))) == 4
    assert content(Path("there")) == content(Path("here"))


def test_the_processes_of_a_run_end_with_it(cluster: str, models: Path) -> None:
    from distributed import Client

    task = ConversionTask(next(models.glob("*.onnx")), "one.onnx", models.parent, {}, "once", False)
    assert [outcome.name for outcome in on_dask.convert_on_cluster(cluster, [task])] == ["one.onnx"]
    with Client(cluster, set_as_default=False) as client:
        left = client.run(lambda: len(import_module("fusionc.batch.converting_process")._idle))
    assert left and not any(left.values())


def attempt(scheduler: str, folder: Path, **arguments: Any) -> str:
    task = ConversionTask(folder / "a.onnx", "a.onnx", folder, arguments, "run", False)
    with pytest.raises(UsageError) as caught:
        list(on_dask.convert_on_cluster(scheduler, [task]))
    return f"{caught.value}"


def test_a_cluster_that_is_not_fit(
    cluster: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = attempt(cluster, tmp_path / "elsewhere")
    assert "does not see the same files" in told and f"where: {tmp_path}/elsewhere" in told
    monkeypatch.setattr(on_dask, "compiler_here", lambda: ["cc", "-m32"])
    told = attempt(cluster, tmp_path, enable_graph_kernel=True)
    assert "the C compiler of the worker " in told and "and this machine has cc -m32" in told
    monkeypatch.setattr(on_dask, "versions", lambda: {**versions(), "onnx": "1.0"})
    assert f" differ: it has fusionc {versions()['fusionc']}, onnx {versions()['onnx']}" in attempt(
        cluster, tmp_path
    )
    monkeypatch.setattr(on_dask, "_TIMEOUT", 0.5)
    assert "no scheduler answers: " in attempt("tcp://127.0.0.1:9", tmp_path)
    assert "no scheduler answers: " in attempt("nonsense://", tmp_path)


def test_without_dask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert "to do: pip install 'fusionc[cluster]'" in attempt("tcp://127.0.0.1:9", tmp_path)
