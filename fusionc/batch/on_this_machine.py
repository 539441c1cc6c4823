"""Many models on this machine, as many at once as `jobs` says."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed

from fusionc.batch.conversion_task import ConversionTask
from fusionc.batch.converting_process import convert, end_processes, unpin_processes
from fusionc.batch.outcome import Outcome


def convert_here(tasks: Sequence[ConversionTask], jobs: int) -> Generator[Outcome]:
    """The outcomes as they come. Closing or interrupting the iterator ends running conversions."""
    pool = ThreadPoolExecutor(jobs)  # threads that wait for processes
    try:
        for done, future in enumerate(
            as_completed([pool.submit(convert, task) for task in tasks]), 1
        ):
            if done == len(tasks) - jobs + 1:  # all other models are begun
                unpin_processes()
            yield future.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        end_processes(tasks[0].run)
        pool.shutdown()
