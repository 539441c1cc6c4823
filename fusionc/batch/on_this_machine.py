"""Convert many models on this machine, several at once."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed

from fusionc.batch.conversion_task import ConversionTask
from fusionc.batch.converting_process import convert, end_processes, unpin_processes
from fusionc.batch.outcome import Outcome


def convert_here(tasks: Sequence[ConversionTask], jobs: int) -> Generator[Outcome]:
    """Yield each outcome as soon as it is known. `jobs` models are converted at once. Closing or
    interrupting the iterator ends the running conversions.
    """
    pool = ThreadPoolExecutor(jobs)  # its threads wait for converting processes
    try:
        for done, future in enumerate(
            as_completed([pool.submit(convert, task) for task in tasks]), 1
        ):
            # From now on, there are fewer remaining models than processes.
            if done == len(tasks) - jobs + 1:
                unpin_processes()
            yield future.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        end_processes(tasks[0].run)
        pool.shutdown()
