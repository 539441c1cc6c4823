"""Convert many models on a Dask cluster (`dask.distributed`). All workers must see the same files
under the same paths.

If a worker is lost, the scheduler gives its current conversion to another worker. No file stays
half written, and results that are already written are not made again.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from fusionc.attempt.surroundings import compiler_here, versions
from fusionc.batch.conversion_task import ConversionTask
from fusionc.batch.converting_process import convert, end_processes
from fusionc.batch.outcome import FAILED, Outcome
from fusionc.errors import FusioncError, UsageError, said

if TYPE_CHECKING:
    from distributed import Client

_TIMEOUT = 15  # seconds for the scheduler to answer, and for a worker to appear


def convert_on_cluster(scheduler: str, tasks: Sequence[ConversionTask]) -> Generator[Outcome]:
    """Yield each outcome as soon as it is known. Closing or interrupting the iterator ends the
    running conversions.

    Raises UsageError if dask.distributed is not installed, if the cluster cannot be reached or has
    no workers, if a worker does not have the same versions of fusionc and other software, or if it
    does not see the same files.
    """
    try:
        from distributed import Client, as_completed
    except ImportError as error:
        what = f"--scheduler needs dask.distributed: {error}"
        hint = "pip install 'fusionc[cluster]'"
        raise UsageError(what, hint=hint, code="E10001") from error
    try:
        client = Client(scheduler, timeout=_TIMEOUT, set_as_default=False)
    except (OSError, ValueError) as error:  # TimeoutError is a subclass
        hint = "start a scheduler with `dask scheduler`, and give the address that it prints"
        raise UsageError(
            f"no scheduler answers: {error}", where=scheduler, hint=hint, code="E10001"
        ) from error
    with client:
        _require_workers(client, scheduler, tasks)
        names = {f"{task.run}-{task.name}": task for task in tasks}
        futures = [client.submit(convert, task, key=key, pure=False) for key, task in names.items()]
        try:
            for future in as_completed(futures, loop=client.loop):
                yield (
                    future.result()
                    if future.status == "finished"
                    else _lost(future.exception(), names[future.key])
                )
        finally:
            with suppress(OSError):  # raised if the cluster and its processes no longer exist
                client.cancel(futures)
                client.run(end_processes, tasks[0].run)


def _require_workers(client: Client, scheduler: str, tasks: Sequence[ConversionTask]) -> None:
    try:
        client.wait_for_workers(1, timeout=_TIMEOUT)
        seen = client.run(_inspect_worker, tasks[0].source, tasks[0].output)
    except TimeoutError as error:
        hint = f"start workers with `dask worker {scheduler}`"
        raise UsageError(
            "the cluster has no workers", where=scheduler, hint=hint, code="E10001"
        ) from error
    except ImportError as error:
        hint = "on the workers, install the version of fusionc that is installed here"
        raise UsageError(
            f"a worker cannot import fusionc: {error}", where=scheduler, hint=hint
        ) from error
    same = "install the same software on the workers as here, because results depend on it"
    here = versions()
    own = compiler_here()
    for worker, (there, compiler, missing) in seen.items():
        if there != here:
            what = (
                f"the versions or flags of the worker {worker} differ: it has {_text(there)}, "
                f"and this machine has {_text(here)}"
            )
            raise UsageError(what, where=scheduler, hint=same)
        if compiler != own and tasks[0].arguments.get("enable_graph_kernel"):
            pair = [" ".join(command) or "none" for command in (compiler, own)]
            what = (
                f"the C compiler of the worker {worker} differs: it has {pair[0]}, and this "
                f"machine has {pair[1]}"
            )
            raise UsageError(what, where=scheduler, hint=same)
        if missing:
            hint = (
                "keep models and results on a file system that all machines mount at the same path"
            )
            raise UsageError(
                f"the worker {worker} does not see the same files", where=missing, hint=hint
            )


def _inspect_worker(source: Path, output: Path) -> tuple[dict[str, str], list[str], str | None]:
    """To be run on a worker. Returns the worker's versions, its C compiler, and the first folder
    that it does not see (None if it sees both).
    """
    missing = next((str(folder) for folder in (source.parent, output) if not folder.is_dir()), None)
    return versions(), compiler_here(), missing


def _lost(error: BaseException | None, task: ConversionTask) -> Outcome:
    why = "the scheduler has ended, or has forgotten it" if error is None else said(error)
    what = f"the cluster has lost this conversion: {why}"
    failure = FusioncError(
        what,
        where=str(task.source),
        hint="read the logs of the scheduler and the workers; to continue, use --resume",
    )
    return Outcome(task.name, str(task.source), FAILED, error=str(failure))


def _text(there: dict[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in there.items())
