"""A result of a conversion that a search makes, as files."""

from __future__ import annotations

from pathlib import Path

from fusionc.attempt.job import Job, Optimized
from fusionc.disk.save import save
from fusionc.graph_kernel.library.location import published


def write_result(job: Job, done: Optimized, destination: Path) -> None:
    """Write a result, with its weights and kernels, to a place that need not be the job's; nothing
    is verified.
    """
    source = job.options.source
    with save(done.proto, source.parent, destination, job.options.external_weight) as saved:
        job.finish(saved, done, None)
        saved.publish(published(job.kernels.file, destination, source))
