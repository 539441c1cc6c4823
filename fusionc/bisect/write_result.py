"""Writes a result of a conversion in a search to files."""

from __future__ import annotations

from pathlib import Path

from fusionc.disk.save import save
from fusionc.graph_kernel.library.location import published
from fusionc.job import Job, Optimized


def write_result(job: Job, done: Optimized, destination: Path) -> None:
    """Write a result, with its weights and kernels, to any place; nothing is verified."""
    source = job.options.source
    with save(done.proto, source.parent, destination, job.options.external_weight) as saved:
        job.finish(saved, done, None)
        saved.publish(published(job.kernels.file, destination, source))
